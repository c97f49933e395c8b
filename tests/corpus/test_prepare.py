"""`prepare` as a whole: known numbers, every fault of the user told, nothing half-written, memory bounded."""

import bz2
import gzip
import json
import subprocess
import sys
import unicodedata

import pytest

from nextok.corpus import CorpusConfig, ShardWriter, prepare
from nextok.errors import CorpusError, DiskError, TokenizerError

TEXT = b"the cat sat on the mat. " * 20


def text_of(corpus, split):
    return corpus.tokenizer.decode(split.tokens(0, len(split)))


def test_tiny_shakespeare_by_characters(prepared, shared_data):
    corpus = prepared(shared_data("tinyshakespeare.txt"))
    assert (len(corpus.train), len(corpus.validation)) == (1_003_854, 111_540)
    assert corpus.tokenizer.vocab_size == 65
    assert corpus.tokenizer.end_of_text is None
    assert corpus.manifest.report.counts.lf_newlines == 40_000
    text = shared_data("tinyshakespeare.txt").read_text(encoding="ascii")
    assert text_of(corpus, corpus.train) + text_of(corpus, corpus.validation) == text


def test_tiny_shakespeare_by_gpt2(prepared, shared_data):
    corpus = prepared(shared_data("tinyshakespeare.txt"), tokenizer="gpt2")
    assert (len(corpus.train), len(corpus.validation)) == (301_966, 36_059)
    assert corpus.train.bytes_per_token == 1_003_854 / 301_966
    assert corpus.manifest.dtype == "uint16"


def test_a_packed_corpus_is_the_same_corpus(prepared, tmp_path):
    fingerprints = set()
    for name, pack in (("a.txt", bytes), ("a.txt.gz", gzip.compress), ("b.bz2", bz2.compress)):
        (tmp_path / name).write_bytes(pack(TEXT))
        fingerprints.add(prepared(tmp_path / name).fingerprint)
    assert len(fingerprints) == 1


def test_preparing_twice_gives_the_same_bytes(prepared):
    first = {path.name: path.read_bytes() for path in prepared(TEXT).folder.iterdir()}
    again = {path.name: path.read_bytes() for path in prepared(TEXT).folder.iterdir()}
    assert first == again
    assert sorted(first) == [
        "corpus.json",
        "tokenizer.json",
        "train-00000.npy",
        "train-documents.npy",
        "validation-00000.npy",
        "validation-documents.npy",
    ]


def test_the_report_adds_up(prepared, tmp_path):
    (tmp_path / "folder").mkdir()
    for name, content in (
        ("a.txt", b"\xef\xbb\xbf\xc3\xa9\r\n"),
        ("b.txt", b""),
        ("c.png", b"x"),
        ("d.txt", b"e\x00\n"),
    ):
        (tmp_path / "folder" / name).write_bytes(content)
    report = prepared(tmp_path / "folder", val_fraction=0).manifest.report
    assert (report.counts.files, report.counts.documents, report.counts.empty_documents) == (3, 2, 1)
    assert (report.counts.byte_order_marks, report.counts.nul_characters, report.counts.crlf_newlines) == (1, 1, 1)
    assert report.skipped == {"binary": 1}
    assert (report.characters, report.bytes, report.tokens) == (5, 6, 6)
    assert report.bytes_per_token == 1.0


@pytest.mark.parametrize(("documents", "entry"), [(1, False), (2, True)])
def test_a_character_vocabulary_gains_end_of_text_only_between_documents(prepared, documents, entry):
    corpus = prepared(*[TEXT] * documents)
    assert (corpus.tokenizer.end_of_text is not None) == entry
    assert (corpus.train.tokens(0, len(corpus.train)) == corpus.tokenizer.vocab_size - 1).any()


def test_a_document_that_spells_end_of_text_does_not_end(prepared):
    corpus = prepared(b"a<|endoftext|>b", b"c", tokenizer="byte", val_fraction=0)
    assert corpus.train.tokens(0, len(corpus.train)).tolist() == [*b"a<|endoftext|>b", 256, *b"c"]


