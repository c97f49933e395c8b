"""Devices, threads, and compiling with a way back."""

import numpy as np
import pytest
import torch

from nextok import machine
from nextok.corpus import Batch
from nextok.errors import ConfigError
from nextok.model import build
from nextok.spec import preset_config
from nextok.train import Event, Message, TrainConfig
from nextok.train.device import choose_device, choose_forward, use_threads

BATCH = Batch(
    inputs_BT=np.zeros((1, 8), np.int64), targets_BT=np.zeros((1, 8), np.int64), starts_B=np.zeros(1, np.int64)
)


def test_device_that_is_not_here_is_refused_by_name() -> None:
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device("auto").type in ("cpu", "cuda", "mps")
    with pytest.raises(ConfigError, match="device = 'tpu'"):
        choose_device("tpu")


def test_threads_follow_the_cores_this_process_may_use() -> None:
    before = torch.get_num_threads()
    try:
        use_threads(0)
        assert torch.get_num_threads() == machine.usable_cores()
        use_threads(1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_failed_compilation_is_told_and_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(model: object) -> object:
        raise RuntimeError("no working compiler\nand more lines")

    monkeypatch.setattr(torch, "compile", refuse)
    model, events = build(preset_config("lesson-a"), 1), list[Event]()
    assert choose_forward(model, TrainConfig(compile=True), BATCH, [events.append]) is model
    assert events[1:] == [
        Message(text="torch.compile does not work here (no working compiler); going on without.", warning=True)
    ]


def test_compiled_model_is_tried_once_and_leaves_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def stand_in(model: torch.nn.Module) -> object:
        return lambda ids_BT: (calls.append(1), model(ids_BT))[1]

    monkeypatch.setattr(torch, "compile", stand_in)
    model = build(preset_config("lesson-a"), 1)
    assert choose_forward(model, TrainConfig(compile=True), BATCH, []) is not model
    assert calls == [1]
    assert all(p.grad is None for p in model.parameters())
    assert choose_forward(model, TrainConfig(), BATCH, []) is model
