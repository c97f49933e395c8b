"""The design of a sweep: which models to train for how long, within the minutes there are. Nothing is run here.

`trunks` trains each size once at a level rate, and from that stable run branches a decay at each of several lengths,
each half of the next: a branch costs its last fifth. A run is a function of its options and knows nothing of its length
while the rate is level, so the branch at a length is the run that the command beside it makes from nothing.

`isoflop` trains several sizes at each of three budgets. Both repeat seeds on the two smallest sizes, the cheapest
measure of noise.

`foretell` fits the sweep before it is made, to losses drawn from a law that is guessed, and tells how sure a would be.
"""

import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nextok.errors import ConfigError, InputError
from nextok.scaling.bootstrap import refit
from nextok.scaling.buildable import Buildable, ModelOptions, build
from nextok.scaling.identify import reasons_in_design, require_enough
from nextok.scaling.laws import ParametricLaw
from nextok.scaling.objective import Points, Samples
from nextok.scaling.runs import Runs, runs_of

Layout = Literal["trunks", "isoflop"]

FEWEST_STEPS = 300
"""A shorter run is mostly warm-up; it is not made. Source: as published sweeps at this size."""
DECAY = 0.2
"""Share of a run over which its rate falls. Source: Haegele et al. 2024."""
_LENGTHS = 4  # branches of a trunk, each half of the next
_BUDGETS = (1.0, 3.0, 10.0)  # of isoflop, as multiples of the smallest
_SIZES_AT_A_BUDGET = 5
_REPEATED_SIZES = 2
_FEWEST_SIZES = 3
_HELD_OUT = 3.0  # times the largest compute of the sweep
_BATCH_TOKENS, _LARGE_BATCH_TOKENS, _LARGE_FLOPS = 2048, 4096, 4e12
_LR, _LR_AT, _LR_SLOPE = 1e-2, 2e5, 0.3  # peak rate at 200k parameters, falling as N^-0.3: a start for a bracket


@dataclass(frozen=True, kw_only=True, slots=True)
class DesignOptions:
    """What the sweep may cost and what it is about."""

    minutes: float
    """Of training, all runs together; above 0."""
    flops_per_s: float
    """What training reaches on this machine, FLOP/s; above 0. Measured: `flops_per_s` in the metrics of a run."""
    layout: Layout = "trunks"
    """Stable runs with branches, or budgets; trunks give more points for the same time."""
    sizes: tuple[float, ...] = (35e3, 68e3, 150e3, 283e3, 577e3, 1036e3)
    """N to train, blocks and head; at least 3. The default spans what minutes on two cores can train."""
    source: str = "python-stdlib"
    """What to train on, as nextok train takes it."""
    folder: str = "runs/sweep"
    """Where the runs will lie."""
    vocab_size: int = 257
    """Bytes and the end of text: with a larger vocabulary the head dominates models this small."""
    context: int = 128
    """Tokens a forward pass sees."""
    seeds: int = 2
    """Seeds of the two smallest sizes; 1: noise is not measured."""

    def __post_init__(self) -> None:
        for name in ("minutes", "flops_per_s"):
            value = getattr(self, name)
            _require(math.isfinite(value) and value > 0, f"{name} = {value} is not above 0.")
        _require(len(set(self.sizes)) >= _FEWEST_SIZES, f"sizes = {list(self.sizes)} are fewer than {_FEWEST_SIZES}.")
        _require(1 <= self.seeds <= 16, f"seeds = {self.seeds} is not 1 to 16.")

    @property
    def flops(self) -> float:
        """Operations that the minutes buy."""
        return 60 * self.minutes * self.flops_per_s


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedRun:
    """One run of the sweep: one point of the fit."""

    name: str
    model: Buildable
    steps: int
    batch_tokens: int
    """Tokens a step."""
    lr: float
    """Peak learning rate."""
    warmup_steps: int
    seed: int
    shared_steps: int
    """First steps that a longer run of the same trunk has made already; 0 for the longest, and outside of trunks."""
    command: str
    """Makes this run from nothing."""

    @property
    def tokens(self) -> int:
        """D."""
        return self.steps * self.batch_tokens

    @property
    def flops(self) -> float:
        """C, exact."""
        return float(self.tokens) * self.model.counts.training_flops_per_token

    @property
    def cost(self) -> float:
        """Operations that this run adds to those of its trunk."""
        return self.flops * (1 - self.shared_steps / self.steps)