def test_marks_and_line_ends_never_reach_a_vocabulary(prepared):
    corpus = prepared(b"\xef\xbb\xbfthe\r\nend\r", "the\r\n".encode("utf-16"), val_fraction=0)
    assert text_of(corpus, corpus.train) == "the\nend\n<|endoftext|>the\n"
    assert corpus.tokenizer.rules.newlines == "lf"


def test_text_with_carriage_returns_alone_has_lines(prepared):
    corpus = prepared(b"a\rb\rc\r", val_fraction=0)
    assert text_of(corpus, corpus.train) == "a\nb\nc\n"
    corpus = prepared(b"a\rb\r\n", val_fraction=0, newlines="keep")
    assert text_of(corpus, corpus.train) == "a\rb\r\n"


@pytest.mark.parametrize("form", ["nfc", "nfd", "nfkc", "nfkd"])
def test_a_vocabulary_of_normalised_text_has_each_of_its_characters(prepared, form):
    """Characters of the alphabet stand beside each other in no text; they must not be composed."""
    text = "yếu ｶﾞ ﬁ 각 가 z\u0301 \u0301"
    corpus = prepared(text.encode(), val_fraction=0, normalization=form)
    assert text_of(corpus, corpus.train) == unicodedata.normalize(form.upper(), text)
    assert corpus.tokenizer.encode(unicodedata.normalize("NFD", "yếu")).size == {"c": 3, "d": 5}[form[-1]]


def test_a_tokenizer_from_a_file_brings_its_rules(prepared, tmp_path):
    first = prepared("yếu\r\n".encode() * 9, normalization="nfc")
    saved = tmp_path / "tokenizer.json"
    first.tokenizer.save(saved)
    corpus = prepared(unicodedata.normalize("NFD", "yếu\r\n").encode() * 9, tokenizer=str(saved), newlines="keep")
    assert corpus.fingerprint == first.fingerprint
    assert (corpus.manifest.config.normalization, corpus.manifest.config.newlines) == ("nfc", "lf")


def test_bad_bytes_are_kept_through_to_the_ids(prepared):
    data = b"it\x92s \xff\x00 \xe2\x80\x99"
    for tokenizer in ("byte", "bpe:260"):
        corpus = prepared(data, tokenizer=tokenizer, bad_bytes="keep", val_fraction=0)
        assert corpus.tokenizer.decode_bytes(corpus.train.tokens(0, len(corpus.train))) == data
        assert corpus.train.size_bytes == len(data)


def test_keeping_bad_bytes_needs_a_tokenizer_that_knows_bytes(prepared):
    with pytest.raises(CorpusError, match="keep"):
        prepared(TEXT, bad_bytes="keep", tokenizer="char")


def test_a_trained_tokenizer_reports_its_stage(prepared, monkeypatch):
    monkeypatch.setattr("nextok.corpus.progress.REPORT_EVERY_S", 0.0)
    reports = []
    corpus = prepared(TEXT, tokenizer="bpe:270", on_progress=reports.append)
    assert list(dict.fromkeys(report.stage for report in reports)) == ["scan", "tokenizer", "encode"]
    assert all(0 <= report.bytes_done <= report.bytes_total for report in reports)
    assert reports[-1].bytes_done == len(TEXT)
    assert text_of(corpus, corpus.train) + text_of(corpus, corpus.validation) == TEXT.decode()


