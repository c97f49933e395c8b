"""The rules of the house that no compiler checks: each test walks the tree and names what breaks one."""

import ast
import errno
import inspect
import os
import re
import socket
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import jaxtyping
import numpy as np
import pytest

from nextok import corpus, errors, tokenizer
from nextok.config import from_mapping
from nextok.decode.continuation import check_prompt
from nextok.decode.logprobs import largest_logit
from nextok.errors import NextokError
from nextok.files import disk_errors
from nextok.spec import ModelConfig

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "nextok"
TESTS = ROOT / "tests"
GENERATED = re.compile(r"__pycache__|\.egg-info$|^\.(?!ci$|github$|gitignore$)|^(build|dist|site|runs|node_modules)$")


def files_under(folder: Path, pattern: str = "*") -> Iterator[Path]:
    """Yields the project's own files, without what tools leave behind."""
    for path in sorted(folder.rglob(pattern)):
        inside = path.relative_to(ROOT).parts
        if path.is_file() and not any(GENERATED.search(part) for part in inside):
            yield path


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# --- tests mirror the package, and pytest finds them


def test_every_source_file_has_a_test_file_of_its_name() -> None:
    missing = []
    for source in files_under(PACKAGE, "*.py"):
        if source.name in ("__init__.py", "__main__.py"):
            continue
        wanted = TESTS / source.relative_to(PACKAGE).with_name(f"test_{source.stem.lstrip('_')}.py")
        if not wanted.is_file():
            missing.append(f"{name_of(source)} needs {name_of(wanted)}")
    assert not missing, "\n".join(missing)


def overlooked_by_pytest(path: Path) -> Iterator[str]:
    """Yields what looks like a test but is not collected: by the name of its file, its class or itself."""
    collected_file = path.name.startswith("test_") and TESTS in path.parents
    for node in tree_of(path).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and not collected_file:
            yield f"{node.name} is in a file that pytest does not read"
        if isinstance(node, ast.ClassDef):
            methods = [each.name for each in node.body if isinstance(each, ast.FunctionDef)]
            has_tests = any(name.startswith("test_") for name in methods)
            if has_tests and (not node.name.startswith("Test") or "__init__" in methods or not collected_file):
                yield f"{node.name} is a class that pytest does not read"
    if "test" in path.stem.split("_") and not collected_file:
        yield "is named like a test"


def test_nothing_looks_like_a_test_that_pytest_would_not_run() -> None:
    found = [f"{name_of(path)}: {each}" for path in files_under(ROOT, "*.py") for each in overlooked_by_pytest(path)]
    assert not found, "\n".join(found)


def test_no_test_is_hidden_by_a_later_one_of_the_same_name() -> None:
    hidden = []
    for path in files_under(TESTS, "test_*.py"):
        names = [node.name for node in tree_of(path).body if isinstance(node, ast.FunctionDef)]
        hidden += [f"{name_of(path)}: {name}" for name in set(names) if names.count(name) > 1]
    assert not hidden, "\n".join(hidden)


# --- the shape of the package


def test_no_file_or_folder_is_a_drawer() -> None:
    drawers = {"util", "utils", "common", "misc", "helper", "helpers"}
    found = [
        name_of(path) for path in files_under(ROOT, "*.py") if drawers & {*path.parts[len(ROOT.parts) :], path.stem}
    ]
    assert not found, f"name what these hold: {found}"


def test_every_module_says_what_it_is() -> None:
    silent = [name_of(path) for path in files_under(PACKAGE, "*.py") if not ast.get_docstring(tree_of(path))]
    assert not silent, f"no docstring: {silent}"


def test_every_folder_of_the_package_is_a_room() -> None:
    folders = {path.parent for path in files_under(PACKAGE, "*.py")}
    assert not [name_of(folder) for folder in folders if not (folder / "__init__.py").is_file()]


