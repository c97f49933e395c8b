"""Text to ids and back: characters, bytes, trained byte-level BPE, GPT-2's BPE, each saved as one tokenizer.json.

Not here: reading files and documents (`nextok.corpus`), choosing the next id (`nextok.decode`).
"""

from nextok.tokenizer.build import byte_level_bpe, byte_tokenizer, char_tokenizer, train_bpe
from nextok.tokenizer.byte_symbols import byte_symbols
from nextok.tokenizer.characters import Unknown
from nextok.tokenizer.choice import TokenizerChoice, build_tokenizer, check_fits, parse_choice
from nextok.tokenizer.gpt2 import gpt2_tokenizer
from nextok.tokenizer.pretrained import tokenizer_config
from nextok.tokenizer.stream import TextStream
from nextok.tokenizer.text_rules import NewlineRule, NormalForm, TextRules, well_formed
from nextok.tokenizer.tokenizer import END_OF_TEXT, Tokenizer, UnknownIdWarning
from nextok.tokenizer.tokenizer_json import TOKENIZER_NAME

__all__ = [
    "END_OF_TEXT",
    "TOKENIZER_NAME",
    "NewlineRule",
    "NormalForm",
    "TextRules",
    "TextStream",
    "Tokenizer",
    "TokenizerChoice",
    "Unknown",
    "UnknownIdWarning",
    "build_tokenizer",
    "byte_level_bpe",
    "byte_symbols",
    "byte_tokenizer",
    "char_tokenizer",
    "check_fits",
    "gpt2_tokenizer",
    "parse_choice",
    "tokenizer_config",
    "train_bpe",
    "well_formed",
]
