"""`nextok predict FIT.json --params N --tokens D --out FILE`: say a run's loss before it starts; score it after."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from nextok import units
from nextok.cli.options import parse
from nextok.config import to_mapping
from nextok.errors import InputError
from nextok.files import sha256_of, to_json
from nextok.report import fact_table, make_console
from nextok.scaling import (
    Prediction,
    Score,
    finished_run,
    power,
    predict,
    read_fitted_law,
    read_prediction,
    score,
    score_run,
)

ABOUT = "Predict the loss of a run before it starts, with an interval; or score a prediction when the run is over."


@dataclass(frozen=True, kw_only=True, slots=True)
class Arguments:
    """Options of the command."""

    path: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="FIT.json|RUN")] = None
    """To predict: the law, as nextok fit writes it. To score: the run directory."""
    params: str | None = None
    """N of the run, counted as in the fit, such as 700k."""
    tokens: str | None = None
    """D of the run, such as 13M."""
    run: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """The folder that the run will have; refused if it is there already."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE.json")] = None
    """Write the prediction, to score it later."""
    score: Annotated[Path | None, tyro.conf.arg(metavar="FILE.json")] = None
    """Score this prediction with --loss, or with a run directory."""
    loss: float | None = None
    """Measured loss, in the unit of the prediction."""
    json: bool = False
    """Print one JSON object instead of a table."""


def main(argv: Sequence[str]) -> int:
    """Runs the command and returns its exit code."""
    arguments = parse(Arguments, argv, verb="predict", about=ABOUT)
    if arguments.score is not None:
        _score(arguments, arguments.score)
    else:
        _predict(arguments)
    return 0


def _predict(arguments: Arguments) -> None:
    if arguments.path is None or arguments.params is None or arguments.tokens is None:
        raise InputError("A prediction needs a fit, --params and --tokens.", "nextok predict --help shows both uses.")
    if arguments.loss is not None:
        raise InputError("--loss is of a run that is over.", "Score a prediction with --score FILE.json --loss L.")
    made = predict(
        read_fitted_law(arguments.path),
        N=units.parse_count(arguments.params),
        D=units.parse_count(arguments.tokens),
        run=arguments.run,
        name=arguments.path.name,
        sha256=sha256_of(arguments.path),
    )
    if arguments.out is not None:
        made.write(arguments.out)
    if arguments.json:
        print(to_json(to_mapping(made), indent=2))
        return
    console = make_console()
    console.print(fact_table("Prediction", _prediction_rows(made)))
    for note in _notes(made, arguments.out):
        console.print(note)


def _score(arguments: Arguments, path: Path) -> None:
    if any(value is not None for value in (arguments.params, arguments.tokens, arguments.out, arguments.run)):
        raise InputError("--score takes a prediction as it was written.", "Give --loss or a run directory, no more.")
    if (arguments.path is None) == (arguments.loss is None):
        raise InputError("A score needs a run directory or --loss.", "Give one of them.")
    prediction = read_prediction(path)
    if arguments.path is not None:
        found = score_run(prediction, finished_run(arguments.path))
    else:
        assert arguments.loss is not None
        found = score(prediction, arguments.loss)
    if arguments.json:
        print(to_json({"prediction": to_mapping(prediction), **to_mapping(found)}, indent=2))
        return
    console = make_console()
    console.print(fact_table("Score", _score_rows(found, prediction)))
    for remark in found.remarks:
        console.print(f"Note: {remark}.")


def _prediction_rows(made: Prediction) -> list[tuple[str, Any]]:
    unit = made.loss_unit
    low, high = made.interval
    spread = "by repeated seeds" if made.noise_source == "seeds" else "by what the fit leaves over"
    return [
        (f"N ({made.counting})", units.format_count(made.N)),
        ("D", f"{units.format_count(made.D)} tokens, {made.D / made.N:.3g} a parameter"),
        ("C = 6 N D", f"{power(made.C)} FLOP"),
        ("loss", f"{made.loss:.4f} {unit}"),
        (f"{made.level:.0%} interval", f"{low:.4f} to {high:.4f}"),
        ("sigma", f"{made.sigma:.4f}: the fit {made.sigma_fit:.4f}, a run's luck {made.sigma_noise:.4f} ({spread})"),
        ("above E", f"{made.loss - made.law.E:.4f}, of E = {made.law.E:.4f}"),
        ("outside the runs", f"by {made.extrapolated_decades:.1f} decades"),
        ("written", made.written_at),
    ]


def _notes(made: Prediction, out: Path | None) -> list[str]:
    if out is None:
        return ["Not written: --out FILE.json keeps it, so that it can be scored when the run is over."]
    notes = [f"Written to {out}. When the run is over: nextok predict --score {out} RUN"]
    if made.extrapolated_decades > 1:
        notes.append("More than a decade outside: the interval does not hold that the law may bend out there.")
    return notes


def _score_rows(found: Score, prediction: Prediction) -> list[tuple[str, str]]:
    low, high = prediction.interval
    where = "inside" if found.inside else "outside"
    if found.compute_factor is None:
        compute = f"none: {found.measured:.4f} is not above E = {prediction.law.E:.4f}"
    else:
        compute = f"what the law expects of {found.compute_factor:.3g} x the compute, at the same D / N"
    return [
        ("predicted", f"{found.predicted:.4f} {prediction.loss_unit} on {prediction.written_at}"),
        ("measured", f"{found.measured:.4f}, {where} the {prediction.level:.0%} interval {low:.4f} to {high:.4f}"),
        ("error", f"{found.error:+.4f} {prediction.loss_unit}, {found.sigmas:+.2f} sigma"),
        ("share of the excess over E", f"{found.share_of_excess:+.1%}"),
        ("as compute", compute),
    ]
