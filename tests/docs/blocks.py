"""The code blocks of the project's pages: where each stands, and which run otherwise than as written."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES += sorted((ROOT / "docs").glob("*.md"))

# Commands no test can run, each with the reason. Everything else in a page is executed.
NOT_RUN = {
    "make quickstart": "builds an environment and trains for two minutes; its parts are tested by themselves",
    "make test": "is what runs this test",
    "make check": "is what runs this test",
    "make format": "rewrites the files under test",
    "make report": "runs this test",
    "make test-interop": "builds an environment with other programs",
    "make gpu-check": "needs a GPU; tests/benchmark/test_gpu_check.py runs it on the CPU",
}

# Commands whose length is cut down for the test; nothing else about them changes.
SHORTENED = (
    (r"\bnextok quickstart\b(?! --minutes)", "nextok quickstart --minutes 0.05"),
    (r"--minutes (?!0\.)[0-9.]+", "--minutes 0.05"),
    (r"--steps \d+", "--steps 6"),
    (r"--pause-after-steps \d+", "--pause-after-steps 3"),
    (r"^nextok train (?!--help|--resume)", "nextok train --sample-tokens 4 "),
)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    """Returns the fenced blocks of a page in their order."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(page, text[: m.start()].count("\n") + 1, m[1], m[2]) for m in found]


def commands_of(block: Block) -> Iterator[tuple[str, str | None]]:
    """Yields the commands of a block, and with `console` blocks the output that the page shows for each."""
    if block.language == "bash":
        for line in block.text.splitlines():
            command = re.sub(r"\s+#.*", "", line).strip()
            if command:
                yield command, None
    elif block.language == "console":
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


def shortened(command: str) -> str:
    """Returns the command as a test can afford it."""
    for pattern, instead in SHORTENED:
        command = re.sub(pattern, instead, command)
    return command


def reason_not_to_run(command: str) -> str:
    """Returns why a command is not run, or nothing if it is."""
    return next((reason for start, reason in NOT_RUN.items() if command.startswith(start)), "")
