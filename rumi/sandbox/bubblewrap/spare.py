"""A sandbox that is set up before its command is known, so that the command need not wait for namespaces.

Inside, a shell waits on a pipe for the words of its one command, and becomes it. They come framed (their
number first, a full stop last), so that a command of which only a part was handed over does not run.
"""

import contextlib
import fcntl
import os
import select
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import trio

from rumi.sandbox.types import SandboxError, Sink

LINGER_S = 2.0
CHUNK_BYTES = 65536
LOST = ("The sandbox went away.", "Send the request again: it is made afresh.")
SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


class Spare:
    """Our ends of the pipes to one sandbox. Use `begin`, then `finish`, once; close it in any case."""

    def __init__(self, ask: Callable[[list[int]], None]) -> None:
        """Makes the pipes and hands their other ends to `ask`: words, input, output, errors, reply.

        Whatever `ask` raises passes through, with nothing left open.
        """
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            self._stdin = os.memfd_create("stdin", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            ours.callback(os.close, self._stdin)
            words, self._words = _pipe(ours, theirs, "write")
            out, self._out = _pipe(ours, theirs, "read")
            err, self._err = _pipe(ours, theirs, "read")
            reply, self._reply = _pipe(ours, theirs, "read")
            ask([words, self._stdin, out, err, reply])
            self._open = ours.pop_all()

    @property
    def over(self) -> bool:
        """Whether it ended while it waited, as a machine that is short of memory may do to it."""
        poll = select.poll()  # `select` takes no descriptor above 1023
        poll.register(self._reply.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    async def begin(self, words: Sequence[bytes], stdin: bytes) -> None:
        """Hand over the command: none of its words contains a NUL byte. Cancelled, the command does not run.

        Raises:
            trio.BrokenResourceError: the sandbox ended while it waited; nothing was run.
        """
        view, offset = memoryview(stdin), 0
        while offset < len(view):
            offset += os.pwrite(self._stdin, view[offset:], offset)
        # Whoever reads it can neither change it nor let it grow.
        fcntl.fcntl(self._stdin, fcntl.F_ADD_SEALS, SEALS)
        framed = [str(len(words) + 2).encode(), *words, b"."]
        await self._words.send_all(b"".join(word + b"\0" for word in framed))
        self._words.close()

    async def finish(self, stdout: Sink, stderr: Sink) -> int:
        """Hand on the streams as they come, and return the exit code when nothing of the command is left.

        Raises:
            SandboxError: what started the sandbox is gone, or could not start it.
        """
        said = bytearray()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pump, self._out, stdout)
            nursery.start_soon(pump, self._err, stderr)
            await pump(self._reply, said.extend)
            # Nothing of the command is left, or the keeper is gone and with it whatever would end these.
            nursery.cancel_scope.deadline = trio.current_time() + (LINGER_S if said else 0)
        text = said.decode("utf-8", "replace")
        if not text:
            raise SandboxError(*LOST)
        if not text.isdigit():
            advice = "Look at `rumi doctor`."
            raise SandboxError(f"The sandbox cannot run the command ({text}).", advice)
        return int(text)

    def close(self) -> None:
        """Close our ends, by which a sandbox that still waits ends and a running command does not."""
        self._open.close()


async def pump(stream: trio.lowlevel.FdStream, sink: Sink) -> None:
    """Hand on a stream to its end."""
    while chunk := await stream.receive_some(CHUNK_BYTES):
        sink(bytes(chunk))


@contextlib.contextmanager
def closing(fd: int) -> Iterator[int]:
    """Close a file descriptor at the end of the block."""
    try:
        yield fd
    finally:
        os.close(fd)


def _pipe(
    ours: contextlib.ExitStack, theirs: contextlib.ExitStack, we: Literal["read", "write"]
) -> tuple[int, trio.lowlevel.FdStream]:
    read, write = os.pipe()
    mine, other = (read, write) if we == "read" else (write, read)
    theirs.callback(os.close, other)
    stream = trio.lowlevel.FdStream(mine)
    ours.callback(stream.close)
    return other, stream
