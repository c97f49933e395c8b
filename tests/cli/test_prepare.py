"""`nextok prepare`: shards, a report, and no run."""

import json
from pathlib import Path

from .conftest import TINY, Nextok


def test_report_counts_and_training_takes_the_result(nextok: Nextok) -> None:
    Path("a.txt").write_bytes(b"one\r\ntwo\r\n" * 200)
    Path("b.txt").write_text("", encoding="utf-8")
    code, out, err = nextok("prepare", "a.txt", "b.txt", "--out", "data", "--tokenizer", "byte")
    assert code == 0, err
    for shown in ("400 CR LF", "empty documents left out", "1,600 characters"):
        assert shown in out
    code, _, err = nextok("train", "data", "--out", "run", "--steps", "2", *TINY)
    assert code == 0, err


def test_manifest_as_json(nextok: Nextok) -> None:
    Path("a.txt").write_text("abc " * 300, encoding="utf-8")
    code, out, _ = nextok("prepare", "a.txt", "--out", "data", "--tokenizer", "char", "--json")
    assert code == 0
    manifest = json.loads(out)
    assert manifest["report"]["tokens"] == 1200
    assert manifest == json.loads(Path("data/corpus.json").read_text(encoding="utf-8"))


def test_nothing_named_and_nothing_found_are_refused(nextok: Nextok) -> None:
    assert nextok("prepare", "--out", "data")[0] == 2
    code, _, err = nextok("prepare", "absent.txt", "--out", "data")
    assert code == 2
    assert "absent.txt" in err
    assert not Path("data").exists()
