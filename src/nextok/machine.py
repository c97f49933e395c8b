"""What this machine has: cores and memory that this process may use, and a description to keep with a run."""

import os
import platform
import sys
from pathlib import Path


def usable_cores() -> int:
    """Returns the cores this process may run on: affinity and control-group quota respected, at least 1."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    quota = _cgroup_value("cpu.max")
    if quota is not None and not quota.startswith("max"):
        limit_us, period_us = quota.split()
        cores = min(cores, max(1, int(limit_us) // int(period_us)))
    return max(1, cores)


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
    try:
        import resource  # noqa: PLC0415 - POSIX only
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _meminfo_bytes(field: str) -> int | None:
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return None


def _cgroup_value(name: str) -> str | None:
    try:
        return Path("/sys/fs/cgroup", name).read_text(encoding="ascii").strip()
    except OSError:
        return None


def _cgroup_left_bytes() -> int | None:
    limit, used = _cgroup_value("memory.max"), _cgroup_value("memory.current")
    if limit is None or used is None or limit == "max":
        return None
    return max(0, int(limit) - int(used))


def _address_space_bytes() -> int | None:
    try:
        import resource  # noqa: PLC0415 - POSIX only
    except ImportError:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


def _processor_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"
