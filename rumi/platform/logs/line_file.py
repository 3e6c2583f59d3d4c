"""An append-only file of lines with rotation by size, which several processes can write.

Each line is one `write` with O_APPEND, so lines of several threads and processes never mix. A process that
dies in the middle of a line leaves a torn line; the next writer begins a new line.
"""

import fcntl
import io
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


class LineFile:
    """Appends lines to `path` (mode 0600), and rotates it to `path.1` … before it exceeds `max_mb`.

    `backup_count` is the number of rotated files to retain. A line that is larger than `max_mb` gets a file
    of its own. The file is opened at the first line, without following a link.
    """

    def __init__(self, path: Path, *, max_mb: float, backup_count: int) -> None:
        self._path = path
        self._max_bytes = int(max_mb * 1024 * 1024)
        self._backup_count = backup_count
        self._descriptor: int | None = None
        self._torn = False
        self._made = False
        self._lock = threading.Lock()

    def append(self, line: bytes) -> None:
        """Append one line and a newline.

        Raises:
            OSError: The line could not be written, or only in part. Later calls are safe.
        """
        with self._lock:
            descriptor = self._open()
            if os.fstat(descriptor).st_size + len(line) + 1 > self._max_bytes and self._put_aside(descriptor):
                descriptor = self._open()
            whole = b"\n" * self._torn + line + b"\n"  # ends a torn line first, so that this one can be read
            written = os.write(descriptor, whole)
            self._torn = written < len(whole)
            if self._torn:
                raise OSError(f"only {written} of {len(whole)} bytes could be written to {self._path}")

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        with self._lock:
            self._close()

    def _open(self) -> int:
        """Return a descriptor of the current file at the path; reopen it if another process rotated it."""
        if self._descriptor is not None:
            if self._is_current(self._descriptor):
                return self._descriptor
            self._close()
        # Create parents only the first time: a home that was deleted since must not be created again.
        self._path.parent.mkdir(mode=0o700, parents=not self._made, exist_ok=True)
        self._made = True
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
            size = os.fstat(descriptor).st_size
            self._torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return descriptor

    def _is_current(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), os.lstat(self._path))
        except FileNotFoundError:
            return False

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _put_aside(self, descriptor: int) -> bool:
        """Rotate the file; return False if that is not possible now.

        Each step is one rename, so a crash loses nothing.
        """
        if os.fstat(descriptor).st_size == 0:
            return False
        try:
            # Without waiting: a suspended process that holds the lock must not block the others.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        try:
            if not self._is_current(descriptor):
                return True  # another process has rotated it
            # Move files up to the first gap, which a crash may have left; the files after it can stay.
            numbers = range(1, self._backup_count + 1)
            free_number = next((n for n in numbers if not self._numbered(n).exists()), self._backup_count)
            for number in range(free_number, 1, -1):
                os.replace(self._numbered(number - 1), self._numbered(number))
            if self._backup_count:
                os.replace(self._path, self._numbered(1))
            else:
                os.unlink(self._path)
            return True
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


@dataclass(frozen=True, slots=True)
class LogPosition:
    """A position in a file, which stays valid when a rotation renames the file."""

    file: os.stat_result
    offset: int


def read_lines(path: Path, *, old: bool = False, until: LogPosition | None = None) -> Iterator[bytes]:
    """Yield the lines of a `LineFile`, including torn ones; with `old`, first those of the rotated files.

    Lines after `until` are not read. If a file is rotated meanwhile, lines may be missed or come twice.
    """
    paths = [path]
    if old:
        numbers = [
            sibling.name.removeprefix(f"{path.name}.") for sibling in path.parent.glob(f"{path.name}.*")
        ]
        ordered = sorted((int(n) for n in numbers if n.isascii() and n.isdigit()), reverse=True)
        paths = [*(path.with_name(f"{path.name}.{n}") for n in ordered), path]
    for log_file in paths:
        try:
            with log_file.open("rb") as file:
                if until is not None and os.path.samestat(os.fstat(file.fileno()), until.file):
                    yield from io.BytesIO(file.read(until.offset))
                    return
                yield from file
        except FileNotFoundError:
            continue
