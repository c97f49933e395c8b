import json
import re
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nextok.decode import SamplingConfig, generate, grammar_constraint, stream
from nextok.errors import ConfigError, MissingExtraError
from nextok.tokenizer import byte_tokenizer, char_tokenizer, train_bpe

from .tiny import ByteTokenizer, CharTokenizer, TinyDecoder

LETTERS = ['abcdefxyz0123 {}":,name-.']
SCHEMA = {
    "type": "object",
    "properties": {"name": {"enum": ["ax", "b", "f"]}, "a": {"type": "integer"}, "c": {"type": "boolean"}},
    "required": ["name", "a"],
    "additionalProperties": False,
}
TOKENIZERS = {
    "char": char_tokenizer(LETTERS, end_of_text=False),
    "char with end": char_tokenizer(LETTERS, end_of_text=True),
    "byte": byte_tokenizer(),
    "bpe": train_bpe(['hello name age {"name": "ax"} 123 abab xx ' * 50], 300),
}
REGEXES = ["[ab]{2,4}x[0-9]+", "(ax|aq|b)z*", "na(me)?", "[a-c]{3} ?[^x]", "x", "(abc)*"]


def write(tokenizer, **options):
    decoder = TinyDecoder(context=120, vocab_size=tokenizer.vocab_size)
    config = SamplingConfig(**{"temperature": 1.5, "max_new_tokens": 60, **options})
    ((generation,),) = generate(decoder, tokenizer, [[1, 2]], config)
    return generation


def allowed_texts(constraint, tokenizer):
    return {tokenizer.token_bytes(int(id)) for id in np.flatnonzero(constraint.allowed())}


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from(REGEXES))
def test_a_text_that_has_ended_matches_its_expression(name, seed, regex):
    generation = write(TOKENIZERS[name], regex=regex, seed=seed)
    if generation.finish_reason == "stop":
        assert re.fullmatch(regex, generation.text)
    else:
        assert len(generation.ids) == 60


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(max_examples=15)
@given(st.integers(0, 10**6))
def test_a_text_that_has_ended_follows_its_schema(name, seed):
    generation = write(TOKENIZERS[name], json_schema=json.dumps(SCHEMA), seed=seed)
    if generation.finish_reason == "stop":
        value = json.loads(generation.text)
        assert {"name", "a"} <= set(value) <= {"name", "a", "c"}
        assert value["name"] in ("ax", "b", "f")
        assert type(value["a"]) is int
        assert type(value.get("c", True)) is bool


@pytest.mark.parametrize("name", TOKENIZERS)
def test_most_texts_do_end(name):
    for options in ({"regex": "[ab]{2,4}x[0-9]"}, {"json_schema": json.dumps(SCHEMA)}):
        reasons = [write(TOKENIZERS[name], seed=seed, **options).finish_reason for seed in range(10)]
        assert reasons.count("stop") >= 8


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(max_examples=25)
@given(st.lists(st.integers(0, 10**6), max_size=8), st.sampled_from(["[ab]{2}x[0-2]?", "(na|bc)+"]))
def test_a_mask_is_exactly_the_ids_that_some_match_goes_on_with(name, picks, regex):
    tokenizer = TOKENIZERS[name]
    # Forced bytes come as the tokenizer spells them, so the mask may leave out other spellings of the same text.
    beginnings = {"[ab]{2}x[0-2]?": r"([ab]([ab](x[0-2]?)?)?)?", "(na|bc)+": r"(na|bc)*[nb]?"}[regex]
    constraint, text = grammar_constraint(tokenizer, regex=regex), b""
    for pick in picks:
        allowed_V = constraint.allowed()
        possible = [
            id
            for id in range(tokenizer.vocab_size)
            if id != tokenizer.end_of_text and re.fullmatch(beginnings.encode(), text + tokenizer.token_bytes(id))
        ]
        found = np.flatnonzero(allowed_V).tolist()
        assert set(found) <= set(possible)
        assert bool(found) == bool(possible)
        if name != "bpe":
            assert found == possible
        assert constraint.can_end == (re.fullmatch(regex.encode(), text) is not None)
        assert constraint.is_done == (constraint.can_end and not found)
        if not found:
            break
        text += tokenizer.token_bytes(found[pick % len(found)])
        constraint.advance(found[pick % len(found)])