@dataclass(frozen=True, kw_only=True, slots=True)
class Design:
    """A sweep on paper."""

    runs: tuple[PlannedRun, ...]
    held_out: PlannedRun
    """A run larger than all of them, to predict; not among the minutes."""
    left_out: tuple[str, ...]
    """Points that would have too few steps."""
    options: DesignOptions

    @property
    def flops(self) -> float:
        """What the runs cost together; a trunk counts once."""
        return sum(run.cost for run in self.runs)

    @property
    def minutes(self) -> float:
        """How long that takes."""
        return self.flops / self.options.flops_per_s / 60

    def table(self, law: ParametricLaw) -> Runs:
        """Returns the runs as they would end under a law without luck."""
        N, D, seed = zip(*((float(run.model.N), float(run.tokens), run.seed) for run in self.runs), strict=True)
        return runs_of(N, D, [law.loss(*point) for point in zip(N, D, strict=True)], seed)


def design(options: DesignOptions) -> Design:
    """Returns the sweep that fits into the minutes.

    Raises:
        InputError: if a size cannot be built, or too few runs are left for a law to be fitted.
    """
    shape = ModelOptions(vocab_size=options.vocab_size, context=options.context)
    ladder = sorted((build(N, "matmul", shape) for N in options.sizes), key=lambda model: model.N)
    wanted = _affordable(ladder, options)
    left_out = [f"{run.name}: {run.steps} steps" for run in wanted if run.steps < FEWEST_STEPS]
    runs = tuple(run for run in wanted if run.steps >= FEWEST_STEPS)
    if not runs:
        raise InputError(f"{options.minutes:g} minutes are too short for any run of {FEWEST_STEPS} steps.")
    top = _HELD_OUT * max(run.flops for run in runs)
    made = Design(runs=runs, held_out=_held_out(top, shape, options), left_out=tuple(left_out), options=options)
    reasons = _reasons(made)
    if reasons:
        hint = "Give more minutes, or more and smaller sizes."
        raise InputError(f"{options.minutes:g} minutes are too short for a sweep: {reasons[0]}.", hint)
    return made


def foretell(planned: Design, law: ParametricLaw, *, noise: float = 0.005, draws: int = 200) -> tuple[float, float]:
    """Returns between which two values 80 % of the fits would find the exponent a, if the losses followed this law.

    Args:
        planned: The sweep.
        law: A guess.
        noise: Standard deviation of log loss between seeds; at least 0.
        draws: Sweeps that are imagined.
    """
    runs = planned.table(law)
    points = Points.of(runs)
    luck_SR = noise * np.random.default_rng(0).standard_normal((draws, len(runs)))
    samples = Samples(np.ones_like(luck_SR), np.log(runs.loss) + luck_SR)
    theta_S5 = refit(samples, points, points.theta(law)[None])
    low, high = np.quantile(theta_S5[:, 4] / (theta_S5[:, 3] + theta_S5[:, 4]), [0.1, 0.9])
    return float(low), float(high)


def _reasons(made: Design) -> list[str]:
    runs = made.table(ParametricLaw(E=1, A=1, B=1, alpha=1, beta=1))  # only where they lie matters
    try:
        require_enough(runs)
    except InputError as error:
        return [error.message.removesuffix(".")]
    return reasons_in_design(runs)


def _affordable(ladder: list[Buildable], options: DesignOptions) -> list[PlannedRun]:
    """Returns the runs without the largest sizes, as long as those get fewer than two runs of enough steps."""
    lay = _trunks if options.layout == "trunks" else _budgets
    for count in range(len(ladder), _FEWEST_SIZES - 1, -1):
        wanted = list(lay(ladder[:count], options))
        largest = [run for run in wanted if run.model is ladder[count - 1] and run.steps >= FEWEST_STEPS]
        if len(largest) >= 2 or count == _FEWEST_SIZES:
            break
    return wanted


