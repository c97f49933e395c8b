"""How byte-level BPE cuts text into words before it merges, under the names that GGUF files have for it.

llama.cpp knows about fifty such names; these are those of the models nextok reads. Tests hold each against llama.cpp.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_QWEN2 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = _QWEN2.replace(r"\p{N}|", r"\p{N}{1,3}|", 1)
_DEFAULT = (
    r"[\p{P}\$\+<=>\^~\|]+",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
    r"\p{N}+",
    r"[0-9][0-9][0-9]",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """What a name stands for, as entries of a tokenizer.json."""

    pre_tokenizer: Mapping[str, Any]
    """The cuts, and the bytes of each word as the symbols of byte-level BPE."""
    normalizer: Mapping[str, Any] | None = None
    """What the models of that name do to text before."""
    ignore_merges: bool = False
    """Whether a word that is a token is taken whole, whatever the merges would make of it."""
    starts_prompts: bool = False
    """Whether prompts begin with the token of the beginning where the file does not say."""


BYTES: Mapping[str, Any] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
"""Bytes as symbols and back, and no cuts."""
_GPT2_WORDS: Mapping[str, Any] = {**BYTES, "use_regex": True}


def _cut(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def _sequence(*steps: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": list(steps)}


_LLAMA3_SPLIT = Split(pre_tokenizer=_sequence(_cut(_LLAMA3), BYTES), ignore_merges=True, starts_prompts=True)
SPLITS: Mapping[str, Split] = {
    "gpt-2": Split(pre_tokenizer=_GPT2_WORDS),
    "smollm": Split(pre_tokenizer=_sequence({"type": "Digits", "individual_digits": True}, _GPT2_WORDS)),
    "qwen2": Split(
        pre_tokenizer=_sequence(_cut(_QWEN2), BYTES),
        normalizer={"type": "NFC"},  # llama.cpp leaves it out, so text that is not in NFC gets other ids there
    ),
    "llama-bpe": _LLAMA3_SPLIT,
    "llama3": _LLAMA3_SPLIT,
    "default": Split(pre_tokenizer=_sequence(*map(_cut, _DEFAULT), BYTES)),
}
