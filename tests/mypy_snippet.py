"""Runs mypy on a snippet that must fail at its marked lines, and nowhere else."""

import re
import sys
from pathlib import Path

import pytest


def check(snippet: str, folder: Path) -> None:
    """Compare mypy's errors with the lines that end with `# expected: CODE`."""
    api = pytest.importorskip("mypy.api", reason="mypy is not installed")
    file = folder / "snippet.py"
    file.write_text(snippet)
    cache = Path(sys.prefix, "mypy-snippets")  # what it knows of the project and of its libraries stays
    output, errors, _ = api.run(["--strict", f"--cache-dir={cache}", "--show-error-codes", str(file)])
    assert errors == ""
    found = re.findall(r"snippet\.py:(\d+): error: .*\[([a-z-]+)\]", output)
    expected = [
        (str(number), line.split("# expected: ")[1])
        for number, line in enumerate(snippet.splitlines(), 1)
        if "# expected: " in line
    ]
    assert found == expected, output
