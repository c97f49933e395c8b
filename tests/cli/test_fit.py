"""`nextok fit`: tables, JSON, the file of the law, and what is refused."""

import json
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from nextok.scaling import ParametricLaw, read_fitted_law

from .conftest import Nextok

LAW = ParametricLaw(E=1.2, A=90.0, B=300.0, alpha=0.38, beta=0.36)


def table(path: Path, *, noise: float = 0.0, line: bool = False, runs: int = 24) -> Path:
    luck = np.random.default_rng(0)
    rows = ["params,tokens,flops,loss,seed,status"]
    for N in np.geomspace(3e4, 1e6, 6):
        for D in [20 * N] * 4 if line else np.geomspace(8e5, 2e7, 4):
            loss = LAW.loss(N, D) * np.exp(noise * luck.standard_normal())
            rows.append(f"{N:.0f},{D:.0f},{6 * N * D:.6g},{loss:.9f},0,done")
    path.write_text("\n".join([*rows[: runs + 1], "9000,9000,1e9,,0,diverged"]) + "\n", encoding="utf-8")
    return path


def test_tables_tell_the_law_and_what_was_left_out(nextok: Nextok, tmp_path: Path) -> None:
    code, out, _ = nextok("fit", str(table(tmp_path / "runs.csv", noise=0.002)), "--resamples", "50")
    assert code == 0
    for shown in ("24, left out 1", "line 26, its status is 'diverged'", "alpha", "a without one size", "3: this law"):
        assert shown in out


def test_json_is_one_object(nextok: Nextok, tmp_path: Path) -> None:
    code, out, _ = nextok("fit", str(table(tmp_path / "runs.csv")), "--json", "--resamples", "20")
    report = json.loads(out)
    assert code == 0
    assert report["law"]["a"] == pytest.approx(LAW.a, abs=1e-4)
    assert report["counting"] == "matmul"
    assert len(report["approaches"]) == 3


def test_the_law_is_written_for_plan(nextok: Nextok, tmp_path: Path) -> None:
    path = table(tmp_path / "runs.csv")
    flags = ["--resamples", "20", "--out", "fit.json", "--plot", "fit.png", "--counting", "total", "--corpus", "text"]
    assert nextok("fit", str(path), *flags)[0] == 0
    law = read_fitted_law(tmp_path / "fit.json")
    assert (law.counting, law.corpus, law.runs, len(law.draws)) == ("total", "text", 24, 20)
    assert matplotlib.image.imread(tmp_path / "fit.png").shape[:2] == (720, 2880)
    code, out, _ = nextok("plan", "--flops", "1e14", "--fit", "fit.json", "--vocab-size", "256", "--json")
    assert code == 0
    assert any(answer["rule"] == "own-fit" for answer in json.loads(out)["answers"])


def test_columns_have_the_names_that_are_given(nextok: Nextok, tmp_path: Path) -> None:
    path = table(tmp_path / "runs.csv")
    text = path.read_text(encoding="utf-8").replace("params", "Model Size").replace("flops", "C")
    path.write_text(text, encoding="utf-8")
    code, out, _ = nextok("fit", str(path), "--params", "Model Size", "--flops", "C", "--json", "--resamples", "0")
    assert code == 0
    assert json.loads(out)["law"]["a"] == pytest.approx(LAW.a, abs=1e-4)


def test_what_is_not_identified_has_reasons_and_no_file(nextok: Nextok, tmp_path: Path) -> None:
    path = table(tmp_path / "runs.csv", line=True)
    code, out, _ = nextok("fit", str(path))
    assert code == 0
    assert "not identified" in out
    assert "one line" in " ".join(out.split())
    code, _, err = nextok("fit", str(path), "--out", "fit.json")
    assert code == 2
    assert "no law to write" in err
    assert not (tmp_path / "fit.json").exists()
    assert nextok("fit", str(path), "--plot", "fit.png")[0] == 2


@pytest.mark.parametrize(
    ("flags", "runs", "said"),
    [
        ([], 2, "there are 2 finished runs"),
        (["--loss", "los"], 24, "no column 'los'"),
        (["--tokens", "tokens", "--flops", "flops"], 24, "--tokens and --flops"),
        (["--drop-highest", "30"], 24, "--drop-highest 30"),
    ],
)
def test_what_cannot_be_fitted_is_refused(
    nextok: Nextok, tmp_path: Path, flags: list[str], runs: int, said: str
) -> None:
    code, _, err = nextok("fit", str(table(tmp_path / "runs.csv", runs=runs)), *flags)
    assert code == 2
    assert said in err
