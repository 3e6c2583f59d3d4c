"""The connection to a container's first process, which starts and ends its commands; see `runner/init.c`.

Starting a command this way costs a tenth of a Docker exec: it needs no HTTP request and no program of the
daemon.
"""

import array
import contextlib
import hashlib
import itertools
import os
import socket
import struct
from pathlib import Path

import trio

from rumi.platform.openat import opened
from rumi.sandbox.docker.frames import not_started
from rumi.sandbox.engine import Command, ContainerGoneError, SandboxError, Sink
from rumi.sandbox.lease import Lease, LeaseLostError, heartbeat, is_lost
from rumi.sandbox.pipes import ReadPace, file_in_memory, fill, pipe, pump

CONNECT_S = 5.0
"""Maximum time for a started container to connect."""
LINGER_S = 2.0
"""Maximum wait, after a command's exit, for the end of its streams and the proof that no process is left."""


class InitListener:
    """The listening socket for the single connection of a container's first process."""

    def __init__(self, folder: Path, container: str, user: tuple[int, int]) -> None:
        """Create the socket in the folder. Only `user` may connect, and no command of that user runs yet.

        Raises:
            OSError: The socket cannot be created there.
        """
        # Short, and always the same for a container, so that it replaces the leftover of a killed process.
        self.path = folder / f"init-{hashlib.sha256(container.encode()).hexdigest()[:16]}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.unlink(missing_ok=True)
        with contextlib.ExitStack() as undone:
            listener = undone.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            undone.callback(self.path.unlink, missing_ok=True)
            # A socket address has at most 108 bytes, and the path of a home may be longer.
            with opened(os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as here:
                listener.bind(f"/proc/self/fd/{here}/{self.path.name}")
            self.path.chmod(0o600)
            if os.getuid() == 0:
                os.chown(self.path, *user, follow_symlinks=False)
            listener.listen(1)
            self._socket = trio.socket.from_stdlib_socket(listener)
            undone.pop_all()

    async def accept(self, pid: int, lease: Lease | None = None) -> "Init | None":
        """Accept the connection of the first process, which has this `pid`; return None after `CONNECT_S`."""
        with trio.move_on_after(CONNECT_S):
            while True:
                connection, _ = await self._socket.accept()
                # Nothing else of the container may take the first process's place.
                if _peer(connection) == pid:
                    return Init(connection, lease)
                connection.close()
        return None

    def close(self) -> None:
        """Remove the socket, so that no process can connect any more. Idempotent."""
        self._socket.close()
        with contextlib.suppress(FileNotFoundError):
            self.path.chmod(0)  # the container still has it mounted
            self.path.unlink()


class Init:
    """The connection to a container's first process. Closing it ends that process and all commands."""

    def __init__(self, connection: trio.socket.SocketType, lease: Lease | None = None) -> None:
        self._connection = connection
        self.lease = lease
        self._numbers = itertools.count(1)
        self._running: dict[int, int] = {}
        """The numbers of the commands that may still have processes, by `id` of the command."""

    async def beat(self) -> None:
        """Send the first process a heartbeat; do nothing if the lease is lost or the container is gone."""
        await trio.lowlevel.checkpoint()
        if self.lease is not None and not is_lost(self.lease):
            with contextlib.suppress(OSError, trio.ClosedResourceError):
                await self._connection.send(heartbeat(self.lease))

    async def execute(self, command: Command, stdout: Sink, stderr: Sink, user: tuple[int, int]) -> int:
        """Run a command to its end, stream its output to the sinks, and return its exit code.

        Processes that the command leaves running are killed. If cancelled, this call stops reading the
        output; the process continues until `end` or `kill_all`.

        Raises:
            ContainerGoneError: The container is gone, and the command was not started.
            LeaseLostError: The container has ended, because its lease expired.
            SandboxError: The container ended during the command.
        """
        said, pace = bytearray(), ReadPace()
        with contextlib.ExitStack() as ours:
            with contextlib.ExitStack() as theirs:
                words = _file(theirs, b"".join(os.fsencode(word) + b"\0" for word in command.argv))
                stdin = _file(theirs, command.stdin) if command.stdin else _nothing(theirs)
                out, from_out = pipe(ours, theirs, "read")
                err, from_err = pipe(ours, theirs, "read")
                reply, from_reply = pipe(ours, theirs, "read")
                if os.getuid() == 0:
                    for stream in (stdin, out, err) if command.stdin else (out, err):
                        os.fchown(stream, *user)  # so that a command can open /dev/stdout
                number = self._running[id(command)] = next(self._numbers)
                await self._send(b"run %d" % number, words, stdin, out, err, reply)
            # Our copies of their ends are closed now, so the streams end with the command's processes.
            async with trio.open_nursery() as nursery:

                def hear(line: bytes) -> None:
                    said.extend(line)
                    if b"exit" in said:
                        nursery.cancel_scope.deadline = trio.current_time() + LINGER_S

                nursery.start_soon(pump, from_out, stdout, pace)
                nursery.start_soon(pump, from_err, stderr, pace)
                await pump(from_reply, hear)
                # Without an exit, the container has ended, and no process writes to the streams any more.
                nursery.cancel_scope.deadline = trio.current_time() + LINGER_S
        reply_lines = _read(said)
        if "lease" in reply_lines:
            raise LeaseLostError
        if "begun" not in reply_lines:
            raise ContainerGoneError("The sandbox's container is gone.")
        if "exit" not in reply_lines:
            raise SandboxError("The sandbox's container ended during the command.")
        if "clean" in reply_lines:
            self._running.pop(id(command), None)
        code = reply_lines["exit"]
        if "errno" in reply_lines:
            code, line = not_started(command.argv[0], code, os.strerror(reply_lines["errno"]))
            stderr(line.encode())
        return code

    async def kill_all(self) -> bool:
        """Kill every process except the first; return True when the kernel has proved that no other is left.

        Return False if the container is gone. The wait has no limit; if it is cancelled, the first process
        continues killing.
        """
        doomed = tuple(self._running)
        if doomed and not await self._told(b"kill"):
            return False
        for key in doomed:
            self._running.pop(key, None)
        await trio.lowlevel.checkpoint()
        return True

    async def end(self, command: Command) -> bool:
        """Kill the processes of one command; return True when none is left, False if the container is gone.

        The wait has no limit; if it is cancelled, the first process continues killing.
        """
        number = self._running.get(id(command))
        if number is not None and not await self._told(b"end %d" % number):
            return False
        self._running.pop(id(command), None)
        await trio.lowlevel.checkpoint()
        return True

    async def _told(self, what: bytes) -> bool:
        """Send a request that ends processes; return True when the first process reports their end."""
        said = bytearray()
        with contextlib.ExitStack() as ours:
            with contextlib.ExitStack() as theirs:
                reply, from_reply = pipe(ours, theirs, "read")
                try:
                    await self._send(what, reply)
                except ContainerGoneError:
                    return False
            await pump(from_reply, said.extend)
        return "clean" in _read(said)

    def close(self) -> None:
        """Close the connection; the container ends by itself. Idempotent."""
        self._connection.close()

    async def _send(self, what: bytes, *descriptors: int) -> None:
        passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        try:
            await self._connection.sendmsg([what], passed)
        except (OSError, trio.ClosedResourceError) as error:
            raise ContainerGoneError("The sandbox's container is gone.") from error


def _file(owner: contextlib.ExitStack, content: bytes) -> int:
    file = file_in_memory("input")
    owner.callback(os.close, file)
    fill(file, content)
    return file


def _nothing(owner: contextlib.ExitStack) -> int:
    """Return /dev/null, which programs recognise as the absence of input."""
    file = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    owner.callback(os.close, file)
    return file


def _read(said: bytearray) -> dict[str, int]:
    """Parse the lines of a reply, each a word and a number; skip an incomplete last line."""
    lines = said.decode("ascii").split("\n")[:-1]
    return {word: int(number) for word, number in (line.split(" ") for line in lines)}


def _peer(connection: trio.socket.SocketType) -> int:
    """Return the connected process's pid in Rumi's pid namespace; 0 if it is not visible there."""
    size = struct.calcsize("3i")
    pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return int(pid)
