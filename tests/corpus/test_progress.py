"""Progress reports what has passed by, rarely, and the end always."""

import pytest

from nextok.corpus.progress import watched


@pytest.fixture
def every_item(monkeypatch):
    monkeypatch.setattr("nextok.corpus.progress.REPORT_EVERY_S", 0.0)


def test_items_pass_unchanged_and_each_report_says_what_is_done(every_item):
    reports, done = [], iter(range(10, 100, 10))
    assert list(watched("abc", "scan", lambda _: next(done), 30, reports.append)) == ["a", "b", "c"]
    assert [report.bytes_done for report in reports] == [10, 20, 30, 30]
    assert {(report.stage, report.bytes_total) for report in reports} == {("scan", 30)}
    seconds = [report.seconds for report in reports]
    assert seconds == sorted(seconds)
    assert seconds[0] >= 0


def test_quick_items_are_reported_once_at_the_end():
    reports = []
    list(watched(range(1000), "encode", lambda _: 0, 7, reports.append))
    assert reports[-1].bytes_done == 7
    assert len(reports) < 1000


def test_silence_is_possible():
    assert list(watched("ab", "scan", lambda _: 0, 2, None)) == ["a", "b"]
