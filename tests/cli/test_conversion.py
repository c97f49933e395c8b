"""What a person sees of a conversion."""

import io
from pathlib import Path

import pytest

from nextok.cli.conversion import ConversionWatch, show_conversion
from nextok.conversion import Comparison, Conversion, ConvertProgress
from nextok.report import make_console
from nextok.spec import ModelConfig

DONE = Conversion(
    source=Path("runs/a"),
    path=Path("a.gguf"),
    format="gguf",
    precision="q8_0",
    family="llama",
    notes=("One thing is otherwise.",),
    config=ModelConfig(vocab_size=65),
    parameters=1_234_567,
    bytes=2048,
    comparison=Comparison(tokens=128, max_logit_difference=0.0123, argmax_agreement=0.992, mean_kl_nats=3.4e-4),
)


def test_everything_that_was_found_is_shown() -> None:
    out = io.StringIO()
    show_conversion(DONE, make_console(out))
    for told in (
        "GGUF, llama",
        "1,234,567",
        "2.0 KiB, q8_0",
        "128 positions",
        "0.012",
        "99.2%",
        "0.00034",
        "otherwise",
    ):
        assert told in out.getvalue()


@pytest.mark.parametrize(("quiet_seconds", "shown"), [(1e9, False), (0.0, True)])
def test_stages_are_told_where_they_take_long(
    quiet_seconds: float, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = io.StringIO()
    monkeypatch.setattr("nextok.report.progress.QUIET_SECONDS", quiet_seconds)
    with ConversionWatch(make_console(out)) as watch:
        for stage in ("read", "write"):
            for done in (500, 1000):
                watch(ConvertProgress(stage=stage, weights_done=done, weights_total=1000))
    assert ("Reading the model: 1.00k weights" in out.getvalue()) == shown
    assert ("Writing: 1.00k weights" in out.getvalue()) == shown
