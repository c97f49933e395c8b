"""Long text in pieces that encode to the same ids as the whole.

Pieces bound the memory of the library, which keeps strings and offsets beside every id, and give it work for all cores.
"""

import re
from collections.abc import Iterator

# GPT-2's pattern always starts a new match at white space that follows something else, so nothing is merged across it.
# White space next to white space is left alone: how a run is split depends on what comes after it.
_SAFE_CUT = re.compile(r"(?<=\S)[ \n](?=\S)")

PIECE_CHARACTERS = 16_384
LONGEST_PIECE_CHARACTERS = 1 << 20  # about a second of merging in the worst case, random letters


def cut_text(text: str, *, size: int = PIECE_CHARACTERS, longest: int = LONGEST_PIECE_CHARACTERS) -> Iterator[str]:
    """Yields the text in order in pieces of about `size` characters.

    A piece ends before a single space or line feed between two characters that are not white space. Only where there is
    none for `longest` characters is it cut anywhere: ids near such a cut differ from those of the whole, the text does
    not.
    """
    start = 0
    while len(text) - start > size:
        end = min(start + longest, len(text))
        safe = _SAFE_CUT.search(text, start + size, end)
        end = safe.start() if safe else end
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]
