"""Runs mypy on a snippet that must fail at its marked lines, and nowhere else."""

import re
from pathlib import Path

import pytest


def check(snippet: str, folder: Path) -> None:
    """Compare mypy's errors with the lines that end with `# expected: CODE`."""
    api = pytest.importorskip("mypy.api", reason="mypy is not installed")
    file = folder / "snippet.py"
    file.write_text(snippet)
    output, errors, _ = api.run(["--strict", "--no-incremental", "--show-error-codes", str(file)])
    assert errors == ""
    found = re.findall(r"snippet\.py:(\d+): error: .*\[([a-z-]+)\]", output)
    expected = [
        (str(number), line.split("# expected: ")[1])
        for number, line in enumerate(snippet.splitlines(), 1)
        if "# expected: " in line
    ]
    assert found == expected, output
