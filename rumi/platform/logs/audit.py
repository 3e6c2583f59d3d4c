"""The audit log: one JSON line for each action, with its chat and its result.

Writing is synchronous, in the caller's thread. Writing a line of about 300 bytes to the page cache takes less
time than starting work in a worker thread, and the line is written before the next action begins. The log is
not synced to the disk: data that must survive a power cut is in the journal.
"""

import fcntl
import io
import json
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rumi.platform.redact import Redactor
from rumi.platform.timestamps import utc

FIELDS: Final = (
    *("time", "event", "chat_id", "turn", "container_id", "argv", "command", "exit_code", "duration_ms"),
    *("truncated", "stopped_reason"),
)
"""The fields of every line of the audit log, in this order. A field that does not apply is null."""

_log = logging.getLogger(__name__)
# JSON allows these characters in strings, but some readers take them as newlines.
_LINE_BREAKS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


class AuditLog:
    """Writes the audit log and removes secrets from its lines. Callable from any thread.

    Writing never raises an error, because a full disk must not end a turn. `lost` counts the lines that could
    not be written. The program log reports the first lost line and, when writing works again, the number of
    lost lines.
    """

    def __init__(
        self,
        path: Path,
        max_mb: float,
        backup_count: int,
        redact: Redactor,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Create the log. `now` returns the Unix time in seconds."""
        self._file = LineFile(path, max_mb=max_mb, backup_count=backup_count)
        self._redact = redact
        self._now = now
        self._failing = False
        self.lost = 0

    def write(
        self,
        event: str,
        *,
        chat_id: str,
        turn: str = "",
        container_id: str | None = None,
        argv: Sequence[str] | None = None,
        command: str | None = None,
        exit_code: int | None = None,
        duration_ms: int | None = None,
        truncated: bool | None = None,
        stopped_reason: str | None = None,
        **more: object,
    ) -> None:
        """Append one line to the audit log. `more` are additional fields, written after `FIELDS`."""
        line = {
            "time": utc(self._now()),
            "event": event,
            "chat_id": chat_id,
            "turn": turn or None,
            "container_id": container_id or None,
            "argv": None if argv is None else list(argv),
            "command": command,
            "exit_code": exit_code,
            "duration_ms": duration_ms,
            "truncated": truncated,
            "stopped_reason": stopped_reason,
            **more,
        }
        try:
            self._file.append(as_line(line, self._redact))
        except OSError as error:
            self.lost += 1
            if not self._failing:
                self._failing = True
                _log.error("the audit log cannot be written: %s", error)
        else:
            if self._failing:
                self._failing = False
                _log.warning("the audit log is written again; %d lines were lost", self.lost)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_audit(
    path: Path, *, old: bool = False, until: "LogPosition | None" = None
) -> Iterator[dict[str, Any]]:
    """Yield the entries of an audit log, oldest first; with `old`, include the entries of rotated files.

    Lines after `until` are not read. Incomplete lines are skipped. A missing file counts as empty.
    """
    for line in read_lines(path, old=old, until=until):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            yield found


def as_line(fields: Mapping[str, object], redact: Redactor) -> bytes:
    """Return the fields as one line of JSON, without secrets and without a trailing newline."""
    texts: list[str] = []
    line = _plain(fields, texts)
    # Almost no line has a secret: one search over all of its texts is much faster than one search each.
    together = "\n".join(texts)
    if redact.text(together) != together:
        line = _hidden(line, redact)
    text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
    # UTF-8 cannot encode half a surrogate pair; `backslashreplace` writes the JSON escape of it.
    return text.translate(_LINE_BREAKS).encode("utf-8", "backslashreplace")


def _plain(value: object, texts: list[str]) -> object:
    """Convert the value to JSON types; add every text in it to `texts`."""
    if isinstance(value, str):
        text = str(value)
        texts.append(text)
        return text
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, Mapping):
        texts.extend(map(str, value))
        return {str(key): _plain(item, texts) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, texts) for item in value]
    text = str(value)
    texts.append(text)
    return text


def _hidden(value: object, redact: Redactor) -> object:
    if isinstance(value, str):
        return redact.text(value)
    if isinstance(value, dict):
        return {redact.text(key): _hidden(item, redact) for key, item in value.items()}
    return [_hidden(item, redact) for item in value] if isinstance(value, list) else value


class LineFile:
    """Appends lines to `path` (mode 0600), and rotates it to `path.1`, `path.2` … before it exceeds `max_mb`.

    `backup_count` is the number of rotated files to retain. A line that is larger than `max_mb` gets a
    separate file. The file is opened on the first append; a symbolic link at `path` is not followed.
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
            OSError: The line was not written, or was written only in part. It is safe to call `append` again.
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
        """Close the file; the next call of `append` opens it again."""
        with self._lock:
            self._close()

    def _open(self) -> int:
        """Return a descriptor of the current file; reopen the path after a rotation by another process."""
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
        """Rotate the file; return False if another process prevents the rotation at the moment.

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
    """A position in a log file. The position stays valid when a rotation renames the file."""

    file: os.stat_result
    offset: int


def read_lines(path: Path, *, old: bool = False, until: "LogPosition | None" = None) -> Iterator[bytes]:
    """Yield the lines of a `LineFile`, including incomplete ones; with `old`, rotated files come first.

    Lines after `until` are not read. If a file is rotated during the reading, lines may be missed or yielded
    twice.
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
