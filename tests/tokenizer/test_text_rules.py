import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextok.errors import TokenizerError
from nextok.tokenizer.pieces import LONGEST_PIECE_CHARACTERS
from nextok.tokenizer.text_rules import TextRules, rules_of_normalizer, well_formed

FEW = settings(deadline=None, max_examples=60)
ANY_TEXT = st.text(st.characters(exclude_categories=[]))
FORMS = ["nfc", "nfd", "nfkc", "nfkd"]
COMPOSED, DECOMPOSED = "y\u1ebfu", "ye\u0302\u0301u"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\ud83d", "\ufffd"),
        ("\ud83d\udc4d", "\U0001f44d"),
        ("a\ud83db", "a\ufffdb"),
        ("\udc4d\ud83d", "\ufffd\ufffd"),
        ("\ud83d\ud83d\udc4d", "\ufffd\U0001f44d"),
        ("plain \U0001f44d", "plain \U0001f44d"),
    ],
)
def test_a_surrogate_pair_is_its_character_and_a_lone_one_a_replacement(text: str, expected: str) -> None:
    assert well_formed(text) == expected
    assert TextRules().apply(text) == expected


@FEW
@given(ANY_TEXT)
def test_well_formed_text_can_be_written_and_stays_as_it_is(text: str) -> None:
    once = well_formed(text)
    assert once.encode("utf-8").decode("utf-8") == once
    assert well_formed(once) == once


@FEW
@given(ANY_TEXT)
def test_default_rules_change_nothing_but_surrogates(text: str) -> None:
    assert TextRules().apply(text) == well_formed(text)


def test_every_line_end_becomes_a_line_feed() -> None:
    assert TextRules(newlines="lf").apply("a\rb\r\nc\r\r\nd\n\re") == "a\nb\nc\n\nd\n\ne"
    assert TextRules(newlines="keep").apply("a\rb\r\nc") == "a\rb\r\nc"


def test_one_form_gives_one_spelling_of_a_visible_word() -> None:
    assert TextRules(normalization="nfc").apply(DECOMPOSED) == COMPOSED
    assert TextRules(normalization="nfd").apply(COMPOSED) == DECOMPOSED


@pytest.mark.parametrize("form", FORMS)
@FEW
@given(
    st.text(
        st.characters(min_codepoint=0x20, max_codepoint=0x3FF)
        | st.sampled_from("\u0301\u0323\u1100\u1161\u11a8\uac00\ufb01")
    )
)
def test_normalisation_agrees_with_python_on_old_characters(form: str, text: str) -> None:
    rules = TextRules(normalization=form)  # type: ignore[arg-type]
    assert rules.apply(text) == unicodedata.normalize(form.upper(), text)  # type: ignore[arg-type]


def test_long_text_is_normalised_as_short_text_is() -> None:
    text = f"{DECOMPOSED} \u0301x\n" * 9_000
    assert TextRules(normalization="nfc").apply(text) == unicodedata.normalize("NFC", text)
    no_spaces = "x" + "e\u0301" * (LONGEST_PIECE_CHARACTERS * 3 // 4)
    assert TextRules(normalization="nfc").apply(no_spaces) == "x" + "\u00e9" * (LONGEST_PIECE_CHARACTERS * 3 // 4)


@pytest.mark.parametrize("newlines", ["lf", "keep"])
@pytest.mark.parametrize("form", ["none", *FORMS])
@FEW
@given(text=ANY_TEXT)
def test_rules_applied_twice_are_rules_applied_once_and_the_library_agrees(newlines: str, form: str, text: str) -> None:
    rules = TextRules(newlines=newlines, normalization=form)  # type: ignore[arg-type]
    applied = rules.apply(text)
    assert rules.apply(applied) == applied
    normalizer = rules.normalizer()
    assert applied == (normalizer.normalize_str(well_formed(text)) if normalizer else well_formed(text))


def test_a_normalizer_that_does_something_else_is_not_taken_for_rules() -> None:
    assert rules_of_normalizer(None) == TextRules()
    assert rules_of_normalizer({"type": "Lowercase"}) is None
    assert rules_of_normalizer({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}) is None
    assert rules_of_normalizer({"type": "Sequence", "normalizers": []}) == TextRules()


@pytest.mark.parametrize("wrong", [{"newlines": "crlf"}, {"normalization": "NFC"}])
def test_an_unknown_rule_is_refused_with_the_known_ones(wrong: dict[str, str]) -> None:
    with pytest.raises(TokenizerError, match="Choose"):
        TextRules(**wrong)  # type: ignore[arg-type]