def test_an_end_comes_where_the_text_is_whole_even_with_no_id_for_it():
    for name in TOKENIZERS:
        ended = write(TOKENIZERS[name], regex="ab")
        assert (ended.text, ended.finish_reason) == ("ab", "stop")
        assert len(ended.ids) <= 2  # nothing can follow, so no end of text is waited for
    # Something could follow here, and the model says by what it writes instead that nothing does.
    ended = write(TOKENIZERS["char"], regex="[ab]+", seed=1)
    assert ended.finish_reason == "stop"
    assert len(ended.ids) == len(ended.text) + 1
    assert TOKENIZERS["char"].decode(ended.ids[-1:]) not in "ab"
    ended = write(TOKENIZERS["char with end"], regex="[ab]+", seed=1)
    assert (ended.finish_reason, ended.ids[-1]) == ("stop", TOKENIZERS["char with end"].end_of_text)


def test_an_expression_of_nothing_but_the_empty_text_is_finished_at_once():
    empty = write(TOKENIZERS["char"], regex="a{0}")
    assert (empty.text, empty.ids, empty.finish_reason) == ("", (), "stop")


def test_each_of_several_texts_has_its_own_state():
    tokenizer = TOKENIZERS["byte"]
    config = SamplingConfig(regex="[ab]{3,6}", n=4, seed=3, temperature=2)
    (row,) = generate(TinyDecoder(context=40, vocab_size=257, n_slots=4), tokenizer, [[1]], config)
    assert all(re.fullmatch("[ab]{3,6}", each.text) for each in row)
    assert len({each.text for each in row}) > 1


def test_a_text_of_many_bytes_a_character_is_whole():
    ended = write(TOKENIZERS["byte"], regex="[é日🙂]{4}")
    assert re.fullmatch("[é日🙂]{4}", ended.text)


def test_a_character_vocabulary_never_starts_what_it_cannot_spell():
    tokenizer = char_tokenizer(['abcf "{}:,'], end_of_text=False)
    assert allowed_texts(grammar_constraint(tokenizer, regex="(ax|b)"), tokenizer) == {b"b"}
    assert allowed_texts(grammar_constraint(tokenizer, regex="a(xc|yb)|(b|az)+c"), tokenizer) == {b"b"}
    schema = {"enum": ["ab", "bx", "cy"]}
    constraint = grammar_constraint(tokenizer, json_schema=json.dumps(schema))
    constraint.advance(int(tokenizer.encode('"')[0]))
    assert allowed_texts(constraint, tokenizer) == {b"a"}


@pytest.mark.parametrize("options", [{"regex": "q+"}, {"regex": "a(x|y)"}, {"json_schema": '{"enum": ["x"]}'}])
def test_a_vocabulary_that_cannot_spell_any_of_it_is_refused_at_the_start(options):
    with pytest.raises(ConfigError, match=r"vocabulary of 3 tokens cannot spell any text of the \w+ \w+"):
        grammar_constraint(char_tokenizer(["abc"], end_of_text=False), **options)
    with pytest.raises(ConfigError, match="cannot spell"):
        stream(TinyDecoder(vocab_size=3), char_tokenizer(["abc"], end_of_text=False), [1], SamplingConfig(**options))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"regex": "(a"}, "expression '\\(a' cannot be used: unclosed group"),
        ({"regex": "a(?=b)"}, "look-ahead"),
        ({"json_schema": "{"}, "is not JSON"),
        ({"json_schema": "[1]"}, "is not an object"),
        ({"json_schema": '{"type": "strin"}'}, "Invalid type: strin"),
        ({"json_schema": '{"not": {}}'}, "Unimplemented keys"),
    ],
)
@pytest.mark.parametrize("name", TOKENIZERS)
def test_what_is_no_grammar_is_refused_with_the_reason(name, options, said):
    with pytest.raises(ConfigError, match=said):
        grammar_constraint(TOKENIZERS[name], **options)


