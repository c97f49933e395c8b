"""Every engine is whole: its name, its rules and its function exist."""

import importlib
import tomllib
from pathlib import Path

import pytest

from nextok.conversion.engines import ENGINES, Engine

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_the_function_that_answers_can_be_found(engine: Engine) -> None:
    module, _, name = engine.answer.partition(":")
    assert callable(getattr(importlib.import_module(module), name))


def test_the_extra_for_peers_brings_every_engine_but_the_largest() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    brought = {line.split(">=")[0] for line in project["optional-dependencies"]["bench"]}
    assert {module for engine in ENGINES.values() for module in engine.modules} - brought == {"vllm"}
