"""What is found out about a model and an engine: by rules, and by a trial where the engine is installed."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["works", "loads but differs", "will not load"]

_FROM_BEST_TO_WORST: tuple[Verdict, ...] = ("works", "loads but differs", "will not load")


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule that decides what the engine does with the model."""

    verdict: Verdict
    """What comes of it."""
    sentence: str
    """Why, and what to do about it where something can be done."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """The engine's own greedy text beside nextok's, over a few prompts."""

    prompts: int = 0
    """How many prompts it continued."""
    tokens: int = 0
    """Tokens it generated in all."""
    equal_tokens: int = 0
    """Those that nextok generates too, counted up to the first that differs in each prompt."""
    max_logprob_difference: float = 0.0
    """Largest difference, in nats, between the log-probability it gave a token and nextok's."""
    max_regret: float = 0.0
    """How far below nextok's best token the worst of its choices lies, in nats. Near 0 where only a tie was broken."""
    problem: str = ""
    """Why the trial failed, in one sentence; empty where it passed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineReport:
    """What an engine does with one model."""

    engine: str
    """Its name, as written after `--check`."""
    findings: tuple[Finding, ...]
    """What the rules say; at least one."""
    version: str | None
    """The version installed here; None where it is not installed."""
    install: str
    """The command that installs it."""
    trial: Trial | None
    """None where the engine is not installed, or a rule says that it will not load the model."""

    @property
    def verdict(self) -> Verdict:
        """Returns the worst verdict of the rules."""
        return max((finding.verdict for finding in self.findings), key=_FROM_BEST_TO_WORST.index)

    @property
    def failed(self) -> bool:
        """Says whether the engine cannot be used with the model, by rule or by trial."""
        return self.verdict == "will not load" or (self.trial is not None and bool(self.trial.problem))
