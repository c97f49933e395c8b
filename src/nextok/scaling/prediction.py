"""A prediction written down before the run: the loss of a larger model with its interval, in a strict file.

```json
{
  "schema": 1,
  "written_at": "2026-05-04T09:30:00Z",
  "N": 700000.0, "D": 13000000.0, "C": 5.46e13,
  "loss": 1.742, "interval": [1.721, 1.764], "level": 0.8, "sigma": 0.017,
  "sigma_fit": 0.012, "sigma_noise": 0.012, "noise_source": "seeds",
  "extrapolated_decades": 0.44,
  "law": {"E": 1.2, "A": 90.0, "B": 300.0, "alpha": 0.38, "beta": 0.36},
  "counting": "matmul", "loss_unit": "nats/token",
  "fit": "fit.json", "fit_sha256": ""
}
```

The interval holds what the runs do not settle (the bootstrap) and what no fit can know (the luck of a seed). It does
not hold that the law itself may bend outside the runs: `extrapolated_decades` says how far that is trusted.
"""

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import NormalDist

import numpy as np

from nextok import config as options
from nextok.errors import InputError
from nextok.files import read_json, write_json
from nextok.scaling.covered import Counting
from nextok.scaling.fitted import FittedLaw, LossUnit
from nextok.scaling.laws import FLOPS_PER_PARAMETER_AND_TOKEN, ParametricLaw
from nextok.scaling.noise import NoiseSource

SCHEMA = 1
LEVEL = 0.8
"""Share of outcomes that the interval should hold. Source: as the intervals of the fit."""
_QUANTILES = 201  # of the noise, laid over every draw: the same interval each time, where random noise would differ
_TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """What a law says of a run that has not been made."""

    written_at: str
    """UTC, as 2026-05-04T09:30:00Z."""
    N: float
    """Parameters, counted as in the fit; above 0."""
    D: float
    """Training tokens; above 0."""
    C: float
    """6 N D."""
    loss: float
    """Predicted, in `loss_unit`."""
    interval: tuple[float, float]
    """Of the loss that will be measured."""
    level: float = LEVEL
    """Share of outcomes that it should hold."""
    sigma: float
    """Standard deviation of measured less predicted: both of the next, together."""
    sigma_fit: float
    """Of the predicted loss over the resamples."""
    sigma_noise: float
    """Of one run about its law."""
    noise_source: NoiseSource
    """Whether that was measured by repeated seeds, or is what the fit leaves over."""
    extrapolated_decades: float
    """How far N, D or C, whichever is worst, lies beyond the nearest run that was fitted."""
    law: ParametricLaw
    """The law that predicts."""
    counting: Counting
    """What N counts."""
    loss_unit: LossUnit
    """Unit of every loss here."""
    run: str = ""
    """Name of the run that it is for, if it was given."""
    fit: str = ""
    """Name of the file of the law."""
    fit_sha256: str = ""
    """Its fingerprint."""
    schema: int = SCHEMA
    """Version of this form."""

    def __post_init__(self) -> None:
        _require(self.schema == SCHEMA, f"its schema is {self.schema}, and this version reads {SCHEMA}.")
        for name in ("N", "D", "C", "loss", "sigma"):
            value = getattr(self, name)
            _require(math.isfinite(value) and value > 0, f"{name} = {value} is not above 0.")
        low, high = self.interval
        _require(low <= self.loss <= high, f"its interval {low} to {high} does not hold {self.loss}.")
        expected = self.law.loss(self.N, self.D)
        _require(abs(expected - self.loss) <= 1e-6 * expected, f"loss = {self.loss}, and its law gives {expected}.")
        self.time()

    def time(self) -> datetime:
        """Returns when it was written."""
        try:
            return datetime.strptime(self.written_at, _TIME).replace(tzinfo=UTC)
        except ValueError:
            raise InputError(f"This prediction cannot be used: written_at = {self.written_at!r} is no time.") from None

    def write(self, path: Path) -> None:
        """Writes the file, where there is none: a prediction that can be written again is none.

        Raises:
            InputError: if the path exists.
            DiskError: if it cannot be written.
        """
        if path.exists():
            raise InputError(
                f"{path} is there already, and predictions are not replaced.", "Name a new file with --out."
            )
        write_json(path, options.to_mapping(self))


