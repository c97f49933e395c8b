"""A `Tokenizer` in the keys of a GGUF file, so that llama.cpp gives the ids that nextok gives.

Byte-level BPE is written as the kind `gpt2`. Tokenizers that merge nothing (a token a character, a token a byte) are
written as the kind `rwkv`, which takes the longest token that fits: `gpt2` would need a merge, and would take token 11
for the end of text where there is none.
"""

from collections.abc import Mapping
from typing import Any

from nextok.errors import TokenizerError
from nextok.interop.gguf_splits import SPLITS
from nextok.interop.gguf_tokenizer_in import CONTROL, KEYS, NORMAL, UNSPELLABLE, UNUSED, USER
from nextok.tokenizer import TextRules, Tokenizer

_INSTEAD = "Write a directory of transformers instead."


def written_gguf_tokenizer(tokenizer: Tokenizer) -> tuple[dict[str, object], tuple[str, ...]]:
    """Returns the keys of the tokenizer, and in sentences what the file cannot say.

    Raises:
        TokenizerError: if the file would give other ids: for kind `other`, and for cuts that have no name in GGUF.
    """
    content = tokenizer.content()
    if tokenizer.kind == "other":
        raise TokenizerError("This tokenizer works in a way that cannot be written as GGUF.", _INSTEAD)
    kind = "gpt2" if content["model"]["merges"] else "rwkv"
    tokens, kinds = _tokens(tokenizer, content, escaped=kind == "rwkv")
    keys: dict[str, object] = {
        "model": kind,
        "tokens": tokens,
        "token_type": kinds,
        "add_bos_token": tokenizer.prompt_start is not None,
        "add_space_prefix": False,
    }
    if kind == "gpt2":
        keys |= {"pre": _split_name(content), "merges": [" ".join(merge) for merge in content["model"]["merges"]]}
    start = tokenizer.end_of_text if tokenizer.prompt_start is None else tokenizer.prompt_start
    ends = {"bos_token_id": start, "eos_token_id": tokenizer.end_of_text}
    keys |= {name: i for name, i in ends.items() if i is not None}
    return {KEYS + name: value for name, value in keys.items()}, tuple(_notes(tokenizer, kind))


def _notes(tokenizer: Tokenizer, kind: str) -> list[str]:
    notes = []
    if tokenizer.rules != TextRules():
        rules = f"newlines = {tokenizer.rules.newlines}, normalization = {tokenizer.rules.normalization}"
        notes.append(f"Other programs do not apply this tokenizer's rules for text ({rules}) to what they read.")
    if kind == "gpt2" and tokenizer.end_of_text is None:
        notes.append("The tokenizer has no end of text; llama.cpp takes token 11 for it.")
    return notes


def _tokens(tokenizer: Tokenizer, content: Mapping[str, Any], *, escaped: bool) -> tuple[list[str], list[int]]:
    """Returns text and type of every id; ids without a token are filled with unused ones."""
    tokens = [f"[UNUSED{i}]" for i in range(tokenizer.vocab_size)]
    kinds = [UNUSED] * tokenizer.vocab_size
    for token, i in content["model"]["vocab"].items():
        tokens[i], kinds[i] = token, NORMAL
    for added in content["added_tokens"]:
        tokens[added["id"]], kinds[added["id"]] = added["content"], CONTROL if added["special"] else USER
    if escaped:
        tokens = [_escaped(tokenizer, i, token, kinds[i]) for i, token in enumerate(tokens)]
    return tokens, kinds


def _escaped(tokenizer: Tokenizer, token_id: int, token: str, kind: int) -> str:
    spelled = tokenizer.token_bytes(token_id) if kind == NORMAL else UNSPELLABLE + token.encode("utf-8")
    single = len(token) == 1  # a character, or the symbol of a byte
    if kind == USER or (kind == NORMAL and not single):
        raise TokenizerError(f"The token {token!r} is not reached by any merge; GGUF cannot say that.", _INSTEAD)
    return "".join(chr(byte) if 0x20 < byte < 0x7F and byte != 0x5C else f"\\x{byte:02x}" for byte in spelled)


def _split_name(content: Mapping[str, Any]) -> str:
    own = _cuts(content["pre_tokenizer"]), bool(content["model"].get("ignore_merges"))
    for name, split in SPLITS.items():
        if own == (_cuts(split.pre_tokenizer), split.ignore_merges):
            return name
    raise TokenizerError("GGUF has no name that nextok knows for how this tokenizer cuts text into words.", _INSTEAD)


def _cuts(pre_tokenizer: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Returns the steps of a pre-tokenizer without what does not decide ids."""
    step = pre_tokenizer or {"type": "Sequence", "pretokenizers": []}
    steps = step["pretokenizers"] if step["type"] == "Sequence" else [step]
    return [{name: value for name, value in each.items() if name != "trim_offsets"} for each in steps]
