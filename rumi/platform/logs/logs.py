"""The program log, `logs/rumi.jsonl`: records of the module `logging` as JSON lines, without secrets."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rumi.platform.logs.audit import LineFile, as_line
from rumi.platform.redact import Redactor
from rumi.platform.timestamps import utc

_NOISY = ("httpx", "httpcore", "telegram", "groq", "openai", "docker", "urllib3", "markdown_it", "asyncio")
"""Loggers of libraries that log the URLs of requests; Telegram's URLs contain the token."""


@contextmanager
def program_log(
    path: Path, *, max_mb: float, backup_count: int, redact: Redactor, level: int = logging.INFO
) -> Iterator[logging.Handler]:
    """Until the block ends, write all log records to `path`, and none to the terminal."""
    root = logging.getLogger()
    handler = _JsonLines(LineFile(path, max_mb=max_mb, backup_count=backup_count), redact)
    former = {name: logging.getLogger(name).level for name in (*_NOISY, "")}
    for name in _NOISY:
        logging.getLogger(name).setLevel(max(logging.WARNING, level))
    root.setLevel(level)
    root.addHandler(handler)
    try:
        yield handler
    finally:
        root.removeHandler(handler)
        for name, value in former.items():
            logging.getLogger(name).setLevel(value)
        handler.close()


class _JsonLines(logging.Handler):
    """Log handler that writes each record of any logger as one JSON line without secrets."""

    def __init__(self, file: LineFile, redact: Redactor) -> None:
        super().__init__()
        self._file = file
        self._redact = redact
        self._tracebacks = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, or drop it if the disk is full: a log call must not fail."""
        try:
            self._file.append(as_line(self._fields(record), self._redact))
        except OSError:
            return

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()

    def _fields(self, record: logging.LogRecord) -> dict[str, object]:
        try:
            message = record.getMessage()
        except Exception as error:  # noqa: BLE001 - a log call with wrong arguments must not stop what logs
            message = f"{record.msg} ({record.pathname}:{record.lineno} logged it wrongly: {error!r})"
        fields: dict[str, object] = {
            "time": utc(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message,
        }
        if record.exc_info and record.exc_info != (None, None, None):
            fields["exception"] = self._tracebacks.formatException(record.exc_info)
        elif record.exc_text:
            fields["exception"] = record.exc_text
        if record.stack_info:
            fields["stack"] = record.stack_info
        return fields
