"""Models of every family beside their tokenizers, in folders, for engines to read."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nextok.interop import write_directory
from nextok.spec import ModelConfig
from nextok.tokenizer import Tokenizer, byte_tokenizer, char_tokenizer, train_bpe

SIZE = {"n_layers": 2, "d_model": 64, "n_heads": 2, "context": 40, "vocab_size": 300}
LLAMA = {"norm": "rmsnorm", "position": "rope", "mlp": "swiglu", "bias": False, "tied_head": False}
CONFIGS = {
    "gpt2": ModelConfig(**SIZE),
    "llama": ModelConfig(**SIZE, **LLAMA, n_kv_heads=1),
    "qwen3": ModelConfig(**SIZE, **LLAMA, qk_norm=True, d_head=16),
}
ALIEN = ModelConfig(**SIZE, norm_placement="after")
TEXT = "Ça coûte 10 €, dit-il; it was def main( a The book.\n"
TOKENIZERS: dict[str, Callable[[], Tokenizer]] = {
    "byte": byte_tokenizer,
    "bpe": lambda: train_bpe([TEXT * 20], 300),
    "char": lambda: char_tokenizer([TEXT], end_of_text=True),
    "char without end": lambda: char_tokenizer([TEXT], end_of_text=False),
}

Folder = Callable[..., Path]


@pytest.fixture
def folder_of(tmp_path: Path, random_weights) -> Folder:
    """Returns what writes a model whose choices are no ties into a folder, beside a tokenizer that fits it."""

    def write(config: ModelConfig, kind: str = "byte") -> Path:
        tokenizer = TOKENIZERS[kind]()
        config = replace(config, vocab_size=tokenizer.vocab_size)
        weights = {name: array * 0.3 for name, array in random_weights(config).items()}
        write_directory(tmp_path / "model", config, weights, tokenizer)
        return tmp_path / "model"

    return write
