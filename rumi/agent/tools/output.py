"""The output of commands for the model: what a result shows of it, and the whole in a file of the sandbox."""

from typing import Final

import trio

from rumi.agent.tool import CommandTrace, ToolResult
from rumi.agent.tools.background import BackgroundCommand, CommandRunner
from rumi.sandbox.engine import Command, CommandResult, Output

RESULT_CHARS: Final = 12_000
"""Maximum number of characters of a result with the output of a command or of an MCP server."""

SHOWN_CHARS: Final = RESULT_CHARS - 500
"""The part of it for the output itself; the rest is for what the program says about it."""

WHOLE_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of a whole output. Of a longer one, the first and the last half of this are kept."""

NO_OUTPUT: Final = "(no output)"
"""The end of the result of a command that printed nothing."""

FOLDER: Final = "/tmp/output"
FILES: Final = 8
"""Maximum number of files with whole outputs in a sandbox; the oldest are removed."""

_HEAD_SHARE: Final = 1 / 3
"""Share of a shortened text that shows its beginning. The end gets the rest, because errors come last."""

# Outside of /workspace, so that neither its snapshots nor its limits count the files.
_KEEP: Final = """
mkdir -p {folder} && cd {folder} || exit 1
ls -t | tail -n +{files} | while IFS= read -r old; do rm -f -- "$old"; done
cat > {name}
"""


def in_part(text: str, max_chars: int) -> str:
    """Return the text; if it is too long, its head and tail, cut at line ends where there are some."""
    if len(text) <= max_chars:
        return text
    head = text[: int(max_chars * _HEAD_SHARE)]
    tail = text[len(text) - (max_chars - len(head)) :]
    # A line that is longer than half of its part stays cut.
    if len(head) // 2 < (end := head.rfind("\n")):
        head = head[:end]
    if -1 < (start := tail.find("\n")) < len(tail) // 2:
        tail = tail[start + 1 :]
    return f"{head}\n[… {len(text) - len(head) - len(tail)} characters left out …]\n{tail}"


async def keep_output(shell: CommandRunner, name: str, content: bytes) -> str:
    """Write a whole output to a file of the sandbox; return its path, or "" if it cannot be written.

    The file lasts as long as the sandbox. On cancellation, it may be incomplete.
    """
    script = _KEEP.format(folder=FOLDER, files=FILES, name=name)
    result = await shell.run(Command(("bash", "-c", script), content, reads=True))
    return f"{FOLDER}/{name}" if result.ended == "exited" and result.exit_code == 0 else ""


def report(argv: tuple[str, ...], result: CommandResult, whole: bytes = b"") -> ToolResult:
    """Return a command's result for the model: how the command ended, its output, and its error output.

    `whole` is all of its output, in the order in which it came.
    """
    ending = _ending(result)
    full = "\n".join(_stream(name, output) for name, output in _streams(result)) or NO_OUTPUT
    shown = _shown(result) if len(full) > SHOWN_CHARS else full
    truncated = result.stdout.truncated or result.stderr.truncated or shown is not full
    return ToolResult(
        ok=result.ended == "exited",
        content=f"{ending} ({result.duration_ms} ms)\n{shown}",
        exit_code=result.exit_code,
        duration_ms=result.duration_ms,
        truncated=truncated,
        same_as=f"{ending}\n{full}",
        trace=CommandTrace(argv, result.container_id) if result.ran else None,
        broken=result.ended == "lost",
        whole_output=whole if truncated else b"",
    )


def reported_background(command: BackgroundCommand) -> ToolResult:
    """Return the unread output of a background command, and how the command is."""
    if command.error is not None:
        raise command.error
    output, result = command.take(), command.result
    if result is not None:
        state = _ending(result)
    elif command.over.is_set():
        state = "stopped"
    else:
        state = f"running for {trio.current_time() - command.began:.0f} s"
    shown = in_part(output, SHOWN_CHARS) if output else "(no new output)"
    return ToolResult(
        True,
        f"{command.id}: {state}\n{shown}",
        exit_code=None if result is None else result.exit_code,
        truncated=shown is not output and bool(output),
        same_as=output,
        trace=CommandTrace(command.argv, result.container_id) if result is not None else None,
        may_change=not command.over.is_set(),
        whole_output=output.encode("utf-8", "replace") if len(output) > SHOWN_CHARS else b"",
    )


def _ending(result: CommandResult) -> str:
    code = "unknown" if result.exit_code is None else str(result.exit_code)
    return {
        "exited": f"exit code {code}",
        "timeout": (
            f"timed out and was killed, with all that it had started (exit code {code}). timeout_s gives it "
            "more time"
        ),
        "workspace_full": (
            f"killed: /workspace is over its limit (exit code {code}). Delete files before going on"
        ),
        "disk_full": (
            f"killed: the disk of this machine is nearly full, and the rest is kept (exit code {code}). Only "
            "commands that delete or read files run until there is room"
        ),
        "lost": "the sandbox ended during the command; the next command gets a new one with an empty /tmp",
    }[result.ended]


def _streams(result: CommandResult) -> list[tuple[str, Output]]:
    both = [("output", result.stdout), ("error output", result.stderr)]
    return [(name, output) for name, output in both if output.total_bytes]


def _stream(name: str, output: Output) -> str:
    return f"{_heading(name, output)}\n{output.text()}"


def _heading(name: str, output: Output) -> str:
    how = ""
    if output.truncated:
        how = f" (truncated: {output.total_bytes} bytes came, the first and the last part are kept)"
    return f"{name}{how}:"


def _shown(result: CommandResult) -> str:
    """Return both streams within `SHOWN_CHARS`; up to half of that for the error output."""
    streams = [(_heading(name, output), output.text()) for name, output in _streams(result)]
    left, shown = SHOWN_CHARS, list[str]()
    for place, (heading, text) in enumerate(reversed(streams)):
        most = left if place == len(streams) - 1 else max(left // 2, left - len(streams[0][1]))
        part = in_part(text, most)
        left -= len(part)
        shown.append(f"{heading}\n{part}")
    return "\n".join(reversed(shown))
