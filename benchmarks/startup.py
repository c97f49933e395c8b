"""How long a command takes to answer: whole processes, beside a Python that does nothing.

python benchmarks/startup.py
"""

import subprocess
import sys

from nextok.benchmark import median_seconds
from report import report

COMMANDS = {
    "python, nothing": ["-c", "pass"],
    "import nextok": ["-c", "import nextok"],
    "import nextok.decode": ["-c", "import nextok.decode"],
    "nextok --help": ["-m", "nextok", "--help"],
    "nextok info gpt2": ["-m", "nextok", "info", "gpt2"],
    "import torch": ["-c", "import torch"],
}


def main() -> None:
    """Measures and reports."""
    rows = []
    for name, arguments in COMMANDS.items():
        seconds = median_seconds(lambda: subprocess.run([sys.executable, *arguments], capture_output=True, check=True))  # noqa: B023 - called at once
        rows.append({"what": name, "seconds": seconds})
    for row in rows:
        row["times a bare python"] = row["seconds"] / rows[0]["seconds"]
    report("startup", rows)


if __name__ == "__main__":
    main()
