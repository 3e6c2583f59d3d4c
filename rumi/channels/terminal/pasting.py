"""Long pasted texts: the input line shows a short mark in their place, and the whole text is sent."""

from typing import Final

from rumi.channels.terminal.words import Reader
from rumi.texts import gettext, ngettext

FOLDED_LINES: Final = 12
"""A pasted text of more lines than this is folded; fewer lines fit above the status bar."""

FOLDED_CHARS: Final = 2000
"""A pasted text of more characters than this is folded: on one line it would take half a screen."""


class PastedTexts:
    """The folded texts of one message. Not safe for threads."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._texts: dict[str, str] = {}

    def fold(self, text: str) -> str:
        """Return what stands for a text in the input line: the text itself, or a mark if it is long."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n") + 1
        if lines <= FOLDED_LINES and len(text) <= FOLDED_CHARS:
            return text
        number = len(self._texts) + 1
        said = (
            ngettext(self._reader.language, "{count} line pasted", "{count} lines pasted", lines)
            if lines > 1
            else gettext(self._reader.language, "{count} characters pasted", count=len(text))
        )
        mark = f"[#{number}: {said}]"
        self._texts[mark] = text
        return mark

    def whole(self, shown: str) -> str:
        """Return the message: each mark that is still there is replaced by its text.

        A mark is not looked for in the pasted texts: they may contain what looks like one.
        """
        parts = [(shown, False)]
        for mark, text in self._texts.items():
            parts = [
                piece
                for part, pasted in parts
                for piece in ([(part, True)] if pasted else _replaced(part, mark, text))
            ]
        return "".join(part for part, _ in parts)


def _replaced(part: str, mark: str, text: str) -> list[tuple[str, bool]]:
    pieces: list[tuple[str, bool]] = []
    for place, piece in enumerate(part.split(mark)):
        pieces += [(text, True)] if place else []
        pieces.append((piece, False))
    return pieces
