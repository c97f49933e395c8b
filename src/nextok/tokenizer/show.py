"""A token made visible, for tables and pages: never mojibake, never an invisible character."""

_MARKS = {" ": "·", "\n": "↵", "\t": "→"}


def shown(data: bytes) -> str:
    """Returns the bytes as text for the eye.

    Space is `·`, line feed `↵`, tab `→`. A byte that is only part of a character is `<0xE2>`, as are control
    characters; other characters that do not print are `<U+200B>`.
    """
    return "".join(_visible(character) for character in data.decode("utf-8", "surrogateescape"))


def _visible(character: str) -> str:
    point = ord(character)
    if 0xDC80 <= point <= 0xDCFF:  # surrogateescape: a byte outside any character
        return f"<0x{point - 0xDC00:02X}>"
    if character in _MARKS:
        return _MARKS[character]
    if character.isprintable():
        return character
    return f"<0x{point:02X}>" if point < 0x80 else f"<U+{point:04X}>"
