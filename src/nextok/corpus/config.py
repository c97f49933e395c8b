"""How text is read and split before it becomes tokens: one frozen set of options, saved with the prepared corpus."""

import codecs
from dataclasses import dataclass
from typing import Literal

from nextok.errors import ConfigError
from nextok.tokenizer import NewlineRule, NormalForm, Unknown

BadBytes = Literal["strict", "replace", "keep"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusConfig:
    """Options of `prepare`; the same files under the same options give the same tokens on every machine."""

    text_field: str = "text"
    """Field (JSON lines) or column (CSV, TSV, Parquet) that holds the text; `text` is what most data sets use."""

    encoding: str = "utf-8"
    """Encoding of the files, never the machine's own. A byte-order mark of UTF-16 or UTF-32 goes before `utf-8`."""

    bad_bytes: BadBytes = "strict"
    """Bytes that are not valid in the encoding: refused by position, replaced by U+FFFD, or kept as they are.
    `keep` needs UTF-8 files and a byte-level tokenizer. Refusing is the default because mojibake trains silently."""

    newlines: NewlineRule = "lf"
    """`lf` turns CR LF and CR into LF; `keep` leaves them. Prompts are treated the same way."""

    normalization: NormalForm = "none"
    """Unicode normalization form. `none` suits byte-level tokenizers; `nfc` spares a character vocabulary from holding
    one visible letter in two spellings."""

    val_fraction: float = 0.1
    """Share of the characters, from the end, kept for validation; 0 <= f < 1, 0 for none. 0.1 is nanoGPT's."""

    unknown: Unknown = "error"
    """A character that a `char` tokenizer from a file does not have: refused by name, dropped, or replaced."""

    def __post_init__(self) -> None:
        if not 0 <= self.val_fraction < 1:
            raise ConfigError(f"val_fraction = {self.val_fraction} is not in 0 <= f < 1.", "0.1 keeps a tenth; 0 none.")
        if not self.text_field:
            raise ConfigError("text_field is empty.", "Name the field that holds the text, such as text.")
        _check_encoding(self.encoding)
        if self.bad_bytes == "keep" and codecs.lookup(self.encoding).name not in ("utf-8", "utf-8-sig"):
            raise ConfigError(f"bad_bytes = 'keep' needs encoding = 'utf-8', not {self.encoding!r}.", "Use replace.")


def _check_encoding(encoding: str) -> None:
    try:
        "a".encode(encoding)  # refuses codecs that are not text encodings, such as base64
        codecs.getincrementaldecoder(encoding)
    except (LookupError, ValueError) as error:
        raise ConfigError(f"encoding = {encoding!r} is not a text encoding.", "utf-8, cp1252, utf-16, ...") from error