def _trunks(ladder: list[Buildable], options: DesignOptions) -> Iterator[PlannedRun]:
    """Yields the branches of each size, longest first; the time of a size goes as the root of its cost a token."""
    seeds = [options.seeds if place < _REPEATED_SIZES else 1 for place in range(len(ladder))]
    lengths = [2.0**-k for k in range(_LENGTHS)]
    paid = (1 - DECAY) + DECAY * sum(lengths)  # of the longest: the level part once, each decay
    roots = [math.sqrt(model.counts.training_flops_per_token) for model in ladder]
    unit = options.flops / paid / sum(count * root for count, root in zip(seeds, roots, strict=True))
    for model, count, root in zip(ladder, seeds, roots, strict=True):
        longest = unit * root / model.counts.training_flops_per_token
        middle = longest * math.sqrt(lengths[-1])  # of the branches: all have the trunk's batch
        batch_tokens = _batch(middle * model.counts.training_flops_per_token)
        warmup_steps = min(100, round(0.05 * longest * lengths[-1] / batch_tokens))  # one for all: they share it
        for seed in range(count):
            for share in lengths:
                yield _run(model, longest * share, batch_tokens, warmup_steps, seed, options, branch=share < 1)


def _budgets(ladder: list[Buildable], options: DesignOptions) -> Iterator[PlannedRun]:
    """Yields the sizes around 20 tokens a parameter at each of three budgets."""
    extra = _REPEATED_SIZES * (options.seeds - 1)
    width = min(_SIZES_AT_A_BUDGET, len(ladder))
    smallest = options.flops / ((width + extra) * sum(_BUDGETS))
    for C in (smallest * factor for factor in _BUDGETS):
        guess = math.sqrt(C / 120)
        nearest = sorted(ladder, key=lambda model: abs(math.log(model.N / guess)))[:width]
        for place, model in enumerate(sorted(nearest, key=lambda model: model.N)):
            tokens = C / model.counts.training_flops_per_token
            steps = tokens / _batch(C)
            for seed in range(options.seeds if place < _REPEATED_SIZES else 1):
                yield _run(model, tokens, _batch(C), min(100, round(0.05 * steps)), seed, options, branch=False)


def _held_out(C: float, shape: ModelOptions, options: DesignOptions) -> PlannedRun:
    model = build(math.sqrt(C / 120), "matmul", shape)
    tokens = C / model.counts.training_flops_per_token
    return _run(model, tokens, _batch(C), 100, 0, options, branch=False)


def _batch(flops: float) -> int:
    return _BATCH_TOKENS if flops < _LARGE_FLOPS else _LARGE_BATCH_TOKENS


def _run(
    model: Buildable,
    tokens: float,
    batch_tokens: int,
    warmup_steps: int,
    seed: int,
    options: DesignOptions,
    *,
    branch: bool,
) -> PlannedRun:
    steps = max(1, round(tokens / batch_tokens))
    name = f"n{model.N}-d{steps * batch_tokens}-s{seed}"
    lr = float(f"{_LR * (_LR_AT / model.N) ** _LR_SLOPE:.2g}")
    config = model.config
    flags = {
        "--out": f"{options.folder}/{name}",
        "--tokenizer": "byte",
        "--n-layers": config.n_layers,
        "--d-model": config.d_model,
        "--n-heads": config.n_heads,
        "--context": config.context,
        "--steps": steps,
        "--batch-size": max(1, batch_tokens // config.context),
        "--lr": f"{lr:g}",
        "--warmup-steps": warmup_steps,
        "--schedule": "wsd",
        "--decay-fraction": DECAY,
        "--beta2": 0.99,
        "--seed": seed,
        "--sample-tokens": 0,
    }
    return PlannedRun(
        name=name,
        model=model,
        steps=steps,
        batch_tokens=batch_tokens,
        lr=lr,
        warmup_steps=warmup_steps,
        seed=seed,
        shared_steps=round((1 - DECAY) * steps) if branch else 0,
        command=shlex.join(
            ["nextok", "train", options.source, *(str(part) for pair in flags.items() for part in pair)]
        ),
    )


def _require(holds: bool, message: str) -> None:  # noqa: FBT001 - reads as a sentence
    if not holds:
        raise ConfigError(f"This sweep cannot be designed: {message}")
