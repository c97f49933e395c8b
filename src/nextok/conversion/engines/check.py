"""`check_engine`: what an engine does with exported files, by its rules and, where it is installed, by a trial."""

import importlib.util
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from nextok.config import unknown_name
from nextok.conversion.convert import Precision, write_model
from nextok.conversion.engines import child
from nextok.conversion.engines.ctranslate2 import CTRANSLATE2
from nextok.conversion.engines.engine import Answer, Engine, Request
from nextok.conversion.engines.findings import EngineReport, Finding, Trial
from nextok.conversion.engines.llama_cpp import LLAMA_CPP
from nextok.conversion.engines.transformers import TRANSFORMERS
from nextok.conversion.engines.trial import judge, new_tokens, sample_prompts
from nextok.conversion.engines.vllm import VLLM
from nextok.errors import ConfigError, NextokError
from nextok.interop.source import kind_of, open_runnable
from nextok.interop.stored import StoredModel
from nextok.model import filled
from nextok.spec import ModelConfig
from nextok.tokenizer import Tokenizer

ENGINES: Mapping[str, Engine] = {engine.name: engine for engine in (TRANSFORMERS, LLAMA_CPP, CTRANSLATE2, VLLM)}

# Nats. Where weights are rounded, llama.cpp rounds activations too.
_TOLERANCES: Mapping[Precision, float] = {"f32": 0.0, "f16": 2e-2, "q8_0": 0.2, "q4_0": 0.5}


def find_engine(name: str) -> Engine:
    """Returns the engine of that name.

    Raises:
        ConfigError: if there is none, with the nearest name.
    """
    if name not in ENGINES:
        near = unknown_name(name, ENGINES).hint.replace("Known names", "Engines")
        raise ConfigError(f"There is no engine {name!r} to check with.", near)
    return ENGINES[name]


def findings(name: str, config: ModelConfig, tokenizer: Tokenizer | None) -> tuple[Finding, ...]:
    """Returns what the rules of an engine say of a model, before a file of it exists.

    Raises:
        ConfigError: if there is no such engine.
    """
    return tuple(find_engine(name).rules(config, tokenizer))


def check_engine(name: str, path: Path, *, precision: Precision = "f32") -> EngineReport:
    """Returns what an engine does with the model at a path: rules, and a trial where the engine is installed.

    The engine runs in a process of its own. It gets the files themselves where it reads their format, and a temporary
    conversion in float32 otherwise.

    Args:
        name: One of `ENGINES`.
        path: A run directory, a directory of transformers, or a GGUF file.
        precision: That of the matrices of a GGUF file; decides how many nats a log-probability may differ by.

    Raises:
        ConfigError: if there is no such engine.
        CheckpointError: if there is no model at the path, or it cannot be read.
    """
    engine = find_engine(name)
    stored = open_runnable(path)
    report = EngineReport(
        engine=name,
        findings=tuple(engine.rules(stored.config, stored.tokenizer)),
        version=_version(engine),
        install=f"pip install {' '.join(engine.modules)}",
        trial=None,
    )
    if report.version is None or report.verdict == "will not load":
        return report
    return replace(report, trial=_try(engine, path, stored, precision))


def _version(engine: Engine) -> str | None:
    if not all(importlib.util.find_spec(module) for module in engine.modules):
        return None
    try:
        return metadata.version(engine.modules[0])
    except metadata.PackageNotFoundError:  # the module came in a package of another name
        return "of unknown version"


def _try(engine: Engine, path: Path, stored: StoredModel, precision: Precision) -> Trial:
    prompts = sample_prompts(stored.config, stored.tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        files, tolerance = path, _TOLERANCES[precision]
        if (kind_of(path) == "gguf") != (engine.format == "gguf"):
            files, tolerance = Path(folder) / "model", _TOLERANCES["f32"]
            write_model(open_runnable(path), files, engine.format)
        request = Request(
            path=str(files.absolute()),
            prompts=prompts,
            new_tokens=new_tokens(stored.config),
            context=stored.config.context,
        )
        try:
            answers: list[Answer] = child.call(engine.answer, request)
        except NextokError as error:
            return Trial(problem=f"It could not run the model. {error.message}")
    end = None if stored.tokenizer is None else stored.tokenizer.end_of_text
    return judge(filled(stored.config, stored.arrays), request, answers, end, max(tolerance, engine.tolerance))
