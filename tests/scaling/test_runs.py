"""Tables of runs: what is read, what is listed, and what is refused with its line."""

from pathlib import Path

import numpy as np
import pytest

from nextok.errors import InputError
from nextok.scaling import runs as rooms_runs
from nextok.scaling.runs import NO_SEED, Columns, read_runs, runs_of

TABLE = """params,tokens,flops,loss,seed,status
1000,20000,1e9,4.5,0,done
1000,20000,1e9,4.6,1,ok
2000,40000,1e9,nan,0,diverged
2000,40000,1e9,4.0,0,Done
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "runs.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_finished_runs_are_read_and_the_others_listed(tmp_path: Path) -> None:
    runs = read_runs(written(tmp_path, TABLE))
    np.testing.assert_array_equal(runs.N, [1000, 1000, 2000])
    np.testing.assert_array_equal(runs.D, [20_000, 20_000, 40_000])
    np.testing.assert_array_equal(runs.loss, [4.5, 4.6, 4.0])
    np.testing.assert_array_equal(runs.seed, [0, 1, 0])
    np.testing.assert_array_equal(runs.line, [2, 3, 5])
    np.testing.assert_array_equal(runs.C, 6 * runs.N * runs.D)
    assert [(each.line, each.reason) for each in runs.left_out] == [(4, "its status is 'diverged'")]


def test_tokens_follow_from_compute(tmp_path: Path) -> None:
    path = written(tmp_path, "Model Size,Training FLOP,loss\n1e3,1.2e8,4.5\n")
    runs = read_runs(path, Columns(params="Model Size", flops="Training FLOP"))
    assert runs.D[0] == 1.2e8 / 6 / 1e3
    assert runs.seed[0] == NO_SEED


def test_without_a_column_of_tokens_the_compute_is_taken(tmp_path: Path) -> None:
    assert read_runs(written(tmp_path, "params,flops,loss\n10,6000,2\n")).D[0] == 100


@pytest.mark.parametrize("loss", ["nan", "", "inf", "NaN"])
def test_a_run_without_a_loss_is_listed(tmp_path: Path, loss: str) -> None:
    runs = read_runs(written(tmp_path, f"params,tokens,loss\n10,100,{loss}\n10,200,3\n"))
    assert len(runs) == 1
    assert runs.left_out[0].reason == "it has no finite loss"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("params,tokens,loss\n10,x,3\n", r"line 2: tokens = 'x'"),
        ("params,tokens,loss\n10,100,3\n0,100,3\n", r"line 3: params = '0'"),
        ("params,tokens,loss\n10,100,-3\n", r"line 2: loss = '-3'"),
        ("params,tokens,loss\n1_0,100,3\n", r"params = '1_0'"),
        ("params,tokens,loss\n10,1e999,3\n", r"tokens = '1e999'"),
        ("params,tokens,loss\n10,100\n", r"line 2, has 2 fields"),
        ("params,tokens,loss,seed\n10,100,3,1.5\n", r"seed '1\.5'"),
        ("params,tokens\n10,100\n", r"no column 'loss'"),
        ("params,loss\n10,100\n", r"no column 'flops'"),
        ("params,params,tokens,loss\n1,1,1,1\n", r"two columns named 'params'"),
        ('params,tokens,loss\n"10,100,3\n', r"is not CSV"),
        ("", r"no column 'params'; it has none"),
    ],
)
def test_what_is_no_such_table_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_runs(written(tmp_path, text))


def test_a_table_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "params,tokens,loss\n" + "10,100,3\n" * 4)
    monkeypatch.setattr(rooms_runs, "MOST_RUNS", 3)
    with pytest.raises(InputError, match="more than 3 runs"):
        read_runs(path)
    monkeypatch.setattr(rooms_runs, "MOST_BYTES", 10)
    with pytest.raises(InputError, match="at most 10"):
        read_runs(path)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Cannot read"):
        read_runs(tmp_path / "none.csv")
    (tmp_path / "latin.csv").write_bytes(b"params,tokens,loss\n\xff\n")
    with pytest.raises(InputError, match="is not UTF-8"):
        read_runs(tmp_path / "latin.csv")


def test_a_mark_of_a_spreadsheet_and_empty_lines_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_bytes(b"\xef\xbb\xbfparams,tokens,loss\r\n10,100,3\r\n\r\n20,100,3\r\n")
    assert read_runs(tmp_path / "runs.csv").line.tolist() == [2, 4]


def test_two_sources_of_tokens_are_refused() -> None:
    with pytest.raises(InputError, match="--tokens and --flops"):
        Columns(tokens="tokens", flops="flops")


def test_the_highest_losses_are_left_out_by_name() -> None:
    runs = runs_of([1, 2, 3, 4], [1, 1, 1, 1], [2.0, 5.0, 3.0, 5.0]).without_highest(2)
    assert runs.N.tolist() == [1, 3]
    assert [each.line for each in runs.left_out] == [2, 4]
    with pytest.raises(InputError, match="--drop-highest 2"):
        runs.without_highest(2)


def test_columns_at_hand_are_checked() -> None:
    with pytest.raises(InputError, match="long"):
        runs_of([1], [1, 2], [1])
    with pytest.raises(InputError, match="A D among"):
        runs_of([1], [float("nan")], [1])
