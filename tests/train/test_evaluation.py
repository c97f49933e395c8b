"""The validation loss of several processes has the bits of one."""

from dataclasses import asdict
from typing import Any

import pytest

from nextok.corpus import CorpusConfig, TokenSplit, prepare
from nextok.evals import evaluate_loss, score_batches
from nextok.evals import loss as loss_module
from nextok.model import build
from nextok.spec import ModelConfig
from nextok.train.evaluation import evaluate
from nextok.train.processes import Processes


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> TokenSplit:
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text.txt").write_text("Größe ist relativ. " * 60, encoding="utf-8")
    return prepare(
        [str(folder / "text.txt")], tokenizer="byte", out=folder / "out", config=CorpusConfig(), cache=folder
    ).train


class AsIfTogether(Processes):
    """One of several processes, whose others have scored already."""

    shares: list[Any]

    def gathered(self, value: Any) -> list[Any]:
        assert value == self.shares[self.rank]
        return self.shares


@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_shares_of_the_batches_make_the_same_bits(
    split: TokenSplit, world: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_module, "_BATCH_TOKENS", 64)
    model = build(ModelConfig(n_layers=1, d_model=8, n_heads=2, context=16, vocab_size=257), 1)
    shares = [
        [asdict(score) for score in score_batches(model, split, first=rank, every=world)] for rank in range(world)
    ]
    assert sum(map(len, shares)) > 10
    whole = evaluate_loss(model, split)
    for rank in range(world):
        processes = AsIfTogether(rank=rank, world=world)
        object.__setattr__(processes, "shares", shares)
        assert evaluate(model, split, processes) == whole


def test_all_run_the_model_as_often(split: TokenSplit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_module, "_BATCH_TOKENS", 64)
    model = build(ModelConfig(n_layers=1, d_model=8, n_heads=2, context=16, vocab_size=257), 1)
    calls = [0]
    model.register_forward_hook(lambda *_: calls.append(calls.pop() + 1))
    runs = []
    for rank in range(4):
        calls[:] = [0]
        score_batches(model, split, first=rank, every=4)
        runs += calls
    assert len(set(runs)) == 1
    assert sum(runs) > len(score_batches(model, split))  # some ran one batch more than they were to score