def test_a_rooms_front_door_only_shows_what_is_inside() -> None:
    found = []
    for path in files_under(PACKAGE, "__init__.py"):
        if path.parent == PACKAGE:
            continue
        body = tree_of(path).body[1:]  # after the docstring
        exports = [node for node in body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"]
        rest = [node for node in body if not isinstance(node, ast.Import | ast.ImportFrom) and node not in exports]
        found += [f"{name_of(path)}, line {node.lineno}" for node in rest]
        shown = sorted(
            alias.asname or alias.name for node in body if isinstance(node, ast.ImportFrom) for alias in node.names
        )
        if sorted(ast.literal_eval(exports[0].value) if exports else []) != shown:
            found.append(f"{name_of(path)}: __all__ is not what it imports")
    assert not found, "\n".join(found)


# --- importing does nothing

CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
WITHOUT_TORCH = next(each["source_modules"] for each in CONTRACTS if each["name"] == "torch only where promised")
LIGHT = ["nextok", "nextok.cli.main", *WITHOUT_TORCH]
IMPORT_AND_WATCH = """
import importlib, os, sys

readers = []

def watched(method):
    def read(self, *arguments):
        frame = sys._getframe(1)
        while frame.f_globals.get("__name__") in ("os", "_collections_abc", "collections.abc"):
            frame = frame.f_back
        if str(frame.f_globals.get("__name__")).split(".")[0] == "nextok":
            readers.append(frame.f_globals["__name__"])
        return method(self, *arguments)
    return read

kind = type(os.environ)
for name in ("__getitem__", "__iter__", "__setitem__", "__delitem__"):
    setattr(kind, name, watched(getattr(kind, name)))
exec("import os; os.environ.get('HOME'); os.getenv('X'); 'X' in os.environ", {"__name__": "nextok.self_check"})
assert readers, "the watch sees nothing"
readers.clear()

handlers = {each: __import__("signal").getsignal(each) for each in __import__("signal").valid_signals()}
importlib.import_module(sys.argv[1])
assert handlers == {each: __import__("signal").getsignal(each) for each in handlers}, "importing set a signal handler"
heavy = {"torch", "numba", "matplotlib", "transformers", "pyarrow", "fastapi", "pydantic", "scipy"} & set(sys.modules)
print((sorted(heavy), readers))
"""


def loaded_and_read(module: str) -> tuple[set[str], set[str]]:
    """Returns the heavy packages that importing a module loads, and the modules that read the environment meanwhile."""
    plain = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}  # set for speed alone
    command = [sys.executable, "-c", IMPORT_AND_WATCH, module]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=plain)
    assert done.returncode == 0, done.stderr
    heavy, readers = ast.literal_eval(done.stdout)
    return set(heavy), set(readers)


COMPILING = {"nextok.engine", "nextok.jit"}


@pytest.mark.parametrize("module", sorted({*LIGHT} - COMPILING))
def test_importing_loads_nothing_heavy_and_reads_no_environment(module: str) -> None:
    assert loaded_and_read(module) == (set(), set())


def test_importing_the_engine_loads_numba_and_asks_where_its_kernels_are_kept() -> None:
    assert loaded_and_read("nextok.jit")[0] - {"scipy"} == {"numba"}
    heavy, readers = loaded_and_read("nextok.engine")
    assert heavy - {"scipy"} == {"numba"}  # which loads scipy where it is
    assert readers == {"nextok.machine"}  # for numba.njit, which settles the place when a function is decorated


def test_the_light_rooms_are_all_that_may_not_reach_torch() -> None:
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")} - {"cli"}
    with_torch = {"model", "fused", "train", "evals", "interop", "conversion", "lessons", "benchmark", "comparison"}
    assert {f"nextok.{room}" for room in rooms - with_torch} <= set(LIGHT)


# --- errors and their page


ERRORS_PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
ERROR_ROWS = re.findall(
    r"^\| `([a-z-]+)` \| `(\w+)` \| ([^|]+) \| (\d) \| ([^|]*) \| ([^|]+) \|$", ERRORS_PAGE, re.MULTILINE
)


