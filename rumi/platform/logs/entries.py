"""Reads the audit log entries that match a filter, also from rotated files, and follows new entries."""

import json
import os
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias

import trio

from rumi.platform.logs.audit import LogPosition, read_audit

Entry: TypeAlias = dict[str, Any]

NUMBERS: Final = ("duration_ms", "prompt_tokens", "completion_tokens", "cached_tokens", "seconds")
"""Names of the fields of log entries that must be numbers."""

MOST: Final = 10**15
"""Exclusive upper limit of a valid duration or token count."""

LOOK_S = 0.25
"""Interval at which a log file is polled for new lines, in seconds."""

EPOCH: Final = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A filter for log entries by chat, event and earliest time (`since`).

    An empty set of chats matches every chat, and an empty set of events every event.
    """

    chats: frozenset[str] = frozenset()
    events: frozenset[str] = frozenset()
    since: datetime | None = None

    def __contains__(self, entry: object) -> bool:
        if not isinstance(entry, dict):
            return False
        if self.chats and entry.get("chat_id") not in self.chats:
            return False
        if self.events and entry.get("event") not in self.events:
            return False
        return self.since is None or time_of(entry) >= self.since


def time_of(entry: Entry) -> datetime:
    """Return the entry's time, or 1970-01-01 UTC if the time is missing or not valid."""
    try:
        found = datetime.fromisoformat(str(entry.get("time", "")))
    except ValueError:
        return EPOCH
    found = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    # Times at both ends of the range cannot be converted to local time.
    return found if EPOCH.year < found.year < datetime.max.year else EPOCH


def _entry(found: object) -> Entry | None:
    """Return the log entry that a parsed line contains, or None if Rumi did not write the line.

    Fields with a wrong type become null, because readers rely on the types.
    """
    if not isinstance(found, dict) or not isinstance(found.get("event"), str):
        return None
    if not isinstance(found.get("chat_id"), str):
        found["chat_id"] = None
    for name in NUMBERS:
        if name in found and not _is_number(found[name]):
            found[name] = None
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) < MOST


def read(path: Path, wanted: Wanted, until: LogPosition | None = None) -> Iterator[Entry]:
    """Yield the entries that match the filter, oldest first. Ignores incomplete lines and a missing log."""
    entries = (_entry(found) for found in read_audit(path, old=True, until=until))
    return (entry for entry in entries if entry is not None and entry in wanted)


def follow(path: Path, wanted: Wanted) -> tuple[Iterator[Entry], AsyncGenerator[Entry, None]]:
    """Return the existing entries that match the filter, and an endless generator of new entries.

    No entry appears in both results, even if the file is rotated between the two reads.
    """
    # The tail is opened first: its position is where the existing entries end.
    tail = _Tail(path)
    return read(path, wanted, tail.position()), _follow(tail, wanted)


async def _follow(tail: "_Tail", wanted: Wanted) -> AsyncGenerator[Entry, None]:
    try:
        while True:
            for line in tail.lines():
                try:
                    entry = _entry(json.loads(line))
                except (ValueError, RecursionError):
                    continue
                if entry is not None and entry in wanted:
                    yield entry
            await trio.sleep(LOOK_S)
    finally:
        tail.close()


class _Tail:
    """Reads the lines that are appended to a file after this object is created. Blocks briefly.

    Rotations of the file lose no lines.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = self._opened(path)
        self._torn = b""
        if self._file is not None:
            self._file.seek(0, os.SEEK_END)

    def position(self) -> LogPosition | None:
        """Return the position of the next line; None while the file does not exist."""
        return None if self._file is None else LogPosition(os.fstat(self._file.fileno()), self._file.tell())

    def lines(self) -> Iterator[bytes]:
        """Yield the new complete lines. An incomplete line is buffered until its end arrives."""
        if self._file is None:
            self._file = self._opened(self._path)
        while self._file is not None:
            *whole, self._torn = (self._torn + self._file.read()).split(b"\n")
            yield from whole
            following = self._following(self._file)
            if following is None:
                return
            # The file may have grown between the last read and its rotation.
            *whole, _ = (self._torn + self._file.read()).split(b"\n")
            yield from whole
            self._file.close()
            self._file, self._torn = following, b""

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _opened(self, path: Path) -> BinaryIO | None:
        try:
            return path.open("rb")
        except OSError:
            return None

    def _following(self, file: BinaryIO) -> BinaryIO | None:
        """Return the log file that was created directly after `file`; None if `file` is the newest."""
        ours = os.fstat(file.fileno())
        newer: BinaryIO | None = None
        number = 0
        while True:
            path = self._path if number == 0 else self._path.with_name(f"{self._path.name}.{number}")
            candidate = self._opened(path)
            if candidate is None and number:
                return newer  # our file was deleted: continue with the oldest that is left
            if candidate is not None and os.path.samestat(os.fstat(candidate.fileno()), ours):
                candidate.close()
                return newer
            if candidate is not None:
                if newer is not None:
                    newer.close()
                newer = candidate
            number += 1
