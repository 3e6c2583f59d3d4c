"""The interface of both engines: limits, commands, results, and the protocols of containers and engines."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from rumi.errors import RumiError

EngineKind: TypeAlias = Literal["docker", "bubblewrap"]
Sink: TypeAlias = Callable[[bytes], None]


FILE_SLACK_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """The limits on one chat's sandbox. Sizes are in bytes, times in seconds.

    `timeout_s` is the time limit of a command that has none of its own, `max_timeout_s` the most that a model
    may choose. `background_commands` is how many may run at once in one turn.
    """

    memory_bytes: int = 512 * 1024 * 1024
    cpus: float = 1.0
    pids: int = 128
    tmp_bytes: int = 64 * 1024 * 1024
    timeout_s: float = 30.0
    max_timeout_s: float = 600.0
    background_commands: int = 4
    output_limit: int = 50_000
    workspace_bytes: int = 512 * 1024 * 1024
    workspace_files: int = 50_000
    reserve_bytes: int | None = None
    """The free space that is reserved for Rumi itself. None: the default of `rumi.sandbox.disk`."""
    idle_ttl_s: float = 3600.0

    @property
    def file_bytes(self) -> int:
        """Return the maximum size of one file.

        It is slightly above the workspace limit, so that the workspace watch notices and reports a full
        workspace.
        """
        return self.workspace_bytes + FILE_SLACK_BYTES

    @property
    def socket_bytes(self) -> int:
        """Return the maximum memory of socket buffers, where the kernel counts it apart (cgroups version 1).

        Without it, a chat could use up the machine's memory for TCP, and slow down all its connections.
        """
        return self.memory_bytes // 4


@dataclass(frozen=True, slots=True)
class Command:
    """A program and its arguments, never a shell line.

    `reads` is True if the program is known to change no file, so that it also runs in a full workspace.
    `needed_bytes` is the free space that the command needs in the workspace: with less, the command does not
    start, and its result is `workspace_full`. `output_limit` is the number of bytes to retain of each stream,
    `timeout_s` the time limit; None uses the configured value. `variables` are added to the command's
    environment, each as `NAME=value`. A `background` command runs beside other commands, as far as the
    container can do that. `began` is called with the container's id when the command starts, and `heard` with
    each piece of its output and error output, as they come; both must not wait.
    """

    argv: tuple[str, ...]
    stdin: bytes = b""
    reads: bool = False
    needed_bytes: int = 0
    output_limit: int | None = None
    timeout_s: float | None = None
    variables: tuple[str, ...] = ()
    background: bool = False
    began: Callable[[str], object] = field(default=lambda container_id: None, compare=False, repr=False)
    heard: Callable[[bytes], object] = field(default=lambda piece: None, compare=False, repr=False)

    def with_variables(self) -> "Command":
        """Return the command that runs this one with its `variables`, by the program `env`."""
        if not self.variables:
            return self
        return replace(self, argv=("env", *self.variables, *self.argv), variables=())


@dataclass(frozen=True, slots=True)
class Output:
    """Head and tail of a stream of `total_bytes`; the middle of a long stream is omitted."""

    head: bytes = b""
    tail: bytes = b""
    total_bytes: int = 0

    @property
    def omitted_bytes(self) -> int:
        """Return the number of omitted bytes."""
        return self.total_bytes - len(self.head) - len(self.tail)

    @property
    def truncated(self) -> bool:
        """Return True if bytes were omitted."""
        return self.omitted_bytes > 0

    @property
    def content(self) -> bytes:
        """Return the bytes, with a line about the omitted ones."""
        omitted = f"\n[… {self.omitted_bytes} bytes left out …]\n" if self.truncated else ""
        return self.head + omitted.encode() + self.tail

    def text(self) -> str:
        """Return the stream as text, with a line about the omitted bytes."""
        return self.content.decode("utf-8", "replace")


Ending: TypeAlias = Literal["exited", "timeout", "workspace_full", "disk_full", "lost"]


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Result of a command: exit code, both streams, and how it ended.

    `exit_code` is 128 plus the signal's number for a killed process, and None if it is unknown. `ended` is
    `workspace_full` if the chat's own limit was exceeded, `disk_full` if the disk had only the space left
    that is reserved for Rumi, and `lost` if the sandbox itself ended during the command. `ran` is False if
    the command was never started.
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
    """A container of this installation, as `rumi debug sandbox status` shows it."""

    name: str
    chat_id: str
    container_id: str
    state: str


def environment(limits: SandboxLimits) -> dict[str, str]:
    """Return the environment of commands, apart from PATH."""
    return {
        "HOME": "/workspace",
        "LANG": "C.UTF-8",
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": "/tmp/matplotlib",  # the sandbox's own
        "MATPLOTLIBRC": "/etc/matplotlibrc",  # names the fonts, in sandboxes that have more than matplotlib's
        # A thread for each processor of the machine would cost more memory and processes than a chat has.
        "OPENBLAS_NUM_THREADS": str(max(1, round(limits.cpus))),
    }


def skills_folder(home: Path) -> Path:
    """Return the home's skills folder, which its sandboxes see as /skills, read-only."""
    return home / "run" / "skills"


