"""Programs that run an exported model, a file each: what it refuses, known before it is started, and a trial.

Not here: writing the files they read (`nextok.conversion.convert`). No engine is needed to ask what it would refuse.
"""

from nextok.conversion.engines.check import ENGINES, check_engine, find_engine, findings
from nextok.conversion.engines.engine import Engine
from nextok.conversion.engines.findings import EngineReport, Finding, Trial, Verdict

__all__ = [
    "ENGINES",
    "Engine",
    "EngineReport",
    "Finding",
    "Trial",
    "Verdict",
    "check_engine",
    "find_engine",
    "findings",
]
