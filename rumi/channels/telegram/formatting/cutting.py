"""Cutting of texts that are too long for one message."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from rumi.channels.telegram.formatting.spans import BLOCKS, TextSpan, breakable, characters_within, units

_BEFORE_INDENTATION: Final = "\u200b"
"""Prefix of a part that begins with indented code. It stops Telegram from trimming the indentation."""

_WORD: Final = re.compile(r"\S*")


class Cuts:
    """Iterates over the parts of a text as `(start, end, above)`; `above` is inserted before the part.

    No part has more than `limit` UTF-16 units or more than `links` links. White space at a cut is in neither
    part.
    """

    def __init__(self, text: str, spans: Sequence[TextSpan], limit: int, links: int | None = None) -> None:
        self._text = text
        self._length = len(text.rstrip())
        self._limit = limit
        self._links_each = links
        self._links = [span.start for span in spans if span.kind == "text_link"]
        self._code = [span for span in spans if span.kind == "pre"]
        self._code_starts = [span.start for span in self._code]
        self._whole = _outermost(s for s in spans if s.kind not in BLOCKS and self._fits(s.start, s.end))
        self._whole_starts = [start for start, _ in self._whole]
        self._titles = {span.end for span in spans if span.kind == "bold" and self._is_line(span)}

    def __iter__(self) -> Iterator[tuple[int, int, str]]:
        start, above = self._begin(0)
        while start < self._length:
            end = self._end(start, self._limit - len(above))
            yield start, end, above
            start, above = self._begin(end)

    def tail(self, start: int) -> int:
        """Return the best index at which to begin the last part.

        The index lies in the first half of the text that follows `start`.
        """
        half = start + (self._length - start) // 2
        for separator in ("\n", " "):
            at = self._text.find(separator, max(0, start - 1), half)
            while at >= 0 and not self._free(at + 1):
                at = self._text.find(separator, at + 1, half)
            if at >= 0:
                return at + 1
        while not breakable(self._text, start):
            start += 1
        return start

    def _begin(self, at: int) -> tuple[int, str]:
        """Skip white space, but not the indentation of a line of code."""
        start = at
        while start < self._length and self._text[start].isspace():
            start += 1
        code = self._code_around(start)
        if code is None:
            return start, ""
        line = max(code.start, self._text.rfind("\n", at, start) + 1)
        return (line, _BEFORE_INDENTATION) if at <= line < start else (start, "")

    def _end(self, start: int, limit: int) -> int:
        """Return the end of the part that begins at `start`.

        The end is the last suitable place to cut in the second half of the longest possible part, so that
        parts do not become short.
        """
        end = start + max(1, characters_within(self._text[start : start + limit], limit))
        if self._links_each is not None:
            too_many = bisect_left(self._links, start) + self._links_each
            if too_many < len(self._links):
                end = max(start + 1, min(end, self._links[too_many]))
        if end >= self._length:
            return self._length
        # Good cuts are sought only in the second half of the part, so that parts do not become short.
        half = start + (end - start) // 2
        at = self._before_code(start + (end - start) // 4, end)
        if at is None:
            at = self._last("\n", half, end, self._between_paragraphs)
        if at is None:
            at = self._last("\n", half, end, self._between_lines)
        if at is None:
            at = self._last("\n", half, end, self._between_sections)
        if at is None:
            at = self._last("\n", half, end, self._free)
        if at is None:
            at = self._last(" ", half, end, self._free)
        return at if at is not None else self._in_words(start, end)

    def _in_words(self, start: int, end: int) -> int:
        """Return an index at which to cut: before a word, or inside a word that is longer than a part."""
        anywhere = next((at for at in range(end, start, -1) if self._parts_nothing(at)), None)
        if anywhere is None:
            return next((at for at in range(end, start, -1) if breakable(self._text, at)), end)
        positions = (self._last(separator, start + 1, anywhere, self._free) for separator in "\n ")
        before = max((at for at in positions if at is not None), default=None)
        if before is None:
            return anywhere
        word = _WORD.match(self._text, before + 1, before + 2 + self._limit)
        return before if word is None or self._fits(*word.span()) else anywhere

    def _before_code(self, floor: int, end: int) -> int | None:
        """Return the start of the code block around `end` if the part may end at that start; None otherwise.

        The part may end there only if the next part can hold the whole block, and no title is cut off from
        the block.
        """
        code = self._code_around(end)
        if code is None or code.start < floor or not self._fits(code.start, code.end):
            return None
        return code.start if code.start < end and not self._below_title(code.start) else None

    def _last(self, separator: str, floor: int, end: int, fits: Callable[[int], bool]) -> int | None:
        at = self._text.rfind(separator, floor, end + 1)
        while at >= 0 and not fits(at):
            at = self._text.rfind(separator, floor, at)
        return at if at >= 0 else None

    def _between_paragraphs(self, at: int) -> bool:
        text = self._text
        if not self._between_lines(at):
            return False
        return (
            text.startswith("\n", at + 1)
            or self._code_around(at + 1) is not None
            or self._code_around(at - 1) is not None
        )

    def _between_lines(self, at: int) -> bool:
        return self._code_around(at) is None and self._free(at) and not self._below_title(at)

    def _between_sections(self, at: int) -> bool:
        return self._free(at) and not self._text[at + 1].isspace() and not self._below_title(at)

    def _below_title(self, at: int) -> bool:
        while at > 0 and self._text[at - 1].isspace():
            at -= 1
        return at in self._titles

    def _parts_nothing(self, at: int) -> bool:
        return self._free(at) and breakable(self._text, at)

    def _free(self, at: int) -> bool:
        """Return True if `at` is not inside a span that must stay whole."""
        index = bisect_left(self._whole_starts, at) - 1
        return index < 0 or self._whole[index][1] <= at

    def _code_around(self, at: int) -> TextSpan | None:
        index = bisect_right(self._code_starts, at) - 1
        return self._code[index] if index >= 0 and at < self._code[index].end else None

    def _fits(self, start: int, end: int) -> bool:
        if end - start > self._limit:
            return False
        return (end - start) * 2 <= self._limit or units(self._text[start:end]) <= self._limit

    def _is_line(self, span: TextSpan) -> bool:
        before, after = self._text[max(0, span.start - 1) : span.start], self._text[span.end : span.end + 1]
        return before in ("", "\n") and after in ("", "\n")


def cut_plain(text: str, limit: int) -> list[str]:
    """Return the text in pieces of at most `limit` UTF-16 units, cut at line ends or spaces if possible.

    This function is for texts that cannot be formatted, or whose formatting Telegram refuses. Pieces without
    a visible character are omitted.
    """
    pieces = []
    while text:
        # At least one character, so that the loop always makes progress.
        end = max(1, characters_within(text, limit))
        if end < len(text):
            end = 1 + max(text.rfind("\n", end // 2, end), text.rfind(" ", end // 2, end)) or end
        pieces.append(text[:end].strip("\n"))
        text = text[end:]
    return [piece for piece in pieces if piece.strip()]


def _outermost(spans: Iterable[TextSpan]) -> list[tuple[int, int]]:
    kept: list[tuple[int, int]] = []
    for span in spans:  # sorted, longer ones first
        if not kept or span.start >= kept[-1][1]:
            kept.append((span.start, span.end))
    return kept
