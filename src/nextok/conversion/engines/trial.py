"""A trial of an engine: the prompts it gets, and the judgement of what it made of them.

Choices are judged, not text: the engine's greedy tokens are scored by nextok's own model. So a tie that a rounding
broke the other way is no difference, and a wrong weight is one, at the token where it shows.
"""

from dataclasses import replace

import torch

from nextok.conversion.comparison import fixed_ids
from nextok.conversion.engines.engine import Answer, Prompt, Request
from nextok.conversion.engines.findings import Trial
from nextok.model import GPT
from nextok.spec import ModelConfig
from nextok.tokenizer import Tokenizer

_TEXTS = ("The ", "It was", "def main(", "\n", "Ça coûte 10 €, 日本")  # characters of one to three bytes
_NEW_TOKENS = 16
_CHARACTERS = 8  # of a vocabulary, for a prompt that it can spell whatever its language is


def new_tokens(config: ModelConfig) -> int:
    """Returns how many tokens are asked for: half of a small context, and no more than 16."""
    return max(1, min(_NEW_TOKENS, config.context // 2))


def sample_prompts(config: ModelConfig, tokenizer: Tokenizer | None) -> list[Prompt]:
    """Returns a few prompts that leave room for `new_tokens`; without a tokenizer they are ids alone."""
    room = max(1, config.context - new_tokens(config))
    if tokenizer is None:
        return [{"text": None, "ids": ids_T.tolist()} for ids_T in fixed_ids(room, config.vocab_size)]
    begun = int(tokenizer.prompt_start is not None)
    texts = [*_TEXTS]
    if tokenizer.kind == "char":
        texts.append(tokenizer.decode(range(min(_CHARACTERS, tokenizer.vocab_size))))
    prompts: list[Prompt] = []
    for text in texts:
        body = tokenizer.encode(text, unknown="drop")[: room - begun].tolist()
        spelled = tokenizer.decode(body)
        ids = tokenizer.encode_prompt(spelled, unknown="drop").tolist()
        if body and ids[begun:] == body:  # a cut can fall inside a character
            prompts.append({"text": spelled, "ids": ids})
    return prompts or [{"text": None, "ids": [0]}]


def judge(model: GPT, request: Request, answers: list[Answer], end: int | None, tolerance: float) -> Trial:
    """Returns how the engine's answers compare with what the model would choose.

    Args:
        model: nextok's own model of the same weights.
        request: What the engine was asked.
        answers: What it answered, one a prompt.
        end: The id of end of text, where engines stop; None where there is none.
        tolerance: Most nats that a log-probability may differ by, and a choice may lie below the best.
    """
    trial = Trial(prompts=len(answers))
    for prompt, answer in zip(request["prompts"], answers, strict=True):
        chosen = _with_end(answer["ids"], request["new_tokens"], end)
        if problem := _problem(prompt, answer, chosen, request["new_tokens"], end):
            return replace(trial, problem=problem)
        trial = _scored(trial, _logprobs(model, prompt["ids"] + chosen, len(chosen)), chosen, answer["logprobs"])
    if trial.max_logprob_difference <= tolerance and trial.max_regret <= tolerance:
        return trial
    problem = (
        f"Its log-probabilities differ from nextok's by up to {trial.max_logprob_difference:.2g} nats, and its choices "
        f"lie up to {trial.max_regret:.2g} below the best, where {tolerance:g} is allowed."
    )
    return replace(trial, problem=problem)


def _with_end(ids: list[int], wanted: int, end: int | None) -> list[int]:
    """Returns the choices with the end of text that an engine met but did not tell."""
    return ids if end is None or len(ids) == wanted or ids[-1:] == [end] else [*ids, end]


def _problem(prompt: Prompt, answer: Answer, chosen: list[int], wanted: int, end: int | None) -> str:
    """Returns why an answer cannot be scored, in one sentence; empty if it can."""
    read, own = answer["prompt_tokens"], len(prompt["ids"])
    if read != own:
        return f"It reads the prompt {prompt['text']!r} as {read} tokens, nextok as {own}."
    if len(chosen) < wanted and (end is None or chosen[-1:] != [end]):
        return f"It stopped after {len(chosen)} of {wanted} tokens, and not at an end of text."
    return ""


def _logprobs(model: GPT, ids: list[int], last: int) -> torch.Tensor:
    """Returns the log-probabilities `[T, V]` of every token at the places of the last ids, in float64."""
    with torch.inference_mode():
        logits_TV = model(torch.tensor([ids[:-1]]))[0, -last:]
    return logits_TV.double().log_softmax(-1)


def _scored(trial: Trial, logprobs_TV: torch.Tensor, chosen: list[int], told: list[float]) -> Trial:
    chosen_T, told_T = torch.tensor(chosen), torch.tensor(told, dtype=torch.float64)
    own_T = logprobs_TV.gather(1, chosen_T[:, None])[:, 0]
    difference_T = (own_T[: len(told)] - told_T).abs()
    regret_T = logprobs_TV.amax(-1) - own_T
    return replace(
        trial,
        tokens=trial.tokens + len(chosen),
        equal_tokens=trial.equal_tokens + int((logprobs_TV.argmax(-1) == chosen_T).long().cumprod(0).sum()),
        max_logprob_difference=max(trial.max_logprob_difference, _largest(difference_T)),
        max_regret=max(trial.max_regret, _largest(regret_T)),
    )


def _largest(numbers_T: torch.Tensor) -> float:
    """Returns the largest number; what is none counts as infinite, or it would pass every comparison."""
    return max(numbers_T.nan_to_num(torch.inf).tolist(), default=0.0)
