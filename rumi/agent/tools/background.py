"""Background commands of a turn: they run beside its calls, and end with the turn."""

import codecs
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import trio

from rumi.errors import RumiError
from rumi.sandbox.engine import Command, CommandResult, HeadTail

GATHER_S: Final = 0.2
"""After the first new output, a reader waits this long for the output that comes with it, in seconds."""

UNREAD_BYTES: Final = 256 * 1024
"""Maximum size of a background command's unread output; of a longer one, head and tail are kept."""

Heard = Callable[[bytes], object]


class CommandRunner(Protocol):
    """Runs commands in a sandbox, several at the same time if they are in the background."""

    async def run(self, command: Command) -> CommandResult:
        """Run a command to its end. On cancellation, leave no process behind."""
        ...


@dataclass(eq=False)
class BackgroundCommand:
    """A background command. `result` or `error` is set when it has ended."""

    id: str
    line: str
    argv: tuple[str, ...]
    began: float
    unread: HeadTail = field(default_factory=lambda: HeadTail(UNREAD_BYTES))
    result: CommandResult | None = None
    error: RumiError | None = None
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    over: trio.Event = field(default_factory=trio.Event)
    started: trio.Event = field(default_factory=trio.Event)
    news: trio.Event = field(default_factory=trio.Event)
    listener: Heard | None = None
    decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )

    def hear(self, piece: bytes) -> None:
        """Store a piece of output, and pass it to the reader that waits."""
        self.unread.add(piece)
        if self.listener is not None:
            self.listener(piece)
        self.news.set()

    def take(self) -> str:
        """Return the output that has not been read yet, and forget it."""
        output, self.unread, self.news = self.unread.output(), HeadTail(UNREAD_BYTES), trio.Event()
        if output.truncated:
            return output.text()
        return self.decoder.decode(output.head + output.tail, final=self.over.is_set())


class BackgroundCommands:
    """The background commands of one turn, at most `most` at the same time.

    `ended` is called with the line of each command that still ran when the turn ended.
    """

    def __init__(self, shell: CommandRunner, most: int, ended: Callable[[str], object]) -> None:
        self._shell = shell
        self._most = most
        self._ended = ended
        self._nursery: trio.Nursery | None = None
        self._commands: dict[str, BackgroundCommand] = {}

    def run_in(self, nursery: trio.Nursery) -> None:
        """Run all commands in this nursery, which belongs to the turn."""
        self._nursery = nursery

    @property
    def running(self) -> Mapping[str, BackgroundCommand]:
        """The commands that run, by their ids."""
        return {id: command for id, command in self._commands.items() if not command.over.is_set()}

    @property
    def full(self) -> bool:
        """Return True if no more commands may be started."""
        return self._nursery is None or len(self.running) >= self._most

    def get(self, id: object) -> BackgroundCommand | None:
        """Return the command with this id, which may have ended; None if the turn has none."""
        return self._commands.get(str(id))

    async def start(self, line: str, command: Command) -> BackgroundCommand:
        """Start a command; return when it runs, or could not be started. Call this only if not `full`."""
        assert self._nursery is not None
        id = str(len(self._commands) + 1)
        started = BackgroundCommand(id, line, command.argv, trio.current_time())
        self._commands[id] = started
        self._nursery.start_soon(self._run, started, command)
        await started.started.wait()
        return started

    async def _run(self, background: BackgroundCommand, command: Command) -> None:
        def began(container_id: str) -> None:
            command.began(container_id)
            background.started.set()

        try:
            with background.scope:
                background.result = await self._shell.run(
                    replace(command, background=True, began=began, heard=background.hear)
                )
        except RumiError as error:
            background.error = error
        except BaseException:
            self._ended(background.line)
            raise
        finally:
            background.over.set()
            background.started.set()
            background.news.set()

    async def until_news(self, command: BackgroundCommand, seconds: float, heard: Heard) -> None:
        """Wait for unread output or the end of the command, at most `seconds`."""
        command.listener = heard
        try:
            with trio.move_on_after(seconds):
                await command.news.wait()
                with trio.move_on_after(GATHER_S):
                    await command.over.wait()
        finally:
            command.listener = None

    async def stop(self, command: BackgroundCommand) -> None:
        """End a command; return when nothing of it is left."""
        command.scope.cancel()
        await command.over.wait()
