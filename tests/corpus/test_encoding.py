"""The second pass: where the split falls, what stands between documents, and what is refused."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nextok.corpus import CorpusConfig, Piece
from nextok.corpus.encoding import encode_splits
from nextok.corpus.scan import scan_text
from nextok.corpus.shards import TokenSplit
from nextok.errors import CorpusError, UnknownCharacterError
from nextok.tokenizer import byte_tokenizer, char_tokenizer

END = 256


def pieces_of(documents):
    for number, parts in enumerate(documents):
        for place, text in enumerate(parts):
            yield Piece(document=number, text=text, ends_document=place == len(parts) - 1, source=f"{number}.txt")


def encode(folder, documents, train_characters, tokenizer=None, **options):
    """Returns the ids and document starts of each split, and their records."""
    tokenizer = tokenizer or byte_tokenizer()
    scan = scan_text(pieces_of(documents), alphabet=False, sample=False)
    records = encode_splits(
        pieces_of(documents),
        tokenizer,
        folder,
        scan=scan,
        train_characters=train_characters,
        config=CorpusConfig(**options),
    )
    opened = []
    for name, record in zip(("train", "validation"), records, strict=True):
        if record is not None:
            split = TokenSplit(folder, name, record.shards, vocab_size=tokenizer.vocab_size, size_bytes=record.bytes)
            starts = np.load(folder / f"{name}-documents.npy")
            opened.append((split.tokens(0, len(split)).tolist(), starts.tolist()))
    return opened, records


def test_the_split_cuts_inside_a_piece_where_it_falls(tmp_path):
    splits, records = encode(tmp_path, [["abc", "def"]], 4)
    assert splits == [(list(b"abcd"), [0]), (list(b"ef"), [0])]
    assert [record.characters for record in records] == [4, 2]


def test_end_of_text_stands_between_documents_and_nowhere_else(tmp_path):
    splits, _ = encode(tmp_path, [["ab"], ["c"], ["de", "f"]], 6)
    assert splits == [([*b"ab", END, *b"c", END, *b"def"], [0, 3, 5])]


def test_one_document_has_no_end_of_text(tmp_path):
    assert encode(tmp_path, [["ab", "cd"]], 4)[0] == [(list(b"abcd"), [0])]


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (1, [([*b"a"], [0]), ([*b"b", END, *b"cd"], [0, 2])]),
        (2, [([*b"ab", END], [0]), ([*b"cd"], [0])]),
        (3, [([*b"ab", END, *b"c"], [0, 3]), ([*b"d"], [0])]),
    ],
)
def test_end_of_text_follows_its_document_into_its_split(tmp_path, position, expected):
    assert encode(tmp_path, [["ab"], ["cd"]], position)[0] == expected


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    documents=st.lists(
        st.lists(st.text("aé😀", min_size=1, max_size=5), min_size=1, max_size=3), min_size=1, max_size=5
    ),
    data=st.data(),
)
def test_both_splits_together_are_the_text(tmp_path_factory, documents, data):
    text = "".join("".join(parts) for parts in documents)
    position = data.draw(st.integers(1, len(text)))
    splits, records = encode(tmp_path_factory.mktemp("splits"), documents, position)
    present = [record for record in records if record is not None]
    assert sum(record.characters for record in present) == len(text)
    assert sum(record.bytes for record in present) == len(text.encode())
    assert splits[0][0].count(END) + (splits[1][0].count(END) if len(splits) > 1 else 0) == len(documents) - 1
    joined = bytes(token for ids, _ in splits for token in ids if token != END)
    assert joined == text.encode()
    first = bytes(token for token in splits[0][0] if token != END)
    assert first == text[:position].encode()


def test_documents_of_a_character_are_written_together(tmp_path, monkeypatch):
    monkeypatch.setattr("nextok.corpus.encoding._BATCH_PARTS", 3)
    splits, records = encode(tmp_path, [["a"]] * 8, 8)
    assert splits[0] == ([*b"a", END] * 7 + [*b"a"], list(range(0, 16, 2)))
    assert records[0].documents == 8


def test_bytes_that_were_kept_are_encoded_as_themselves(tmp_path):
    text = b"a\xff\xc3\xa9\x80".decode("utf-8", "surrogateescape")
    splits, records = encode(tmp_path, [[text]], len(text), bad_bytes="keep")
    assert splits[0][0] == list(b"a\xff\xc3\xa9\x80")
    assert records[0].bytes == 5


def test_an_unknown_character_is_told_with_its_file(tmp_path):
    tokenizer = char_tokenizer(["abc"], end_of_text=True)
    with pytest.raises(UnknownCharacterError, match=r"In 1\.txt: .*'z' \(U\+007A"):
        encode(tmp_path, [["ab"], ["cz"]], 4, tokenizer)


def test_unknown_characters_are_dropped_where_asked(tmp_path):
    tokenizer = char_tokenizer(["abc"], end_of_text=True)
    splits, _ = encode(tmp_path, [["ab"], ["z"], ["cz"]], 5, tokenizer, unknown="drop")
    assert splits == [([0, 1, 3, 3, 2], [0, 3, 4])]


@given(text=st.text("abcé😀", min_size=1), unknown=st.sampled_from(["drop", "replace"]))
def test_bytes_are_those_that_the_ids_stand_for(tmp_path_factory, text, unknown):
    """Dropped bytes would make bits per byte look better than they are."""
    tokenizer = char_tokenizer(["é?"], end_of_text=False)
    _, records = encode(tmp_path_factory.mktemp("dropped"), [["é" + text]], len(text) + 1, tokenizer, unknown=unknown)
    known = [character for character in text if character == "é" or unknown == "replace"]
    assert records[0].bytes == 2 + sum(2 if character == "é" else 1 for character in known)
    assert records[0].characters == len(text) + 1


def test_a_split_of_nothing_but_dropped_characters_is_refused(tmp_path):
    tokenizer = char_tokenizer(["abc"], end_of_text=False)
    with pytest.raises(CorpusError, match="validation split has no text left"):
        encode(tmp_path, [["abzz"]], 2, tokenizer, unknown="drop")


def test_a_split_of_nothing_but_ends_of_text_is_refused(tmp_path):
    tokenizer = char_tokenizer(["abc"], end_of_text=True)
    with pytest.raises(CorpusError, match="validation split has no text left: its 2 characters"):
        encode(tmp_path, [["ab"], ["z"], ["z"]], 2, tokenizer, unknown="drop")


def test_text_that_changed_between_the_passes_is_refused(tmp_path):
    scan = scan_text(pieces_of([["abcd"]]), alphabet=False, sample=False)
    with pytest.raises(CorpusError, match="changed while they were being read"):
        encode_splits(
            pieces_of([["abcx"]]), byte_tokenizer(), tmp_path, scan=scan, train_characters=4, config=CorpusConfig()
        )
