"""The file of a fitted law: strict both ways, and intervals read off its draws."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from nextok.errors import InputError
from nextok.scaling import ConstantIntervals, Covered, FittedLaw, ParametricLaw, fitted, law_of, read_fitted_law

LAW = ParametricLaw(E=1.8, A=480.0, B=2100.0, alpha=0.35, beta=0.37)
DRAWS = tuple((1.7 + 0.01 * k, 480.0, 2100.0, 0.35, 0.37) for k in range(11))
FIT = FittedLaw(
    law=LAW,
    covered=Covered(N=(3e4, 8e5), D=(8e5, 2.5e7), C=(2e12, 2e13)),
    counting="matmul",
    runs=15,
    intervals=ConstantIntervals(E=(1.7, 1.8), A=(400.0, 500.0), B=(1e3, 3e3), alpha=(0.3, 0.4), beta=(0.3, 0.4)),
    draws=DRAWS,
    corpus="python-stdlib",
    tokenizer="byte",
)


def written(path: Path, **changes: Any) -> Path:
    values = {**FIT.to_mapping(), **changes}
    path.write_text(json.dumps({name: value for name, value in values.items() if value != "left out"}))
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    FIT.write(tmp_path / "fit.json")
    assert read_fitted_law(tmp_path / "fit.json") == FIT


def test_the_example_of_the_docstring_is_such_a_file(tmp_path: Path) -> None:
    block = re.search(r"```json\n(.*?)```", fitted.__doc__ or "", re.DOTALL)
    assert block is not None
    (tmp_path / "fit.json").write_text(block[1], encoding="utf-8")
    assert read_fitted_law(tmp_path / "fit.json").law.a == pytest.approx(0.367 / 0.714)


def test_intervals_come_from_the_draws() -> None:
    low, high = FIT.interval(lambda law: law.E) or (0, 0)
    assert (low, high) == pytest.approx((1.71, 1.79))  # the tenth and ninetieth of eleven even steps
    assert FIT.interval(lambda law: law.E, level=1.0) == pytest.approx((1.7, 1.8))


def test_without_draws_there_is_no_interval() -> None:
    bare = FittedLaw(law=LAW, covered=Covered(), counting="total", runs=1)
    assert bare.interval(lambda law: law.E) is None


def test_a_draw_is_a_law() -> None:
    assert law_of((1.8, 480.0, 2100.0, 0.35, 0.37)) == LAW


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"law": {"E": 1.0, "A": 1.0, "B": 1.0, "alpha": 0.3}}, "beta"),
        ({"law": {"E": 1.0, "A": 0, "B": 1.0, "alpha": 0.3, "beta": 0.3}}, "A = 0"),
        ({"slope": 1.0}, "slope"),
        ({"counting": "all"}, "counting"),
        ({"loss_unit": "bits"}, "loss_unit"),
        ({"runs": 0}, "runs = 0"),
        ({"level": 1.0}, "level"),
        ({"a": 0.4}, "a = 0.4"),
        ({"objective": -1.0}, "objective = -1"),
        ({"noise": -0.1}, "noise = -0.1"),
        ({"noise_source": "luck"}, "noise_source"),
        ({"schema": 2}, "schema is 2"),
        ({"draws": [[1.0, 2.0]]}, r"draws\[0\]"),
        ({"draws": [[1.0, 2.0, 3.0, 0.3, -0.3]]}, "beta = -0.3"),
        ({"covered": {"N": [2.0, 1.0]}}, "range of N"),
        ({"covered": "left out"}, "covered"),
    ],
)
def test_anything_else_is_refused_by_name(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        read_fitted_law(written(tmp_path / "fit.json", **changes))
    assert "fit.json does not hold a fitted law" in caught.value.message


@pytest.mark.parametrize("text", ["", "[]", "{", '{"law": NaN}'])
def test_what_is_no_such_json_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "fit.json").write_text(text)
    with pytest.raises(InputError, match=r"fit\.json"):
        read_fitted_law(tmp_path / "fit.json")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Cannot read"):
        read_fitted_law(tmp_path / "none.json")
