"""Pieces put together are the documents under the rules, wherever chunks and pieces end."""

import random
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nextok.corpus import CorpusConfig, ReadCounts, read_pieces
from nextok.corpus.documents import cut_pieces, under_rules
from nextok.corpus.sources import describe_file
from nextok.tokenizer import TextRules, gpt2_tokenizer

# Everything that joins what stands before it: marks, vowel signs, Hangul parts, halfwidth marks, CR LF.
JOINING = "ae\u0301\u0323\u0344 \r\n가\u1100\u1161\u11a8\uffa1\uffc2ｶ\uff9e\u09c7\u09be\u0f71\u0f73가ﬁ①\u00a8"


def chop(text: str, rng: random.Random) -> list[str]:
    chunks, place = [], 0
    while place < len(text):
        end = place + rng.randint(1, 4)
        end += text[end - 1 : end + 1] == "\r\n"
        chunks.append(text[place:end])
        place = end
    return chunks


@pytest.mark.parametrize("form", ["none", "nfc", "nfd", "nfkc", "nfkd"])
@pytest.mark.parametrize("newlines", ["lf", "keep"])
@given(text=st.text(JOINING, max_size=30), rng=st.randoms(use_true_random=False))
def test_rules_on_chunks_are_rules_on_the_whole(form, newlines, text, rng):
    rules = TextRules(newlines=newlines, normalization=form)
    assert "".join(under_rules(chop(text, rng), rules)) == rules.apply(text)


def test_rules_leave_kept_bytes_alone():
    text = b"e\xcc\x81\xff\r\n\x80".decode("utf-8", "surrogateescape")
    rules = TextRules(newlines="lf", normalization="nfc")
    changed = "".join(under_rules([text], rules, keeps_bytes=True))
    assert changed.encode("utf-8", "surrogateescape") == "é".encode() + b"\xff\n\x80"


def test_text_in_which_nothing_begins_anew_does_not_pile_up(monkeypatch):
    monkeypatch.setattr("nextok.corpus.documents._SEARCH_CHARACTERS", 100)
    held = list(under_rules(["\u0301" * 50] * 40, TextRules(normalization="nfc")))
    assert "".join(held) == "\u0301" * 2000
    assert max(map(len, held)) <= 200


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr("nextok.corpus.documents.PIECE_CHARACTERS", 16)


@given(text=st.text(JOINING + "     bcd", max_size=120), rng=st.randoms(use_true_random=False))
def test_pieces_are_bounded_and_do_not_depend_on_the_chunks(text, rng):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nextok.corpus.documents.PIECE_CHARACTERS", 16)
        pieces = list(cut_pieces(chop(text, rng)))
        assert pieces == list(cut_pieces([text]))
    assert "".join(pieces) == text
    assert all(0 < len(piece) <= 16 for piece in pieces)
    assert not any(a.endswith("\r") and b.startswith("\n") for a, b in zip(pieces, pieces[1:], strict=False))


def test_a_cut_is_before_a_single_space_between_words(small_pieces):
    assert list(cut_pieces(["one two  three four"])) == ["one two  three", " four"]


def test_without_a_space_a_cut_keeps_a_letter_with_its_marks(small_pieces):
    text = "a" * 15 + "e\u0301\u0323" + "b" * 5
    assert list(cut_pieces([text])) == ["a" * 15, "e\u0301\u0323bbbbb"]


def test_pieces_stay_in_a_normal_form(small_pieces):
    text = unicodedata.normalize("NFC", "yếu" * 30)
    assert all(unicodedata.is_normalized("NFC", piece) for piece in cut_pieces([text]))


def test_gpt2_gives_the_ids_of_the_whole_text_piece_by_piece(monkeypatch):
    monkeypatch.setattr("nextok.corpus.documents.PIECE_CHARACTERS", 40)
    tokenizer = gpt2_tokenizer()
    text = "It's  a test,\n\n  of   words; don't (ever) cut 1234 them… “Où?” at all.\t\n" * 5
    pieces = list(cut_pieces([text]))
    assert len(pieces) > 8
    ids = [token_id for piece in pieces for token_id in tokenizer.encode(piece).tolist()]
    assert ids == tokenizer.encode(text).tolist()


def read(paths, **options):
    counts = ReadCounts()
    pieces = list(read_pieces([describe_file(path) for path in paths], CorpusConfig(**options), TextRules(), counts))
    return pieces, counts


def test_documents_are_numbered_ended_once_and_empty_ones_left_out(tmp_path, small_pieces):
    contents = ["first", "", "x" * 40, "\ufeff"]
    paths = [tmp_path / f"{number}.txt" for number in range(4)]
    for path, content in zip(paths, contents, strict=True):
        path.write_text(content, encoding="utf-8")
    (tmp_path / "4.jsonl").write_bytes(b'{"text": "json"}\n{"text": ""}\n')
    pieces, counts = read([*paths, tmp_path / "4.jsonl"])
    assert [(p.document, p.text, p.ends_document) for p in pieces] == [
        (0, "first", True),
        (1, "x" * 16, False),
        (1, "x" * 16, False),
        (1, "x" * 8, True),
        (2, "json", True),
    ]
    assert (counts.documents, counts.empty_documents, counts.files) == (3, 3, 5)
    assert pieces[-1].source.endswith("4.jsonl")


def test_the_files_of_the_user_are_not_changed(tmp_path):
    for name, content in (("a.txt", b"\xef\xbb\xbfa\r\nb\x00"), ("empty.txt", b"")):
        (tmp_path / name).write_bytes(content)
        before = (tmp_path / name).stat()
        read([tmp_path / name])
        assert (tmp_path / name).read_bytes() == content
        assert (tmp_path / name).stat().st_mtime_ns == before.st_mtime_ns
