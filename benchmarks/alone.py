"""nextok by itself, for `decode.py`: shares of this machine's limits, streams, long contexts, start and memory.

Each is measured in a process of its own, as a user would start it.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nextok.interop import write_directory
from nextok.model import build, weight_arrays
from nextok.spec import preset_config
from nextok.tokenizer import char_tokenizer

Row = dict[str, Any]

SHARES = {"fp32": 0.90, "bf16": 0.85, "int8": 0.80, "int4": 0.70}
STREAMS = {("bf16", 8): 3.0, ("bf16", 16): 4.5, ("int8", 8): 3.0, ("int8", 16): 4.0}
FAR = {"int8": 0.75}
FIRST_TOKEN_S, COMPILE_S, MEMORY_MB = 2.5, 20.0, 150.0

_BARE = """
import torch, numba
print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS:")))
"""
_DECODING = """
import gc, sys
from pathlib import Path
import numpy as np
from nextok.engine import NumbaDecoder, pack_model
from nextok.interop import open_runnable
path, precision, threads = sys.argv[1:]
stored = open_runnable(Path(path))
config = stored.config
packed = pack_model(config, stored.arrays, precision)
decoder = NumbaDecoder(packed, 1, threads=int(threads))
del stored
ids = np.random.default_rng(0).integers(0, config.vocab_size, config.context - 1)
decoder.prefill(0, ids)  # to the end: pages of the cache that were never written take no memory
decoder.step([0], [0])
gc.collect()
cached = 2 * config.n_layers * config.n_kv_heads * config.d_head * config.context * (4 if precision == "fp32" else 2)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(*(int(status[name].split()[0]) for name in ("VmRSS", "VmHWM")), packed.bytes + cached)
"""
_FIRST = """
from nextok.benchmark import find_subject
from nextok.engine import NumbaDecoder
decoder = NumbaDecoder(find_subject("nano").pack("int8"), 1)
decoder.prefill(0, [1, 2, 3])
decoder.step([0], [4])
"""


def own_rows(directory: Path, *, seconds: float, threads: int) -> Iterator[Row]:
    """Yields shares of the read speed, streams beside one, and a late position beside an early one: `nextok bench`."""
    command = ["-m", "nextok", "bench", str(directory), "--json", f"--seconds={seconds}", f"--threads={threads}"]
    found = json.loads(_run(command))
    limit = found["limits"]["read_bytes_per_s"] / 1e9
    yield {"what": f"read speed, GB/s ({found['limits']['read_way']})", "ours": limit}
    for row in found["precisions"]:
        yield from _own_rows(row, row["precision"])


def _own_rows(row: Row, precision: str) -> Iterator[Row]:
    near, *others = row["decoding"]
    speed = near["tokens_per_s"]
    share = {"what": f"{precision}: share of the read speed", "ours": speed, "value": row["share_of_read"]}
    yield {**share, "target": SHARES[precision]}
    for each in others:
        if each["streams"] > 1:
            what, target = f"{each['streams']} streams beside one", STREAMS.get((precision, each["streams"]))
        else:
            what, target = f"position {each['position']:,} beside {near['position']}", FAR.get(precision)
        known = {} if target is None else {"target": target}
        figure = each["tokens_per_s"]
        yield {"what": f"{precision}: {what}", "ours": figure, "value": figure / speed, **known}
    prefill = {"what": f"{precision}: prefill {row['prefill_tokens']}, share of matrix products"}
    yield {**prefill, "ours": row["prefill_tokens_per_s"], "value": row["share_of_matmul"]}


def start_rows(folder: Path, *, repeats: int) -> Iterator[Row]:
    """Yields the time to the first token of `nextok generate` on the lesson's model, and of compiling everything."""
    lesson, tokenizer = folder / "lesson", char_tokenizer("abcdefghijklmnopqrstuvwxyz .", end_of_text=False)
    config = preset_config("lesson-a", vocab_size=tokenizer.vocab_size)
    write_directory(lesson, config, weight_arrays(build(config, 0)), tokenizer)
    command = ["-m", "nextok", "generate", str(lesson), "--prompt", "abc", "--max-new-tokens", "1"]
    _run(command)
    first = statistics.median(_seconds(command) for _ in range(repeats))
    yield {"what": "first token of the lesson's model, s", "value": first, "target": FIRST_TOKEN_S, "at_most": True}
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = (_seconds(["-c", _FIRST], XDG_CACHE_HOME=cache) for _ in range(2))
    yield {"what": "compiling the first time, s", "value": cold - warm, "target": COMPILE_S, "at_most": True}


def memory_rows(directory: Path, *, threads: int) -> Iterator[Row]:
    """Yields what a process that decodes holds beyond weights, a full cache, torch and Numba: millions of bytes."""
    if not Path("/proc/self/status").exists():
        print("Memory is left out: this system does not tell it.")
        return
    bare = int(_run(["-c", _BARE])) * 1024
    for precision in SHARES:
        held, peak, own = (
            int(each) for each in _run(["-c", _DECODING, str(directory), precision, str(threads)]).split()
        )
        beyond = (held * 1024 - bare - own) / 1e6
        row = {"what": f"{precision}: memory beyond weights, cache and runtime, MB", "value": beyond, "at_most": True}
        yield {**row, "target": MEMORY_MB, "peak_beyond_mb": (peak * 1024 - bare - own) / 1e6}


def _seconds(arguments: list[str], **environment: str) -> float:
    started = time.perf_counter()
    _run(arguments, **environment)
    return time.perf_counter() - started


def _run(arguments: list[str], **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=os.environ | environment,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments[:4])} failed: {done.stderr.strip()[-300:]}")
    return done.stdout
