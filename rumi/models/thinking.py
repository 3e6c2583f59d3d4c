"""Thoughts between `<think>` tags: servers without a parser for them hand them out before the answer."""

from typing import Final

_BEGIN: Final = "<think>"
_END: Final = "</think>"


class Thoughts:
    """Takes the thoughts from the beginning of an answer that comes in pieces.

    Only there: behind its first word an answer may write about such tags. Thoughts that never end are
    thoughts to the end of the answer. What has no tag passes as it is, piece by piece.
    """

    def __init__(self) -> None:
        self._held = ""
        self._state: str = "beginning"

    def feed(self, piece: str) -> str:
        """Take a piece; return what of the answer is certain by now."""
        if self._state == "answer":
            return piece
        self._held += piece
        if self._state == "beginning":
            start = self._held.lstrip()
            if start.startswith(_BEGIN):
                self._held, self._state = start[len(_BEGIN) :], "thoughts"
            elif _BEGIN.startswith(start):
                return ""  # nothing but space, or the beginning of the tag
            else:
                return self._answer(self._held)
        if self._state == "thoughts":
            _, end, rest = self._held.partition(_END)
            if not end:
                self._held = self._held[-len(_END) + 1 :]
                return ""
            self._held, self._state = rest, "space"
        rest = self._held.lstrip()
        return self._answer(rest) if rest else ""

    def end(self) -> str:
        """The answer is over: return what was held back and is no thought."""
        return self._answer(self._held) if self._state == "beginning" else ""

    def _answer(self, words: str) -> str:
        self._held, self._state = "", "answer"
        return words
