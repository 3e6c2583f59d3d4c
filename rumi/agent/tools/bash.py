"""The `bash` tools: run commands in the chat's sandbox, if the command policy allows them.

`bash` runs one command and waits for its end, or starts it in the background. `bash_output` and `bash_stop`
look after background commands, which end with the turn.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Final, Protocol

import trio

from rumi.agent.tool import CommandTrace, Question, Tool, ToolResult
from rumi.agent.tools.background import BackgroundCommands, Heard
from rumi.agent.tools.output import WHOLE_BYTES, in_part, report, reported_background
from rumi.models.model import ToolSpec
from rumi.sandbox.engine import Command, CommandResult, HeadTail, SandboxLimits
from rumi.sandbox.policy import STRICT, CommandPolicy, in_bash, leaves_commands, may_write, programs_of
from rumi.sandbox.words import CommandRefused
from rumi.texts import Language, Text, gettext

DAY_S: Final = 86_400.0
"""Time limit of a background command without `timeout_s`: the turn ends before."""

WAIT_S: Final = 10.0
"""How long `bash_output` waits if the model does not say."""

SCHEDULED_CHARS: Final = 3_000
"""Maximum length of the output of a schedule's command in a message."""

_FIRST: Final = (
    "Run a line or lines of bash in the sandbox, in /workspace; get exit code, output and error output."
)
_STRICT: Final = (
    "\nAll of bash works. Each program must be on the list and named literally, also behind env, xargs, "
    "find -exec and bash -c '…'; programs named by variables, eval of them, and source are refused."
)
LIMITS: Final = SandboxLimits()
_POLLING: Final = frozenset(
    (
        *("sleep", "wait", "timeout", "date", "ps", "pgrep", "top", "jobs", "test", "[", "[[", "ls", "stat"),
        *("find", "tail", "curl", "kill", "uptime", "who"),
    )
)
"""Programs whose result may be another one a moment later: they wait, look at the time or for processes, or
whether a file is there."""
_NOTE_AND: Final = (
    "\n[What `&` started has ended with this command. background=true keeps a command running in this turn.]"
)


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


def bash_tools(
    shell: CommandShell,
    policy: CommandPolicy = STRICT,
    limits: SandboxLimits = LIMITS,
    ended: Callable[[str], object] = lambda line: None,
) -> tuple[Tool, ...]:
    """Return the `bash` tools of one turn.

    `ended` is called with the line of each background command that still runs at the end of the turn.
    """
    commands = BackgroundCommands(shell, limits.background_commands, ended)
    return (
        Bash(shell, policy, limits, commands),
        BashOutput(shell, limits, commands),
        BashStop(shell, commands),
    )


@cache
def bash_spec(limits: SandboxLimits, *, open_policy: bool) -> ToolSpec:
    """Return the description of `bash` for these limits and this policy."""
    parameters = {
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "As for bash -c"},
            "stdin": {"type": "string", "description": "Text for the program's standard input"},
            "timeout_s": {
                "type": "number",
                "description": f"Default {limits.timeout_s:g}, at most {limits.max_timeout_s:g}",
            },
            "background": {
                "type": "boolean",
                "description": "Return an id at once; it runs until bash_stop or the end of this turn",
            },
        },
        "required": ["command"],
    }
    return ToolSpec("bash", _FIRST + ("" if open_policy else _STRICT), parameters)


