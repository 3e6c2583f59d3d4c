"""What readers of all formats share: the lines they yield, what they leave out, and the limits on both."""

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final, TypeAlias

PATIENCE_S: Final = 6.0
"""Maximum time to read a document, in seconds. After this time, the text read so far is the result."""

MOST_COLUMNS: Final = 200
MOST_CELL_CHARS: Final = 32_767
"""Maximum number of characters of one cell; Excel has the same limit."""

_MOST_KINDS: Final = 20
_MOST_NOTE_CHARS: Final = 200

Lines: TypeAlias = Iterator[str | None]
"""Lines of a text. None is not a line but only a chance to check the time limit."""


def names(words: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(words.split())


class NoDocumentError(Exception):
    """The document cannot be read. The message is a clause that completes a sentence."""


class Losses:
    """Counts what a reader leaves out, and collects its remarks, so that nothing is lost in silence."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}
        self._notes: dict[str, None] = {}

    def add(self, one: str, many: str = "", count: int = 1) -> None:
        """Count things that are not in the text. `many` is the plural, by default with an s."""
        key = one, many or f"{one}s"
        if key in self._counts or len(self._counts) < _MOST_KINDS:
            self._counts[key] = self._counts.get(key, 0) + count

    def note(self, remark: str) -> None:
        """Add a remark about the text."""
        if len(self._notes) < _MOST_KINDS:
            self._notes[" ".join(remark.split())[:_MOST_NOTE_CHARS]] = None

    def __str__(self) -> str:
        """Return the counts and the remarks in one line; empty if nothing was left out."""
        counted = ", ".join(
            f"{count:,} {one if count == 1 else many}" for (one, many), count in self._counts.items()
        )
        return "; ".join([*([f"not in this text: {counted}"] if counted else []), *self._notes])


@dataclass(slots=True)
class Reading:
    """The reading of one document. `nested` reads a document within it, such as an attachment.

    `nested` takes the bytes and the name, and raises `NoDocumentError`. It counts what the inner document
    leaves out as left out of this one.
    """

    nested: Callable[[bytes, str], Lines]
    losses: Losses = field(default_factory=Losses)
    title: str = ""


def text_of(lines: Iterable[str | None], max_chars: int) -> tuple[str, str]:
    """Join lines to one text; return the text, and a description of the omitted part.

    The description is empty if nothing was omitted. If reading fails after some lines, they are the result.
    """
    until, size = time.monotonic() + PATIENCE_S, 0
    kept: list[str] = []
    with closing(_closable(lines)) as reading:
        try:
            for line in reading:
                if line is not None:
                    if size + len(line) > max_chars:
                        kept.append(line[: max(0, max_chars - size)])
                        text = "\n".join(kept).rstrip("\n")
                        return text, f"the rest, after {len(text):,} characters, was not read"
                    size += len(line) + 1
                    kept.append(line)
                if time.monotonic() > until:
                    return "\n".join(kept), "the rest was not read, since reading took too long"
        except (NoDocumentError, MemoryError):
            raise
        except Exception as error:  # parsers raise what they like
            if not any(kept):
                raise
            why = f"the rest was not read, since it is broken ({type(error).__name__})"
            return "\n".join(kept), why
    return "\n".join(kept), ""


def _closable(lines: Iterable[str | None]) -> Generator[str | None, None, None]:
    yield from lines


def row(cells: Iterable[str]) -> str:
    """Return the cells of a table's row as one line."""
    return f"| {' | '.join(' '.join(cell[:MOST_CELL_CHARS].split()) for cell in cells)} |"


def in_cell(lines: Iterable[str | None]) -> str:
    """Return the lines of a cell as one; a table in it must not look like more cells of the row."""
    inner = (
        line[2:-2].replace(" | ", " · ") if line and line.startswith("| ") and line.endswith(" |") else line
        for line in lines
    )
    return " ".join(filter(None, inner))[:MOST_CELL_CHARS].strip()


def trimmed(cells: list[str]) -> list[str]:
    """Return the cells without empty ones at the end, at most `MOST_COLUMNS`."""
    end = min(len(cells), MOST_COLUMNS)
    while end and not cells[end - 1]:
        end -= 1
    return cells[:end]


def column_name(number: int) -> str:
    """Return the letters of a column; the first column has number 0."""
    name = ""
    number += 1
    while number:
        number, letter = divmod(number - 1, 26)
        name = chr(65 + letter) + name
    return name
