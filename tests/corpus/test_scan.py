"""The first pass: facts that do not depend on how the text was cut."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextok.corpus import Piece
from nextok.corpus.scan import EvenSample, scan_text


def pieces_of(documents):
    for number, parts in enumerate(documents):
        for place, text in enumerate(parts):
            yield Piece(document=number, text=text, ends_document=place == len(parts) - 1, source="a.txt")


def scan(*documents, alphabet=False, sample=False):
    return scan_text(pieces_of(documents), alphabet=alphabet, sample=sample)


def test_a_scan_counts_documents_and_characters():
    found = scan(["ab", "ü"], ["c"])
    assert (found.documents, found.characters) == (2, 4)


def test_the_fingerprint_tells_documents_apart_but_not_cuts():
    assert scan(["abc"], ["d"]).fingerprint == scan(["a", "bc"], ["d"]).fingerprint
    different = [scan(["abcd"]), scan(["abc"], ["d"]), scan(["ab"], ["cd"]), scan(["d"], ["abc"]), scan(["abc"], ["e"])]
    assert len({found.fingerprint for found in different}) == len(different)


def test_the_alphabet_is_each_character_once_in_order():
    assert scan(["ba\u0301"], ["a😀"], alphabet=True).alphabet == ("a", "b", "\u0301", "😀")


def test_the_sample_is_all_text_while_it_fits():
    assert list(scan(["ab", "ü"], ["c"], sample=True).sample_texts()) == ["ab", "ü", "c"]


def test_kept_bytes_do_not_reach_a_trained_tokenizer():
    assert list(scan(["a\udcff"], sample=True).sample_texts()) == ["a\ufffd"]


@given(count=st.integers(1, 300), limit=st.integers(0, 3000))
def test_a_sample_is_bounded_and_evenly_spread(count, limit):
    sample = EvenSample(limit)
    for number in range(count):
        sample.add(number.to_bytes(4, "big"))
    kept = [int.from_bytes(data, "big") for data in sample.pieces]
    step = kept[1] - kept[0] if len(kept) > 1 else count
    assert kept == list(range(0, count, step))[: len(kept)]
    assert kept[-1] + step >= count
    assert sum(map(sys.getsizeof, sample.pieces)) <= max(limit, sys.getsizeof(b"1234"))


def test_nothing_is_collected_unless_asked_for():
    found = scan(["abc"])
    assert (found.alphabet, found.sample) == ((), ())


def test_an_empty_stream_has_no_characters():
    with pytest.raises(StopIteration):
        next(pieces_of([]))
    assert scan().characters == 0