class Bash:
    """The `bash` tool, bound to one sandbox. `ran` is the command of the latest call."""

    concurrent = False
    specs = tuple(bash_spec(SandboxLimits(), open_policy=open_policy) for open_policy in (False, True))

    def __init__(
        self,
        shell: CommandShell,
        policy: CommandPolicy = STRICT,
        limits: SandboxLimits = LIMITS,
        commands: BackgroundCommands | None = None,
    ) -> None:
        self._shell = shell
        self._policy = policy
        self._limits = limits
        self._commands = commands
        self.spec = bash_spec(limits, open_policy=policy.open)
        self.ran: CommandTrace | None = None

    def run_in(self, nursery: trio.Nursery) -> None:
        """Run background commands in this nursery."""
        if self._commands is not None:
            self._commands.run_in(nursery)

    async def prepare(self) -> None:
        """Prepare the sandbox while the model is still writing the command."""
        await self._shell.prepare()

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return None: no approval is needed, because a command can only affect the sandbox."""
        return None

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Check the command against the policy, run it, and return its result."""
        return await self.call_streaming(arguments, lambda piece: None)

    async def call_streaming(self, arguments: Mapping[str, object], heard: Heard) -> ToolResult:
        """Check the command against the policy, run or start it, and return its result."""
        self.ran = None
        read = _read(arguments, self._limits)
        if isinstance(read, Text):
            return ToolResult(False, read)
        try:
            argv = self._policy.parse(read.command)
        except CommandRefused as refusal:
            return ToolResult(False, refusal.for_model, refused=True)
        command = Command(
            in_bash(read.command), read.stdin, timeout_s=read.timeout_s, began=partial(self._began, argv)
        )
        if read.background:
            return await self._start(read, command)
        whole = _Whole(heard)
        result = await self._shell.run(replace(command, heard=whole.hear))
        reported = report(argv, result, whole.content)
        note = read.note + (_NOTE_AND if leaves_commands(command.argv) else "")
        runs = self._commands is not None and bool(self._commands.running)
        return replace(
            reported,
            content=reported.content + note,
            tainted=self._shell.tainted,
            may_change=runs or _polls(command.argv, result),
        )

    async def _start(self, read: "_Arguments", command: Command) -> ToolResult:
        commands = self._commands
        if commands is None or commands.full:
            running = ", ".join(commands.running) if commands is not None else ""
            return ToolResult(
                False,
                Text(
                    "not started: {running} run in the background, and no more may. End one with bash_stop.",
                    running=running or Text("others"),
                ),
                refused=True,
            )
        timeout_s = read.timeout_s or DAY_S
        background = await commands.start(read.command, replace(command, timeout_s=timeout_s))
        if background.error is not None:
            raise background.error
        return ToolResult(
            True,
            f"started in the background as {background.id}{read.note}",
            trace=self.ran,
            tainted=self._shell.tainted,
        )

    def _began(self, argv: tuple[str, ...], container_id: str) -> None:
        self.ran = CommandTrace(argv, container_id)


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """The output of a schedule's command, for people.

    `failed` says how the command ended, if that was not with exit code 0. `whole_output` is set if `text` is
    only a part of it.
    """

    text: str
    failed: str = ""
    whole_output: bytes = b""


async def run_scheduled(
    shell: CommandShell, policy: CommandPolicy, limits: SandboxLimits, command: str, language: Language
) -> ScheduledRun:
    """Run the command of a schedule in a chat's sandbox. On cancellation, leaves no process behind.

    Raises:
        CommandRefused: The policy does not allow the command.
        SandboxError: The command could not be run.
    """
    policy.parse(command)
    whole = _Whole(lambda piece: None)
    result = await shell.run(Command(in_bash(command), timeout_s=limits.timeout_s, heard=whole.hear))
    output = whole.content.decode("utf-8", "replace").strip()
    failed = ""
    if result.ended == "timeout":
        failed = gettext(
            language, "it took longer than {seconds} s and was killed", seconds=f"{limits.timeout_s:g}"
        )
    elif result.ended != "exited":
        failed = gettext(language, "its sandbox ended it ({ended})", ended=result.ended)
    elif result.exit_code:
        failed = gettext(language, "exit code {code}", code=result.exit_code)
    text = in_part(output, SCHEDULED_CHARS)
    return ScheduledRun(text, failed, b"" if text is output else whole.content)


