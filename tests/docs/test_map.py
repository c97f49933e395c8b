"""The file map of ARCHITECTURE.md is the tree: one line a file, the first sentence of its docstring."""

import ast
import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "nextok"
PAGE = ROOT / "ARCHITECTURE.md"


def map_of_the_tree() -> str:
    sections = []
    for folder in [PACKAGE, *sorted(path.parent for path in PACKAGE.glob("*/**/__init__.py"))]:
        name = "nextok" if folder == PACKAGE else folder.relative_to(PACKAGE).as_posix()
        lines = [f"**{name}/**", ""]
        for path in sorted(folder.glob("*.py")):
            if path.name != "__init__.py":
                first_line = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").splitlines()[0]
                lines.append(f"- `{path.name}`: {first_line}")
        sections.append("\n".join(lines))
    return "\n\n".join(sections)


def test_file_map_is_the_tree() -> None:
    page = PAGE.read_text(encoding="utf-8")
    written = re.search(r"<!-- map -->\n(.*)<!-- /map -->", page, re.DOTALL)
    assert written is not None
    right = f"\n{map_of_the_tree()}\n\n"
    if os.environ.get("NEXTOK_WRITE_MAP"):
        PAGE.write_text(page.replace(written[0], f"<!-- map -->\n{right}<!-- /map -->"), encoding="utf-8")
    else:
        assert written[1] == right, "run NEXTOK_WRITE_MAP=1 pytest tests/docs/test_map.py and read what changed"
