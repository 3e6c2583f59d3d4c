"""Pipes and files in memory, through which commands of this machine get their input and give their output."""

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
"""Output beyond the first bytes is read at this pace, so that a command that only writes does not take a
processor from other chats. The command waits at its pipe meanwhile.
"""


class ReadPace:
    """The pace at which the output of one command is read, both streams together."""

    def __init__(self) -> None:
        self._total = 0

    async def read(self, count: int) -> None:
        """Record that many bytes, and wait if they came too fast."""
        self._total += count
        if self._total > FREE_BYTES:
            await trio.sleep(count / PACE_BYTES_PER_S)


async def pump(stream: trio.lowlevel.FdStream, sink: Sink, pace: ReadPace | None = None) -> None:
    """Pass on a stream to its end."""
    while chunk := await stream.receive_some(CHUNK_BYTES):
        sink(bytes(chunk))
        if pace is not None:
            await pace.read(len(chunk))


def pipe(
    ours: contextlib.ExitStack, theirs: contextlib.ExitStack, we: Literal["read", "write"]
) -> tuple[int, trio.lowlevel.FdStream]:
    """Return the other side's end of a new pipe and our own; each stack closes one."""
    read, write = os.pipe()
    mine, other = (read, write) if we == "read" else (write, read)
    theirs.callback(os.close, other)
    stream = trio.lowlevel.FdStream(mine)
    ours.callback(stream.close)
    return other, stream


def file_in_memory(name: str) -> int:
    """Return a new file that only its descriptors reach; see `fill`."""
    return os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)


def fill(file: int, content: bytes) -> None:
    """Write a file in memory, whose readers can then neither change it nor let it grow."""
    view, offset = memoryview(content), 0
    while offset < len(view):
        offset += os.pwrite(file, view[offset:], offset)
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, SEALS)
