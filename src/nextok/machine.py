"""What this machine has: cores and memory that this process may use, and a description to keep with a run."""

import os
import platform
import sys
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_PROC = Path("/proc")


def usable_cores() -> int:
    """Returns the cores this process may run on: affinity and control-group quota respected, at least 1."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    return max(1, min(cores, _quota_cores() or cores))


def available_memory_bytes() -> int | None:
    """Returns the memory that can still be taken without swapping, or None where the system does not tell."""
    candidates = [_meminfo_bytes("MemAvailable"), _cgroup_left_bytes(), _address_space_bytes()]
    known = [value for value in candidates if value is not None]
    return min(known) if known else None


def describe() -> dict[str, object]:
    """Returns what a run should remember of its machine: system, processor, cores, memory, Python."""
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "processor": _processor_name(),
        "cores": usable_cores(),
        "memory_bytes": _meminfo_bytes("MemTotal"),
        "python": ".".join(str(part) for part in sys.version_info[:3]),
    }


def peak_memory_bytes() -> int | None:
    """Returns the largest resident size this process has had, or None where the system does not tell."""
    kibibytes = _field(_PROC / "self" / "status", "VmHWM:")
    if kibibytes is not None:  # getrusage on Linux counts what the parent had when it started this process
        return kibibytes * 1024
    try:
        import resource  # noqa: PLC0415 - POSIX only
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def cache_folder() -> Path:
    """Returns the folder for what can be made again: NEXTOK_CACHE, or `nextok` in the user's cache folder."""
    named = os.environ.get("NEXTOK_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nextok"


def _quota_cores() -> int | None:
    """Returns the whole cores of the control group's time quota (`cpu.max`: microseconds, period), if it has one."""
    words = _text(_CGROUP / "cpu.max").split()
    limit_us, period_us = (_whole(word) for word in words) if len(words) == 2 else (None, None)
    return max(1, limit_us // period_us) if limit_us and period_us else None


def _meminfo_bytes(field: str) -> int | None:
    kibibytes = _field(_PROC / "meminfo", f"{field}:")
    return None if kibibytes is None else kibibytes * 1024


def _cgroup_left_bytes() -> int | None:
    limit, used = _whole(_text(_CGROUP / "memory.max")), _whole(_text(_CGROUP / "memory.current"))
    if limit is None or used is None:
        return None
    # files read once stay in memory and count as used, but the system gives them up before it swaps
    reclaimable = _field(_CGROUP / "memory.stat", "inactive_file") or 0
    return max(0, limit - max(0, used - reclaimable))


def _address_space_bytes() -> int | None:
    try:
        import resource  # noqa: PLC0415 - POSIX only
    except ImportError:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:
        return None
    pages = _whole(_text(_PROC / "self" / "statm").split(" ")[0]) or 0
    return max(0, soft - pages * resource.getpagesize())


def _processor_name() -> str:
    for line in _text(_PROC / "cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name" and value.strip():
            return value.strip()
    return platform.processor() or "unknown"


def _text(path: Path) -> str:
    """Returns what the system says in a file of its own, "" where it has none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _field(path: Path, name: str) -> int | None:
    """Returns the number after a name at the start of a line, None where there is none."""
    for line in _text(path).splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == name:
            return _whole(words[1])
    return None


def _whole(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
