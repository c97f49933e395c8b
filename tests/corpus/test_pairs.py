"""Pairs of prompt and completion: which records are pairs, what is refused, and what of them is learned."""

import json

import numpy as np
import pytest

from nextok.corpus import Batches, CorpusConfig, ReadCounts, evaluation_batches, prepare
from nextok.corpus.formats import documents_of
from nextok.corpus.pairs import Pair, holds_pairs, read_pair
from nextok.corpus.sources import describe_file
from nextok.corpus.targets import IGNORED
from nextok.errors import CorpusError
from nextok.tokenizer import byte_tokenizer

END = 256


def write_lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def pair(prompt, completion):
    return {"prompt": prompt, "completion": completion}


def prepared(folder, *records, val_fraction=0.0, name="pairs.jsonl", **options):
    path = write_lines(folder / name, records)
    config = CorpusConfig(val_fraction=val_fraction, **options)
    return prepare([str(path)], tokenizer=byte_tokenizer(), out=folder / "corpus", config=config, cache=folder)


def learned(split):
    """The ids of a split, with None for those that do not count."""
    counts = np.ones(len(split), bool) if split.targets is None else split.targets.count_at(np.arange(len(split)))
    return [id if count else None for id, count in zip(split.tokens(0, len(split)).tolist(), counts, strict=True)]


def test_a_record_without_the_text_field_but_with_one_of_the_two_is_of_pairs():
    assert holds_pairs({"prompt": "a"}, "text")
    assert holds_pairs({"completion": "a"}, "text")
    assert not holds_pairs({"prompt": "a", "text": "b"}, "text")
    assert not holds_pairs({"prompt": "a"}, "prompt")  # --text-field prompt: the prompts as plain text
    assert not holds_pairs({"id": 1}, "text")


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"prompt": "a"}, "line 2, has no 'completion'; fields present: prompt"),
        ({"completion": "a"}, "line 2, has no 'prompt'"),
        ({}, "line 2, has no 'prompt'; fields present: none"),
        ({"text": "a"}, "line 2, has no 'prompt'; fields present: text"),
        ({"prompt": 3, "completion": "a"}, "line 2, has prompt = 3, which is not text"),
        ({"prompt": "a", "completion": None}, "line 2, has completion = None, which is not text"),
        ({"prompt": "a", "completion": ""}, "line 2, has an empty completion"),
        ({"prompt": "a", "completion": "b", "system": "c"}, "line 2, has 'system' beside its pair"),
    ],
)
def test_a_bad_line_is_refused_with_its_number_and_what_is_wrong(tmp_path, record, said):
    path = write_lines(tmp_path / "a.jsonl", [pair("p", "c"), record])
    with pytest.raises(CorpusError) as caught:
        list(documents_of(describe_file(path), CorpusConfig(), ReadCounts()))
    assert said in caught.value.message


def test_a_line_that_is_no_object_and_half_a_surrogate_are_refused_too(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"prompt": "a", "completion": "b"}\n[1]\n', encoding="utf-8")
    with pytest.raises(CorpusError, match="line 2, is not a JSON object"):
        list(documents_of(describe_file(tmp_path / "a.jsonl"), CorpusConfig(), ReadCounts()))
    path = write_lines(tmp_path / "b.jsonl", [pair("\ud800", "b")])
    with pytest.raises(CorpusError, match="line 1, holds half of a surrogate pair"):
        list(documents_of(describe_file(path), CorpusConfig(), ReadCounts()))
    [found] = documents_of(describe_file(path), CorpusConfig(bad_bytes="replace"), ReadCounts())
    assert found == Pair("\ufffd", "b")


def test_a_pair_knows_its_parts():
    made = read_pair(pair("", "b"), "here")
    assert made.parts() == (("prompt", ""), ("completion", "b"))


def test_completions_and_the_ends_after_them_are_learned_prompts_are_not(tmp_path):
    corpus = prepared(tmp_path, pair("ab", "c"), pair("", "de"), pair("f", "g\n"))
    N = None
    assert learned(corpus.train) == [N, N, *b"c", END, *b"de", END, N, *b"g\n"]
    assert corpus.train.targets.tokens == 7
    assert corpus.train.targets.size_bytes == 5
    assert corpus.train.bytes_per_token == 5 / 7
    report = corpus.manifest.report
    assert (report.counts.pairs, report.counts.documents, report.bytes) == (3, 3, 8)


