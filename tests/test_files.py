"""Files are whole or absent, JSON is strict both ways, and text is UTF-8 whatever the locale says."""

import errno
import hashlib
import json
import math
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextok.errors import DiskError, InputError
from nextok.files import (
    append_json_line,
    disk_errors,
    folder_atomically,
    from_json,
    read_json,
    read_json_lines,
    remove_partials,
    sha256_of,
    to_json,
    write_atomically,
    write_json,
    write_text,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- atomic files


def test_a_write_lands_whole_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "a.bin"
    write_atomically(path, lambda stream: stream.write(b"first"))
    write_atomically(path, lambda stream: stream.write(b"second"))
    assert path.read_bytes() == b"second"
    assert names(path.parent) == ["a.bin"]


@pytest.mark.parametrize("problem", [ValueError("no"), KeyboardInterrupt(), SystemExit(3), RuntimeError("x")])
def test_an_exception_in_mid_write_leaves_the_old_file_and_no_part(tmp_path: Path, problem: BaseException) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def break_off(stream: BinaryIO) -> None:
        stream.write(b"new, but")
        raise problem

    with pytest.raises(type(problem)):
        write_atomically(path, break_off)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a.bin"]


def test_until_the_end_a_reader_sees_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    seen = []

    def look(stream: BinaryIO) -> None:
        stream.write(b"new")
        stream.flush()
        seen.append(path.read_bytes())

    write_atomically(path, look)
    assert (seen, path.read_bytes()) == ([b"old"], b"new")


def test_content_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, name=name, real=real: (calls.append(name), real(*a)))
    write_text(tmp_path / "a.txt", "text")
    assert calls == ["fsync", "replace", "fsync"], "the file, the rename, and the folder that holds the rename"
    calls.clear()
    with folder_atomically(tmp_path / "step-5") as aside:
        (aside / "weights").touch()
    assert calls == ["fsync", "fsync", "replace", "fsync"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_said_and_the_old_file_stays(tmp_path: Path, code: int) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def fill_up(_: BinaryIO) -> None:
        raise OSError(code, os.strerror(code))

    with pytest.raises(DiskError, match="the disk is full") as caught:
        write_atomically(path, fill_up)
    assert str(path) in caught.value.message
    assert "Free some space" in caught.value.hint
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a.bin"]


def test_another_refusal_of_the_system_is_told_in_its_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(DiskError, match="Cannot write .*file.a") as caught:
        write_text(tmp_path / "file" / "a", "text")
    assert "Choose a folder" in caught.value.hint


def test_only_the_errors_of_the_system_become_disk_errors(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), disk_errors(tmp_path):
        raise ZeroDivisionError


@pytest.mark.skipif(sys.platform == "win32", reason="file size limits are POSIX")
def test_running_into_the_file_size_limit_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    write_atomically(path, lambda stream: stream.write(b"old"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(DiskError, match="the disk is full"):
            write_atomically(path, lambda stream: stream.write(b"x" * 200_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a.bin"]


def start_and_kill(program: str, *arguments: object) -> None:
    """Runs the program until it prints a line, and kills it there."""
    command = [sys.executable, "-c", program, *(str(each) for each in arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"half\n"
        process.kill()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is POSIX")
def test_a_kill_in_mid_write_leaves_the_old_file_and_a_part_that_is_cleared(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    write_atomically(path, lambda stream: stream.write(b"old"))
    program = """
import pathlib, sys, time
from nextok.files import write_atomically
def write(stream):
    stream.write(b"x" * 100_000); stream.flush(); print("half", flush=True); time.sleep(60)
write_atomically(pathlib.Path(sys.argv[1]), write)
"""
    start_and_kill(program, path)
    assert path.read_bytes() == b"old"
    assert len(names(tmp_path)) == 2
    remove_partials(tmp_path)
    assert names(tmp_path) == ["a.bin"]


def test_two_threads_that_write_one_file_leave_one_of_their_texts_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    contents = [bytes([letter]) * 50_000 for letter in b"ab"]
    both_inside = threading.Barrier(2)
    failures = []

    def write(content: bytes) -> None:
        def slowly(stream: BinaryIO) -> None:
            both_inside.wait(timeout=20)
            for start in range(0, len(content), 1000):
                stream.write(content[start : start + 1000])
            stream.flush()
            both_inside.wait(timeout=20)

        try:
            write_atomically(path, slowly)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert path.read_bytes() in contents
    assert names(tmp_path) == ["a.bin"]


# --- atomic folders


def test_a_folder_appears_whole_with_all_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "step-5"
    with folder_atomically(path) as aside:
        assert not path.exists()
        (aside / "weights").write_bytes(b"w")
        (aside / "plots").mkdir()
        (aside / "plots" / "loss.png").write_bytes(b"p")
    assert (path / "weights").read_bytes() == b"w"
    assert (path / "plots" / "loss.png").read_bytes() == b"p"
    assert names(path.parent) == ["step-5"]


def test_a_folder_replaces_an_older_one_entirely(tmp_path: Path) -> None:
    path = tmp_path / "step-5"
    for name in ("old", "new"):
        with folder_atomically(path) as aside:
            (aside / name).write_text(name, encoding="utf-8")
            assert path.exists() == (name == "new")
    assert (names(path), names(tmp_path)) == (["new"], ["step-5"])


@pytest.mark.parametrize("problem", [ValueError("no"), KeyboardInterrupt(), OSError(errno.ENOSPC, "full")])
def test_an_exception_while_filling_leaves_the_older_folder(tmp_path: Path, problem: BaseException) -> None:
    path = tmp_path / "step-5"
    path.mkdir()
    (path / "old").touch()
    expected = DiskError if isinstance(problem, OSError) else type(problem)
    with pytest.raises(expected), folder_atomically(path) as aside:
        (aside / "half").touch()
        raise problem
    assert (names(path), names(tmp_path)) == (["old"], ["step-5"])


def test_a_rename_that_fails_puts_the_older_folder_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "step-5"
    path.mkdir()
    (path / "old").touch()
    rename, moves = os.replace, []

    def fail_at_the_second(source: Path, target: Path) -> None:
        moves.append(target)
        if len(moves) == 2:
            raise OSError(errno.EIO, "input/output error")
        rename(source, target)

    monkeypatch.setattr("os.replace", fail_at_the_second)
    with pytest.raises(DiskError, match="input/output error"), folder_atomically(path) as aside:
        (aside / "new").touch()
    assert len(moves) == 3
    assert (names(path), names(tmp_path)) == (["old"], ["step-5"])


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is POSIX")
def test_a_kill_between_the_two_renames_loses_no_folder(tmp_path: Path) -> None:
    path = tmp_path / "step-5.partly"
    path.mkdir()
    (path / "old").touch()
    program = """
import os, pathlib, sys, time
from nextok.files import folder_atomically
rename = os.replace
def first_only(source, target):
    rename(source, target); print("half", flush=True); time.sleep(60)
os.replace = first_only
with folder_atomically(pathlib.Path(sys.argv[1])) as aside:
    (aside / "new").touch()
"""
    start_and_kill(program, path)
    assert not path.exists()
    remove_partials(tmp_path)
    assert (names(path), names(tmp_path)) == (["old"], ["step-5.partly"])


def test_clearing_takes_only_what_is_half_written(tmp_path: Path) -> None:
    (tmp_path / ".a.json.12-34.partial").touch()
    (tmp_path / ".step-5.12-34.partial").mkdir()
    (tmp_path / ".step-5.12-34.partial" / "weights").touch()
    (tmp_path / ".step-5.99-34.old.partial").mkdir()
    for kept in ("a.json", ".hidden", "a.partial", "step-5"):
        (tmp_path / kept).mkdir()
    remove_partials(tmp_path)
    assert names(tmp_path) == [".hidden", "a.json", "a.partial", "step-5"]
    assert names(tmp_path / "step-5") == []
    remove_partials(tmp_path / "absent")


# --- JSON

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(values)
def test_json_comes_back_as_it_was(value: Any) -> None:
    assert from_json(to_json(value)) == value
    assert json.loads(to_json(value, indent=2)) == value


def test_numbers_that_are_not_finite_become_null_at_any_depth() -> None:
    value = {"loss": math.nan, "all": [math.inf, (-math.inf, 1.5)], "deep": {"x": {"y": np.float32("nan")}}}
    assert to_json(value) == '{"loss": null, "all": [null, [null, 1.5]], "deep": {"x": {"y": null}}}'


def test_numpy_numbers_paths_and_odd_keys_are_written_plainly() -> None:
    value = {"a": np.int64(3), "b": np.float32(0.5), "c": np.bool_(True), "d": Path("a") / "b", 5: np.float64(0.1)}
    assert from_json(to_json(value)) == {"a": 3, "b": 0.5, "c": True, "d": str(Path("a") / "b"), "5": 0.1}


def test_what_json_cannot_hold_is_an_error_and_not_a_guess() -> None:
    with pytest.raises(TypeError, match="set cannot be written as JSON"):
        to_json({"a": {1, 2}})


@pytest.mark.parametrize(
    "text",
    ["NaN", "[Infinity]", '{"a": -Infinity}', "1e400", "[-1e999]", "", "{:", "{'a': 1}", "[1,]", "{} {}", "01", "nul"]
    + ['"\x01"', "[" * 10_000, '{"a":' * 10_000, "\ufeff{}", "9" * 5000],
    ids=lambda text: text[:12],
)
def test_json_that_is_not_strict_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="."):
        from_json(text)


def test_the_refusal_names_the_constant_or_the_depth() -> None:
    with pytest.raises(ValueError, match="NaN is not JSON"):
        from_json('{"loss": NaN}')
    with pytest.raises(ValueError, match="1e400 is beyond the range"):
        from_json("1e400")
    with pytest.raises(ValueError, match="nested too deeply"):
        from_json("[" * 100_000)


@pytest.mark.parametrize("body", [b"\xb4\xf2", b'{"a": "\xb4\xf2"}', b"\xff\xfe{"])
def test_bytes_of_another_encoding_are_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="."):
        from_json(body)


def test_a_json_file_is_indented_utf_8_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"text": "’語", "loss": math.inf, "zero": -0.0})
    assert path.read_bytes().decode("utf-8") == '{\n  "text": "’語",\n  "loss": null,\n  "zero": -0.0\n}\n'
    assert read_json(path) == {"text": "’語", "loss": None, "zero": 0.0}


def test_a_lone_surrogate_cannot_stop_a_file_from_being_written(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", ["\ud83d", "\U0001f44d"])
    assert read_json(tmp_path / "a.json") == ["?", "\U0001f44d"]
    write_text(tmp_path / "a.txt", "a\ud83db")
    assert (tmp_path / "a.txt").read_bytes() == b"a?b"


@pytest.mark.parametrize("content", [b"", b"{", b"[NaN]", b"\xb4\xf2", b"[" * 20_000])
def test_a_file_that_is_not_json_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.json is not valid JSON: "):
        read_json(path)


def test_a_json_file_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Cannot read .*none\.json: No such file"):
        read_json(tmp_path / "none.json")


def test_files_are_utf_8_whatever_the_locale(tmp_path: Path) -> None:
    program = """
import locale, pathlib, sys
from nextok import files
print(locale.getpreferredencoding(False))
folder = pathlib.Path(sys.argv[1])
files.write_json(folder / "a.json", {"text": "\\u2019\\u8a9e"})
files.write_text(folder / "a.txt", "\\u2019\\u8a9e")
with (folder / "a.jsonl").open("wb") as stream:
    files.append_json_line(stream, {"text": "\\u2019\\u8a9e"})
assert files.read_json(folder / "a.json") == files.read_json_lines(folder / "a.jsonl")[0]
"""
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, check=True, text=True, encoding="ascii")
    assert done.stdout.strip().lower().replace("-", "") != "utf8", "this machine cannot show another locale"
    assert (tmp_path / "a.txt").read_bytes() == "’語".encode()
    assert read_json(tmp_path / "a.json") == {"text": "’語"}


# --- JSON lines


def append(path: Path, *records: dict[str, object]) -> None:
    with path.open("ab") as stream:
        for record in records:
            append_json_line(stream, record)


def test_records_come_back_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    records = [{"step": 1, "loss": math.nan}, {"step": 2, "text": "one\u2028two\r\n\x85three"}]
    append(path, *records)
    assert path.read_bytes().count(b"\n") == 2
    assert read_json_lines(path) == [{"step": 1, "loss": None}, records[1]]


def test_a_record_is_with_the_system_before_the_next_one_is_made(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with path.open("ab") as stream:
        append_json_line(stream, {"step": 1})
        assert read_json_lines(path) == [{"step": 1}]


def test_a_last_line_cut_anywhere_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    append(path, {"step": 1}, {"step": 2, "text": "語"})
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for length in range(first, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert read_json_lines(path) == [{"step": 1}]
    path.write_bytes(whole[:-1])
    assert len(read_json_lines(path)) == 2


@pytest.mark.parametrize("line", [b"{", b'{"loss": NaN}', b"\xb4\xf2", b"\0\0"])
def test_a_broken_line_in_the_middle_is_refused_with_its_number(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1}\n\n' + line + b'\n{"step": 2}\n')
    with pytest.raises(InputError, match=r"metrics\.jsonl, line 3, is not valid JSON"):
        read_json_lines(path)


@pytest.mark.parametrize("line", [b"[1]", b"5", b'"text"', b"null"])
def test_a_line_that_is_no_object_is_refused_with_its_number(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1}\n' + line + b"\n")
    with pytest.raises(InputError, match="line 2, is not a JSON object"):
        read_json_lines(path)


def test_lines_of_a_file_that_is_not_there_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Cannot read .*none\.jsonl: No such file"):
        read_json_lines(tmp_path / "none.jsonl")


def test_an_empty_file_has_no_records(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").touch()
    assert read_json_lines(tmp_path / "metrics.jsonl") == []


def test_the_fingerprint_is_that_of_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"abc" * 100_000)
    assert sha256_of(path) == hashlib.sha256(b"abc" * 100_000).hexdigest()
