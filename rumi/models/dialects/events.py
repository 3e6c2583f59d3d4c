"""Splitter of a response body into events, whichever form the server chose for the body.

The forms are server-sent events (WHATWG HTML, "Server-sent events"), JSON objects of one line each, and one
JSON document. Servers send the other forms in place of the one that was asked for: a JSON document where a
stream was asked for, or a bare line with an error in the middle of a stream.
"""

import json
from collections.abc import Iterator
from typing import Final

MAX_EVENT_BYTES: Final = 8_000_000
"""Maximum size of a line, an event and a document; it limits the memory that a broken server can use."""

MAX_EVENT_LINES: Final = 10_000

_MARK: Final = b"\xef\xbb\xbf"
"""The byte order mark, which some proxies put before the first event."""

_KEEP_ALIVE: Final = frozenset({"ping", "heartbeat", "keepalive", "keep-alive", "keep_alive"})
"""Names of events without content."""


class BadStreamError(Exception):
    """The stream violates the protocol; the error's text describes the violation."""


class EventReader:
    """Splitter of bytes, which may come in pieces of any size, into the data of events.

    A byte that is not UTF-8 becomes U+FFFD. Lines that belong to no form are kept, and are the only event of
    a body that has no other.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._rest_bytes = 0
        self._began = False
        self._name = ""
        self._data: list[str] = []
        self._data_chars = 0
        self._other: list[str] = []
        self._found = False

    def feed(self, data: bytes) -> Iterator[str]:
        """Process more bytes; yield the data of each event that is now complete.

        Raises:
            BadStreamError: A line, an event or a document is too large.
        """
        if b"\n" not in data and b"\r" not in data:
            self._keep(data)
            return
        block = b"".join((*self._rest, data))
        self._rest, self._rest_bytes = [], 0
        tail = b""
        if b"\r" in block:
            if block.endswith(b"\r"):  # it may be the first half of "\r\n"
                block, tail = block[:-1], b"\r"
            block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = block.split(b"\n")
        self._keep(rest + tail)
        for line in lines:
            yield from self._line(line)

    def end(self) -> Iterator[str]:
        """Yield the last event, whose end may be missing, or the whole body if it had no event."""
        yield from self.feed(b"\n\n")
        if self._rest:  # a carriage return
            yield from self.feed(b"\n\n")
        if not self._found and self._other:
            yield "\n".join(self._other)

    def _keep(self, rest: bytes) -> None:
        self._rest_bytes += len(rest)
        if self._rest_bytes > MAX_EVENT_BYTES:
            raise BadStreamError("a line of its stream has no end")
        if rest:
            self._rest.append(rest)

    def _line(self, raw: bytes) -> Iterator[str]:
        if not self._began:
            raw = raw.removeprefix(_MARK)
            self._began = True
        if not raw.strip():
            yield from self._event()
            return
        line = raw.decode("utf-8", "replace")
        if line.startswith("data:"):
            self._take_data(line[5:])
            return
        name, _, value = line.partition(":")
        match name.strip():
            case "data":
                self._take_data(value)
            case "event":
                self._name = value.strip()
            case "" | "id" | "retry":
                pass  # a comment, which keeps the connection alive, or a field for reconnecting
            case _:
                yield from self._bare(line)

    def _take_data(self, value: str) -> None:
        self._data_chars += len(value)
        if len(self._data) >= MAX_EVENT_LINES or self._data_chars > MAX_EVENT_BYTES:
            raise BadStreamError("an event of its stream has no end")
        self._data.append(value.removeprefix(" "))

    def _event(self) -> Iterator[str]:
        name, self._name = self._name, ""
        if not self._data:
            return
        data, self._data, self._data_chars = "\n".join(self._data), [], 0
        if name in _KEEP_ALIVE:
            return
        self._found = True
        yield _as_error(data) if name == "error" else data

    def _bare(self, line: str) -> Iterator[str]:
        """Process a line without a field's name: a JSON object, or a part of something else."""
        line = line.strip() if not self._other else line
        if not self._other and line[0] + line[-1] in ("{}", "[]"):
            yield from self._event()  # its empty line is missing
            self._found = True
            yield line
            return
        self._data_chars += len(line)
        if len(self._other) >= MAX_EVENT_LINES * 100 or self._data_chars > MAX_EVENT_BYTES:
            raise BadStreamError("its answer has no end")
        self._other.append(line)


def _as_error(data: str) -> str:
    """Return the data of an event named `error` as an object whose key `error` says so."""
    try:
        error = json.loads(data)
    except (ValueError, RecursionError):
        error = data
    if isinstance(error, dict) and "error" in error:
        return data
    return json.dumps({"error": error or "error"})


def objects_in(data: str) -> list[dict[str, object]]:
    """Return the JSON objects of an event: one, those of a list, or one of each line.

    Return nothing if the data is not meant to be JSON, such as the word `ping`.

    Raises:
        BadStreamError: The data begins like JSON, and is not a JSON object.
    """
    if data.startswith("{"):  # nearly every event
        try:
            return [json.loads(data)]
        except (ValueError, RecursionError):
            pass  # it may be several objects
    values = _values(data)
    for value in values:
        if not isinstance(value, dict):
            raise BadStreamError("a chunk of its stream is not an object")
    return values


def _values(data: str) -> list[dict[str, object]]:
    if data.lstrip()[:1] not in ("{", "["):
        return []
    for pieces in ([data], data.split("\n")):
        try:
            parsed = [json.loads(piece) for piece in pieces if piece.strip()]
        except (ValueError, RecursionError):
            continue
        # Gemini reports errors as a list with one object.
        return [item for value in parsed for item in (value if isinstance(value, list) else [value])]
    raise BadStreamError("its stream has data that is not JSON")
