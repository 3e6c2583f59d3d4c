"""A streamed answer: finished Markdown blocks, and a last block that may still change."""

import re

from rumi.channels.markdown import finished_lines
from rumi.platform.printable import clean

_DELIMITERS = re.compile(r"[ ]{0,3}\|?[ ]*:?-+:?[ ]*(?:\|[ ]*:?-+:?[ ]*)*\|?[ ]*")
"""The delimiter line below the head of a Markdown table."""

_TABLE_HEAD_ROWS = 2


class GrowingAnswer:
    """The streamed text of one turn. The text of each model call in the turn is one piece."""

    def __init__(self) -> None:
        self._raw = ""
        self._printed = 0  # number of lines of the current piece that were taken as final
        self._pieces: list[str] = []

    def begin(self) -> None:
        """Start a new turn."""
        self._raw, self._printed, self._pieces = "", 0, []

    def add(self, text: str) -> None:
        """Append text to the current piece."""
        self._raw += text

    @property
    def empty(self) -> bool:
        """Return True if the current piece has no text yet."""
        return not self._raw

    @property
    def unfinished(self) -> str:
        """Return the block that may still change."""
        return "\n".join(self._lines())

    def end(self, rows: int, width: int) -> str:
        """Return the last lines of the unfinished block, enough to fill `rows` screen lines of `width` cells.

        The opening line of a long code block and the head of a long table are kept. Without the opening line,
        code would be parsed as Markdown; without the head, a table would become a paragraph full of bars.
        """
        lines = self._lines()
        head = 0
        if len(lines) > rows:
            if lines[0].lstrip().startswith(("```", "~~~")):
                head = 1
            elif "|" in lines[0] and _DELIMITERS.fullmatch(lines[1]):
                head, rows = 2, max(1, rows - _TABLE_HEAD_ROWS)
        tail = [line[-rows * width :] for line in lines[head:][-rows:]]
        return "\n".join([*lines[:head], *tail])

    def take_finished(self) -> str:
        """Return the complete blocks that were not returned before; an empty text if there are none."""
        lines = self._lines()
        count = finished_lines("\n".join(lines))
        self._printed += count
        return "\n".join(lines[:count])

    def take_rest(self) -> str:
        """End the current piece; return the part of it that was not returned before."""
        rest, whole = "\n".join(self._lines()), clean(self._raw).strip()
        if whole:
            self._pieces.append(whole)
        self._raw, self._printed = "", 0
        return rest

    def discard(self) -> bool:
        """Discard the current piece: the model withdrew it. Return True if a part was already returned."""
        taken = self._printed > 0
        self._raw, self._printed = "", 0
        return taken

    def missing(self, answer: str) -> str:
        """Return the part of the final answer that was not streamed.

        The answer may begin with the text of all pieces or of only the last piece. If it begins with neither,
        the whole answer is returned.
        """
        said, self._pieces = self._pieces, []
        for shown in ("".join(said), said[-1] if said else ""):
            if shown and (rest := rest_of(answer, shown)) is not None:
                return rest
        return answer

    def _lines(self) -> list[str]:
        # Cleaned as a whole each time: an escape sequence may arrive in two halves. That never changes
        # complete lines, so the count of taken lines stays a valid index.
        return clean(self._raw).split("\n")[self._printed :]


def rest_of(answer: str, shown: str) -> str | None:
    """Return the part of `answer` after the text `shown`; None if `answer` does not begin with that text.

    White space is ignored in the comparison.
    """
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
