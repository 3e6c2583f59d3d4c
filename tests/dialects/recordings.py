"""Recordings of what servers send: one file for each kind of difference, `tests/dialects/KIND.jsonl`.

A file's first line names the kind. A line with `expected` begins a recording, and each later line is one
event: an object is the data of an event (with Ollama's protocol: a line), a text is sent as it is, `raw` and
`hex` are bytes, `body` is the whole body, `open` keeps the connection open, and `cut` breaks it. The data are
made by hand from public documentation and bug reports; `source` has their addresses.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent

_RAW: Final[dict[str, Callable[[Any], bytes]]] = {
    "raw": lambda value: str(value).encode(),
    "hex": bytes.fromhex,
    "body": lambda value: json.dumps(value).encode(),
    "open": lambda _: b"",
    "cut": lambda _: b"",
}


@dataclass(frozen=True)
class Recording:
    """What a server sent once, and what Rumi must make of it."""

    kind: str
    number: int
    head: dict[str, Any]
    events: tuple[Any, ...]

    @property
    def expected(self) -> dict[str, Any]:
        return self.head["expected"]  # type: ignore[no-any-return]

    @property
    def protocol(self) -> str:
        return str(self.head.get("protocol", "chat"))

    @property
    def status(self) -> int:
        return int(self.head.get("status", 200))

    @property
    def content_type(self) -> str:
        usual = "application/x-ndjson" if self.protocol == "ollama" else "text/event-stream"
        return str(self.head.get("content_type", usual))

    @property
    def open(self) -> bool:
        return any(isinstance(event, dict) and "open" in event for event in self.events)

    @property
    def cut(self) -> bool:
        return any(isinstance(event, dict) and "cut" in event for event in self.events)

    @property
    def error_body(self) -> object:
        return next(event["body"] for event in self.events if "body" in event)

    @property
    def data(self) -> bytes:
        """The bytes of the body."""
        return b"".join(map(self._bytes, self.events))

    def _bytes(self, event: Any) -> bytes:
        if isinstance(event, str):
            return f"data: {event}\n\n".encode()
        for key in _RAW.keys() & event.keys():
            return _RAW[key](event[key])
        line = json.dumps(event)
        if self.protocol == "ollama":
            return f"{line}\n".encode()
        name = f"event: {event['type']}\n" if self.protocol == "anthropic" and "type" in event else ""
        return f"{name}data: {line}\n\n".encode()

    def __str__(self) -> str:
        return f"{self.kind}-{self.number}"


@dataclass(frozen=True)
class Kind:
    """A kind of difference: what servers send, and what Rumi makes of it."""

    name: str
    title: str
    rumi: str
    recordings: tuple[Recording, ...]


@cache
def kinds() -> tuple[Kind, ...]:
    """Return all kinds, by their names."""
    return tuple(map(_kind, sorted(FOLDER.glob("*.jsonl"))))


def recordings() -> tuple[Recording, ...]:
    """Return the recordings of all kinds."""
    return tuple(recording for kind in kinds() for recording in kind.recordings)


def _kind(path: Path) -> Kind:
    first, *lines = (json.loads(line) for line in path.read_text("utf-8").splitlines())
    return Kind(path.stem, first["kind"], first["rumi"], tuple(_recordings(path.stem, lines)))


def _recordings(kind: str, lines: list[Any]) -> Iterator[Recording]:
    starts = [at for at, line in enumerate(lines) if isinstance(line, dict) and "expected" in line]
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(lines)], strict=True), 1):
        yield Recording(kind, number, lines[start], tuple(lines[start + 1 : end]))
