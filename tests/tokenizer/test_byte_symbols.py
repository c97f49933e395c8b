from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from nextok.tokenizer.byte_symbols import byte_symbols, symbols_to_bytes

FEW = settings(deadline=None, max_examples=60)


def test_the_alphabet_is_the_one_of_the_library() -> None:
    assert len(set(byte_symbols())) == 256
    assert sorted(byte_symbols()) == sorted(pre_tokenizers.ByteLevel.alphabet())


def test_known_symbols() -> None:
    assert (byte_symbols()[0x20], byte_symbols()[0x0A], byte_symbols()[ord("a")]) == ("Ġ", "Ċ", "a")


@FEW
@given(st.binary())
def test_symbols_give_their_bytes_back(data: bytes) -> None:
    assert symbols_to_bytes("".join(byte_symbols()[value] for value in data)) == data


def test_a_token_outside_the_alphabet_is_its_own_text() -> None:
    assert symbols_to_bytes("a 日") == "a 日".encode()
