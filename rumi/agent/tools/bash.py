"""The `bash` tool: runs one command in the chat's sandbox, if the command policy allows it."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Protocol

from rumi.agent.tool import CommandTrace, Question, ToolResult
from rumi.models.model import ToolSpec
from rumi.sandbox.engine import Command, CommandResult, Output
from rumi.sandbox.policy import STRICT, CommandPolicy, in_bash
from rumi.sandbox.words import CommandRefused
from rumi.texts import Text

_FIRST = "Run a line or lines of bash in the sandbox, in /workspace; get exit code, output and error output."
_STRICT = (
    "\nAll of bash works. Each program must be on the list and named literally, also behind env, xargs, "
    "find -exec and bash -c '…'; programs named by variables, eval of them, and source are refused."
)

_PARAMETERS = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "description": "As for bash -c"},
        "stdin": {"type": "string", "description": "Text for the program's standard input"},
    },
    "required": ["command"],
}
STRICT_SPEC = ToolSpec("bash", _FIRST + _STRICT, _PARAMETERS)
OPEN_SPEC = ToolSpec("bash", _FIRST, _PARAMETERS)


NO_OUTPUT = "(no output)"
"""The end of the result of a command that printed nothing."""


class CommandShell(Protocol):
    """The interface through which the `bash` tool uses one chat's sandbox."""

    async def prepare(self) -> None:
        """Make the sandbox ready."""
        ...

    async def run(self, command: Command) -> CommandResult:
        """Run a command until it exits or reaches a limit. On cancellation, leaves no process behind."""
        ...

    @property
    def tainted(self) -> bool:
        """True if a command may read untrusted content that an earlier turn stored in a file."""
        ...


class Bash:
    """The `bash` tool, bound to one sandbox. `ran` is the command of the latest call."""

    concurrent = False
    specs = (STRICT_SPEC, OPEN_SPEC)

    def __init__(self, shell: CommandShell, policy: CommandPolicy = STRICT) -> None:
        self._shell = shell
        self._policy = policy
        self.spec = OPEN_SPEC if policy.open else STRICT_SPEC
        self.ran: CommandTrace | None = None

    async def prepare(self) -> None:
        """Prepare the sandbox while the model is still writing the command."""
        await self._shell.prepare()

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return None: no approval is needed, because a command can only affect the sandbox."""
        return None

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Check the command against the policy, run it, and return its result."""
        self.ran = None
        command, stdin = arguments.get("command"), arguments.get("stdin")
        if stdin is None:  # many models write null for arguments that they omit
            stdin = ""
        if not isinstance(command, str):
            return ToolResult(False, Text("bash needs `command`, a string"))
        if not isinstance(stdin, str):
            return ToolResult(False, Text("bash takes `stdin` as a string"))
        try:
            argv = self._policy.parse(command)
        except CommandRefused as refusal:
            return ToolResult(False, refusal.text, refused=True)
        began = partial(self._began, argv)
        line = Command(in_bash(command), stdin.encode("utf-8", "replace"), began=began)
        result = await self._shell.run(line)
        return replace(report(argv, result), tainted=self._shell.tainted)

    def _began(self, argv: tuple[str, ...], container_id: str) -> None:
        self.ran = CommandTrace(argv, container_id)


def report(argv: tuple[str, ...], result: CommandResult) -> ToolResult:
    """Return a command's result for the model: how the command ended, its output, and its error output."""
    code = "unknown" if result.exit_code is None else str(result.exit_code)
    streams = "\n".join(_stream(name, output) for name, output in _streams(result)) or NO_OUTPUT
    ending = {
        "exited": f"exit code {code}",
        "timeout": f"timed out and was killed, with all that it had started (exit code {code})",
        "workspace_full": (
            f"killed: /workspace is over its limit (exit code {code}). Delete files before going on"
        ),
        "disk_full": (
            f"killed: the disk of this machine is nearly full, and the rest is kept (exit code {code}). Only "
            "commands that delete or read files run until there is room"
        ),
        "lost": "the sandbox ended during the command; the next command gets a new one with an empty /tmp",
    }[result.ended]
    return ToolResult(
        ok=result.ended == "exited",
        content=f"{ending} ({result.duration_ms} ms)\n{streams}",
        exit_code=result.exit_code,
        duration_ms=result.duration_ms,
        truncated=result.stdout.truncated or result.stderr.truncated,
        same_as=f"{ending}\n{streams}",
        trace=CommandTrace(argv, result.container_id) if result.ran else None,
    )


def _streams(result: CommandResult) -> list[tuple[str, Output]]:
    both = [("output", result.stdout), ("error output", result.stderr)]
    return [(name, output) for name, output in both if output.total_bytes]


def _stream(name: str, output: Output) -> str:
    how = ""
    if output.truncated:
        how = f" (truncated: {output.total_bytes} bytes came, the first and the last part are kept)"
    return f"{name}{how}:\n{output.text()}"
