"""The autoregressive loop on paper: for each new token what was read, what could follow, and why this one did."""

from typing import Any

from rich.console import Console
from rich.text import Text

from nextok.decode import Candidate, Explanation
from nextok.loaded import LoadedModel

_CONTEXT_SHOWN = 12
_CANDIDATES_SHOWN = 5


def show(loaded: LoadedModel, prompt: str, options: dict[str, Any], console: Console) -> None:
    """Prints one block a token, then the whole text; the options are those of `LoadedModel.stream`."""
    text = prompt
    for event in loaded.stream(prompt, explain=True, **options):
        text += event.text
        if event.explanation is not None:
            console.print(Text("\n".join(step_lines(loaded, event.explanation)) + "\n"))
        if event.finish_reason:
            console.print(Text(f"ended: {event.finish_reason}\n"))
    console.print(Text(text))


def step_lines(loaded: LoadedModel, step: Explanation) -> list[str]:
    """Returns the lines that explain one draw."""
    context = step.context_ids
    shown = " ".join(_name(loaded, id) for id in context[-_CONTEXT_SHOWN:])
    cut = f"... ({len(context) - _CONTEXT_SHOWN} more) " if len(context) > _CONTEXT_SHOWN else ""
    lines = [
        f"position {step.position}: reads {len(context)} tokens: {cut}{shown}",
        f"  the model's distribution:   {_candidates(loaded, step.raw)}",
    ]
    for removal in step.removals:
        examples = " ".join(_name(loaded, id) for id in removal.examples)
        lines.append(f"  {removal.filter:<9} removes {removal.count:>6,}" + (f": {examples} ..." if examples else ""))
    lines.append(f"  left to draw from ({step.n_final:,}): {_candidates(loaded, step.final)}")
    how = "the likeliest (temperature 0)" if step.uniform is None else f"drawn with u = {step.uniform:.4f}"
    lines.append(f"  -> {_name(loaded, step.id)} (id {step.id}), {how}")
    return lines


def _candidates(loaded: LoadedModel, candidates: tuple[Candidate, ...]) -> str:
    return "  ".join(f"{_name(loaded, one.id)} {one.probability:.3f}" for one in candidates[:_CANDIDATES_SHOWN])


def _name(loaded: LoadedModel, id: int) -> str:
    return str(id) if loaded.tokenizer is None else f"[{loaded.tokenizer.token_text(id)}]"
