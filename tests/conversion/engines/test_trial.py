"""The judgement of a trial: a tie broken the other way passes, a wrong number does not."""

import math

import pytest
import torch

from nextok.conversion.engines.engine import Answer, Request
from nextok.conversion.engines.trial import judge, new_tokens, sample_prompts
from nextok.model import GPT, build
from nextok.spec import ModelConfig
from nextok.tokenizer import byte_tokenizer, char_tokenizer, train_bpe

CONFIG = ModelConfig(n_layers=1, d_model=16, n_heads=2, context=12, vocab_size=257)
END = 256


@pytest.fixture(scope="module")
def model() -> GPT:
    made = build(CONFIG, 3)
    with torch.no_grad():
        for weight in made.parameters():
            weight.mul_(4)  # choices that are no ties
    return made.eval()


def greedy(model: GPT, ids: list[int], count: int) -> Answer:
    """Returns what a right engine answers."""
    chosen, told = [], []
    for _ in range(count):
        with torch.inference_mode():
            logprobs = model(torch.tensor([ids + chosen]))[0, -1].log_softmax(-1)
        chosen.append(int(logprobs.argmax()))
        told.append(float(logprobs.max()))
    return {"prompt_tokens": len(ids), "ids": chosen, "logprobs": told}


@pytest.fixture
def request_of_it() -> Request:
    return {"path": "", "prompts": [{"text": "It", "ids": list(b"It")}], "new_tokens": 5, "context": 12}


def test_a_right_answer_passes(model: GPT, request_of_it: Request) -> None:
    trial = judge(model, request_of_it, [greedy(model, list(b"It"), 5)], END, 1e-3)
    assert (trial.problem, trial.prompts, trial.tokens, trial.equal_tokens) == ("", 1, 5, 5)
    assert max(trial.max_logprob_difference, trial.max_regret) < 1e-5


def test_a_wrong_choice_fails_and_is_measured(model: GPT, request_of_it: Request) -> None:
    answer = greedy(model, list(b"It"), 5)
    answer["ids"][2] = (answer["ids"][2] + 1) % 256
    trial = judge(model, request_of_it, [answer], END, 1e-3)
    assert trial.equal_tokens == 2
    assert trial.max_regret > 1e-3
    assert "below the best, where 0.001 is allowed" in trial.problem
    assert judge(model, request_of_it, [answer], END, 1e3).problem == ""


@pytest.mark.parametrize("told", [math.nan, math.inf, -50.0, None])
def test_a_wrong_probability_fails(model: GPT, request_of_it: Request, told: float | None) -> None:
    answer = greedy(model, list(b"It"), 5)
    answer["logprobs"][1] = math.nan if told is None else told
    assert "log-probabilities differ" in judge(model, request_of_it, [answer], END, 1e-3).problem


def test_a_prompt_read_otherwise_fails(model: GPT, request_of_it: Request) -> None:
    answer: Answer = {**greedy(model, list(b"It"), 5), "prompt_tokens": 3}
    assert judge(model, request_of_it, [answer], END, 1e-3).problem == (
        "It reads the prompt 'It' as 3 tokens, nextok as 2."
    )


def test_an_end_of_text_is_a_choice_whether_it_is_told_or_not(model: GPT, request_of_it: Request) -> None:
    answer = greedy(model, list(b"It"), 5)
    end = answer["ids"][3]
    for cut in (3, 4):  # an engine leaves the end out, or tells it
        stopped: Answer = {"prompt_tokens": 2, "ids": answer["ids"][:cut], "logprobs": answer["logprobs"][:cut]}
        trial = judge(model, request_of_it, [stopped], end, 1e-3)
        assert (trial.problem, trial.tokens) == ("", 4)
        assert "stopped after" in judge(model, request_of_it, [stopped], None, 1e-3).problem
    wrong_end = (end + 1) % 256
    assert judge(model, request_of_it, [stopped], wrong_end, 1e-3).max_regret > 1e-3


@pytest.mark.parametrize("context", [1, 2, 8, 12, 1000])
@pytest.mark.parametrize("kind", ["byte", "bpe", "char", "greek", "none"])
def test_prompts_can_be_spelled_and_leave_room(context: int, kind: str) -> None:
    tokenizer = {
        "byte": byte_tokenizer,
        "bpe": lambda: train_bpe(["the quick brown fox " * 30], 270),
        "char": lambda: char_tokenizer(["The def main( \nÇa"], end_of_text=True),
        "greek": lambda: char_tokenizer(["αβγδ"], end_of_text=False),
        "none": lambda: None,
    }[kind]()
    config = ModelConfig(context=context, vocab_size=300)
    prompts = sample_prompts(config, tokenizer)
    assert prompts
    for prompt in prompts:
        assert 1 <= len(prompt["ids"]) <= max(1, context - new_tokens(config))
        if prompt["text"] is not None:
            assert tokenizer.encode(prompt["text"]).tolist() == prompt["ids"]
    assert 1 <= new_tokens(config) <= 16
