import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models

from nextok.tokenizer import TextStream, Tokenizer, UnknownIdWarning, char_tokenizer

FEW = settings(deadline=None, max_examples=60)

IDS = st.lists(st.integers(0, 256), max_size=40)


def streamed(stream: TextStream, ids: list[int]) -> str:
    return "".join(stream.push(token_id) for token_id in ids) + stream.flush()


@FEW
@given(IDS)
def test_a_stream_of_any_bytes_joins_to_the_whole_decoded(byte: Tokenizer, ids: list[int]) -> None:
    assert streamed(byte.stream(), ids) == byte.decode(ids)


@FEW
@given(st.data())
def test_a_stream_of_any_bpe_ids_joins_to_the_whole_decoded(bpe: Tokenizer, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, bpe.vocab_size - 1), max_size=40))
    assert streamed(bpe.stream(), ids) == bpe.decode(ids)


@FEW
@given(st.text())
def test_no_part_holds_half_a_character(byte: Tokenizer, text: str) -> None:
    stream = byte.stream()
    parts = [stream.push(token_id) for token_id in byte.encode(text).tolist()]
    assert [part for part in parts if part] == list(text)
    assert stream.flush() == ""


def test_an_unfinished_character_waits_and_is_replaced_at_the_end(byte: Tokenizer) -> None:
    stream = byte.stream()
    assert [stream.push(0xE6), stream.push(0xAD)] == ["", ""]
    assert stream.flush() == "\ufffd"
    assert stream.flush() == ""


def test_a_broken_character_is_replaced_and_the_next_one_kept(byte: Tokenizer) -> None:
    stream = byte.stream()
    assert [stream.push(0xE6), stream.push(0xAD), stream.push(ord("A"))] == ["", "", "\ufffdA"]


def test_flush_starts_afresh(byte: Tokenizer) -> None:
    stream = byte.stream()
    stream.push(0xE6)
    stream.flush()
    assert stream.push(ord("A")) == "A"


def test_characters_come_one_by_one() -> None:
    tokenizer = char_tokenizer(["aé👍"], end_of_text=True)
    stream = tokenizer.stream()
    assert [stream.push(token_id) for token_id in [0, 2, 1, 3]] == ["a", "👍", "é", "<|endoftext|>"]


def test_an_id_without_a_token_is_a_placeholder(byte: Tokenizer) -> None:
    stream = byte.stream()
    with pytest.warns(UnknownIdWarning, match="first 300"):
        assert stream.push(300) == "\ufffd"


@FEW
@given(st.lists(st.sampled_from([0, 1, 2, 3, 9]), max_size=12))
def test_joined_words_stream_as_they_decode(words: Tokenizer, ids: list[int]) -> None:
    assert streamed(words.stream(), ids) == words.decode(ids)


def test_a_window_starts_afresh_after_flush(words: Tokenizer) -> None:
    stream = words.stream()
    assert [stream.push(3), stream.push(1), stream.push(2), stream.flush()] == ["we", " play", "ing", ""]
    assert stream.push(1) == "play"


def test_bytes_inside_another_kind_wait_for_their_character() -> None:
    vocabulary = {"\u2581": 0, "a": 1, "<0xE6>": 2, "<0x97>": 3, "<0xA5>": 4}
    library = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True))
    library.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer = Tokenizer(library)
    assert tokenizer.kind == "other"
    assert tokenizer.token_bytes(2) == b"\xe6"
    assert tokenizer.token_text(0) == "·"
    stream = tokenizer.stream()
    assert [stream.push(token_id) for token_id in (1, 0, 2, 3, 4, 1)] == ["a", " ", "", "", "日", "a"]
    assert [stream.push(2), stream.flush()] == ["", "\ufffd"]


@pytest.mark.parametrize("cut", range(1, 6))
def test_a_stream_that_goes_on_keeps_the_space_that_a_beginning_would_lose(pieces: Tokenizer, cut: int) -> None:
    text = "Once Once On é On"
    ids = pieces.encode_prompt(text).tolist()
    assert pieces.decode(ids[1:cut]) + streamed(pieces.stream(ids[:cut]), ids[cut:]) == text
    assert streamed(pieces.stream(ids[:1]), ids[1:]) == text  # after a control token alone it is a beginning
