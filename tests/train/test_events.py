"""Hooks: all are asked, their requests add up."""

from nextok.train import Event, Finding, Message, Request, StepDone
from nextok.train.events import emit


def test_requests_of_several_hooks_add_up_and_silence_asks_for_nothing() -> None:
    seen: list[Event] = []
    hooks = [
        seen.append,
        lambda event: Request(stop=True, reasons=("a",)) if isinstance(event, StepDone) else None,
        lambda event: Request(reasons=("b",)),
    ]
    step = StepDone(step=1, steps=2, train_loss=3.0)
    assert emit(step, hooks) == Request(stop=True, reasons=("a", "b"))
    assert emit(Message(text="x"), hooks) == Request(stop=False, reasons=("b",))
    assert emit(step, []) == Request()
    assert seen == [step, Message(text="x")]


def test_what_one_hook_wants_told_all_hooks_hear_once_after_the_event() -> None:
    heard: list[Event] = []
    finding = Finding(step=1, kind="spike", text="It jumped.", advice="Lower it.")
    hooks = [
        lambda event: Request(tell=(finding, Message(text="x"))) if isinstance(event, StepDone) else None,
        heard.append,
        lambda event: Request(stop=True) if isinstance(event, Finding) else None,
    ]
    step = StepDone(step=1, steps=2, train_loss=3.0)
    assert emit(step, hooks) == Request(stop=True)
    assert heard == [step, finding, Message(text="x")]
