"""Reading of a foreign home within limits. Blocking; a thread that reads ends soon after `stop` was set.

All files may be hostile: see `rumi.tasks.bots.foreign`. What cannot be read is noted as left out.
"""

import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from rumi.app.moving.records import ForeignHome, Part
from rumi.platform.openat import shown
from rumi.platform.text_decoding import decode
from rumi.tasks.bots.foreign import ForeignFolder, why_not
from rumi.texts import Text

MOST_FILE_BYTES: Final = 64_000_000
MOST_TEXT_BYTES: Final = 1_000_000
MOST_LINE_BYTES: Final = 4_000_000
MOST_FILES: Final = 20_000
MOST_BYTES: Final = 1_000_000_000
MOST_S: Final = 600.0
"""Limits of one import: the size of a file and of a text, the length of a line, the number and the size of
all files, and the time for reading in seconds."""

_EARLIEST: Final = 0.0
_LATEST: Final = 253_402_300_000.0


class Stopped(Exception):
    """The person has stopped the import."""


class TooMuch(Exception):
    """A limit of the whole import is reached."""


@dataclass(slots=True)
class Budget:
    """The limits of one import: time, files and bytes. `stop` ends it, `tell` shows what is read."""

    stop: threading.Event = field(default_factory=threading.Event)
    tell: Callable[[str], None] = lambda what: None
    until: float = field(default_factory=lambda: time.monotonic() + MOST_S)
    files: int = 0
    read: int = 0

    def check(self) -> None:
        """Raise if the import was stopped or has used up its time.

        Raises:
            Stopped: The person has stopped it.
            TooMuch: The time is over.
        """
        if self.stop.is_set():
            raise Stopped
        if time.monotonic() > self.until:
            raise TooMuch

    def spend(self, size: int) -> None:
        """Count a file that was read.

        Raises:
            TooMuch: There are too many files or bytes.
        """
        self.files += 1
        self.read += size
        if self.files > MOST_FILES or self.read > MOST_BYTES:
            raise TooMuch


class HomeReader:
    """The open foreign home, and what was found in it."""

    def __init__(self, top: ForeignFolder, moved: ForeignHome, budget: Budget) -> None:
        self.top = top
        self.moved = moved
        self.budget = budget

    def names(self, path: str = ".") -> list[str]:
        """Return the names in a folder that can be printed; none if it cannot be read."""
        self.budget.check()
        try:
            names = self.top.names(path)
        except OSError:
            return []
        printable = [name for name in names if name.isprintable()]
        if len(printable) < len(names):
            why = Text("files whose names cannot be printed")
            self.moved.leave("config", shown(path), why, len(names) - len(printable))
        return printable

    def read(self, path: str, part: Part, most: int = MOST_FILE_BYTES) -> bytes | None:
        """Return a file's content; None if there is none, or if it is left out, which is noted."""
        self.budget.check()
        try:
            content = self.top.read(path, most)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self.moved.leave(part, shown(path), Text("{why}", why=why_not(error)))
            return None
        self.budget.spend(len(content))
        return content

    def text(self, path: str, part: Part, most: int = MOST_TEXT_BYTES) -> str:
        """Return a file as text; empty if there is none."""
        content = self.read(path, part, most)
        return "" if content is None else decode(content)

    def data(self, path: str, part: Part) -> Any:
        """Return the value in a file of JSON or JSON5; None if there is none or it is damaged."""
        content = self.read(path, part)
        if content is None:
            return None
        try:
            return loads(utf8(content))
        except (ValueError, RecursionError):
            self.moved.leave(part, shown(path), Text("it is not valid JSON"))
            return None

    def lines(self, path: str, part: Part) -> Iterator[dict[str, Any]]:
        """Yield the objects in a file with one JSON value per line. Damaged and huge lines are noted."""
        content = self.read(path, part)
        for line in () if content is None else content.split(b"\n"):
            self.budget.check()
            if not line.strip():
                continue
            if len(line) > MOST_LINE_BYTES:
                self.moved.leave(part, shown(path), Text("lines that are too long"))
                continue
            try:
                value = json.loads(utf8(line), parse_constant=_nothing)
            except (ValueError, RecursionError):
                self.moved.leave(part, shown(path), Text("lines that are not valid JSON"))
                continue
            if isinstance(value, dict):
                yield value


