"""What a pass over the files met: the facts that the preparation report tells."""

from dataclasses import dataclass


@dataclass(kw_only=True, slots=True)
class ReadCounts:
    """Counters that one pass fills while it reads. Characters are counted before newlines and normalization."""

    files: int = 0
    """Files read to their end."""
    disk_bytes: int = 0
    """Bytes read from disk, packed as they lie there."""
    documents: int = 0
    """Documents that hold text."""
    pairs: int = 0
    """Of those, pairs of a prompt and a completion."""
    empty_documents: int = 0
    """Documents without a character, which are left out."""
    byte_order_marks: int = 0
    """Files that began with a byte-order mark, which is stripped."""
    utf16_files: int = 0
    """Of those, files whose mark says UTF-16 or UTF-32."""
    nul_characters: int = 0
    """U+0000, which is kept; many of them mean a binary file, or UTF-16 without a mark."""
    replacement_characters: int = 0
    """U+FFFD: bad bytes replaced now, or damage done earlier."""
    kept_bytes: int = 0
    """Bad bytes kept as they are."""
    lf_newlines: int = 0
    """Lines that end in LF alone."""
    crlf_newlines: int = 0
    """Lines that end in CR LF."""
    cr_newlines: int = 0
    """Lines that end in CR alone."""
