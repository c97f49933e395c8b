"""Reading a tokenizer.json that somebody else may have written: checked first, then given to the library."""

from pathlib import Path
from typing import Any

import tokenizers

from nextok.errors import InputError, TokenizerError
from nextok.files import read_json, to_json

TOKENIZER_NAME = "tokenizer.json"

_MODEL_TYPES = ("BPE", "Unigram", "WordLevel", "WordPiece")
_LARGEST_ID = (1 << 24) - 1  # tables by id stay small; no model has so many rows
_REMAKE = "Make the tokenizer again, or give a tokenizer.json as nextok or transformers writes it."


def read_library_tokenizer(path: Path) -> tokenizers.Tokenizer:
    """Returns the library's tokenizer of a tokenizer.json, or of the folder that holds one.

    Raises:
        TokenizerError: if the file is missing, not strict JSON, or not a tokenizer that the library knows.
    """
    path = path / TOKENIZER_NAME if path.is_dir() else path
    try:
        content = read_json(path)
    except InputError as error:
        raise TokenizerError(error.message, _REMAKE) from error
    return make_library_tokenizer(content, path)


def make_library_tokenizer(content: Any, path: Path) -> tokenizers.Tokenizer:
    """Returns the library's tokenizer of the parsed content of a tokenizer.json; `path` says where it came from.

    Raises:
        TokenizerError: if it is not a tokenizer that the library knows.
    """
    _check_content(content, path)
    try:
        return tokenizers.Tokenizer.from_str(to_json(content))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the library panics at some broken files, and a panic is no Exception
        raise TokenizerError(f"{path} cannot be used as a tokenizer: {str(error).strip()}.", _REMAKE) from error


def _check_content(content: Any, path: Path) -> None:
    model = content.get("model") if isinstance(content, dict) else None
    if not isinstance(model, dict):
        raise TokenizerError(f"{path} is not a tokenizer.json: it has no model.", _REMAKE)
    if model.get("type", "BPE") not in _MODEL_TYPES:  # files of old versions leave the type out
        known = ", ".join(_MODEL_TYPES)
        raise TokenizerError(f"{path} has a model of type {model['type']!r}.", f"Types that can be read: {known}.")
    vocabulary = model.get("vocab")
    ids = list(vocabulary.values()) if isinstance(vocabulary, dict) else []
    if not all(isinstance(token_id, int) and 0 <= token_id <= _LARGEST_ID for token_id in ids):
        raise TokenizerError(f"{path} has ids that are not whole numbers in 0..{_LARGEST_ID}.", _REMAKE)
    if len(set(ids)) < len(ids):
        raise TokenizerError(f"{path} gives one id to two tokens.", _REMAKE)
