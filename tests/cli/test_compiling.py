import pytest

from nextok.cli import compiling
from nextok.cli.compiling import announce_compiling


@pytest.mark.parametrize(
    ("backend", "compiled", "said"),
    [("auto", False, True), ("numba", False, True), ("torch", False, False), ("auto", True, False)],
)
def test_compiling_is_announced_before_it_happens(
    monkeypatch, capsys, backend: str, compiled: bool, said: bool
) -> None:
    monkeypatch.setattr(compiling, "is_compiled", lambda: compiled)
    announce_compiling(backend)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Compiling once for this machine") == said
