"""What the machine is said to have: every limit counts, and odd content of a system file is no answer, not a crash."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nextok import machine

GIB = 1024**3


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts empty folders in place of the system's own, on a machine of eight cores without limits."""
    for folder in ("cgroup", "proc/self"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setattr(machine, "_CGROUP", tmp_path / "cgroup")
    monkeypatch.setattr(machine, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(machine, "_address_space_bytes", lambda: None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    return tmp_path


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".", 1)
        path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        ("max 100000\n", 8),
        ("200000 100000\n", 2),
        ("150000 100000\n", 1),
        ("50000 100000\n", 1),
        ("9900000 100000\n", 8),
        ("max", 8),
        ("", 8),
        ("200000", 8),
        ("200000 0", 8),
        ("0 100000", 8),
        ("-1 100000", 8),
        ("two hundred", 8),
        ("1 2 3", 8),
        ("2e5 1e5", 8),
        ("\0\ufffd", 8),
    ],
)
def test_cores_are_the_smaller_of_affinity_and_quota(system: Path, quota: str, cores: int) -> None:
    write(system / "cgroup", cpu_max=quota)
    assert machine.usable_cores() == cores


def test_without_a_quota_cores_are_those_of_the_affinity(system: Path) -> None:
    assert machine.usable_cores() == 8


def test_without_affinity_cores_are_those_of_the_machine(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert machine.usable_cores() == 1
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert machine.usable_cores() == 3


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="affinity is of Linux")
def test_a_process_bound_to_one_core_sees_one() -> None:
    program = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    program += "from nextok import machine; print(machine.usable_cores())"
    assert subprocess.check_output([sys.executable, "-c", program]).strip() == b"1"


def meminfo(folder: Path, available_kib: int) -> None:
    text = f"MemTotal:       65536000 kB\nMemAvailable:   {available_kib} kB\nMemAvailableOdd: 5 kB\n"
    (folder / "proc" / "meminfo").write_text(text, encoding="ascii")


def test_memory_is_the_smallest_of_what_machine_and_group_leave(system: Path) -> None:
    meminfo(system, available_kib=4 * 1024**2)
    assert machine.available_memory_bytes() == 4 * GIB
    write(system / "cgroup", memory_max=f"{3 * GIB}\n", memory_current=f"{1 * GIB}\n")
    assert machine.available_memory_bytes() == 2 * GIB


def test_files_kept_in_memory_do_not_count_as_used(system: Path) -> None:
    write(system / "cgroup", memory_max=str(8 * GIB), memory_current=str(7 * GIB))
    write(system / "cgroup", memory_stat=f"anon {1 * GIB}\nfile {6 * GIB}\ninactive_file {5 * GIB}\n")
    assert machine.available_memory_bytes() == 6 * GIB


def test_a_group_over_its_limit_has_nothing_left(system: Path) -> None:
    write(system / "cgroup", memory_max=str(GIB), memory_current=str(2 * GIB))
    assert machine.available_memory_bytes() == 0


@pytest.mark.parametrize("limit", ["max", "", "-5", "lots", "1e9", "\ufffd"])
def test_a_group_limit_that_is_no_number_is_no_limit(system: Path, limit: str) -> None:
    meminfo(system, available_kib=1024)
    write(system / "cgroup", memory_max=limit, memory_current="5")
    assert machine.available_memory_bytes() == 1024**2


@pytest.mark.parametrize("text", ["", "MemAvailable:\n", "MemAvailable: lots kB\n", "MemAvailable 5 kB\n", "\0"])
def test_a_system_that_does_not_tell_gives_no_number(system: Path, text: str) -> None:
    (system / "proc" / "meminfo").write_text(text, encoding="utf-8")
    assert machine.available_memory_bytes() is None


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux tells")
def test_an_address_space_limit_counts_less_what_is_taken() -> None:
    program = """
import resource
from nextok import machine
resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))
print(machine.available_memory_bytes())
"""
    left = int(subprocess.check_output([sys.executable, "-c", program]))
    assert 0 < left < 2**31 - 2**23, "an interpreter alone takes more than 8 MiB of addresses"


def test_this_machine_is_described_in_plain_values() -> None:
    described = machine.describe()
    assert list(described) == ["system", "machine", "processor", "cores", "memory_bytes", "python"]
    assert described["cores"] == machine.usable_cores() >= 1
    assert described["python"] == ".".join(map(str, sys.version_info[:3]))
    assert described["processor"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("processor\t: 0\nmodel name\t: A: Fast One\nmodel name\t: B\n", "A: Fast One"),
        ("model name\nmodel name :\nmodel name : C", "C"),
    ],
)
def test_the_processor_has_the_name_the_system_gives(system: Path, text: str, name: str) -> None:
    (system / "proc" / "cpuinfo").write_text(text, encoding="utf-8")
    assert machine.describe()["processor"] == name


def test_a_processor_without_a_name_is_unknown(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.processor", lambda: "")
    assert machine.describe()["processor"] == "unknown"


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX tells")
def test_the_peak_counts_memory_that_was_given_back() -> None:
    program = """
from nextok import machine
before = machine.peak_memory_bytes()
block = bytearray(b"x") * 100_000_000
del block
print(machine.peak_memory_bytes() - before)
"""
    ballast = bytearray(b"x") * 150_000_000  # a large parent is no business of its child's
    assert 80e6 < int(subprocess.check_output([sys.executable, "-c", program])) < 120e6
    del ballast


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX tells")
def test_the_peak_is_told_without_the_files_of_linux(system: Path) -> None:
    peak = machine.peak_memory_bytes()
    assert peak is not None
    assert 5e6 < peak < 1e11


def test_cache_folder_is_the_one_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NEXTOK_CACHE", str(tmp_path))
    assert machine.cache_folder() == tmp_path
    monkeypatch.delenv("NEXTOK_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert machine.cache_folder() == tmp_path / "xdg" / "nextok"