REFUSED = {
    "an empty file": ({"a.txt": b""}, {}, "a.txt"),
    "only empty documents": ({"a.txt": b"", "b.jsonl": b'{"text": ""}\n', "c.txt": b"\xef\xbb\xbf"}, {}, "no text"),
    "another field": ({"a.jsonl": b'{"body": "x"}\n'}, {}, "fields present: body"),
    "one character": ({"a.txt": b"x"}, {}, "none for training"),
    "no validation": ({"a.txt": b"x" * 50}, {"val_fraction": 1e-20}, "none for validation"),
    "a bad byte": ({"a.txt": b"abc\x92"}, {}, "0x92 at offset 3"),
    "an unknown tokenizer": ({"a.txt": TEXT}, {"tokenizer": "chars"}, "char"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_a_fault_is_told_and_nothing_is_left(prepared, tmp_path, fault):
    files, options, message = REFUSED[fault]
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises((CorpusError, TokenizerError), match=message):
        prepared(*(tmp_path / name for name in files), **options)
    assert not list((tmp_path / "out").glob("**/*"))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == files


@pytest.mark.parametrize("stage", ["scan", "tokenizer", "encode"])
@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_an_older_corpus_survives_an_interruption_and_nothing_is_half_written(prepared, monkeypatch, stage, stop):
    monkeypatch.setattr("nextok.corpus.progress.REPORT_EVERY_S", 0.0)
    older = prepared(TEXT)
    before = {path.name: path.read_bytes() for path in older.folder.iterdir()}

    def interrupt(report):
        if report.stage == stage:
            raise stop

    with pytest.raises((KeyboardInterrupt, OSError, DiskError)):
        prepared(TEXT + b"more", tokenizer="bpe:270", on_progress=interrupt)
    assert [path.name for path in older.folder.parent.iterdir()] == [older.folder.name]
    assert {path.name: path.read_bytes() for path in older.folder.iterdir()} == before


def test_a_folder_with_other_things_is_refused_before_any_work(tmp_path):
    (tmp_path / "a.txt").write_bytes(TEXT)
    with pytest.raises(CorpusError, match=r"a\.txt"):
        prepare(["missing"], tokenizer="char", out=tmp_path, config=CorpusConfig(), cache=tmp_path)


def test_several_shards_are_one_sequence(prepared, monkeypatch):
    whole = prepared(TEXT)
    expected = text_of(whole, whole.train)
    monkeypatch.setattr(ShardWriter.__init__, "__defaults__", (100,))
    corpus = prepared(TEXT)
    assert [shard.tokens for shard in corpus.manifest.train.shards] == [100, 100, 100, 100, 32]
    assert text_of(corpus, corpus.train) == expected


MEMORY_SCRIPT = """
import json, resource, sys
from pathlib import Path
from nextok.corpus import CorpusConfig, ShardWriter, prepare
source, out, spare_bytes, tokenizer = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
small = out.parent / "small.txt"
small.write_bytes(Path(source).open("rb").read(1000))
# Everything is loaded once before memory is measured.
prepare([str(small)], tokenizer=tokenizer, out=out.parent / "small", config=CorpusConfig(), cache=out.parent)
used_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used_bytes + spare_bytes, used_bytes + spare_bytes))
try:
    Path(source).read_bytes()
except MemoryError:
    pass
else:
    sys.exit("the limit does not bite: the file can be read whole")
corpus = prepare([source], tokenizer=tokenizer, out=out, config=CorpusConfig(), cache=out.parent)
print(json.dumps([len(corpus.train) + len(corpus.validation), corpus.validation.tokens(0, 4).tolist()]))
"""


def prepare_in_little_memory(tmp_path, size_bytes, spare_bytes, tokenizer, block):
    if not sys.platform.startswith("linux"):
        pytest.skip("needs a limit on the address space and /proc")
    source = tmp_path / "line.txt"
    with source.open("wb") as stream:
        for _ in range(size_bytes // len(block)):
            stream.write(block)
    command = [sys.executable, "-c", MEMORY_SCRIPT, str(source), str(tmp_path / "out"), str(spare_bytes), tokenizer]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    source.unlink()
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("block", [b"one two three " * 75_000, b"x" * (1 << 20)], ids=["words", "no-space"])
def test_one_line_larger_than_memory_is_prepared(tmp_path, block):
    tokens, ids = prepare_in_little_memory(tmp_path, 80 << 20, 64 << 20, "byte", block)
    assert tokens == (80 << 20) // len(block) * len(block)
    assert bytes(ids) in block * 2


@pytest.mark.parametrize(
    "tokenizer", ["byte", *(pytest.param(name, marks=pytest.mark.slow) for name in ("char", "gpt2"))]
)
def test_a_line_of_300_mb_is_prepared_in_less(tmp_path, tokenizer):
    block = b"one two three, " * 70_000
    tokens, _ = prepare_in_little_memory(tmp_path, 300_000_000, 250 << 20, tokenizer, block)
    assert tokens > 50_000_000
