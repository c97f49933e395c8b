"""What a step minimises: fused and plain losses agree, compiling has a way back, precision follows the machine."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from nextok.corpus import Batch
from nextok.model import build
from nextok.spec import preset_config
from nextok.train import Event, Message, TrainConfig
from nextok.train import objective as objective_module
from nextok.train.objective import choose_objective, resolve_precision

BATCH = Batch(
    inputs_BT=np.zeros((1, 8), np.int64), targets_BT=np.zeros((1, 8), np.int64), starts_B=np.zeros(1, np.int64)
)


CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("features", "precision"), [("+avx2", "fp32"), ("+avx2,+avx512bf16", "bf16"), ("+avx2,+amx-bf16", "bf16")]
)
def test_precision_follows_what_the_processor_multiplies(
    features: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objective_module, "features", lambda: frozenset(features.split(",")))
    config = preset_config("nano")
    assert resolve_precision(TrainConfig(), config, CPU) == precision
    assert resolve_precision(TrainConfig(precision="fp32"), config, CPU) == "fp32"
    assert resolve_precision(TrainConfig(), config, CPU, cut=True) == "fp32"
    assert resolve_precision(TrainConfig(), replace(config, mask="none"), CPU) == "fp32", (
        "no fused form: casts cost more"
    )


def test_the_fused_loss_and_the_plain_one_agree_and_changes_are_seen() -> None:
    model = build(preset_config("nano", "classic"), 1).train()
    fused = choose_objective(model, TrainConfig(precision="fp32"), BATCH, [])
    ours = fused(BATCH, 0, 0.125)
    with model.replace({"embed": lambda x_BTD: x_BTD * 1.0}):
        plain = fused(BATCH, 0, 0.125)
    torch.testing.assert_close(ours, plain, rtol=1e-6, atol=0)
    with model.replace({"logits": lambda logits_BTV: logits_BTV * 1000}):
        assert not torch.isclose(fused(BATCH, 0, 0.125), ours)


def test_failed_compilation_is_told_and_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(model: object) -> object:
        raise RuntimeError("no working compiler\nand more lines")

    monkeypatch.setattr(torch, "compile", refuse)
    model, events = build(preset_config("lesson-a"), 1), list[Event]()
    assert choose_objective(model, TrainConfig(compile=True, precision="fp32"), BATCH, [events.append])(
        BATCH, 0, 1.0
    ).isfinite()
    assert events[1:] == [
        Message(text="torch.compile does not work here (no working compiler); going on without.", warning=True)
    ]


def test_compiled_model_is_tried_once_and_leaves_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def stand_in(model: torch.nn.Module) -> object:
        return lambda ids_BT: (calls.append(1), model(ids_BT))[1]

    monkeypatch.setattr(torch, "compile", stand_in)
    model = build(preset_config("lesson-a"), 1)
    objective = choose_objective(model, TrainConfig(compile=True, precision="fp32"), BATCH, [])
    assert calls == [1]
    assert all(p.grad is None for p in model.parameters())
    objective(BATCH, 0, 1.0)
    assert calls == [1, 1], "the compiled form is the one that is used"
