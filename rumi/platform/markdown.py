"""Markdown that shows text of strangers as it is."""

import re
from typing import Final

_MARKS: Final = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_[]<>#|~"})


def plain(text: str, most_chars: int) -> str:
    """Return text as one line of Markdown, with all markup characters escaped."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if len(line) > most_chars:
        line = f"{line[: most_chars - 1]}…"
    return line.translate(_MARKS)


_LEADING: Final = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]+|>[ \t]?|[-*+][ \t]+(?:\[[ xX]\][ \t]+)?|`{3,}\S*|~{3,}\S*|[-*_]{3,}[ \t]*$)",
    re.M,
)
_LINK: Final = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:\s+\"[^\"]*\")?\)")
_EMPHASIS: Final = re.compile(r"(\*{1,3}|~~|`+)(?=\S)(.+?)(?<=\S)\1")


def stripped(markdown: str) -> str:
    """Return the words of a Markdown text as one line, without its markup."""
    text = _LINK.sub(r"\1", _LEADING.sub("", markdown))
    before = None
    while text != before:  # emphasis within emphasis
        before, text = text, _EMPHASIS.sub(r"\2", text)
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def fenced(text: str, kind: str = "") -> str:
    """Return a code block with the text, which cannot end it. `kind` is its language, such as `diff`."""
    longest = max(map(len, re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{kind}\n{text}\n{fence}"
