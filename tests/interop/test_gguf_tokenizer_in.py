from types import SimpleNamespace

import numpy as np
import pytest

from nextok.errors import CheckpointError
from nextok.interop.gguf_file import GgufFile
from nextok.interop.gguf_tokenizer_in import read_gguf_tokenizer
from nextok.interop.gguf_tokenizer_out import written_gguf_tokenizer
from nextok.tokenizer import byte_tokenizer, char_tokenizer, train_bpe

from .gguf_peers import TEXTS, LlamaCpp

ALL = "".join(TEXTS)
KEYS = "tokenizer.ggml."


def read(keys, n_rows=1 << 20):
    metadata = {name: np.array(value) if name.endswith("_type") else value for name, value in keys.items()}
    return read_gguf_tokenizer(SimpleNamespace(path="a.gguf", metadata=metadata), n_rows)


def pieces(*tokens, kinds=None, scores=None, **keys):
    """Returns the keys of a SentencePiece vocabulary."""
    whole = {"model": "llama", "tokens": list(tokens), "token_type": kinds or [2, 3, 3, *[1] * (len(tokens) - 3)]}
    whole["scores"] = np.array(scores or [-float(i) for i in range(len(tokens))])
    return {KEYS + name: value for name, value in (whole | keys).items()}


@pytest.mark.parametrize(
    "tokenizer",
    [
        byte_tokenizer(),
        char_tokenizer([ALL, "\\ "], end_of_text=False),
        char_tokenizer([ALL], end_of_text=True),
        train_bpe([ALL * 2], 400),
    ],
    ids=["byte", "char", "char, end", "bpe"],
)
def test_our_tokenizers_come_back_as_they_were(tokenizer):
    keys, _ = written_gguf_tokenizer(tokenizer)
    back, note = read(keys)
    assert note == ""
    assert (back.kind, back.vocab_size, back.end_of_text) == (
        tokenizer.kind,
        tokenizer.vocab_size,
        tokenizer.end_of_text,
    )
    assert back.prompt_start is None
    for text in TEXTS:
        assert back.encode(text).tolist() == tokenizer.encode(text).tolist()
        assert back.decode(back.encode(text)) == text


def test_sentencepiece_joins_the_best_score_first_and_falls_back_to_bytes():
    bytes_ = [f"<0x{value:02X}>" for value in range(256)]
    tokens = ["<unk>", "<s>", "</s>", *bytes_, "▁", "a", "b", "ab", "▁a", "abb", "bb"]
    kinds = [2, 3, 3, *[6] * 256, *[1] * 7]
    scores = [0.0] * 259 + [-9.0, -9.0, -9.0, -2.0, -3.0, -4.0, -1.0]
    tokenizer, _ = read(pieces(*tokens, kinds=kinds, scores=scores))

    def spelled(text):
        return [tokens[i] for i in tokenizer.encode(text)]

    assert spelled("abb") == ["▁a", "bb"]
    assert spelled("b ab") == ["▁", "b", "▁", "ab"]
    assert spelled("é") == ["▁", "<0xC3>", "<0xA9>"]
    assert spelled("") == []
    assert (tokenizer.prompt_start, tokenizer.end_of_text) == (1, 2)
    assert tokenizer.encode_prompt("a").tolist() == [1, tokens.index("▁a")]
    assert tokenizer.decode(tokenizer.encode("abb é")) == "abb é"


def test_stories_are_encoded_as_llama_cpp_encodes_them(shared_data):
    path = shared_data("stories260K.gguf")
    tokenizer, _ = read_gguf_tokenizer(GgufFile(path), 512)
    peer = LlamaCpp(path)
    for text in [*TEXTS, "Tim and Lily went to the park.\nThey saw a big dog!"]:
        assert peer.ids(text, start=True) == tokenizer.encode_prompt(text).tolist(), text


def test_control_tokens_are_never_read_out_of_text(shared_data):
    tokenizer, _ = read_gguf_tokenizer(GgufFile(shared_data("stories260K.gguf")), 512)
    assert not {1, 2} & set(tokenizer.encode("<s>Once</s>").tolist())


