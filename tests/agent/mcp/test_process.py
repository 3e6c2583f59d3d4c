"""The output of a server process, read from a real pipe."""

import sys
from pathlib import Path

import pytest
import trio

from rumi.agent.mcp.complaints import Complaints
from rumi.agent.mcp.messages import McpError
from rumi.agent.mcp.process import running
from tests.agent.mcp.world import fake


async def lines_of(output: str, home: Path) -> list[bytes]:
    """Return the lines that are read from a process that writes `output` and ends."""
    code = ("-c", f"import sys; sys.stdout.write({output!r})")
    settings = fake(command=sys.executable, args=code, paths=(), sandbox=False)
    found: list[bytes] = []

    async def take(line: bytes) -> None:
        await trio.lowlevel.checkpoint()
        found.append(line)

    async with running(settings, home / "mcp" / "x", Complaints(settings, home)) as process:
        await process.read_lines(1000, take)
    return found


@pytest.mark.parametrize(
    ("output", "lines"),
    [
        ("a\nb\n", [b"a", b"b"]),
        ("a\nb", [b"a", b"b"]),  # it ends with its answer
        ("a", [b"a"]),
        ("", []),
    ],
)
async def test_the_last_line_needs_no_newline(output: str, lines: list[bytes], tmp_path: Path) -> None:
    assert await lines_of(output, tmp_path) == lines


async def test_a_last_line_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(McpError, match="more than"):
        await lines_of("x" * 2000, tmp_path)
