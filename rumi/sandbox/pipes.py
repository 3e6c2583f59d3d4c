"""Pipes and in-memory files for the input and output of commands on this machine."""

import contextlib
import fcntl
import os
from typing import Literal

import trio

from rumi.sandbox.engine import Sink

CHUNK_BYTES = 65536
SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
FREE_BYTES = 16 * 1024 * 1024
PACE_BYTES_PER_S = 64 * 1024 * 1024
"""Rate at which output beyond `FREE_BYTES` is read, so that a command that only writes does not use a
processor that other chats need. The command blocks at its pipe in the meantime.
"""


class ReadPace:
    """Rate limit for reading the output of one command, both streams together."""

    def __init__(self) -> None:
        self._total = 0

    async def read(self, count: int) -> None:
        """Add `count` to the received bytes, and sleep if the output comes too fast."""
        self._total += count
        if self._total > FREE_BYTES:
            await trio.sleep(count / PACE_BYTES_PER_S)


async def pump(stream: trio.lowlevel.FdStream, sink: Sink, pace: ReadPace | None = None) -> None:
    """Forward a stream to a sink until its end."""
    while chunk := await stream.receive_some(CHUNK_BYTES):
        sink(bytes(chunk))
        if pace is not None:
            await pace.read(len(chunk))


def pipe(
    ours: contextlib.ExitStack, theirs: contextlib.ExitStack, we: Literal["read", "write"]
) -> tuple[int, trio.lowlevel.FdStream]:
    """Create a pipe; return the end for another process as a descriptor and our own end as a stream.

    The stack `theirs` closes the descriptor, and the stack `ours` closes the stream. `we` says what our side
    does with the pipe: read or write.
    """
    read, write = os.pipe()
    mine, other = (read, write) if we == "read" else (write, read)
    theirs.callback(os.close, other)
    stream = trio.lowlevel.FdStream(mine)
    ours.callback(stream.close)
    return other, stream


def file_in_memory(name: str) -> int:
    """Create an in-memory file, which only descriptors can access; see `fill`."""
    return os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)


def fill(file: int, content: bytes) -> None:
    """Write an in-memory file and seal it, so that its readers can neither change nor enlarge it."""
    view, offset = memoryview(content), 0
    while offset < len(view):
        offset += os.pwrite(file, view[offset:], offset)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, SEALS)
