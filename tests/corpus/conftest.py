"""A prepared corpus in one line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nextok.corpus import CorpusConfig, PreparedCorpus, prepare


@pytest.fixture
def prepared(tmp_path: Path) -> Callable[..., PreparedCorpus]:
    """Returns a function that prepares sources (paths, or bytes to write as one text file) with given options."""

    def make(
        *sources: Path | bytes, tokenizer: str = "char", on_progress: Any = None, **options: Any
    ) -> PreparedCorpus:
        names = []
        for number, source in enumerate(sources):
            path = tmp_path / f"source-{number}.txt" if isinstance(source, bytes) else source
            if isinstance(source, bytes):
                path.write_bytes(source)
            names.append(str(path))
        return prepare(
            names,
            tokenizer=tokenizer,
            out=tmp_path / "out" / "corpus",
            config=CorpusConfig(**options),
            cache=tmp_path / "cache",
            on_progress=on_progress,
        )

    return make
