"""The audit log: one JSON line for each action, with its chat and its result.

Writing is synchronous, in the caller's thread. A line of about 300 bytes goes into the page cache, which
takes less time than a worker thread would, and the line exists before the next action. Nothing is fsynced:
data that must survive a power cut is in the journal.
"""

import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rumi.platform.logs.line_file import LineFile, LogPosition, read_lines
from rumi.platform.redact import Redactor
from rumi.platform.timestamps import utc

FIELDS: Final = (
    *("time", "event", "chat_id", "turn", "container_id", "argv", "command", "exit_code", "duration_ms"),
    *("truncated", "stopped_reason"),
)
"""The fields of every line, in this order; null if a field does not apply."""

_log = logging.getLogger(__name__)
# JSON allows these characters in strings, but some readers take them as newlines.
_LINE_BREAKS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


class AuditLog:
    """Writes audit lines without secrets. Callable from any thread.

    Writing never fails for the caller, because a full disk must not end a turn. `lost` counts the lost lines.
    The program's log reports the first lost line and, when lines can be written again, the number of lost
    ones.
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
        """`now` returns the time in seconds since 1970."""
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
        """Append one line. `more` are additional fields after `FIELDS`."""
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
    path: Path, *, old: bool = False, until: LogPosition | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the entries of an audit log, oldest first; with `old`, also those of the rotated files.

    Lines after `until` are not read. Torn lines are skipped. A missing file has no entries.
    """
    for line in read_lines(path, old=old, until=until):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            yield found


def as_line(fields: Mapping[str, object], redact: Redactor) -> bytes:
    """Return the fields as one line of JSON without secrets and without a newline at its end."""
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
