"""The programs that `decode.py` compares, each in a process of its own: a line of JSON asks, a line of JSON answers.

A process that is not asked sleeps, so that no library's threads spin beside another's measurement. What each measures:

- decode: new tokens a second after the first one, chosen greedily, text included where the program makes it;
- prefill: prompt tokens a second until the first token is chosen.

nextok: its own `stream`, as `nextok generate` runs it. llama.cpp: its server's timings, inside the process, no HTTP.
CTranslate2 and transformers tell no times: the call for all tokens less the call for one.

python benchmarks/peers.py PROGRAM PRECISION PATH THREADS
"""

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol, Self


class Program(Protocol):
    """One of the programs, with a model loaded."""

    def decode(self, ids: list[int], new: int) -> float:
        """Returns new tokens a second."""

    def prefill(self, ids: list[int]) -> float:
        """Returns prompt tokens a second."""


class Nextok:
    """Ours."""

    modules = ("nextok",)

    def __init__(self, path: str, precision: str, threads: int) -> None:
        from nextok.decode import SamplingConfig, stream
        from nextok.engine import NumbaDecoder, kernels, pack_model
        from nextok.interop import open_runnable

        stored = open_runnable(Path(path))
        packed = pack_model(stored.config, stored.arrays, precision)  # type: ignore[arg-type]
        self._decoder, self._tokenizer = NumbaDecoder(packed, 1, threads=threads), stored.tokenizer
        self._stream, self._options = stream, SamplingConfig
        self.about = kernels()

    def decode(self, ids: list[int], new: int) -> float:
        """Returns new tokens a second, from the first event of the stream to the last."""
        options = self._options(temperature=0.0, max_new_tokens=new, ignore_end=True)
        times = [time.perf_counter() for _ in self._stream(self._decoder, self._tokenizer, ids, options)]
        return (len(times) - 1) / (times[-1] - times[0])

    def prefill(self, ids: list[int]) -> float:
        """Returns prompt tokens a second."""
        started = time.perf_counter()
        self._decoder.prefill(0, ids).argmax()
        seconds = time.perf_counter() - started
        self._decoder.release(0)
        return len(ids) / seconds


class LlamaCpp:
    """llama.cpp as the package xllamacpp brings it; `about` says which instructions that build uses."""

    modules = ("xllamacpp",)

    def __init__(self, path: str, precision: str, threads: int) -> None:
        import xllamacpp

        options = xllamacpp.CommonParams()
        options.model.path = path
        options.n_ctx, options.n_parallel = 0, 1  # the model's own context
        options.cpuparams.n_threads = options.cpuparams_batch.n_threads = threads
        options.fit_params, options.verbosity = False, -1
        self._server = xllamacpp.Server(options)
        self.about = xllamacpp.get_system_info()

    def decode(self, ids: list[int], new: int) -> float:
        """Returns new tokens a second: its clock starts when the first token is there, but its count includes it."""
        timings = self._timings(ids, new)
        return (timings["predicted_n"] - 1) / (timings["predicted_ms"] / 1e3)

    def prefill(self, ids: list[int]) -> float:
        """Returns prompt tokens a second."""
        return self._timings(ids, 1)["prompt_per_second"]

    def _timings(self, ids: list[int], new: int) -> dict[str, float]:
        wanted = {"prompt": ids, "n_predict": new, "temperature": 0, "ignore_eos": True, "cache_prompt": False}
        done = self._server.handle_completions(wanted)
        if "timings" not in done:
            raise RuntimeError(str(done))
        assert done["timings"]["predicted_n"] == new, f"stopped early: {done['timings']}"
        return done["timings"]


class ByDifference:
    """A program that only writes whole answers."""

    def decode(self, ids: list[int], new: int) -> float:
        """Returns new tokens a second."""
        first, all_of_them = self._seconds(ids, 1), self._seconds(ids, new)
        return (new - 1) / (all_of_them - first)

    def prefill(self, ids: list[int]) -> float:
        """Returns prompt tokens a second."""
        return len(ids) / self._seconds(ids, 1)

    def _seconds(self, ids: list[int], new: int) -> float:
        started = time.perf_counter()
        self.write(ids, new)
        return time.perf_counter() - started

    def write(self, ids: list[int], new: int) -> None:
        """Writes so many tokens after the prompt."""
        raise NotImplementedError


