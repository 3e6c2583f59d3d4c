"""Text files, and unified diffs of two texts. Edits to a text file preserve its encoding and line ends.

A byte that stands for no character in the file's encoding is a lone surrogate in the text (Python's error
handler `surrogateescape`), so that an edit of another part preserves the byte. Models see it as U+FFFD.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Final, TypeAlias

from rumi.platform.text_decoding import REPLACEMENT, encoding_of

DIFF_CHARS: Final = 8000
"""Maximum length of a diff."""

_LINE_CHARS: Final = 300
_CONTEXT: Final = 3
_COMPARED: Final = 400
"""Maximum number of lines for an exact comparison. Its time grows with the square of this number."""

_BROKEN: Final = "surrogateescape"
_BYTE: Final = re.compile("[\udc80-\udcff]")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


@dataclass(frozen=True, slots=True)
class TextFile:
    """A decoded text file. `mark` is the file's byte order mark, or empty if the file has none.

    `exact` is False if the encoding would not encode the text to the same bytes again.
    """

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""
    exact: bool = True

    @property
    def plain(self) -> str:
        """The text with LF line ends, as models read and write it."""
        return visible(self.text).replace("\r\n", "\n")

    @property
    def about(self) -> list[str]:
        """Notes on unusual properties: the encoding, the line ends, a missing final newline."""
        returns, newlines = self.text.count("\r\n"), self.text.count("\n")
        kinds = {newlines: "CRLF line ends", 0: ""}
        broken = len(_BYTE.findall(self.text))
        return [
            *([self.encoding] if self.encoding != "utf-8" else []),
            *(["byte order mark"] if self.mark else []),
            *([f"{broken} broken bytes, shown as {REPLACEMENT}"] if broken else []),
            *([kind] if (kind := kinds.get(returns, "LF and CRLF line ends")) else []),
            *(["no newline at the end"] if self.text and not self.text.endswith("\n") else []),
        ]

    def encoded(self, text: str) -> bytes:
        """Return a changed text as bytes in the file's encoding, with its byte order mark.

        Raises:
            UnicodeEncodeError: The text has characters that the encoding lacks.
        """
        return self.mark + text.encode(self.encoding, _BROKEN)

    def found(self, old: str) -> list[int]:
        """Return the start indexes of `old` in the plain text; the occurrences may overlap."""
        plain = self.plain
        starts = [plain.find(old)]
        while starts[-1] >= 0:
            starts.append(plain.find(old, starts[-1] + 1))
        return starts[:-1]

    def replaced(self, starts: Sequence[int], old: str, new: str) -> str:
        """Return the text with `new` in place of `old` at the indexes `starts` of the plain text.

        The occurrences must not overlap. Only the part that differs between `old` and `new` is replaced, so
        all other text keeps its line ends. A new line end is of the same kind as the next line end in the
        file.
        """
        same, rest = _same(old, new)
        length, new = len(old) - same - rest, new[same : len(new) - rest]
        # The indexes in the plain text of line ends that are two characters in the file.
        returns = [match.start() - n for n, match in enumerate(re.finditer("\r\n", self.text))]
        plain, newline, line_end, at = self.plain, -1, -1, 0
        two = set(returns)
        parts: list[str] = []
        for start in (begin + same for begin in starts):
            if start > line_end:  # once per line, not per occurrence: a line may have very many
                newline = plain.find("\n", start)
                line_end = newline if newline >= 0 else len(plain)
                newline = newline if newline >= 0 else plain.rfind("\n")
            parts.append(self.text[at : start + bisect_left(returns, start)])
            parts.append(new.replace("\n", "\r\n") if newline in two else new)
            at = start + length + bisect_left(returns, start + length)
        return "".join((*parts, self.text[at:]))


def decoded(content: bytes) -> TextFile | None:
    """Decode a file's content as `rumi.platform.text_decoding` does; return None if the content is not text.

    Text that is neither in Unicode nor free of control characters is not accepted.
    """
    mark, encoding = encoding_of(content)
    body = content[len(mark) :]
    try:
        text = body.decode(encoding, _BROKEN)
        exact = text.encode(encoding, _BROKEN) == body
    except UnicodeError:  # not every codec has a byte for an error
        text, exact = body.decode(encoding, "replace"), False
    in_unicode = encoding.startswith("utf") and not _BYTE.search(text) and exact
    if "\0" in text or (not in_unicode and _CONTROLS.search(text)):
        return None
    return TextFile(text, encoding, mark, exact)


def visible(text: str) -> str:
    """Return a file's text with U+FFFD in place of each byte that stands for no character."""
    return _BYTE.sub(REPLACEMENT, text)


