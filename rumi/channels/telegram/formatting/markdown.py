"""Conversion of Markdown to visible text and to spans of this text that have a format such as bold.

`parsing.py` parses the Markdown, and `writing.py` writes the text and its spans.
"""

import logging
import re
from typing import Final

from rumi.channels.telegram.formatting.parsing import Overgrown, parsed
from rumi.channels.telegram.formatting.spans import TextSpan, clean
from rumi.channels.telegram.formatting.writing import Writer

logger = logging.getLogger(__name__)

_FENCE: Final = re.compile(r"^[ >]*(`{3,}(?!.*`)|~{3,})(.*)$", re.MULTILINE)
_ENDING: Final = 16_000


def read(markdown: str) -> tuple[str, tuple[TextSpan, ...]]:
    """Return the visible text of `markdown` and its spans. The same input always gives the same result.

    If the parser fails, or if the result would be far too large, the function returns `markdown` unchanged,
    without spans.
    """
    source = clean(markdown)
    try:
        return Writer(source).written(parsed(source))
    except (Overgrown, RecursionError):
        logger.info("a Markdown text of %d characters would grow too much: it stays as it is", len(source))
    except Exception:  # whatever error the parser raises, the text must be shown
        logger.warning("a Markdown text cannot be formatted: it stays as it is", exc_info=True)
    return source.replace("\t", " "), ()


def ending(markdown: str) -> str:
    """Return the last part of a long text, cut so that it can be parsed alone. Return a short text unchanged.

    This keeps the cost of showing a growing answer constant. The result begins at the start of a paragraph if
    possible, otherwise at the start of a line. If the result begins inside a code block, the block's opening
    fence is repeated.
    """
    if len(markdown) <= 2 * _ENDING:
        return markdown
    start = markdown.find("\n", len(markdown) - _ENDING) + 1 or len(markdown) - _ENDING
    fence = _open_fence(markdown, start)
    if fence:
        return f"{fence}\n{markdown[start:]}"
    paragraph = markdown.find("\n\n", start - 1, start + _ENDING // 2)
    return markdown[paragraph + 2 if paragraph >= 0 else start :]


def _open_fence(markdown: str, end: int) -> str:
    """Return the line that opened the code block at index `end`; empty if `end` is outside of code blocks."""
    opened: re.Match[str] | None = None
    for found in _FENCE.finditer(markdown, 0, end):
        if opened is None:
            opened = found
        elif found[1].startswith(opened[1]) and not found[2].strip():
            opened = None
    return opened[0] if opened else ""
