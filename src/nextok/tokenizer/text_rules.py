"""What happens to text before it becomes ids: broken surrogates, line ends, Unicode normalisation.

The rules are saved inside `tokenizer.json` as normalizers, so that every reader of the file applies them, to a corpus
and to a prompt alike. A byte-order mark is not text: `nextok.corpus` takes it off when it reads a file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tokenizers import Regex, normalizers

from nextok.errors import TokenizerError
from nextok.tokenizer.pieces import cut_text

NewlineRule = Literal["lf", "keep"]
NormalForm = Literal["none", "nfc", "nfd", "nfkc", "nfkd"]

_LINE_END = r"\r\n?"
_FORMS: dict[str, type] = {
    "nfc": normalizers.NFC,
    "nfd": normalizers.NFD,
    "nfkc": normalizers.NFKC,
    "nfkd": normalizers.NFKD,
}


def well_formed(text: str) -> str:
    """Returns the text as UTF-8 can hold it: a surrogate pair is its character, a lone surrogate is U+FFFD.

    Every way into a tokenizer goes through here, so they all agree about broken text.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


@dataclass(frozen=True, kw_only=True, slots=True)
class TextRules:
    """How text is changed before it is encoded. The defaults change nothing but broken surrogates."""

    newlines: NewlineRule = "keep"
    """`lf` turns CR LF and a lone CR into LF; `keep` leaves line ends as they are (the exact round trip)."""

    normalization: NormalForm = "none"
    """The Unicode normal form that all text is brought to; `none` keeps every code point (the exact round trip).

    The same visible word can be spelled with composed letters or with combining marks; one form gives it one spelling.
    """

    def __post_init__(self) -> None:
        if self.newlines not in ("lf", "keep"):
            raise TokenizerError(f"newlines = {self.newlines!r} is not a rule for line ends.", "Choose lf or keep.")
        if self.normalization != "none" and self.normalization not in _FORMS:
            known = ", ".join(["none", *_FORMS])
            raise TokenizerError(
                f"normalization = {self.normalization!r} is not a normal form.", f"Choose one of {known}."
            )

    def apply(self, text: str) -> str:
        """Returns the well-formed text with the rules applied; a second application changes nothing."""
        text = well_formed(text)
        if self.newlines == "lf":
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        if self.normalization == "none" or text.isascii():
            return text
        # The library's tables, not Python's, whose Unicode version changes with the interpreter. It keeps 16 bytes a
        # byte of text while it works, hence the pieces: no normal form joins a space to what stands before it.
        form = _FORMS[self.normalization]()
        return "".join(form.normalize_str(piece) for piece in cut_text(text, longest=len(text)))

    def normalizer(self) -> normalizers.Normalizer | None:
        """Returns the rules as the library's normalizer, or None where they change nothing."""
        steps: list[normalizers.Normalizer] = []
        if self.newlines == "lf":
            steps.append(normalizers.Replace(Regex(_LINE_END), "\n"))
        if self.normalization != "none":
            steps.append(_FORMS[self.normalization]())
        if not steps:
            return None
        return steps[0] if len(steps) == 1 else normalizers.Sequence(steps)


def rules_of_normalizer(normalizer: Mapping[str, Any] | None) -> TextRules | None:
    """Returns the rules that the `normalizer` entry of a tokenizer.json spells, or None if it does something else."""
    steps = _steps(normalizer)
    newlines: NewlineRule = "keep"
    if steps and steps[0] == {"type": "Replace", "pattern": {"Regex": _LINE_END}, "content": "\n"}:
        newlines, steps = "lf", steps[1:]
    if not steps:
        return TextRules(newlines=newlines)
    form = str(steps[0].get("type")).lower()
    if len(steps) > 1 or form not in _FORMS:
        return None
    return TextRules(newlines=newlines, normalization=form)  # type: ignore[arg-type]  # a key of _FORMS


def _steps(normalizer: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    if normalizer is None:
        return []
    return list(normalizer["normalizers"]) if normalizer.get("type") == "Sequence" else [normalizer]
