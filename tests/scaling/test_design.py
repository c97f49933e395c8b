"""Sweeps on paper: within the minutes, identifiable, with commands that train exactly what is planned."""

import shlex
from pathlib import Path

import pytest

from nextok.cli.main import main
from nextok.errors import ConfigError, InputError
from nextok.scaling import DesignOptions, PlannedRun, counted, design, finished_run, fit, foretell
from nextok.scaling.design import DECAY, FEWEST_STEPS, Layout
from nextok.spec import count

from .conftest import KNOWN

LAYOUTS: list[Layout] = ["trunks", "isoflop"]


def trunk(run: PlannedRun) -> tuple[int, int]:
    return run.model.N, run.seed


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("minutes", [10, 45, 480])
def test_a_sweep_uses_its_minutes_and_no_more(layout: Layout, minutes: float) -> None:
    made = design(DesignOptions(minutes=minutes, flops_per_s=4e10, layout=layout))
    assert 0.7 * minutes < made.minutes < 1.02 * minutes
    assert min(run.steps for run in made.runs) >= FEWEST_STEPS
    assert len({run.name for run in made.runs}) == len(made.runs)
    assert made.held_out.flops == pytest.approx(3 * max(run.flops for run in made.runs), rel=0.01)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_runs_that_follow_a_law_give_it_back(layout: Layout) -> None:
    made = design(DesignOptions(minutes=45, flops_per_s=4e10, layout=layout))
    found = fit(made.table(KNOWN))
    assert found.law is not None
    assert found.law.a == pytest.approx(KNOWN.a, abs=1e-6)


def test_a_trunk_is_trained_once_and_each_length_costs_its_decay() -> None:
    made = design(DesignOptions(minutes=45, flops_per_s=4e10))
    for longest in (run for run in made.runs if run.shared_steps == 0):
        branches = [run for run in made.runs if trunk(run) == trunk(longest) and run is not longest]
        assert branches
        for run in branches:
            assert run.shared_steps < (1 - DECAY) * longest.steps + 1, "the trunk has not come so far"
            assert run.cost == pytest.approx(DECAY * run.flops, rel=0.01)
            assert (run.lr, run.warmup_steps, run.batch_tokens) == (
                longest.lr,
                longest.warmup_steps,
                longest.batch_tokens,
            )


def test_budgets_are_met_by_every_size() -> None:
    made = design(DesignOptions(minutes=45, flops_per_s=4e10, layout="isoflop"))
    budgets = sorted({round(run.flops / made.runs[0].flops) for run in made.runs})
    assert budgets == [1, 3, 10]


def test_seeds_are_repeated_where_that_is_cheapest() -> None:
    made = design(DesignOptions(minutes=45, flops_per_s=4e10))
    repeated = {run.model.N for run in made.runs if run.seed == 1}
    assert repeated == set(sorted({run.model.N for run in made.runs})[:2])
    one = design(DesignOptions(minutes=45, flops_per_s=4e10, seeds=1))
    assert {run.seed for run in one.runs} == {0}


def test_more_time_tells_more() -> None:
    widths = []
    for minutes in (10, 60):
        low, high = foretell(design(DesignOptions(minutes=minutes, flops_per_s=4e10)), KNOWN, noise=0.01, draws=100)
        assert low < KNOWN.a < high
        widths.append(high - low)
    assert widths[1] < widths[0]


def test_without_luck_the_exponent_is_certain() -> None:
    low, high = foretell(design(DesignOptions(minutes=45, flops_per_s=4e10)), KNOWN, noise=0.0, draws=5)
    assert (low, high) == pytest.approx((KNOWN.a, KNOWN.a), abs=1e-9)


@pytest.mark.parametrize("minutes", [0.1, 1])
def test_too_few_minutes_are_refused(minutes: float) -> None:
    with pytest.raises(InputError, match="too short"):
        design(DesignOptions(minutes=minutes, flops_per_s=4e10))


@pytest.mark.parametrize("changes", [{"minutes": 0.0}, {"flops_per_s": -1.0}, {"sizes": (1e5, 1e5)}, {"seeds": 0}])
def test_options_out_of_range_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(changes))):
        DesignOptions(**{"minutes": 45.0, "flops_per_s": 4e10, **changes})  # type: ignore[arg-type]


def test_a_command_trains_the_model_that_was_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my text.txt").write_text("It was a book. " * 2000, encoding="utf-8")
    options = DesignOptions(minutes=45, flops_per_s=4e10, source="my text.txt", folder="sweep")
    run = design(options).runs[0]
    verb, *flags = shlex.split(run.command)[1:]
    flags[flags.index("--steps") + 1] = "2"
    assert main([verb, *flags, "--threads", "1"]) == 0
    trained = finished_run(tmp_path / "sweep" / run.name)
    assert trained.config == run.model.config
    assert counted(count(trained.config), "matmul") == run.model.N
    assert trained.tokens == 2 * run.batch_tokens
