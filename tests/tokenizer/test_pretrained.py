from pathlib import Path

import pytest

from nextok.files import write_json
from nextok.tokenizer import TextRules, Tokenizer, byte_tokenizer, char_tokenizer, tokenizer_config, train_bpe

TEXTS = [
    "",
    "y is ?",
    "word 'x' , it 's . do n't",
    " lead",
    "trail ",
    "a\r\nb\rc\n\n",
    "e\u0301te \u00e9",
    "日本 👍🏽\t  x",
    "12 345",
]
RULES = [TextRules(), TextRules(newlines="lf", normalization="nfc")]


def made(kind: str, rules: TextRules) -> Tokenizer:
    pieces = [*TEXTS, "the quick brown fox is quick " * 20]
    if kind == "byte":
        return byte_tokenizer(rules=rules)
    if kind == "bpe":
        return train_bpe(pieces, 300, rules=rules)
    return char_tokenizer(pieces, end_of_text=kind == "char", rules=rules)


@pytest.mark.parametrize(
    ("model_type", "rules"), [(None, RULES[0]), ("gpt2", RULES[1]), ("llama", RULES[0]), ("qwen3", RULES[0])]
)
@pytest.mark.parametrize("kind", ["char", "char without end of text", "byte", "bpe"])
def test_transformers_gives_the_same_ids(kind: str, model_type: str | None, rules: TextRules, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = made(kind, rules)
    tokenizer.save(tmp_path / "tokenizer.json")
    write_json(tmp_path / "tokenizer_config.json", tokenizer_config(tokenizer, 64))
    if model_type:
        write_json(tmp_path / "config.json", {"model_type": model_type})
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    for text in TEXTS:
        ids = tokenizer.encode(text).tolist()
        assert theirs(text)["input_ids"] == ids
        assert theirs.decode(ids) == tokenizer.decode(ids) == rules.apply(text)
    assert theirs.eos_token_id == theirs.bos_token_id == tokenizer.end_of_text
    assert (len(theirs), theirs.model_max_length) == (tokenizer.vocab_size, 64)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    assert fast("y is ?")["input_ids"] == tokenizer.encode("y is ?").tolist()


def test_the_clean_up_of_spaces_stays_off() -> None:
    assert tokenizer_config(byte_tokenizer(), 8)["clean_up_tokenization_spaces"] is False


def test_without_end_of_text_none_is_named() -> None:
    config = tokenizer_config(char_tokenizer(["ab"], end_of_text=False), 8)
    assert config.keys() == {"tokenizer_class", "model_max_length", "clean_up_tokenization_spaces"}


def test_transformers_begins_texts_as_we_begin_prompts(pieces: Tokenizer, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pieces.save(tmp_path / "tokenizer.json")
    write_json(tmp_path / "tokenizer_config.json", tokenizer_config(pieces, 64))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert (theirs.bos_token, theirs.eos_token) == ("<s>", "</s>")
    for text in ("Once On", " é"):
        assert theirs(text)["input_ids"] == pieces.encode_prompt(text).tolist()
