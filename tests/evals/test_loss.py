"""The loss of a split: every target once, in nats and in bits of the text."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from nextok.corpus import CorpusConfig, TokenSplit, prepare
from nextok.evals import evaluate_loss, piece_losses
from nextok.model import GPT, build, next_token_loss
from nextok.spec import ModelConfig


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> TokenSplit:
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text.txt").write_text("Größe ist relativ. " * 60, encoding="utf-8")
    return prepare(
        [str(folder / "text.txt")], tokenizer="byte", out=folder / "out", config=CorpusConfig(), cache=folder
    ).train


def model_of(split: TokenSplit, **values: object) -> GPT:
    return build(ModelConfig(n_layers=1, d_model=8, n_heads=2, context=16, vocab_size=257, **values), 1)  # type: ignore[arg-type]


def test_every_target_counts_once_with_the_last_window_shorter(split: TokenSplit) -> None:
    model = model_of(split)
    ids = split.tokens(0, len(split))
    assert (len(ids) - 1) % 16 != 0
    total = 0.0
    for start in range(0, len(ids) - 1, 16):
        window = torch.from_numpy(ids[start : start + 17].astype(np.int64))[None]
        total += next_token_loss(model(window[:, :-1]), window[:, 1:], reduction="sum").item()
    report = evaluate_loss(model, split)
    assert report.tokens == len(ids) - 1
    assert report.nats_per_token == pytest.approx(total / (len(ids) - 1), rel=1e-5)
    assert report.perplexity == pytest.approx(math.exp(report.nats_per_token))


def test_uniform_model_needs_log2_of_its_vocabulary_bits_a_byte(split: TokenSplit) -> None:
    model = model_of(split)
    with torch.no_grad():
        model.embed.tokens.weight.zero_()
    report = evaluate_loss(model, split)
    assert report.nats_per_token == pytest.approx(math.log(257))
    assert report.bits_per_byte == pytest.approx(math.log2(257) / split.bytes_per_token)


def test_dropout_and_mode_make_no_difference_and_come_back(split: TokenSplit) -> None:
    plain, dropping = model_of(split), model_of(split, dropout=0.5).train()
    assert evaluate_loss(dropping, split) == evaluate_loss(plain, split)
    assert dropping.training
    assert not evaluate_loss_mode(plain, split)


def evaluate_loss_mode(model: GPT, split: TokenSplit) -> bool:
    model.eval()
    evaluate_loss(model, split)
    return model.training


def test_limit_scores_about_that_many(split: TokenSplit) -> None:
    assert evaluate_loss(model_of(split), split, limit_tokens=64).tokens == 64


@pytest.mark.parametrize("context", [16, 7])
def test_pieces_hold_every_target_once_whatever_the_context(split: TokenSplit, context: int) -> None:
    model = build(ModelConfig(n_layers=1, d_model=8, n_heads=2, context=context, vocab_size=257), 1)
    pieces = piece_losses(model, split)
    whole = evaluate_loss(model, split)
    assert len(pieces.tokens_G) == min(50, (len(split) - 1) // 64) >= 2
    assert pieces.tokens_G.sum() == whole.tokens
    assert pieces.tokens_G.max() - pieces.tokens_G.min() <= 1
    assert pieces.nats_per_token == pytest.approx(whole.nats_per_token)
    first = split.tokens(0, int(pieces.tokens_G[0]) + 1)
    total = 0.0
    for start in range(0, len(first) - 1, context):
        window = torch.from_numpy(first[start : start + context + 1].astype(np.int64))[None]
        total += next_token_loss(model(window[:, :-1]), window[:, 1:], reduction="sum").item()
    assert pieces.nats_G[0] == pytest.approx(total, rel=1e-5)


def pairs_split(folder: Path, *pairs: tuple[str, str]) -> TokenSplit:
    lines = [json.dumps({"prompt": prompt, "completion": completion}) for prompt, completion in pairs]
    (folder / "pairs.jsonl").write_text("\n".join(lines), encoding="utf-8")
    config = CorpusConfig(val_fraction=0)
    return prepare(
        [str(folder / "pairs.jsonl")], tokenizer="byte", out=folder / "out", config=config, cache=folder
    ).train


def test_loss_of_pairs_is_that_of_their_completions_by_hand(tmp_path: Path) -> None:
    split = pairs_split(tmp_path, ("ab", "cd"), ("efg", "h"))
    model = model_of(split).eval()
    ids = torch.tensor([[*b"abcd", 256, *b"efgh"]])
    log_probabilities_TV = torch.log_softmax(model(ids)[0].detach(), dim=-1)
    # what each position is to say: c after b, d after c, the end after d, h after g
    counted = {1: ord("c"), 2: ord("d"), 3: 256, 7: ord("h")}
    nats = -sum(float(log_probabilities_TV[position, target]) for position, target in counted.items())
    report = evaluate_loss(model, split)
    assert (report.tokens, report.positions) == (4, 8)
    assert report.nats_per_token == pytest.approx(nats / 4, rel=1e-6)
    assert report.bits_per_byte == pytest.approx(nats / math.log(2) / 3, rel=1e-6)  # of the bytes c, d, h


def test_windows_of_nothing_but_prompt_cost_nothing_and_divide_by_nothing(tmp_path: Path) -> None:
    split = pairs_split(tmp_path, ("x" * 100, "y"))
    report = evaluate_loss(model_of(split), split)
    assert (report.tokens, report.positions) == (1, 100)
    assert math.isfinite(report.nats_per_token)
    assert evaluate_loss(model_of(split), split, limit_tokens=16).nats_per_token == 0.0