def test_plain_texts_beside_pairs_are_learned_whole(tmp_path):
    (tmp_path / "a.txt").write_text("xy", encoding="utf-8")
    path = write_lines(tmp_path / "b.jsonl", [pair("p", "c")])
    sources = [str(tmp_path / "a.txt"), str(path)]
    corpus = prepare(
        sources, tokenizer="byte", out=tmp_path / "out", config=CorpusConfig(val_fraction=0), cache=tmp_path
    )
    assert learned(corpus.train) == [*b"xy", END, None, *b"c"]


def test_plain_text_has_no_file_of_targets_and_every_token_counts(tmp_path):
    (tmp_path / "a.txt").write_text("xyz", encoding="utf-8")
    corpus = prepare(
        [str(tmp_path / "a.txt")], tokenizer="byte", out=tmp_path / "out", config=CorpusConfig(), cache=tmp_path
    )
    assert corpus.train.targets is None
    assert not list((tmp_path / "out").glob("*targets*"))


@pytest.mark.parametrize("val_fraction", [0.01, 0.3, 0.5, 0.7, 0.9])
def test_the_split_cuts_no_pair_and_leaves_both_sides_one(tmp_path, val_fraction):
    records = [pair("aaaa", "b"), pair("c", "dddd"), pair("ee", "ff")]
    corpus = prepared(tmp_path, *records, val_fraction=val_fraction)
    spelled = "".join(chr(id) if id is not None else "." for id in learned(corpus.train) + learned(corpus.validation))
    assert spelled == f"....b{chr(END)}.dddd{chr(END)}..ff"
    assert len(corpus.train) in (6, 12)


def test_a_single_pair_cannot_be_split(tmp_path):
    with pytest.raises(CorpusError, match="A single pair leaves none for the validation split"):
        prepared(tmp_path, pair("some prompt", "and its completion"), val_fraction=0.1)


def test_where_the_border_of_a_pair_lies_changes_the_fingerprint(tmp_path):
    made = []
    for number, record in enumerate([pair("ab", "c"), pair("a", "bc"), pair("", "abc"), {"text": "abc"}]):
        folder = tmp_path / str(number)
        folder.mkdir()
        made.append(prepared(folder, record).fingerprint)
    assert len(set(made)) == 4


def test_targets_are_those_of_completions_after_the_one_shift(tmp_path):
    corpus = prepared(tmp_path, pair("ab", "cd"), pair("efg", "h"))
    # ids        a b c d END e f g h
    # learned    . . x x  x  . . . x
    [whole] = evaluation_batches(corpus.train, 8, 1)
    I = IGNORED  # noqa: E741 - one letter keeps the row readable
    assert whole.inputs_BT.tolist() == [[*b"abcd", END, *b"efg"]]
    assert whole.targets_BT.tolist() == [[I, *b"cd", END, I, I, I, *b"h"]]
    assert whole.n_targets == 4
    batches = Batches(corpus.train, 3, seed=1)
    for sample in range(20):
        batch = batches.batch(sample, 1)
        start = int(batch.starts_B[0])
        assert batch.targets_BT[0].tolist() == whole.targets_BT[0, start : start + 3].tolist()


def test_the_start_that_a_model_gives_its_prompts_stands_before_each_and_is_not_learned(tmp_path):
    tokenizer = byte_tokenizer()
    tokenizer.prompt_start = 7
    path = write_lines(tmp_path / "a.jsonl", [pair("a", "b"), pair("", "c")])
    corpus = prepare(
        [str(path)], tokenizer=tokenizer, out=tmp_path / "out", config=CorpusConfig(val_fraction=0), cache=tmp_path
    )
    assert corpus.train.tokens(0, len(corpus.train)).tolist() == [7, *b"ab", END, 7, *b"c"]
    assert learned(corpus.train) == [None, None, *b"b", END, None, *b"c"]


def test_prompt_and_completion_are_encoded_one_by_one(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", [pair("ab", "ab"), pair("a", "b")])
    corpus = prepare(
        [str(path)], tokenizer="bpe:258", out=tmp_path / "out", config=CorpusConfig(val_fraction=0), cache=tmp_path
    )
    joined = corpus.tokenizer.encode("ab").tolist()
    assert len(joined) == 1  # the pair a b is a token where both stand in one part
    end = corpus.tokenizer.end_of_text
    letters = [int(corpus.tokenizer.encode(letter)[0]) for letter in "ab"]
    assert corpus.train.tokens(0, len(corpus.train)).tolist() == [*joined, *joined, end, *letters]