def utf8(content: bytes) -> str:
    """Return the text of JSON, which is always UTF-8; bytes that are not become U+FFFD."""
    return content.decode("utf-8-sig", "replace")


def loads(text: str) -> Any:
    """Return the value of a text in JSON or in JSON5, as people write it.

    Raises:
        ValueError: The text is neither.
        RecursionError: It is nested too deeply.
    """
    try:
        return json.loads(text, parse_constant=_nothing)
    except ValueError:
        return json.loads(_as_json(text), parse_constant=_nothing)


def _nothing(name: str) -> None:
    """Read NaN and Infinity, which JSON does not have, as null."""


# What is not closed ends with the text: otherwise the text is searched to its end again for each such quote.
_TOKEN: Final = re.compile(
    r"""(?P<text>"(?:\\.|[^"\\])*(?:"|\Z)|'(?:\\.|[^'\\])*(?:'|\Z))|(?P<note>//[^\n]*|/\*.*?(?:\*/|\Z))"""
    r"|(?P<word>[A-Za-z_$][\w$-]*)"
    r"|(?P<number>0[xX][0-9A-Fa-f]+|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<comma>,)|(?P<end>[\]}])|(?P<other>.)",
    re.DOTALL,
)
_QUOTED: Final = re.compile(r"\\(.)|([\"\n\r\t\x00-\x1f])", re.DOTALL)


def _as_json(text: str) -> str:
    """Rewrite JSON5 to JSON: comments, single quotes, unquoted keys, trailing commas, odd numbers."""
    out: list[str] = []
    comma = False
    for token in _TOKEN.finditer(text):
        kind, piece = token.lastgroup, token[0]
        if kind == "note" or (kind == "other" and piece.isspace()):
            continue
        if kind == "comma":
            comma = True
            continue
        if comma and kind != "end":
            out.append(",")
        comma = False
        if kind == "text":
            piece = f'"{_QUOTED.sub(_requoted, piece[1:-1])}"'
        elif kind == "word" and piece not in ("true", "false", "null", "NaN", "Infinity"):
            piece = json.dumps(piece)
        elif kind == "number":
            piece = _number(piece)
        elif piece == "+":
            continue
        out.append(piece)
    return "".join(out)


def _number(piece: str) -> str:
    """Return a number as JSON writes it. In JSON5 it may be hexadecimal, or lack digits beside its point."""
    if piece[:2] in ("0x", "0X"):
        return str(int(piece[:20], 16))
    whole, point, rest = piece.partition(".")
    if not point:
        return piece
    digits, mark, power = rest.partition("e" if "e" in rest else "E")
    return f"{whole or '0'}.{digits or '0'}{mark}{power}"


def _requoted(found: re.Match[str]) -> str:
    if found[2]:
        return json.dumps(found[2])[1:-1]
    if found[1] in '"\\/bfnrtu':
        return found[0]
    return "" if found[1] in "\r\n" else json.dumps(found[1])[1:-1]


def instant(value: object) -> float:
    """Return a time in seconds since 1970; 0 if the value is none.

    Numbers are seconds, or milliseconds if they are large; texts are ISO 8601, or numbers. A text without a
    zone is in this machine's zone.
    """
    found = 0.0
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value.strip()).timestamp()
        except (ValueError, OverflowError, OSError):
            try:
                value = float(value)
            except ValueError:
                return 0.0
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            found = float(value)
        except OverflowError:
            return 0.0
        if abs(found) > 1e11:
            found /= 1000
    return found if math.isfinite(found) and _EARLIEST < found < _LATEST else 0.0


def mapping(value: object) -> dict[str, Any]:
    """Return the value if it is an object of JSON, else an empty one."""
    return value if isinstance(value, dict) else {}


def listed(value: object) -> list[Any]:
    """Return the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def word(value: object) -> str:
    """Return a text or a number as one line of text, else an empty text."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    try:
        return " ".join(str(value).split())
    except ValueError:  # a number with thousands of digits
        return ""