def test_expressions_mean_the_same_to_every_vocabulary():
    texts = ["/", "a/b", "\\", "[", "#", '"', "\n", "é"]
    tokenizer = char_tokenizer(["".join(texts)], end_of_text=False)
    for text in texts:
        for each in (tokenizer, TOKENIZERS["byte"]):
            constraint = grammar_constraint(each, regex=re.escape(text))
            for id in each.encode(text):
                constraint.advance(int(id))
            assert constraint.is_done


def test_white_space_in_json_is_bounded():
    tokenizer = TOKENIZERS["byte"]
    constraint = grammar_constraint(tokenizer, json_schema=json.dumps(SCHEMA))
    for byte in b'{ "name" : "ax" , ':
        constraint.advance(byte)
    assert allowed_texts(constraint, tokenizer) == {b'"'}


def test_a_copy_goes_its_own_way_and_asking_ahead_changes_nothing():
    tokenizer = TOKENIZERS["byte"]
    one = grammar_constraint(tokenizer, regex="abc|abd")
    assert one.n_possible(list(b"abdx")) == 3
    assert one.n_possible(list(b"b")) == 0
    other = one.copy()
    for byte in b"abc":
        other.advance(byte)
    assert other.is_done and not one.can_end
    assert allowed_texts(one, tokenizer) == {b"a"}


def test_an_id_that_is_not_allowed_is_a_fault_of_the_caller():
    with pytest.raises(AssertionError, match="not allowed"):
        grammar_constraint(TOKENIZERS["byte"], regex="a").advance(98)


def test_end_of_text_is_never_text():
    tokenizer = TOKENIZERS["byte"]
    constraint = grammar_constraint(tokenizer, regex="(.|\n)*")
    assert not constraint.allowed()[tokenizer.end_of_text]
    assert constraint.allowed()[ord("<")]


def test_an_id_that_no_token_has_is_never_allowed():
    class Holes(ByteTokenizer):
        vocab_size, end_of_text = 300, 256

        def token_bytes(self, token_id):
            return TOKENIZERS["byte"].token_bytes(token_id)  # warns beyond 256

        def encode_bytes(self, data):
            return TOKENIZERS["byte"].encode_bytes(data)

    allowed_V = grammar_constraint(Holes(), regex="(.|\n)*").allowed()
    assert allowed_V.shape == (300,)
    assert not allowed_V[256:].any()


def test_a_tokenizer_that_does_not_know_its_bytes_is_refused():
    with pytest.raises(ConfigError, match="knows the bytes"):
        grammar_constraint(CharTokenizer("abc"), regex="a")
    with pytest.raises(ConfigError, match="regex = 'a' needs a tokenizer"):
        stream(TinyDecoder(), None, [1], SamplingConfig(regex="a"))


def test_without_the_library_the_error_names_the_way(monkeypatch):
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'nextok\[grammar\]'"):
        write(TOKENIZERS["byte"], regex="a")


@pytest.mark.parametrize("name", ["char", "bpe"])
def test_log_probabilities_stay_those_of_the_model(name):
    tokenizer = TOKENIZERS[name]
    config = SamplingConfig(regex="[ab]{2}", temperature=0, top_logprobs=2)
    event = next(stream(TinyDecoder(vocab_size=tokenizer.vocab_size), tokenizer, [1, 2], config))
    logits = TinyDecoder(vocab_size=tokenizer.vocab_size).prefill(0, np.array([1, 2])).astype(np.float64)
    logprobs = logits - np.log(np.exp(logits).sum())
    assert event.logprob == pytest.approx(logprobs[event.id], abs=1e-5)
    assert event.top_logprobs[0][0] == logits.argmax()
