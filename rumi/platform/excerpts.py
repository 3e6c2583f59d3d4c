"""The part of a text around searched words, and where these words are in it."""

from dataclasses import dataclass
from typing import Final

from rumi.platform.unaccented import unaccented

EXCERPT_CHARS: Final = 160
"""Number of characters of an excerpt."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A line of text. `marks` are the places of the words: beginnings and ends, in units of UTF-16."""

    text: str
    marks: tuple[tuple[int, int], ...] = ()


def excerpt(text: str, words: str, chars: int = EXCERPT_CHARS) -> Excerpt:
    """Return the part of a text around the first occurrence of a search word, on one line.

    Case and accents are ignored, as in the search itself.
    """
    line = " ".join(text.split())
    wanted = unaccented(words).split()
    folded, places = _folded(line)
    first = folded.find(wanted[0]) if wanted else -1
    start = max(0, places[first] - chars // 4) if first > 0 else 0
    head = "…" if start else ""
    shown = f"{head}{line[start : start + chars]}{'…' if start + chars < len(line) else ''}"
    return Excerpt(shown, marks_in(shown, words))


def marks_in(text: str, words: str) -> tuple[tuple[int, int], ...]:
    """Return where the words are in a text, in order and without overlaps, in units of UTF-16."""
    folded, places = _folded(text)
    found = list[tuple[int, int]]()
    for word in unaccented(words).split():
        at = folded.find(word)
        while at >= 0:
            found.append((places[at], places[at + len(word) - 1] + 1))
            at = folded.find(word, at + len(word))
    marks = list[tuple[int, int]]()
    for begin, end in sorted(found):
        if marks and begin <= marks[-1][1]:
            marks[-1] = (marks[-1][0], max(end, marks[-1][1]))
        else:
            marks.append((begin, end))
    return tuple((_units(text[:begin]), _units(text[:end])) for begin, end in marks)


def _folded(text: str) -> tuple[str, list[int]]:
    """Return the text without case and accents, and for each of its characters the place in the text."""
    if text.isascii():
        return text.casefold(), list(range(len(text)))
    folded, places = list[str](), list[int]()
    for place, letter in enumerate(text):
        plain = unaccented(letter)
        folded.append(plain)
        places += [place] * len(plain)
    return "".join(folded), places


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
