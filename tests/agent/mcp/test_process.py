"""The output of a server process, read from a real pipe."""

import sys
from pathlib import Path

import pytest
import trio

from rumi.agent.mcp.complaints import Complaints
from rumi.agent.mcp.messages import McpError
from rumi.agent.mcp.process import running
from rumi.sandbox.confined.child import processes
from tests.agent.mcp.world import fake


def family(first: int) -> list[tuple[bytes, bytes]]:
    """Return the command lines and the environments of a process and all its descendants."""
    parents = {pid: parent for pid, (_, parent, _) in processes().items()}
    own = {first}
    while more := {pid for pid, parent in parents.items() if parent in own} - own:
        own |= more
    files = [Path("/proc", str(pid)) for pid in sorted(own)]
    return [((one / "cmdline").read_bytes(), (one / "environ").read_bytes()) for one in files]


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


@pytest.mark.bubblewrap
async def test_only_the_inside_of_a_sandbox_gets_a_servers_variables(tmp_path: Path) -> None:
    # Loaded outside of the sandbox, a library in the server's own folder would be a way out of it.
    given = {"LD_PRELOAD": "./own.so", "A_TOKEN": "4f9Zq81LmPq", "ODD": "--bind / /\n\u00e9"}
    command = 'printf "%s\n" "$LD_PRELOAD $A_TOKEN $ODD" "$HOME"; cat'
    settings = fake(command="/bin/sh", args=("-c", command), paths=(), env=given)
    found: list[bytes] = []
    with trio.move_on_after(10):
        async with running(settings, tmp_path / "mcp" / "x") as process:

            async def take(line: bytes) -> None:
                found.append(line)
                if len(found) < 3:
                    return
                outside = family(process.pid)
                assert [b"bwrap" in words for words, _ in outside].count(True) >= 2  # launcher, bwrap
                for words, environment in outside:
                    assert b"4f9Zq81LmPq" not in words
                    assert (
                        (b"LD_PRELOAD" in environment)
                        == (b"A_TOKEN" in environment)
                        == (b"bwrap" not in words)
                    )
                stop.cancel()

            with trio.CancelScope() as stop:
                await process.read_lines(1000, take)
    assert found == [b"./own.so 4f9Zq81LmPq --bind / /", "\u00e9".encode(), b"/home/mcp"]


async def test_a_variable_with_a_nul_is_refused(tmp_path: Path) -> None:
    settings = fake(command="/bin/cat", args=(), paths=(), env={"A": "b\0--bind\0/\0/"})
    with pytest.raises(McpError, match="NUL"):
        async with running(settings, tmp_path / "mcp" / "x"):
            pass
