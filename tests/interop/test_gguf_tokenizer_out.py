import pytest
from tokenizers import Regex, models, pre_tokenizers
from tokenizers import Tokenizer as LibraryTokenizer

from nextok.errors import TokenizerError
from nextok.interop.gguf_splits import SPLITS
from nextok.interop.gguf_tokenizer_out import written_gguf_tokenizer
from nextok.tokenizer import TextRules, Tokenizer, byte_tokenizer, char_tokenizer, train_bpe

KEYS = "tokenizer.ggml."


def keys_of(tokenizer):
    keys, notes = written_gguf_tokenizer(tokenizer)
    return {name.removeprefix(KEYS): value for name, value in keys.items()}, notes


def changed(tokenizer, change):
    content = tokenizer.content()
    change(content)
    return Tokenizer.of(content, None)


def test_a_character_is_spelled_by_its_bytes():
    keys, notes = keys_of(char_tokenizer(["a é\\\n"], end_of_text=True))
    assert keys["model"] == "rwkv"
    assert keys["tokens"] == ["\\x0a", "\\x20", "\\x5c", "a", "\\xc3\\xa9", "\\xff<|endoftext|>"]
    assert keys["token_type"] == [1, 1, 1, 1, 1, 3]
    assert keys["bos_token_id"] == keys["eos_token_id"] == 5
    assert notes == ()


def test_without_end_of_text_no_token_is_named_the_end():
    keys, _ = keys_of(char_tokenizer(["ab"], end_of_text=False))
    assert not {"bos_token_id", "eos_token_id"} & set(keys)


def test_bytes_are_all_there_in_their_order():
    keys, _ = keys_of(byte_tokenizer())
    assert keys["tokens"][:256] == [chr(i) if 32 < i < 127 and i != 92 else f"\\x{i:02x}" for i in range(256)]


def test_bpe_keeps_tokens_merges_and_its_name_for_words():
    tokenizer = train_bpe(["the there then " * 3], 262)
    keys, notes = keys_of(tokenizer)
    assert (keys["model"], keys["pre"], notes) == ("gpt2", "gpt-2", ())
    assert len(keys["tokens"]) == tokenizer.vocab_size
    assert keys["merges"][0] in ("t h", "h e")
    assert keys["token_type"][-1] == 3


def test_ids_without_a_token_are_filled():
    tokenizer = changed(train_bpe(["abab"], 258), lambda content: content["added_tokens"][0].update(id=300))
    if tokenizer.end_of_text != 300:  # the library numbers control tokens itself
        tokenizer = changed(tokenizer, lambda content: content["model"]["vocab"].update({"zz": 300}))
    keys, _ = keys_of(tokenizer)
    assert keys["tokens"][290] == "[UNUSED290]"
    assert keys["token_type"][290] == 5


def test_every_split_has_a_name_and_finds_it():
    for name, split in SPLITS.items():
        content = train_bpe(["abab"], 258).content()
        content["pre_tokenizer"] = dict(split.pre_tokenizer)
        content["model"]["ignore_merges"] = split.ignore_merges
        expected = "llama-bpe" if name == "llama3" else name
        assert keys_of(Tokenizer.of(content, None))[0]["pre"] == expected


def test_what_gguf_cannot_say_is_refused():
    library = LibraryTokenizer.from_str(train_bpe(["abab"], 258)._library.to_str())
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex("b"), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    with pytest.raises(TokenizerError, match="how this tokenizer cuts"):
        written_gguf_tokenizer(Tokenizer(library))
    words = LibraryTokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    with pytest.raises(TokenizerError, match="cannot be written as GGUF"):
        written_gguf_tokenizer(Tokenizer(words))
    unreached = changed(byte_tokenizer(), lambda content: content["model"]["vocab"].update(ab=300))
    with pytest.raises(TokenizerError, match="'ab' is not reached"):
        written_gguf_tokenizer(unreached)


def test_what_others_will_do_otherwise_is_said():
    rules = TextRules(newlines="lf", normalization="nfc")
    _, notes = keys_of(char_tokenizer(["a"], end_of_text=False, rules=rules))
    assert notes == (
        "Other programs do not apply this tokenizer's rules for text (newlines = lf, normalization = nfc) to what they "
        "read.",
    )
    endless = changed(train_bpe(["abab"], 258), lambda content: content["added_tokens"].clear())
    assert keys_of(endless)[1] == ("The tokenizer has no end of text; llama.cpp takes token 11 for it.",)
