"""What a report concludes from its rules and its trial."""

import pytest

from nextok.conversion.engines import EngineReport, Finding, Trial

GOOD, ODD, BAD = Finding("works", ""), Finding("loads but differs", ""), Finding("will not load", "")


@pytest.mark.parametrize(
    ("findings", "trial", "verdict", "failed"),
    [
        ((GOOD,), None, "works", False),
        ((GOOD, ODD), None, "loads but differs", False),
        ((ODD, BAD, GOOD), None, "will not load", True),
        ((GOOD,), Trial(prompts=1), "works", False),
        ((GOOD,), Trial(problem="It crashed."), "works", True),
    ],
)
def test_the_worst_finding_is_the_verdict_and_a_failed_trial_fails(findings, trial, verdict, failed) -> None:
    report = EngineReport(engine="x", findings=findings, version=None, install="", trial=trial)
    assert (report.verdict, report.failed) == (verdict, failed)
