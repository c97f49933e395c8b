"""Small tokenizers of every kind, made once."""

from collections.abc import Callable
from pathlib import Path

import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

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


@pytest.fixture(scope="session")
def pieces() -> Tokenizer:
    """A tokenizer as Llama's: a mark before every word and at the start, bytes for the rest, `<s>` before prompts."""
    tokens = [
        "<unk>",
        "<s>",
        "</s>",
        *(f"<0x{value:02X}>" for value in range(256)),
        "\u2581",
        *"Once",
        "\u2581On",
        "\u2581O",
    ]
    library = tokenizers.Tokenizer(
        models.BPE(
            vocab={token: i for i, token in enumerate(tokens)},
            merges=[("\u2581", "O"), ("\u2581O", "n")],
            unk_token="<unk>",
            byte_fallback=True,
        )
    )
    library.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    library.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    library.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    library.add_special_tokens(["<unk>", "<s>", "</s>"])
    return Tokenizer(library)