def lines_of(plain: str) -> list[str]:
    """Return the lines of a text, without line ends; an empty text has no lines."""
    lines = plain.split("\n")
    return lines if lines[-1] else lines[:-1]


def _same(one: Sequence[str], other: Sequence[str]) -> tuple[int, int]:
    """Return the lengths of the texts' common prefix, and of the common suffix of what follows the prefix."""
    most = min(len(one), len(other))
    first = next((n for n in range(most) if one[n] != other[n]), most)
    return first, next((n for n in range(most - first) if one[-1 - n] != other[-1 - n]), most - first)


_Change: TypeAlias = tuple[int, int, int, int]
"""A change, as line indexes: old start, old end, new start, new end. The ends are exclusive."""


@dataclass(frozen=True, slots=True)
class TextDifference:
    """The difference between two texts: a unified diff of limited length, and the changed lines."""

    diff: str
    added: int
    removed: int
    where: str
    """The line numbers of the changes in the new text."""

    @property
    def counts(self) -> str:
        """The numbers of added and removed lines, such as `+2 −1`."""
        return f"+{self.added} −{self.removed}"  # a minus sign, as wide as the plus


def difference(name: str, old: str, new: str) -> TextDifference:
    """Return the difference by lines. Two lines that differ only in their line end count as different."""
    before, after = _whole_lines(old), _whole_lines(new)
    changes = _changes(before, after)
    spots = [f"{first + 1}-{last}" if last - first > 1 else str(first + 1) for _, _, first, last in changes]
    return TextDifference(
        _unified(name, before, after, changes),
        sum(change[3] - change[2] for change in changes),
        sum(change[1] - change[0] for change in changes),
        ", ".join([*spots[:10], *(["…"] if len(spots) > 10 else [])]),
    )


def _whole_lines(text: str) -> list[str]:
    return [line for line in re.split(r"(?<=\n)", text) if line]


def _changes(old: list[str], new: list[str]) -> list[_Change]:
    """Return the changed ranges. For long texts with many changes, one range may cover all changes."""
    first, same = _same(old, new)
    middle, other = old[first : len(old) - same], new[first : len(new) - same]
    if len(middle) == len(other) > _COMPARED:
        numbers = [n for n, (one, two) in enumerate(zip(middle, other, strict=True), first) if one != two]
        breaks = [0, *(n for n, (one, two) in enumerate(pairwise(numbers), 1) if two - one > 1), len(numbers)]
        runs = [numbers[begin:end] for begin, end in pairwise(breaks)]
        return [(run[0], run[-1] + 1, run[0], run[-1] + 1) for run in runs]
    if max(len(middle), len(other)) > _COMPARED:
        return [(first, first + len(middle), first, first + len(other))]
    codes = SequenceMatcher(None, middle, other).get_opcodes()
    return [(first + a, first + b, first + c, first + d) for tag, a, b, c, d in codes if tag != "equal"]


def _unified(name: str, old: Sequence[str], new: Sequence[str], changes: Sequence[_Change]) -> str:
    lines, left = [f"--- {name}", f"+++ {name}"], 0
    size = 0
    for line in _hunks(old, new, changes):
        size += len(line) + 1
        if size > DIFF_CHARS:
            left += 1
        else:
            lines.append(line)
    if left:
        lines.append(f"… {left} more lines")
    return "\n".join(lines) if changes else ""


def _hunks(old: Sequence[str], new: Sequence[str], changes: Sequence[_Change]) -> Iterator[str]:
    groups: list[list[_Change]] = []
    for change in changes:
        if groups and change[0] - groups[-1][-1][1] <= 2 * _CONTEXT:
            groups[-1].append(change)
        else:
            groups.append([change])
    for group in groups:
        start, end = max(0, group[0][0] - _CONTEXT), min(len(old), group[-1][1] + _CONTEXT)
        shift, after = group[0][2] - group[0][0], group[-1][3] - group[-1][1]
        yield f"@@ -{_range(start, end)} +{_range(start + shift, end + after)} @@"
        at = start
        for a, b, c, d in group:
            yield from _prefixed(" ", old[at:a])
            yield from _prefixed("-", old[a:b])
            yield from _prefixed("+", new[c:d])
            at = b
        yield from _prefixed(" ", old[at:end])


def _range(start: int, end: int) -> str:
    return f"{start + 1 if end > start else start},{end - start}"


def _prefixed(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        text = line.removesuffix("\n").removesuffix("\r")
        yield mark + (text if len(text) <= _LINE_CHARS else f"{text[:_LINE_CHARS]}…")
        if not line.endswith("\n"):
            yield "\\ No newline at end of file"
