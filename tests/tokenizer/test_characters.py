import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextok.errors import UnknownCharacterError
from nextok.tokenizer import TextRules, Tokenizer, char_tokenizer
from nextok.tokenizer.characters import CharacterTable

FEW = settings(deadline=None, max_examples=60)


def chars(alphabet: str) -> Tokenizer:
    return char_tokenizer([alphabet], end_of_text=True)


@FEW
@given(st.text(st.sampled_from("ab \x00\u00e9\U0001f44d\U0010ffff")))
def test_the_table_gives_the_ids_of_the_library(text: str) -> None:
    tokenizer = chars("ab \x00\u00e9\U0001f44d\U0010ffff")
    assert tokenizer.encode(text).tolist() == tokenizer._library.encode(text).ids


@FEW
@given(st.text("abcxyz\U0001f44d"))
def test_dropping_leaves_what_the_library_leaves(text: str) -> None:
    tokenizer = chars("abc")
    ids = tokenizer.encode(text, unknown="drop")
    assert ids.dtype == np.int64
    assert ids.tolist() == tokenizer._library.encode(text).ids


@pytest.mark.parametrize(("alphabet", "stand_in"), [("ab ?\ufffd", "\ufffd"), ("ab ?", "?"), ("ab ", " ")])
def test_replacing_takes_the_first_stand_in_that_the_vocabulary_has(alphabet: str, stand_in: str) -> None:
    tokenizer = chars(alphabet)
    assert tokenizer.decode(tokenizer.encode("adb\U0001f44d", unknown="replace")) == f"a{stand_in}b{stand_in}"


def test_replacing_without_any_stand_in_is_an_error_that_says_so() -> None:
    with pytest.raises(UnknownCharacterError, match=r"'d' \(U\+0064.* none of U\+FFFD, \? and space"):
        chars("abc").encode("d", unknown="replace")


def test_an_unknown_character_is_named_with_code_point_and_position_and_both_ways_out() -> None:
    with pytest.raises(UnknownCharacterError) as caught:
        chars("abc").encode("abd")
    assert "Character 'd' (U+0064, LATIN SMALL LETTER D) at position 2" in caught.value.message
    assert "3 characters" in caught.value.message
    assert "drop" in caught.value.hint and "replace" in caught.value.hint
    assert "NF" not in caught.value.hint


def test_a_character_that_does_not_print_is_named_by_its_code_point() -> None:
    with pytest.raises(UnknownCharacterError, match=r"Character \(U\+FEFF"):
        chars("abc").encode("\ufeffabc")


@pytest.mark.parametrize(
    ("alphabet", "text", "form"),
    [
        ("y\u1ebfu ", "u ye\u0302\u0301u", "NFC"),
        ("yeu\u0302\u0301 ", "u y\u1ebfu", "NFD"),
        ("\ud55c\uae00", "\u1112\u1161\u11ab\uae00", "NFC"),
        ("fi", "\ufb01", "NFKC"),
    ],
)
def test_the_message_says_when_a_normal_form_would_cure_it(alphabet: str, text: str, form: str) -> None:
    with pytest.raises(UnknownCharacterError) as caught:
        chars(alphabet).encode(text)
    assert f"Normalising the text to {form}" in caught.value.hint
    cured = char_tokenizer([alphabet], end_of_text=False, rules=TextRules(normalization=form.lower()))  # type: ignore[arg-type]
    assert len(cured.encode(text)) > 0


def test_a_cure_is_found_beside_another_unknown_character() -> None:
    with pytest.raises(UnknownCharacterError, match="Normalising the text to NFC"):
        chars("\u00e9a").encode("e\u0301Z")


def test_the_position_is_that_in_the_text_as_it_came() -> None:
    tokenizer = char_tokenizer(["ab\n"], end_of_text=False, rules=TextRules(newlines="lf"))
    with pytest.raises(UnknownCharacterError, match="position 5 "):
        tokenizer.encode("a\r\nb\rZ")


def test_a_table_of_nothing_knows_nothing() -> None:
    assert CharacterTable({}).encode("", unknown="error", original="").tolist() == []
    assert CharacterTable({}).encode("abc", unknown="drop", original="abc").tolist() == []