def test_the_page_of_errors_lists_exactly_the_errors_there_are() -> None:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, NextokError)]
    listed = {slug: (name, int(code)) for slug, name, _, code, _, _ in ERROR_ROWS}
    assert listed == {kind.slug: (kind.__name__, kind.exit_code) for kind in kinds}
    assert len(ERROR_ROWS) == len(kinds), "a slug is listed twice, or two errors share one"


def read_parquet() -> None:
    file = corpus.SourceFile(path=Path("book.parquet"), format="parquet", compression="none")
    list(corpus.read_pieces([file], corpus.CorpusConfig(), tokenizer.TextRules(), corpus.ReadCounts()))


def fill_the_disk() -> None:
    with disk_errors(Path("runs/nano/run.json")):
        raise OSError(errno.ENOSPC, "No space left on device")


def read_too_much() -> None:
    from nextok.model.gpt import check_length

    check_length(0, 8)


def load_nothing() -> None:
    from nextok import load

    load("runs/nano")


EXAMPLES: dict[str, Callable[[], object]] = {
    "bad-input": read_too_much,
    "bad-option": lambda: from_mapping(ModelConfig, {"n_layer": 2}, "model"),
    "bad-model": lambda: ModelConfig(vocab_size=65, d_model=65, n_heads=4),
    "bad-corpus": lambda: corpus.find_files(["bok.txt"], Path("cache")),
    "bad-tokenizer": lambda: tokenizer.parse_choice("bpe:100"),
    "unknown-character": lambda: tokenizer.char_tokenizer(["abc"], end_of_text=False).encode("d"),
    "bad-prompt": lambda: check_prompt([11], 11, None),
    "bad-checkpoint": load_nothing,
    "missing-extra": read_parquet,
    "non-finite": lambda: largest_logit(np.full(65, np.nan, dtype=np.float32)),
    "disk": fill_the_disk,
    "no-download": lambda: corpus.find_files(["tinyshakespeare"], Path("cache")),
}


@pytest.mark.parametrize(("slug", "example"), [(row[0], row[4]) for row in ERROR_ROWS if row[0] != "failure"])
def test_an_example_on_the_page_of_errors_is_what_the_program_says(
    slug: str, example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_network(*_: object, **__: object) -> None:
        raise urllib.error.URLError(socket.gaierror(socket.EAI_NONAME, "Name or service not known"))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr(urllib.request.OpenerDirector, "open", no_network)
    with pytest.raises(NextokError) as caught:
        EXAMPLES[slug]()
    assert caught.value.slug == slug
    assert example.strip("`") in (caught.value.message, str(caught.value))


# --- nothing of the place it was made in

PLACES = {
    # spelled in brackets, so that this file does not break its own rule
    "a path of one machine": re.compile(r"(?<![\w.~])/(t[m]p|r[o]ot|w[o]rk|h[o]me|U[s]ers)/[\w.]|\b[A-Z]:\\U[s]ers"),
    "a package registry": re.compile(r"(files|index|registry|deb)\.[\w-]+\.(org|com|net)|\bp[y]pi\.org|\bn[p]mjs\.com"),
}


def test_no_file_names_a_path_of_one_machine_or_a_package_registry() -> None:
    found = []
    for path in files_under(ROOT):
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(lines, start=1):
            found += [f"{name_of(path)}:{number} names {what}" for what, place in PLACES.items() if place.search(line)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("line", "breaks"),
    [
        ("open('/t" + "mp/x')", True),
        ("/h" + "ome/me/data", True),
        ("https://files.python" + "hosted.org/x", True),
        ("see ~/x and runs/t" + "mp/x", False),
        ("/v1/completions", False),
        ("https://example.org/index.html", False),
    ],
)
def test_the_rule_about_places_sees_them_and_nothing_else(line: str, breaks: bool) -> None:
    assert any(place.search(line) for place in PLACES.values()) == breaks


def test_shapes_in_signatures_are_checked_while_testing() -> None:
    from nextok.decode import log_softmax

    with pytest.raises(jaxtyping.TypeCheckError):
        log_softmax(np.zeros((2, 3), dtype=np.float32))
