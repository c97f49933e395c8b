"""Small tokenizers of every kind, made once."""

from collections.abc import Callable
from pathlib import Path

import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from nextok.tokenizer import Tokenizer, byte_tokenizer, gpt2_tokenizer, train_bpe

SAMPLE = (
    "First Citizen: Before we proceed any further, hear me speak. It's <|endoftext|> 'tis not so?\n"
    "All: Speak, speak; we're resolved rather to die than to famish!\n\n\tdéjà vu, über 12 345 Straßen 👍🏽 日本語\r\n"
) * 3


@pytest.fixture(scope="session")
def sample() -> str:
    return SAMPLE


@pytest.fixture(scope="session")
def byte() -> Tokenizer:
    return byte_tokenizer()


@pytest.fixture(scope="session")
def bpe() -> Tokenizer:
    return train_bpe([SAMPLE], 400)


@pytest.fixture(scope="session")
def gpt2(shared_data: Callable[[str], Path]) -> Tokenizer:
    return gpt2_tokenizer(encoder=shared_data("gpt2_encoder.json"), merges=shared_data("gpt2_vocab.bpe"))


@pytest.fixture(scope="session")
def words() -> Tokenizer:
    """A tokenizer of another kind: whole words, as no room of the project makes them."""
    library = tokenizers.Tokenizer(
        models.WordPiece({"[UNK]": 0, "play": 1, "##ing": 2, "we": 3, "end": 9}, unk_token="[UNK]")
    )
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    library.decoder = decoders.WordPiece()
    return Tokenizer(library)
