"""When a difference is called more than noise, what it rests on, and when there is none to speak of."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nextok.comparison import compare_runs, read_run
from nextok.errors import CheckpointError, ConfigError
from nextok.evals import unpaired_interval

MakeRun = Callable[..., Path]


def test_two_runs_are_compared_over_the_same_text(make_run: MakeRun) -> None:
    good, bad = make_run("a"), make_run("lower", train={"lr": 1e-3})
    scored: list[Path] = []
    (found,) = compare_runs([good, bad], on_scored=scored.append).differences
    assert scored == [good, bad]
    best = [read_run(path).best_val_loss for path in (good, bad)]
    assert found.difference == pytest.approx(best[1] - best[0], abs=1e-5)  # type: ignore[operator]
    assert (found.unit, found.more_than_noise) == ("nats per token", True)
    assert "the text, not the seeds" in found.note
    (back,) = compare_runs([bad, good]).differences
    assert back.difference == pytest.approx(-found.difference)
    assert back.interval is not None
    assert found.interval is not None
    assert (back.interval.low, back.interval.high) == pytest.approx((-found.interval.high, -found.interval.low))


def test_models_of_other_contexts_are_paired_too(make_run: MakeRun) -> None:
    (found,) = compare_runs([make_run("a"), make_run("short", model={"context": 8})]).differences
    assert found.unit == "nats per token"
    assert found.interval is not None


def test_the_same_run_twice_is_no_difference(make_run: MakeRun) -> None:
    (found,) = compare_runs([make_run("a"), make_run("again")]).differences
    assert (found.difference, found.more_than_noise) == (0.0, False)


def test_several_seeds_make_the_interval(make_run: MakeRun) -> None:
    ours = [make_run("a"), make_run("a, seed 3", train={"seed": 3}), make_run("a, seed 4", train={"seed": 4})]
    theirs = [make_run(f"lower {seed}", train={"lr": 1e-3, "seed": seed}) for seed in (5, 6)]
    comparison = compare_runs([*ours, *theirs], on_scored=lambda _: pytest.fail("nothing needs to be scored"))
    assert comparison.groups == (tuple(map(str, ours)), tuple(map(str, theirs)))
    (found,) = comparison.differences
    losses = [[read_run(path).best_val_loss for path in group] for group in (ours, theirs)]
    assert found.interval == unpaired_interval(*losses)  # type: ignore[arg-type]
    assert "the seeds" in found.note
    assert compare_runs(ours).differences == ()


def test_more_groups_make_each_interval_wider(make_run: MakeRun) -> None:
    paths = [make_run("a"), make_run("lower", train={"lr": 1e-3}), make_run("short", model={"context": 8})]
    alone = compare_runs(paths[:2]).differences[0].interval
    together = compare_runs(paths).differences[0].interval
    assert alone is not None
    assert together is not None
    assert together.level == 0.975
    assert together.low < alone.low < alone.high < together.high


def test_other_tokenizers_are_compared_in_bits_per_byte(make_run: MakeRun) -> None:
    one, other = make_run("a"), make_run("byte", tokenizer="byte")
    (found,) = compare_runs([one, other]).differences
    bits = [read_run(path).best_bits_per_byte for path in (one, other)]
    assert found.unit == "bits per byte"
    assert found.difference == pytest.approx(bits[1] - bits[0])  # type: ignore[operator]
    assert found.more_than_noise is None
    assert "tokenizers differ" in found.note


@pytest.mark.parametrize(
    ("name", "values", "why"),
    [
        ("alphabet", {"text": "alphabet"}, "different texts"),
        ("split", {"corpus": {"val_fraction": 0.2}}, "different parts"),
        ("no split", {"corpus": {"val_fraction": 0.0}}, "different parts"),
    ],
)
def test_losses_of_other_texts_are_not_compared(
    make_run: MakeRun, name: str, values: dict[str, object], why: str
) -> None:
    (found,) = compare_runs([make_run("a"), make_run(name, **values)]).differences
    assert (found.unit, found.difference, found.interval) == (None, None, None)
    assert why in found.note


def test_a_run_whose_corpus_is_gone_is_compared_without_an_interval(make_run: MakeRun, tmp_path: Path) -> None:
    shutil.copytree(make_run("lower", train={"lr": 1e-3}), tmp_path / "moved")
    shutil.rmtree(tmp_path / "moved" / "corpus")
    (found,) = compare_runs([make_run("a"), tmp_path / "moved"]).differences
    assert found.interval is None
    assert found.difference is not None
    assert np.isfinite(found.difference)
    assert "could not be scored" in found.note


def test_what_is_no_comparison_is_refused(make_run: MakeRun, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="two runs or more"):
        compare_runs([make_run("a")])
    with pytest.raises(ConfigError, match="each named once"):
        compare_runs([make_run("a"), make_run("a") / "." / "../a"])
    with pytest.raises(CheckpointError, match="no run"):
        compare_runs([make_run("a"), tmp_path / "none"])