class _ForBackground(Tool):
    """A tool that looks after background commands, which belong to the turn: no call needs approval."""

    concurrent = False

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return None."""
        return None


class BashOutput(_ForBackground):
    """The `bash_output` tool: waits for output of a background command, or for its end."""

    only_reads = True
    spec = ToolSpec(
        "bash_output",
        "Wait for more output of a background command, or its end.",
        {
            "type": "object",
            "properties": {
                "id": {"type": "string"},
                "wait_s": {"type": "number", "description": f"Default {WAIT_S:g}"},
            },
            "required": ["id"],
        },
    )

    def __init__(self, shell: CommandShell, limits: SandboxLimits, commands: BackgroundCommands) -> None:
        self._shell = shell
        self._limits = limits
        self._commands = commands

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Return the output that has come since the last call, and how the command is."""
        return await self.call_streaming(arguments, lambda piece: None)

    async def call_streaming(self, arguments: Mapping[str, object], heard: Heard) -> ToolResult:
        """Return the output that has come since the last call, and how the command is."""
        command = self._commands.get(arguments.get("id"))
        if command is None:
            return _unknown(self._commands)
        wait_s = _seconds(arguments.get("wait_s"), WAIT_S)
        if wait_s is None:
            return ToolResult(False, Text("bash_output takes `wait_s` as a number of seconds"))
        if not command.over.is_set():
            await self._commands.until_news(command, min(wait_s, self._limits.max_timeout_s), heard)
        return replace(reported_background(command), tainted=self._shell.tainted)


class BashStop(_ForBackground):
    """The `bash_stop` tool: ends a background command."""

    spec = ToolSpec(
        "bash_stop",
        "End a background command.",
        {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
    )

    def __init__(self, shell: CommandShell, commands: BackgroundCommands) -> None:
        self._shell = shell
        self._commands = commands

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """End the command; return the rest of its output."""
        command = self._commands.get(arguments.get("id"))
        if command is None:
            return _unknown(self._commands)
        await self._commands.stop(command)
        return replace(reported_background(command), tainted=self._shell.tainted)


@dataclass(frozen=True, slots=True)
class _Arguments:
    command: str
    stdin: bytes
    timeout_s: float | None
    background: bool
    note: str


@dataclass(slots=True)
class _Whole:
    """Collects all output of a command, up to `WHOLE_BYTES`, while it is streamed."""

    heard: Heard
    kept: HeadTail = field(default_factory=lambda: HeadTail(WHOLE_BYTES))

    def hear(self, piece: bytes) -> None:
        self.kept.add(piece)
        self.heard(piece)

    @property
    def content(self) -> bytes:
        return self.kept.output().content


def _read(arguments: Mapping[str, object], limits: SandboxLimits) -> _Arguments | Text:
    """Read the arguments of a call of `bash`; return a text that says what is wrong with them."""
    command, stdin = arguments.get("command"), arguments.get("stdin")
    if stdin is None:  # many models write null for arguments that they omit
        stdin = ""
    if not isinstance(command, str):
        return Text("bash needs `command`, a string")
    if not isinstance(stdin, str):
        return Text("bash takes `stdin` as a string")
    timeout_s = _seconds(arguments.get("timeout_s"), limits.timeout_s)
    if timeout_s is None:
        return Text("bash takes `timeout_s` as a number of seconds")
    note = ""
    if timeout_s > limits.max_timeout_s:
        note = f"\n[timeout_s was {limits.max_timeout_s:g}, the most that is allowed.]"
        timeout_s = limits.max_timeout_s
    return _Arguments(
        command,
        stdin.encode("utf-8", "replace"),
        timeout_s if arguments.get("timeout_s") else None,
        arguments.get("background") in (True, "true", 1),
        note,
    )


def _seconds(value: object, default: float) -> float | None:
    """Return a positive number of seconds from a model's argument; None if it is not one."""
    if value is None or value == "":
        return default
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if seconds > 0 else default if seconds == 0 else None


def _unknown(commands: BackgroundCommands) -> ToolResult:
    ids = ", ".join(commands.running)
    if not ids:
        return ToolResult(False, Text("no background command runs; they end with their turn"))
    return ToolResult(False, Text("unknown background command; there are: {ids}", ids=ids))


def _polls(argv: tuple[str, ...], result: CommandResult) -> bool:
    """Return True if the same command may give another result later, with no other command in between."""
    if programs_of(argv) & _POLLING:
        return True
    return bool(result.exit_code) and not may_write(argv)  # such as `cat` of a file that is not there yet
