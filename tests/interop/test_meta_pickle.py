"""nanoGPT's meta.pkl: the same ids in any order and by any pickle protocol, and nothing but data."""

import pickle
import pickletools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextok.errors import TokenizerError
from nextok.interop import meta_pickle
from nextok.interop.meta_pickle import read_meta_pickle
from nextok.machine import peak_memory_bytes
from nextok.tokenizer import Tokenizer, char_tokenizer

LETTERS = "\n !abzäß漢👍"


def meta_of(characters):
    return {
        "vocab_size": len(characters),
        "itos": dict(enumerate(characters)),
        "stoi": {character: i for i, character in enumerate(characters)},
    }


@pytest.fixture
def read(tmp_path):
    """Returns what reads the vocabulary from bytes, or from a value that is pickled."""

    def from_value(value, protocol=None):
        path = tmp_path / "meta.pkl"
        path.write_bytes(value if isinstance(value, bytes) else pickle.dumps(value, protocol))
        return read_meta_pickle(path)

    return from_value


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_sorted_characters_give_the_tokenizer_that_is_made_here(read, protocol):
    tokenizer = read(meta_of(sorted(LETTERS)), protocol)
    assert tokenizer.kind == "char"
    assert tokenizer.fingerprint == char_tokenizer(LETTERS, end_of_text=False).fingerprint


@given(characters=st.lists(st.characters(codec="utf-8"), min_size=1, max_size=40, unique=True))
def test_any_order_of_characters_keeps_its_ids_through_the_file(characters, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "order.pkl"
    path.write_bytes(pickle.dumps(meta_of(characters)))
    tokenizer = read_meta_pickle(path)
    text = "".join(characters)
    assert tokenizer.encode(text).tolist() == list(range(len(characters)))
    assert tokenizer.decode(range(len(characters))) == text
    tokenizer.save(path.with_suffix(".json"))
    assert Tokenizer.load(path.with_suffix(".json")).encode(text).tolist() == list(range(len(characters)))


def test_a_character_outside_is_refused_as_in_any_vocabulary(read):
    with pytest.raises(TokenizerError, match="not among the 2 characters"):
        read(meta_of("ab")).encode("c")


@pytest.mark.parametrize("pickled", [meta_of(LETTERS), meta_of([chr(i) for i in range(32, 5000)])])
def test_only_instructions_for_data_are_needed(read, pickled):
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        names = {opcode.name for opcode, _, _ in pickletools.genops(pickle.dumps(pickled, protocol))}
        assert names <= meta_pickle._ALLOWED
        assert read(pickled, protocol).vocab_size == pickled["vocab_size"]


META = meta_of("ab")


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        {"vocab_size": 2},
        META | {"encoding": "gpt2"},
        META | {"vocab_size": 3},
        META | {"vocab_size": "2"},
        META | {"vocab_size": 0, "itos": {}, "stoi": {}},
        META | {"itos": {0: "a", 2: "b"}},
        META | {"itos": {0: "a", 1: "c"}},
        META | {"itos": {0: "a", 1: "a"}},
        META | {"itos": {"0": "a", "1": "b"}},
        META | {"stoi": {"a": 0, "b": 0}},
        META | {"stoi": {"a": 0, "b": "1"}},
        META | {"stoi": {"a": 0, "bc": 1}, "itos": {0: "a", 1: "bc"}},
        META | {"stoi": {"a": 0, "": 1}, "itos": {0: "a", 1: ""}},
        META | {"stoi": {"a": 0, "\ud800": 1}, "itos": {0: "a", 1: "\ud800"}},
        META | {"stoi": {0: 0, 1: 1}, "itos": {0: 0, 1: 1}},
        META | {"itos": 3},
    ],
)
def test_what_is_not_such_a_vocabulary_is_refused(read, value):
    with pytest.raises(TokenizerError, match=r"meta\.pkl"):
        read(value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        1.5,
        b"ab",
        bytearray(b"ab"),
        (1, 2),
        [1],
        {1},
        frozenset({1}),
        range(3),
        print,
        Exception("x"),
        1 << 5000,
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_all_but_dictionaries_of_numbers_and_text_is_refused_before_it_is_made(read, value, protocol, monkeypatch):
    monkeypatch.setattr(meta_pickle, "_Unpickler", None)  # would be another error
    with pytest.raises(TokenizerError, match="more than numbers and text"):
        read(META | {"more": value}, protocol)


def test_the_unpickler_alone_would_refuse_code_too(read, monkeypatch):
    monkeypatch.setattr(meta_pickle, "_check_instructions", lambda data: None)
    for harm in (b"cos\nsystem\n(S'true'\ntR.", b"Psomewhere\n.", pickle.dumps(print)):
        with pytest.raises(TokenizerError, match="asks for"):
            read(harm)


def test_a_cut_file_is_refused(read):
    data = pickle.dumps(meta_of(LETTERS))
    for kept in range(len(data)):
        with pytest.raises(TokenizerError, match=r"meta\.pkl"):
            read(data[:kept])


@pytest.mark.parametrize(
    "bomb",
    [
        b"\x80\x04}r\xff\xff\xff\x7f.",  # a memory numbered 2**31 - 1
        b"}p99999999999\n.",
        b"}p-1\n.",
        b"\x80\x04\x8b\xff\xff\xff\x7f.",  # a number of 2 GiB
        b"\x80\x04\x8e" + b"\xff" * 7 + b"\x7f.",  # bytes without end
        b"\x80\x05\x96" + b"\xff" * 7 + b"\x7f.",
        b"\x80\x04\x8d" + b"\xff" * 7 + b"\x7f.",
        b"I" + b"9" * 1_000_000 + b"\n.",
        b"(" * 1_000_000,
        b"}" * 1_000_000 + b".",
        b"}" + b"}q\0X\1\0\0\0ah\0s" * 1000 + b".",
        b"\x80\x04)" + b"2\x86" * 100_000 + b".",  # pairs of pairs: hashing the last takes forever
    ],
    ids=range(12),
)
def test_a_small_file_that_asks_for_much_costs_little(read, bomb):
    started, before = time.perf_counter(), peak_memory_bytes()
    with pytest.raises(TokenizerError, match=r"meta\.pkl"):
        read(bomb)
    assert time.perf_counter() - started < 5
    assert before is None or peak_memory_bytes() - before < 200 << 20


def test_nested_dictionaries_end_in_a_refusal_and_no_crash(read):
    depth = 100_000
    with pytest.raises(TokenizerError, match="does not hold"):
        read(b"}" + b"X\1\0\0\0a}" * depth + b"s" * depth + b".")


def test_a_long_file_is_refused_unread(tmp_path, monkeypatch):
    monkeypatch.setattr(meta_pickle, "_check_instructions", None)
    with (tmp_path / "meta.pkl").open("wb") as stream:
        stream.truncate(1 << 34)  # takes no room on disk
    with pytest.raises(TokenizerError, match="more than 4,194,304 bytes"):
        read_meta_pickle(tmp_path / "meta.pkl")


def test_a_missing_file_is_refused_by_name(tmp_path):
    with pytest.raises(TokenizerError, match=r"Cannot read the vocabulary .*absent\.pkl"):
        read_meta_pickle(tmp_path / "absent.pkl")