class CTranslate2(ByDifference):
    """CTranslate2, from a directory that its own converter wrote."""

    modules = ("ctranslate2", "transformers")

    def __init__(self, path: str, precision: str, threads: int) -> None:
        import ctranslate2

        kind = {"fp32": "float32", "int8": "int8"}[precision]
        self._generator = ctranslate2.Generator(path, device="cpu", compute_type=kind, intra_threads=threads)
        words = json.loads(Path(path, "vocabulary.json").read_text(encoding="utf-8"))
        self._words = words
        self.about = f"compute type {self._generator.compute_type}"

    def write(self, ids: list[int], new: int) -> None:
        """Writes so many tokens after the prompt."""
        prompt = [self._words[each] for each in ids]
        done = self._generator.generate_batch(
            [prompt], max_length=new, min_length=new, sampling_topk=1, beam_size=1, include_prompt_in_result=False
        )
        assert len(done[0].sequences_ids[0]) == new, "stopped early"


class Transformers(ByDifference):
    """`generate` of transformers with its own cache."""

    modules = ("transformers", "torch")

    def __init__(self, path: str, precision: str, threads: int) -> None:
        import torch
        import transformers

        torch.set_num_threads(threads)
        transformers.utils.logging.disable_progress_bar()
        self._torch = torch
        self._model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        self._model.generation_config.eos_token_id = None
        self._model.generation_config.pad_token_id = 0
        self.about = f"torch {torch.__version__}"

    def write(self, ids: list[int], new: int) -> None:
        """Writes so many tokens after the prompt."""
        ids_1T = self._torch.tensor([ids])
        with self._torch.inference_mode():
            done = self._model.generate(
                ids_1T, attention_mask=self._torch.ones_like(ids_1T), max_new_tokens=new, do_sample=False
            )
        assert done.shape[1] == len(ids) + new, "stopped early"


PROGRAMS: dict[str, Any] = {
    "nextok": Nextok,
    "llama.cpp": LlamaCpp,
    "CTranslate2": CTranslate2,
    "transformers": Transformers,
}


def missing(program: str) -> str:
    """Returns the first module that a program lacks here, or nothing."""
    return next((module for module in PROGRAMS[program].modules if not importlib.util.find_spec(module)), "")


def version(program: str) -> str:
    """Returns the version of its package."""
    try:
        return metadata.version(PROGRAMS[program].modules[0])
    except metadata.PackageNotFoundError:
        return "of unknown version"


class Peer:
    """A program in its process; a context manager.

    Args:
        program: One of `PROGRAMS`.
        precision: As the program's class takes it.
        path: The model, in the program's format.
        threads: Cores it may use.
    """

    def __init__(self, program: str, precision: str, path: Path, threads: int) -> None:
        self.name = f"{program} {precision}"
        command = [sys.executable, __file__, program, precision, str(path), str(threads)]
        environment = dict(os.environ)
        if program == "nextok":
            environment.setdefault("GOMP_SPINCOUNT", "50000")  # as the command `nextok` sets it
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", env=environment
        )
        self.about = str(self._answer())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def ask(self, what: str, ids: Sequence[int], *more: int) -> float:
        """Returns what `decode` or `prefill` of the program measures."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([what, list(ids), *more]) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"error": f"{self.name} ended with code {self._process.wait()}"}
        if "error" in answer:
            raise RuntimeError(f"{self.name}: {answer['error']}")
        return answer["answer"]


def _serve(program: str, precision: str, path: str, threads: str) -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints must not come between the answers
    loaded: list[Any] = []

    def load() -> str:
        loaded.append(PROGRAMS[program](path, precision, int(threads)))
        return loaded[0].about

    _tell(answers, load)
    for line in sys.stdin:
        what, *arguments = json.loads(line)
        _tell(answers, lambda: getattr(loaded[0], what)(*arguments))  # noqa: B023 - called at once


def _tell(answers: Any, work: Callable[[], object]) -> None:
    try:
        told = {"answer": work()}
    except Exception as error:  # told to the process that asked
        told = {"error": f"{type(error).__name__}: {error}"}
    answers.write(json.dumps(told) + "\n")
    answers.flush()


if __name__ == "__main__":
    _serve(*sys.argv[1:])
