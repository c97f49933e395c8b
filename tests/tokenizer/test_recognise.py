import json

import pytest
import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers

from nextok.tokenizer import TextRules, Tokenizer
from nextok.tokenizer.byte_symbols import byte_symbols
from nextok.tokenizer.recognise import Traits, recognise, token_before_texts

BYTES = {symbol: value for value, symbol in enumerate(byte_symbols())}


def byte_level(pre_tokenizer: object, **model: object) -> tokenizers.Tokenizer:
    library = tokenizers.Tokenizer(models.BPE(vocab={**BYTES, "ab": 256}, merges=[("a", "b")], **model))
    library.pre_tokenizer, library.decoder = pre_tokenizer, decoders.ByteLevel()
    return library


def traits(library: tokenizers.Tokenizer) -> Traits:
    return recognise(json.loads(library.to_str()))


def byte_step(*, prefix: bool = False, split: bool = True) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=split)


def test_own_tokenizers_are_what_they_were_made_as(byte: Tokenizer, bpe: Tokenizer, words: Tokenizer) -> None:
    assert (byte.kind, bpe.kind, words.kind) == ("byte", "bpe", "other")


def test_foreign_byte_level_bpe_is_bpe() -> None:
    split = pre_tokenizers.Split(Regex(r"\p{L}+|\s+"), behavior="isolated")
    llama_3 = byte_level(pre_tokenizers.Sequence([split, byte_step(split=False)]))
    assert (traits(llama_3).kind, traits(llama_3).cuttable) == ("bpe", False)
    smollm = byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_step()]))
    assert (traits(smollm).kind, traits(smollm).cuttable) == ("bpe", True)


def test_a_known_normalizer_is_read_as_rules() -> None:
    library = byte_level(byte_step())
    library.normalizer = normalizers.NFC()
    assert traits(library) == Traits(kind="bpe", rules=TextRules(normalization="nfc"), cuttable=True)


def lowercase(library: tokenizers.Tokenizer) -> None:
    library.normalizer = normalizers.Lowercase()


def swallow_spaces(library: tokenizers.Tokenizer) -> None:
    library.add_tokens([AddedToken("<x>", lstrip=True)])


def no_decoder(library: tokenizers.Tokenizer) -> None:
    library.decoder = decoders.Fuse()


@pytest.mark.parametrize("change", [lowercase, swallow_spaces, no_decoder])
def test_what_may_lose_text_is_not_promised_to_keep_it(change: object) -> None:
    library = byte_level(byte_step())
    change(library)  # type: ignore[operator]
    assert traits(library).kind == "other"


@pytest.mark.parametrize(
    "library",
    [
        byte_level(byte_step(prefix=True)),
        byte_level(pre_tokenizers.Sequence([pre_tokenizers.Split(" ", behavior="removed"), byte_step()])),
        byte_level(byte_step(), dropout=0.1),
        byte_level(pre_tokenizers.Whitespace()),
    ],
)
def test_other_ways_of_splitting_are_other(library: tokenizers.Tokenizer) -> None:
    assert traits(library).kind == "other"


def test_the_token_before_texts_is_found_in_every_form_of_a_file(pieces: Tokenizer, bpe: Tokenizer) -> None:
    content = pieces.content()
    template = content["post_processor"]
    assert token_before_texts(content) == "<s>"
    chain = {"type": "Sequence", "processors": [{"type": "ByteLevel"}, template]}
    assert token_before_texts({"post_processor": chain}) == "<s>"
    for other in (
        None,
        {"type": "ByteLevel"},
        {**template, "single": []},
        {**template, "single": template["single"][1:]},
    ):
        assert token_before_texts({"post_processor": other}) is None
    assert token_before_texts(bpe.content()) is None
