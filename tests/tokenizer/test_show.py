import pytest

from nextok.tokenizer.show import shown


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b" the", "·the"),
        (b"\n\t", "↵→"),
        ("Ελλάδα".encode(), "Ελλάδα"),
        ("ሰላም".encode(), "ሰላም"),
        ("👍".encode(), "👍"),
        (b"\xe2", "<0xE2>"),
        (b" \xe2\x80", "·<0xE2><0x80>"),
        (b"a\x00\r\x7f", "a<0x00><0x0D><0x7F>"),
        ("\u200b\ufeff".encode(), "<U+200B><U+FEFF>"),
        (b"", ""),
    ],
)
def test_tokens_are_shown_as_text_with_marks(data: bytes, expected: str) -> None:
    assert shown(data) == expected
