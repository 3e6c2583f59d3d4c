"""The requests to a sandbox and their answers, for both engines."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from rumi.errors import RumiError

EngineKind: TypeAlias = Literal["docker", "bubblewrap"]
Sink: TypeAlias = Callable[[bytes], None]


FILE_SLACK_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """The limits of one chat's sandbox. Sizes in bytes, times in seconds."""

    memory_bytes: int = 512 * 1024 * 1024
    cpus: float = 1.0
    pids: int = 128
    tmp_bytes: int = 64 * 1024 * 1024
    timeout_s: float = 30.0
    output_limit: int = 50_000
    workspace_bytes: int = 512 * 1024 * 1024
    workspace_files: int = 50_000
    reserve_bytes: int | None = None
    """The part of the file system that is reserved for Rumi itself. None: see `rumi.sandbox.disk`."""
    idle_ttl_s: float = 3600.0

    @property
    def file_bytes(self) -> int:
        """The maximum length of one file: a little above the workspace's limit, which the watch then sees."""
        return self.workspace_bytes + FILE_SLACK_BYTES


@dataclass(frozen=True, slots=True)
class Command:
    """A program and its arguments, never a line for a shell.

    `reads`: it is known to change no file, so it also runs where there is no room. `room` is how many bytes
    it needs in the workspace: with less it does not begin, and ends as `workspace_full`. `keep` is how many
    bytes of each stream are kept, `timeout_s` how long it may take; None: the configured numbers. `began` is
    called with the container's id when the command begins there; it never waits.
    """

    argv: tuple[str, ...]
    stdin: bytes = b""
    reads: bool = False
    needed_bytes: int = 0
    output_limit: int | None = None
    timeout_s: float | None = None
    began: Callable[[str], object] = field(default=lambda container_id: None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Output:
    """Head and tail of a stream of `total_bytes`; the middle is omitted if the stream is longer."""

    head: bytes = b""
    tail: bytes = b""
    total_bytes: int = 0

    @property
    def omitted_bytes(self) -> int:
        """The number of omitted bytes."""
        return self.total_bytes - len(self.head) - len(self.tail)

    @property
    def truncated(self) -> bool:
        """True if bytes were omitted."""
        return self.omitted_bytes > 0

    def text(self) -> str:
        """Return the stream as text, with a line about the omitted bytes."""
        head, tail = self.head.decode("utf-8", "replace"), self.tail.decode("utf-8", "replace")
        if not self.truncated:
            return head + tail
        return f"{head}\n[… {self.omitted_bytes} bytes left out …]\n{tail}"


Ending: TypeAlias = Literal["exited", "timeout", "workspace_full", "disk_full", "lost"]


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The end of a command, with both streams and the exit code in every case.

    `exit_code` is 128 plus the signal's number for a killed process, None if it never was known. `ended` is
    `workspace_full` if the chat's own limit was exceeded, `disk_full` if the file system has only Rumi's
    reserve left, and `lost` if the sandbox itself ended during the command. `ran` is False if it never began.
    """

    exit_code: int | None
    stdout: Output
    stderr: Output
    duration_ms: int
    ended: Ending
    container_id: str
    ran: bool = True


@dataclass(frozen=True, slots=True)
class ContainerInfo:
    """A container of this installation, as `rumi sandbox status` shows it."""

    name: str
    chat_id: str
    container_id: str
    state: str


def skills_folder(home: Path) -> Path:
    """Return the folder of a home that its sandboxes see as /skills, read-only."""
    return home / "run" / "skills"


class SandboxError(RumiError):
    """The sandbox could not be made or reached; the error says what to do."""

    code = "workspace"


class ContainerGoneError(SandboxError):
    """The container ended before the command was begun: the command may be run in another one."""


class Container(Protocol):
    """One chat's running sandbox. One command at a time."""

    @property
    def container_id(self) -> str:
        """The engine's id for it, as the audit log shows it."""
        ...

    async def execute(self, command: Command, stdout: Sink, stderr: Sink) -> int:
        """Run a command to its end, pass on its streams as they come, return its exit code.

        Cancelled, it only stops listening: the process continues until `kill_all`.

        Raises:
            ContainerGoneError: The container is gone, and the command was not begun.
            SandboxError: The container ended during the command, or the engine does not answer.
        """
        ...

    async def kill_all(self) -> None:
        """End every process except the first, and return only when that is proved.

        It may be called while a command runs: `execute` then returns 137, after the command's output. If
        killing does not help within two seconds, the container is killed and started again.

        Raises:
            SandboxError: It could not be proved; the container must not be used again.
        """
        ...


class Engine(Protocol):
    """Makes and removes containers. One per process."""

    @property
    def kind(self) -> EngineKind:
        """The kind of engine."""
        ...

    @property
    def user(self) -> tuple[int, int]:
        """The uid and gid of commands, never 0; workspaces belong to them."""
        ...

    @property
    def degraded(self) -> tuple[str, ...]:
        """Promises that this engine cannot keep on this machine, one sentence each."""
        ...

    @property
    def missing_programs(self) -> tuple[str, ...]:
        """Allowed programs that its sandboxes are known to lack."""
        ...

    async def create(self, chat_id: str, workspace: Path) -> Container:
        """Make the chat's container and start it.

        Cancelled half-way, it may have made the container: the caller then calls `remove`.

        Raises:
            SandboxError: The container cannot be made. The error says what to do.
        """
        ...

    async def remove(self, chat_id: str) -> None:
        """Remove the chat's container by its name and return only when it is gone. Idempotent.

        Raises:
            SandboxError: The engine did not confirm it; call it again later.
        """
        ...

    async def sweep(self) -> list[str]:
        """Remove what a killed process of this installation left beside containers, and name it.

        Only for the process that holds the home; only an engine's first call does something. Cancelled, call
        it again.
        """
        ...

    async def containers(self) -> list[ContainerInfo]:
        """Return all containers of this installation, and only of this one."""
        ...

    async def aclose(self) -> None:
        """Close connections. The caller removes the containers."""
        ...


class HeadTail:
    """Keeps the first and the last half of `limit` bytes of a stream, in flat memory however much comes."""

    def __init__(self, limit: int) -> None:
        self._half = max(limit // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, data: bytes) -> None:
        """Append the next bytes of the stream."""
        self._total += len(data)
        head_left = self._half - len(self._head)
        if head_left > 0:
            self._head += data[:head_left]
            data = data[head_left:]
        if len(data) >= self._half:
            self._tail = bytearray(data[-self._half :])
            return
        self._tail += data
        # Cut at twice the length, so that many small pieces do not each move the whole tail.
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    def output(self) -> Output:
        """Return the kept bytes so far."""
        return Output(bytes(self._head), bytes(self._tail[-self._half :]), self._total)
