"""vLLM: its rules, and how an answer of its classes is read."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from nextok.conversion.engines import check_engine, findings
from nextok.conversion.engines.engine import Request
from nextok.conversion.engines.vllm import CPU_HEAD_WIDTHS, answer
from nextok.spec import ModelConfig, preset_config
from nextok.tokenizer import byte_tokenizer

from .conftest import ALIEN, CONFIGS, Folder


@pytest.mark.parametrize(
    ("config", "verdict", "told"),
    [
        (CONFIGS["gpt2"], "works", "head width 32"),
        (preset_config("gpt2-xl"), "works", "head width 64"),
        (preset_config("lesson-a"), "will not load", "d_head = 16. FlashAttention on a GPU takes it."),
        (replace(CONFIGS["qwen3"], d_head=20), "will not load", "d_head = 20. FlashAttention has not."),
        (replace(CONFIGS["qwen3"], d_head=512), "will not load", "FlashAttention has not."),
        (ALIEN, "will not load", "norm_placement"),
    ],
)
def test_rules(config: ModelConfig, verdict: str, told: str) -> None:
    [found] = findings("vllm", config, byte_tokenizer())
    assert found.verdict == verdict
    assert told in found.sentence
    assert config.d_head in CPU_HEAD_WIDTHS or verdict == "will not load"


def test_an_answer_is_read_as_vllm_gives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}

    class LLM:
        def __init__(self, **options: object) -> None:
            asked.update(options)

        def generate(self, prompts: list[dict[str, object]], params: SimpleNamespace) -> list[SimpleNamespace]:
            asked.update(prompts=prompts, params=params)
            steps = [{7: SimpleNamespace(logprob=-0.5), 9: SimpleNamespace(logprob=-9.0)}]
            output = SimpleNamespace(token_ids=(7,), logprobs=steps)
            return [SimpleNamespace(prompt_token_ids=[1, 2], outputs=[output]) for _ in prompts]

    fake = SimpleNamespace(LLM=LLM, SamplingParams=lambda **options: SimpleNamespace(**options))
    monkeypatch.setitem(sys.modules, "vllm", fake)
    prompts = [{"text": "It", "ids": [1, 2]}, {"text": None, "ids": [3]}]
    request: Request = {"path": "folder", "prompts": prompts, "new_tokens": 1, "context": 8}
    assert answer(request) == [{"prompt_tokens": 2, "ids": [7], "logprobs": [-0.5]}] * 2
    assert asked["prompts"] == [{"prompt": "It"}, {"prompt_token_ids": [3]}]
    assert (asked["model"], asked["dtype"], asked["max_model_len"]) == ("folder", "float32", 8)
    assert (asked["params"].temperature, asked["params"].max_tokens) == (0.0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("family", CONFIGS)
def test_it_writes_what_nextok_writes(family: str, folder_of: Folder) -> None:
    pytest.importorskip("vllm")
    report = check_engine("vllm", folder_of(replace(CONFIGS[family], d_head=32)))
    assert report.trial is not None
    assert report.trial.problem == ""
