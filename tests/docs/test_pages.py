"""Every command and code block of the pages does what the page says."""

import argparse
import inspect
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from crew import run_together
from nextok.cli.main import main
from nextok.train import run_options

from .blocks import NOT_RUN, PAGES, ROOT, Block, blocks_of, commands_of, reason_not_to_run, shortened

LANGUAGES = {"bash", "console", "python", "toml", "text", "sh", "yaml"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as the reader of a page has it: a text file to train on."""
    monkeypatch.chdir(tmp_path)
    Path("book.txt").write_text("It was a book. " + inspect.getsource(argparse)[:30_000], encoding="utf-8")
    return tmp_path


def run_command(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Runs a nextok command in this process and returns what it printed."""
    verb, *arguments = shlex.split(command)
    if verb == "torchrun":
        return run_torchrun(arguments)
    assert verb == "nextok", f"{command!r} is neither run nor listed in NOT_RUN"
    try:
        code = main(arguments)
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    assert code in (0, 2), f"{command} ended with {code}: {err}"
    assert code == 0 or "--out runs/odd" in command, f"{command} was refused: {err}"
    return out + err


def run_torchrun(arguments: list[str]) -> str:
    """Runs a nextok command in several processes, as torchrun would, and returns what the first one printed."""
    count = next(each.removeprefix("--nproc-per-node=") for each in arguments if each.startswith("--nproc-per-node="))
    start = arguments.index("-m")
    assert arguments[start + 1] == "nextok" and start == 1, f"{arguments} is not run here"
    ended = run_together([*arguments[start + 2 :], "--threads=1"], int(count), Path.cwd() / "printed")
    assert all(each.code == 0 for each in ended), f"torchrun {shlex.join(arguments)}: {ended}"
    return ended[0].out + ended[0].err


def check_output(shown: str, printed: str, block: Block) -> None:
    """Compares what a page shows with what came; `...` stands for anything."""
    pattern = re.escape(re.sub(r"\s+", " ", shown).strip()).replace(r"\.\.\.", ".*")
    assert re.search(pattern, re.sub(r"\s+", " ", printed), re.DOTALL), f"{block} shows\n{shown}\nbut got\n{printed}"


def needs_a_run(page: Path) -> bool:
    """Whether the page continues with the run that the first page trains."""
    text = page.read_text(encoding="utf-8")
    return "runs/book" in text and "--out runs/book" not in text


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning", "ignore:.*:FutureWarning")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_everything_a_page_shows_runs(page: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if needs_a_run(page):
        run_command("nextok train book.txt --out runs/book --steps 6 --sample-tokens 0", capsys)
    for block in blocks_of(page):
        assert block.language in LANGUAGES, f"{block} has no language that a test knows"
        for command, shown in commands_of(block):
            if reason_not_to_run(command):
                continue
            printed = run_command(shortened(command), capsys)
            if shown is not None:
                check_output(shown, printed, block)
        if block.language == "python":
            exec(compile(block.text, str(block), "exec"), {"__name__": "page"})
        if block.language == "toml":
            run_options(tomllib.loads(block.text))
            Path("run.toml").write_text(block.text, encoding="utf-8")


def test_every_command_that_is_not_run_stands_in_a_page() -> None:
    shown = [command for page in PAGES for block in blocks_of(page) for command, _ in commands_of(block)]
    unused = [start for start in NOT_RUN if not any(command.startswith(start) for command in shown)]
    assert not unused, f"listed for nothing: {unused}"


def test_pages_link_to_files_that_exist() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_site_lists_every_page() -> None:
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    missing = [page.name for page in (ROOT / "docs").glob("*.md") if page.name not in site]
    assert not missing
