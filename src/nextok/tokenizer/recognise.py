"""What kind of tokenizer a tokenizer.json is, told from its content alone, never from a name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from nextok.tokenizer.byte_symbols import byte_symbols
from nextok.tokenizer.text_rules import TextRules, rules_of_normalizer

Kind = Literal["char", "byte", "bpe", "other"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Traits:
    """What the content of a tokenizer.json says about how it works."""

    kind: Kind
    """`char`, `byte` and `bpe` (byte-level BPE) give any text back exactly; `other` works as the library does it."""

    rules: TextRules
    """The rules for text that the file holds; for `other` the default ones, as the library applies its normalizer."""

    cuttable: bool
    """True if a long text may be encoded in pieces (`nextok.tokenizer.pieces`) without changing its ids."""


def recognise(content: Mapping[str, Any]) -> Traits:
    """Returns the traits of the parsed content of a tokenizer.json that the library has accepted."""
    rules = rules_of_normalizer(content["normalizer"])
    if rules is None or not _plain_bpe(content):
        return Traits(kind="other", rules=TextRules(), cuttable=False)
    if _is_char(content):
        return Traits(kind="char", rules=rules, cuttable=False)
    if _is_byte(content):
        return Traits(kind="byte", rules=rules, cuttable=False)
    if _is_byte_level(content):
        return Traits(kind="bpe", rules=rules, cuttable=_splits_like_gpt2(content))
    return Traits(kind="other", rules=TextRules(), cuttable=False)


def token_before_texts(content: Mapping[str, Any]) -> str | None:
    """Returns the control token that the post-processor puts before every text, or None."""
    processor = content.get("post_processor") or {}
    steps = processor["processors"] if processor.get("type") == "Sequence" else [processor]
    for step in steps:
        first = step["single"][0] if step.get("type") == "TemplateProcessing" and step["single"] else {}
        if "SpecialToken" in first:
            return str(first["SpecialToken"]["id"])
    return None


def _plain_bpe(content: Mapping[str, Any]) -> bool:
    model = content["model"]
    changing = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback")
    swallows_spaces = any(
        token["lstrip"] or token["rstrip"] for token in content["added_tokens"] if not token["special"]
    )
    return model["type"] == "BPE" and not any(model.get(name) for name in changing) and not swallows_spaces


def _is_char(content: Mapping[str, Any]) -> bool:
    model, decoder = content["model"], content["decoder"]
    whole = content["pre_tokenizer"] is None and decoder is not None and decoder["type"] == "Fuse"
    return whole and not model["merges"] and not model["unk_token"] and all(len(token) == 1 for token in model["vocab"])


def _is_byte(content: Mapping[str, Any]) -> bool:
    model, steps = content["model"], _pre_tokenizer_steps(content)
    if model["merges"] or len(steps) != 1 or not _is_byte_level(content) or steps[0]["use_regex"]:
        return False
    return bool(model["vocab"] == {symbol: value for value, symbol in enumerate(byte_symbols())})


def _is_byte_level(content: Mapping[str, Any]) -> bool:
    decoder, steps = content["decoder"], _pre_tokenizer_steps(content)
    if decoder is None or decoder["type"] != "ByteLevel" or not steps:
        return False
    *splits, last = steps
    if last["type"] != "ByteLevel" or last["add_prefix_space"]:
        return False
    keeps_all = all(step["type"] == "Digits" or step.get("behavior") == "Isolated" for step in splits)
    return keeps_all and all(symbol in content["model"]["vocab"] for symbol in byte_symbols())


def _splits_like_gpt2(content: Mapping[str, Any]) -> bool:
    *splits, last = _pre_tokenizer_steps(content)
    return bool(last["use_regex"]) and all(step["type"] == "Digits" for step in splits)


def _pre_tokenizer_steps(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    step = content["pre_tokenizer"]
    if step is None:
        return []
    return list(step["pretokenizers"]) if step["type"] == "Sequence" else [step]
