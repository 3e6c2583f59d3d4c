"""Words of a shell line, and the literal text of each word in which bash expands nothing."""

from dataclasses import dataclass
from typing import Final

from rumi.errors import RumiError

_ESCAPES: Final = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"', "r": "\r", "a": "\a", "e": "\x1b"}
_DOLLARS: Final = frozenset('" \n\t%/.,:|')
"""Characters after which a dollar in double quotes is literal."""


class CommandRefused(RumiError):
    """The command was refused; the message names the refused part, the advice names alternatives."""

    advises_models = True


@dataclass(frozen=True, slots=True)
class ShellWord:
    """A word of a command. `text` is its literal text, or None if that depends on an expansion."""

    raw: str
    text: str | None


def literal(raw: str) -> str | None:
    """Return the literal text of a word; None if bash expands anything in it, or if it is not one word."""
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
    """Return the text up to the closing quote and the index after it; None if bash expands anything."""
    text: list[str] = []
    while at < len(raw):
        char = raw[at]
        if char == '"':
            return "".join(text), at + 1
        # A dollar before a blank or the closing quote is literal.
        if char == "`" or (char == "$" and raw[at + 1 : at + 2] not in _DOLLARS):
            return None
        if char == "\\" and raw[at + 1 : at + 2] in ("$", "`", '"', "\\", "\n"):
            char = raw[at + 1].replace("\n", "")
            at += 1
        text.append(char)
        at += 1
    return None


def _ansi(raw: str, at: int) -> tuple[str, int] | None:
    """Return the text of `$'…'`, read from index `at`, and the index after it; None for numeric escapes."""
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
    """Return a name shortened for messages, with look-alike characters escaped."""
    short = name if len(name) <= 40 else f"{name[:40]}…"
    return short if short.isascii() and short.isprintable() else ascii(short)[1:-1]
