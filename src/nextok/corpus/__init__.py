"""From files to token shards, and from shards to batches: documents, splits, the order of windows, the shift by one.

Not here: how text becomes ids (`nextok.tokenizer`), how many samples a step takes (`nextok.train`).
"""

from nextok.corpus.batches import Batch, Batches, check_length, evaluation_batches, shift
from nextok.corpus.config import CorpusConfig
from nextok.corpus.counts import ReadCounts
from nextok.corpus.documents import Piece, read_pieces
from nextok.corpus.named import NAMED
from nextok.corpus.order import SampleOrder
from nextok.corpus.prepare import prepare
from nextok.corpus.progress import PrepareProgress
from nextok.corpus.shards import ShardRecord, ShardWriter, TokenSplit
from nextok.corpus.sources import SourceFile, SourceList, find_files
from nextok.corpus.store import MANIFEST_NAME, CorpusManifest, PreparedCorpus, PrepareReport, SplitRecord, open_corpus
from nextok.corpus.targets import IGNORED, TargetRecord, Targets

__all__ = [
    "IGNORED",
    "MANIFEST_NAME",
    "NAMED",
    "Batch",
    "Batches",
    "CorpusConfig",
    "CorpusManifest",
    "Piece",
    "PrepareProgress",
    "PrepareReport",
    "PreparedCorpus",
    "ReadCounts",
    "SampleOrder",
    "ShardRecord",
    "ShardWriter",
    "SourceFile",
    "SourceList",
    "SplitRecord",
    "TargetRecord",
    "Targets",
    "TokenSplit",
    "check_length",
    "evaluation_batches",
    "find_files",
    "open_corpus",
    "prepare",
    "read_pieces",
    "shift",
]
