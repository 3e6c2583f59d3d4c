"""Words of a line of bash, and what bash makes of those that it does not expand."""

from dataclasses import dataclass
from typing import Final

from rumi.errors import RumiError

_ESCAPES: Final = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"', "r": "\r", "a": "\a", "e": "\x1b"}
_DOLLARS: Final = frozenset('" \n\t%/.,:|')
"""What may follow a dollar in double quotes without an expansion."""


class CommandRefused(RumiError):
    """A command that is not run: the message names the refused part, the advice the alternatives."""


@dataclass(frozen=True, slots=True)
class ShellWord:
    """A word of a command. `text` is what bash makes of it; None if that depends on an expansion."""

    raw: str
    text: str | None


def literal(raw: str) -> str | None:
    """Return what bash makes of a word; None if it expands something in it, or if it is not one word."""
    text: list[str] = []
    at = 0
    if raw.startswith("~"):
        return None
    while at < len(raw):
        char = raw[at]
        if char == "'":
            end = raw.find("'", at + 1)
            if end < 0:
                return None
            text.append(raw[at + 1 : end])
            at = end + 1
        elif char == '"' or (char == "$" and raw[at + 1 : at + 2] == "'"):
            found = _double_quoted(raw, at + 1) if char == '"' else _ansi(raw, at + 2)
            if found is None:
                return None
            piece, at = found
            text.append(piece)
        elif char == "\\":
            following = raw[at + 1 : at + 2]
            text.append("" if following == "\n" else following or "\\")
            at += 2
        elif char in "$`*?[ \t\n\r\v\f;&|<>()" and raw not in ("[", "[["):
            return None
        else:
            if char == "{" and ("," in raw[at:] or ".." in raw[at:]):
                return None
            text.append(char)
            at += 1
    return "".join(text)


def _double_quoted(raw: str, at: int) -> tuple[str, int] | None:
    """Return the text up to the closing quote, and the place behind it."""
    text: list[str] = []
    while at < len(raw):
        char = raw[at]
        if char == '"':
            return "".join(text), at + 1
        # A dollar in front of a blank or of the closing quote is a dollar.
        if char == "`" or (char == "$" and raw[at + 1 : at + 2] not in _DOLLARS):
            return None
        if char == "\\" and raw[at + 1 : at + 2] in ("$", "`", '"', "\\", "\n"):
            char = raw[at + 1].replace("\n", "")
            at += 1
        text.append(char)
        at += 1
    return None


def _ansi(raw: str, at: int) -> tuple[str, int] | None:
    """Return the text of `$'…'`, from behind its quote; None if it has escapes with numbers."""
    text: list[str] = []
    while at < len(raw):
        if raw[at] == "'":
            return "".join(text), at + 1
        if raw[at] == "\\":
            following = _ESCAPES.get(raw[at + 1 : at + 2])
            if following is None:
                return None
            text.append(following)
            at += 2
        else:
            text.append(raw[at])
            at += 1
    return None


def shown(name: str) -> str:
    """Return the name in a form that shows look-alike characters, and not too long."""
    short = name if len(name) <= 40 else f"{name[:40]}…"
    return short if short.isascii() and short.isprintable() else ascii(short)[1:-1]
