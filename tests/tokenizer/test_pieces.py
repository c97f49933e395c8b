import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextok.tokenizer import Tokenizer
from nextok.tokenizer.pieces import cut_text

FEW = settings(deadline=None, max_examples=60)


@FEW
@given(st.text(st.sampled_from("ab \n\t\x1c\x85é.")), st.integers(1, 8), st.integers(8, 20))
def test_pieces_join_to_the_text_and_stay_short(text: str, size: int, longest: int) -> None:
    pieces = list(cut_text(text, size=size, longest=longest))
    assert "".join(pieces) == text
    assert all(0 < len(piece) <= longest for piece in pieces)


def test_a_cut_is_made_before_a_single_space_or_line_feed_only() -> None:
    assert list(cut_text("aa bb  cc\ndd \nee", size=1)) == ["aa", " bb  cc", "\ndd \nee"]


def test_text_without_a_safe_place_is_cut_at_the_longest_piece() -> None:
    assert list(cut_text("a" * 25, size=4, longest=10)) == ["a" * 10, "a" * 10, "a" * 5]


@FEW
@given(st.text(st.sampled_from("ab's1 \n\t\r\x1c\x85\u00a0\u2028\u3000é.\u0301_日"), max_size=60), st.integers(1, 6))
def test_pieces_of_spaced_text_encode_to_the_ids_of_the_whole(bpe: Tokenizer, text: str, size: int) -> None:
    pieces = cut_text(text, size=size, longest=10_000)
    ids = np.concatenate([np.empty(0, dtype=np.int64), *bpe.encode_many(list(pieces))])
    assert ids.tolist() == bpe._library.encode(text).ids


def test_a_long_text_encodes_to_the_ids_of_one_whole_encode(bpe: Tokenizer, sample: str) -> None:
    text = sample * 200
    assert len(list(cut_text(text))) > 3
    assert bpe.encode(text).tolist() == bpe._library.encode(text).ids


@pytest.mark.parametrize("kind", ["one letter", "random letters"])
def test_time_without_any_space_grows_in_proportion(bpe: Tokenizer, kind: str) -> None:
    def text(length: int) -> str:
        letters = np.random.default_rng(1).integers(ord("a"), ord("z") + 1, length, dtype=np.uint8)
        return "a" * length if kind == "one letter" else letters.tobytes().decode("ascii")

    def seconds(length: int) -> float:
        given_text = text(length)
        start = time.perf_counter()
        ids = bpe.encode(given_text)
        spent = time.perf_counter() - start
        assert bpe.decode(ids) == given_text
        return spent

    seconds(1_000)
    short, long = min(seconds(25_000) for _ in range(3)), min(seconds(200_000) for _ in range(2))
    assert long < 5.0
    assert long < 32 * max(short, 0.002), "8 times the text takes more than 4 times the time a character"