def test_tokens_that_the_user_defined_are_always_one(shared_data):
    keys = pieces("<unk>", "<s>", "</s>", "a", "▁", "▁a", "<go>", kinds=[2, 3, 3, 1, 1, 1, 4])
    tokenizer, _ = read(keys)
    assert tokenizer.encode("a<go>").tolist() == [5, 6]


def test_a_prefix_and_a_start_are_added_only_where_the_file_wants_them():
    keys = pieces("<unk>", "<s>", "</s>", "a", "▁", "▁a", add_space_prefix=False, add_bos_token=False)
    tokenizer, _ = read(keys)
    assert tokenizer.encode_prompt("a").tolist() == [3]
    assert tokenizer.decode([5]) == " a"


def test_ids_beyond_the_table_mean_that_there_is_none():
    absent = 4_294_967_295
    keys = pieces("<unk>", "<s>", "</s>", "a", bos_token_id=absent, eos_token_id=absent, padding_token_id=absent)
    tokenizer, _ = read(keys)
    assert tokenizer.prompt_start is None
    assert tokenizer.end_of_text == 2  # by its name


def test_llama_3_begins_prompts_and_takes_whole_words():
    keys, _ = written_gguf_tokenizer(train_bpe(["the then " * 3], 262))
    keys |= {KEYS + "pre": "llama-bpe", KEYS + "bos_token_id": 256}
    del keys[KEYS + "add_bos_token"]
    tokenizer, _ = read(keys)
    assert tokenizer.encode_prompt("x").tolist()[0] == tokenizer.prompt_start == 256
    assert tokenizer.content()["model"]["ignore_merges"]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({}, "has no tokenizer"),
        ({KEYS + "model": "none"}, "has no tokenizer"),
        ({KEYS + "model": "bert"}, "'bert', which nextok does not have; it has llama, gpt2, rwkv"),
        ({KEYS + "model": "gpt2", KEYS + "pre": "tekken", KEYS + "tokens": ["a"]}, "by the rule 'tekken'"),
        ({KEYS + "model": "rwkv", KEYS + "tokens": ["a", "ab"]}, "neither characters nor bytes"),
    ],
)
def test_a_tokenizer_that_would_give_wrong_ids_is_left_out_with_the_reason(keys, words):
    tokenizer, note = read(keys)
    assert tokenizer is None
    assert words in note


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tokens": None}, "no list tokenizer.ggml.tokens"),
        ({"tokens": 7}, "no list tokenizer.ggml.tokens"),
        ({"tokens": ["<unk>", "<s>", "</s>", "a", "a"]}, "not equally many"),
        ({"tokens": ["<unk>", "<s>", "</s>", "</s>"]}, "the same text"),
        ({"tokens": ["<unk>", "<s>", "</s>", "a" * 2000]}, "more than 1024 characters"),
        ({"token_type": [1]}, "not equally many"),
        ({"token_type": "many"}, "not equally many"),
        ({"scores": np.zeros(3)}, "scores are not equally many"),
        ({"scores": None}, "scores are not equally many"),
        ({"model": 5}, "not text"),
        ({"bos_token_id": "1"}, "not a whole number"),
        ({"add_bos_token": 1}, "not true or false"),
        ({"model": "gpt2", "merges": ["a b"]}, "a.gguf cannot be used as a tokenizer"),
        ({"model": "gpt2", "merges": ["ab"]}, "a.gguf cannot be used as a tokenizer"),
        ({"model": "gpt2"}, "no list tokenizer.ggml.merges"),
    ],
)
def test_a_broken_vocabulary_ends_in_a_sentence(changes, words):
    keys = pieces("<unk>", "<s>", "</s>", "a") | {KEYS + name: value for name, value in changes.items()}
    keys = {name: value for name, value in keys.items() if value is not None}
    if isinstance(keys.get(KEYS + "token_type"), str):
        metadata = SimpleNamespace(path="a.gguf", metadata=keys)
        with pytest.raises(CheckpointError, match=words):
            read_gguf_tokenizer(metadata, 100)
        return
    with pytest.raises(CheckpointError, match=words):
        read(keys)


def test_more_tokens_than_rows_are_refused():
    with pytest.raises(CheckpointError, match="4"):
        read(pieces("<unk>", "<s>", "</s>", "a"), n_rows=3)