class SandboxError(RumiError):
    """The sandbox could not be created or reached; the advice says what to do."""

    code = "workspace"


class ContainerGoneError(SandboxError):
    """The container ended before the command was started, so the command can be run in another one."""


class Container(Protocol):
    """One chat's running sandbox."""

    @property
    def concurrent(self) -> bool:
        """Return True if the container can run several commands at the same time. Otherwise it runs one."""
        ...

    @property
    def container_id(self) -> str:
        """Return the engine's id of the container, as shown in the audit log."""
        ...

    async def execute(self, command: Command, stdout: Sink, stderr: Sink) -> int:
        """Run a command to its end, stream its output to the sinks, and return its exit code.

        No process of the command is left when this returns. If cancelled, this call stops reading the output;
        the process continues until `end` or `kill_all`.

        Raises:
            ContainerGoneError: The container is gone, and the command was not started.
            SandboxError: The container ended during the command, or the engine does not answer.
        """
        ...

    async def end(self, command: Command) -> bool:
        """End the processes of one command, and leave the other commands running.

        Return True if it is proved within two seconds that no process of the command is left. After False,
        call `kill_all`. May be called while the command runs: `execute` then returns 137.
        """
        ...

    async def kill_all(self) -> None:
        """End every process except the first one; return only when it is proved that no other is left.

        May be called while a command runs: `execute` then returns 137, after the command's output. If killing
        does not succeed within two seconds, the container is killed and restarted.

        Raises:
            SandboxError: There is no proof; the container must not be used again.
        """
        ...


class Engine(Protocol):
    """Creates and removes containers. A process has one engine."""

    @property
    def kind(self) -> EngineKind:
        """Return the kind of engine."""
        ...

    @property
    def user(self) -> tuple[int, int]:
        """Return the uid and gid of commands, never 0; they own the workspaces."""
        ...

    @property
    def degraded(self) -> tuple[str, ...]:
        """Return the guarantees that this engine cannot give on this machine, one sentence each."""
        ...

    @property
    def missing_programs(self) -> tuple[str, ...]:
        """Return the allowed programs that this engine's sandboxes are known to lack."""
        ...

    @property
    def packages(self) -> tuple[str, ...]:
        """Return the Python packages that this engine's sandboxes are known to have, as NAME==VERSION."""
        ...

    async def create(self, chat_id: str, workspace: Path) -> Container:
        """Create and start the chat's container.

        If cancelled, the container may exist already: the caller then calls `remove`.

        Raises:
            SandboxError: The container cannot be created; the advice says what to do.
        """
        ...

    async def remove(self, chat_id: str) -> None:
        """Remove the chat's container by its name; return only when it is gone. Idempotent.

        Raises:
            SandboxError: The engine did not confirm the removal; call this again later.
        """
        ...

    async def sweep(self) -> list[str]:
        """Remove the leftovers, except containers, of a killed Rumi of this installation; return their names.

        Only the daemon, which holds the lock of the home, may call this. Only an engine's first call has an
        effect. If cancelled, call it again.
        """
        ...

    async def containers(self) -> list[ContainerInfo]:
        """Return all containers of this installation, and only of this one."""
        ...

    async def aclose(self) -> None:
        """Close the connections. The caller removes the containers."""
        ...


class HeadTail:
    """Retains the first and the last `limit` / 2 bytes of a stream, in bounded memory."""

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
        # Trimmed only at twice the length: otherwise each of many small pieces would move the whole tail.
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    def output(self) -> Output:
        """Return the bytes retained so far."""
        return Output(bytes(self._head), bytes(self._tail[-self._half :]), self._total)