def predict(
    fit: FittedLaw,
    *,
    N: float,
    D: float,
    now: datetime | None = None,
    run: Path | None = None,
    name: str = "",
    sha256: str = "",
) -> Prediction:
    """Returns the loss that the law expects of N parameters and D tokens, with its interval.

    Args:
        fit: The law with its resamples and noise.
        N: Parameters, counted as in the fit.
        D: Training tokens.
        now: The time to write down; None: the clock's.
        run: Folder of the run that it is for, which must not be there yet.
        name: Name of the file of the law.
        sha256: Its fingerprint.

    Raises:
        InputError: if N or D is not above 0, the run has begun, or the fit has no resamples to make an interval of.
    """
    if run is not None and run.exists():
        hint = "A prediction is worth something only if it was written before."
        raise InputError(f"{run} is there already: that run has begun.", hint)
    for what, value in (("N", N), ("D", D)):
        if not (math.isfinite(value) and value > 0):
            raise InputError(f"{what} = {value} is not above 0.")
    if not fit.draws or fit.noise is None or fit.noise_source is None:
        raise InputError(
            "This fit has no resamples, so a prediction from it has no interval.", "Write it with nextok fit."
        )
    loss, C = fit.law.loss(N, D), FLOPS_PER_PARAMETER_AND_TOKEN * N * D
    E_S, A_S, B_S, alpha_S, beta_S = np.array(fit.draws, np.float64).T
    drawn_S = E_S + A_S * N**-alpha_S + B_S * D**-beta_S
    sigma_fit, sigma_noise = float(drawn_S.std()), fit.noise * loss
    now = now or datetime.now(UTC)
    return Prediction(
        written_at=now.astimezone(UTC).strftime(_TIME),
        N=N,
        D=D,
        C=C,
        loss=loss,
        interval=_interval(drawn_S, fit.noise, loss),
        sigma=max(math.hypot(sigma_fit, sigma_noise), 1e-9),
        sigma_fit=sigma_fit,
        sigma_noise=sigma_noise,
        noise_source=fit.noise_source,
        extrapolated_decades=fit.covered.decades_outside(N=N, D=D, C=C),
        law=fit.law,
        counting=fit.counting,
        loss_unit=fit.loss_unit,
        run="" if run is None else run.name,
        fit=name,
        fit_sha256=sha256,
    )


def read_prediction(path: Path) -> Prediction:
    """Returns the prediction in a file that `nextok predict` wrote.

    Raises:
        InputError: if the file is missing, is not strict JSON, or does not hold exactly such a prediction.
    """
    values = read_json(path)
    try:
        return options.from_mapping(Prediction, values, "prediction")
    except InputError as error:
        hint = error.hint or "Write it with nextok predict."
        raise InputError(f"{path} does not hold a prediction: {error.message}", hint) from error


def _interval(drawn_S: np.ndarray, noise: float, loss: float) -> tuple[float, float]:
    """Returns the middle share of every draw under every noise, and never without the prediction itself."""
    normal = NormalDist()
    z_K = np.array([normal.inv_cdf((k + 0.5) / _QUANTILES) for k in range(_QUANTILES)])
    outcomes = (drawn_S[:, None] * np.exp(noise * z_K)).reshape(-1)
    low, high = np.quantile(outcomes, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return min(float(low), loss), max(float(high), loss)


def _require(holds: bool, message: str) -> None:  # noqa: FBT001 - reads as a sentence
    if not holds:
        raise InputError(f"This prediction cannot be used: {message}")
