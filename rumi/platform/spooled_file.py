"""A temporary, unlinked file that buffers an upload or a download until it is complete."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final

import trio

from rumi.errors import FileError
from rumi.platform.threads import Offload
from rumi.texts import os_error

_BLOCK_BYTES: Final = 1024 * 1024


class SpooledFile:
    """A temporary, unlinked file in `folder`, which is removed at the end of the block.

    Each full block is written to the file with `offload`, so that at most one block is in memory. `reset`
    must be called before the first `write`.
    """

    def __init__(self, folder: Path, offload: Offload) -> None:
        self._folder = folder
        self._offload = offload
        self._file: BinaryIO | None = None
        self._buffer = bytearray()
        self.size = 0

    def __enter__(self) -> "SpooledFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def file(self) -> BinaryIO:
        """Return the open file. Call `flush` first to write the buffered bytes to it."""
        assert self._file is not None
        return self._file

    async def reset(self) -> None:
        """Create the file, or discard all bytes written so far.

        Raises:
            FileError: The disk cannot be written.
        """
        self._buffer.clear()
        self.size = 0
        await self._offload(self._truncate)

    async def write(self, data: bytes) -> None:
        """Append bytes to the buffer; write the buffer to the file when it contains a whole block.

        Raises:
            FileError: The disk cannot be written.
        """
        self._buffer += data
        self.size += len(data)
        if len(self._buffer) >= _BLOCK_BYTES:
            await self._offload(self._write_block)

    async def flush(self) -> None:
        """Write the buffered bytes to the file.

        Raises:
            FileError: The disk cannot be written.
        """
        await self._offload(self._write_block)

    def _truncate(self) -> None:
        try:
            if self._file is None:
                # It is closed at the end of the block.
                self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
            self._file.seek(0)
            self._file.truncate()
        except OSError as error:
            raise _disk_error(error) from None

    def _write_block(self) -> None:
        try:
            rest = memoryview(self._buffer)
            with rest:
                written = 0
                while written < len(rest):
                    written += os.write(self.file.fileno(), rest[written:])
        except OSError as error:
            raise _disk_error(error) from None
        self._buffer.clear()


def _disk_error(error: OSError) -> FileError:
    return FileError("It cannot be stored on this machine: {reason}.", reason=os_error(error))


def check_cancelled() -> None:
    """Raise `Cancelled` if the task that waits for this worker thread was cancelled.

    Does nothing in threads that trio did not start.
    """
    with suppress(RuntimeError):
        trio.from_thread.check_cancelled()
