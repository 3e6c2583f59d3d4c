"""An answer while it grows: what of it can be printed for good, what still changes, what is missing."""

import re

from rumi.channels.markdown import finished_lines
from rumi.platform.printable import clean

_DELIMITERS = re.compile(r"[ ]{0,3}\|?[ ]*:?-+:?[ ]*(?:\|[ ]*:?-+:?[ ]*)*\|?[ ]*")
"""The line below the head of a table."""

_TABLE_HEAD_ROWS = 2


class GrowingAnswer:
    """The words of one turn, in pieces: one for each model call."""

    def __init__(self) -> None:
        self._raw = ""
        self._printed = 0  # lines of the current piece that were taken for good
        self._pieces: list[str] = []

    def begin(self) -> None:
        """Begin a new turn."""
        self._raw, self._printed, self._pieces = "", 0, []

    def add(self, text: str) -> None:
        """Add words to the current piece."""
        self._raw += text

    @property
    def empty(self) -> bool:
        """Return True if nothing has been said in the current piece."""
        return not self._raw

    def end(self, rows: int, width: int) -> str:
        """Return the end of the last block: enough for `rows` lines of `width` cells, and not much more.

        A long code block keeps its opening line and a long table its head: without them, code would be read
        as Markdown, and a table as a paragraph full of bars.
        """
        lines = self._lines()
        head = 0
        if len(lines) > rows:
            if lines[0].lstrip().startswith(("```", "~~~")):
                head = 1
            elif "|" in lines[0] and _DELIMITERS.fullmatch(lines[1]):
                head, rows = 2, max(1, rows - _TABLE_HEAD_ROWS)
        kept = [line[-rows * width :] for line in lines[head:][-rows:]]
        return "\n".join([*lines[:head], *kept])

    def take_finished(self) -> str:
        """Return the blocks that are complete and were not taken before; an empty text if there are none."""
        lines = self._lines()
        count = finished_lines("\n".join(lines))
        self._printed += count
        return "\n".join(lines[:count])

    def take_rest(self) -> str:
        """End the piece; return what of it was not taken before."""
        rest, whole = "\n".join(self._lines()), clean(self._raw).strip()
        if whole:
            self._pieces.append(whole)
        self._raw, self._printed = "", 0
        return rest

    def discard(self) -> bool:
        """Drop the piece, which is void. Return True if some of it had been taken."""
        taken = self._printed > 0
        self._raw, self._printed = "", 0
        return taken

    def missing(self, answer: str) -> str:
        """Return the part of the final answer that was not among the words that came."""
        said, self._pieces = self._pieces, []
        for shown in ("".join(said), said[-1] if said else ""):
            if shown and (rest := rest_of(answer, shown)) is not None:
                return rest
        return answer

    def _lines(self) -> list[str]:
        # Cleaned again each time: an escape sequence may come in two halves. Lines that are complete
        # never change by that, so their count is a safe place to go on from.
        return clean(self._raw).split("\n")[self._printed :]


def rest_of(answer: str, shown: str) -> str | None:
    """Return what `answer` says beyond `shown`, or None if it does not begin with it, white space aside."""
    position = 0
    for character in shown:
        if character.isspace():
            continue
        while position < len(answer) and answer[position].isspace():
            position += 1
        if position == len(answer) or answer[position] != character:
            return None
        position += 1
    return answer[position:].strip()
