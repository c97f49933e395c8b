"""Which tokens count: borders on disk against a plain list of yes and no."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextok.corpus import targets as module
from nextok.corpus.targets import IGNORED, TargetRecord, Targets, TargetWriter
from nextok.errors import CorpusError
from nextok.model import IGNORED as MODELS_OWN

stretches = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=20)


def test_an_ignored_target_is_what_the_model_ignores():
    assert IGNORED == MODELS_OWN


def write(path, spans):
    writer = TargetWriter(path)
    for tokens, counts in spans:
        writer.add(tokens, 2 * tokens, counts=counts)
    writer.close()
    return writer.record()


@given(spans=stretches)
def test_every_position_counts_as_it_was_written(spans, tmp_path_factory):
    path = tmp_path_factory.mktemp("targets") / "train-targets.npy"
    expected = np.array([counts for tokens, counts in spans for _ in range(tokens)], bool)
    record = write(path, spans)
    if expected.all():
        assert record is None
        assert not path.exists()
        return
    assert (record.tokens, record.bytes) == (expected.sum(), 2 * expected.sum())
    assert record.borders % 2 == 0
    assert np.load(path).shape == (record.borders,) if record.borders else True
    if expected.any():
        at = Targets(path, record).count_at(np.arange(len(expected)).reshape(-1, 1))
        np.testing.assert_array_equal(at[:, 0], expected)


def test_borders_are_written_in_batches_and_are_the_same(tmp_path, monkeypatch):
    spans = [(1 + number % 3, number % 2 == 0) for number in range(50)]
    whole = write(tmp_path / "a.npy", spans)
    monkeypatch.setattr(module, "_WAITING_BORDERS", 3)
    assert write(tmp_path / "b.npy", spans) == whole
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), np.load(tmp_path / "b.npy"))


def test_a_file_that_is_missing_or_cut_short_and_a_record_of_nothing_are_refused(tmp_path):
    path = tmp_path / "train-targets.npy"
    record = write(path, [(2, False), (3, True)])
    assert record == TargetRecord(tokens=3, bytes=6, borders=2)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorpusError, match="not whole"):
        Targets(path, record)
    path.unlink()
    with pytest.raises(CorpusError, match="Cannot read"):
        Targets(path, record)
    with pytest.raises(CorpusError, match="no token is one to learn"):
        Targets(path, TargetRecord(tokens=0, bytes=0, borders=0))
