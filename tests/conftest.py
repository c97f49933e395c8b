"""Fixtures for the whole suite: real data where it is at hand, a home of its own for every test."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

DATA_FOLDER = Path(__file__).resolve().parents[1].parent / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """Returns the path of a real data file, or skips the test with the reason where it is absent."""

    def find(name: str) -> Path:
        folder = Path(os.environ.get("NEXTOK_TEST_DATA", DATA_FOLDER))
        path = folder / name
        if not path.is_file():
            pytest.skip(f"needs the data file {name}, which is not in {folder.name}/ (set NEXTOK_TEST_DATA)")
        return path

    return find


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives every test an empty home and cache folder, so that none reads or leaves files of the user."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
