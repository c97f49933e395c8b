"""`nextok plan`: what a person sees, and how it ends."""

import json
from pathlib import Path

import pytest

from nextok.scaling import Covered, FittedLaw, ParametricLaw

from .conftest import Nextok


def test_a_budget_of_compute_to_rules_and_a_model(nextok: Nextok) -> None:
    code, out, err = nextok("plan", "--flops", "1e20")
    assert (code, err) == (0, "")
    for shown in ("sqrt(1e20 / 120) = 912.9M", "20:1 *", "besiroglu", "810.9M-898.3M", "A model for it, by 20:1"):
        assert shown in out
    assert max(len(line) for line in out.splitlines()) <= 80


def test_json_is_one_object(nextok: Nextok) -> None:
    code, out, _ = nextok("plan", "--parameters", "124439808", "--recipe", "classic", "--json")
    assert code == 0
    read = json.loads(out)
    assert read["model"]["counts"]["parameters"] == 124_439_808
    assert read["chosen"] == "20:1"


def test_minutes_are_measured_on_this_machine(nextok: Nextok, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nextok.benchmark.matmul_flops_per_s", lambda kind, seconds: 100e9)
    code, out, err = nextok("plan", "--minutes", "10", "--json")
    assert code == 0 and "Measuring" in err
    assert json.loads(out)["budget"]["amount"] == pytest.approx(600 * 40e9)


def test_all_the_rest_in_one_plan(nextok: Nextok) -> None:
    code, out, _ = nextok(
        "plan", "--tokens", "30B", "--device", "a100", "--devices", "8", "--unique-tokens", "10B", "--sources",
        "--smaller", "0.1", "--inference-tokens", "1T", "--plot", "plan.png",
    )  # fmt: skip
    assert code == 0
    for shown in ("muennighoff", "8 x a100", "at MFU 0.43 to 0.14", "epochs", "The same loss with 0.1 x N*", "never"):
        assert shown in out
    assert "Cheapest to train and serve" in out and "Kaplan et al. 2020" in out
    assert Path("plan.png").stat().st_size > 10_000


def test_a_fit_is_read_from_its_file(nextok: Nextok) -> None:
    law = ParametricLaw(E=1.2, A=90.0, B=300.0, alpha=0.38, beta=0.36)
    fit = FittedLaw(
        law=law,
        covered=Covered(C=(2e12, 2e13)),
        counting="matmul",
        runs=15,
        draws=((1.1, 85.0, 300.0, 0.38, 0.36), (1.3, 95.0, 300.0, 0.38, 0.36)),
    )
    fit.write(Path("fit.json"))
    code, out, _ = nextok("plan", "--flops", "6e13", "--fit", "fit.json", "--vocab-size", "256")
    assert code == 0
    for shown in ("own-fit *", "80 % interval of its loss", "N counts total parameters there", "N (matmul)"):
        assert shown in out
    code, _, err = nextok("plan", "--flops", "6e13", "--fit", "none.json")
    assert code == 2 and "none.json" in err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "There is no budget"),
        (["--flops", "1e20", "--tokens", "1B"], "given 2 times"),
        (["--flops", "1e20", "--rule", "bestroglu"], "besiroglu"),
        (["--flops", "1e12", "--vocab-size", "50257"], "50,257"),
        (["--flops", "1e20", "--counting", "all"], "counting"),
    ],
)
def test_bad_input_is_one_sentence(nextok: Nextok, flags: list[str], said: str) -> None:
    code, out, err = nextok("plan", *flags)
    assert (code, out) == (2, "")
    assert said in err and "Traceback" not in err
