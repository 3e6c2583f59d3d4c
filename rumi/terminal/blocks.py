"""A Markdown text that is still growing: which of it is final, and what an answer adds to it."""

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


@cache
def parser() -> "MarkdownIt":
    """CommonMark with tables and strike-through. HTML is text: it must not vanish from what is shown."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def finished_lines(text: str) -> int:
    """How many lines from the start belong to blocks that no further text can change.

    Only the last block of a Markdown text can still grow (or turn into something else: a paragraph
    into a heading, a line with bars into a table).
    """
    starts = [
        token.map[0]
        for token in parser().parse(text)
        if token.level == 0 and token.nesting >= 0 and token.map is not None
    ]
    return starts[-1] if len(starts) > 1 else 0


def rest_of(answer: str, shown: str) -> str | None:
    """What `answer` says beyond `shown`, or None if it does not begin with it. White space does not count."""
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
