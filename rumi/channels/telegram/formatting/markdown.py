"""Conversion of Markdown to visible text and to spans of this text that have a format such as bold.

pyromark parses the Markdown, and telegramify-markdown writes the text. Between these steps, `repair.py`
restores words that would be lost or changed.
"""

import logging
import re
from bisect import bisect_left
from typing import Final, cast

from telegramify_markdown import RenderConfig
from telegramify_markdown.converter import EventWalker

from rumi.channels.telegram.formatting.definitions import Overgrown
from rumi.channels.telegram.formatting.repair import repaired
from rumi.channels.telegram.formatting.spans import Kind, TextSpan, clean, lawful

logger = logging.getLogger(__name__)

_FENCE: Final = re.compile(r"^[ >]*(`{3,}(?!.*`)|~{3,})(.*)$", re.MULTILINE)
_ENDING: Final = 16_000
_ASTRAL: Final = re.compile("[\U00010000-\U0010ffff]")


def _configuration() -> RenderConfig:
    config = RenderConfig.isolated()
    config.cite_expandable = False  # a folded quote hides half of an answer
    symbols = config.markdown_symbol
    symbols.unordered_list_item = "•"
    symbols.task_completed = "☑"
    symbols.task_uncompleted = "☐"
    symbols.horizontal_rule = "———"
    return config


_CONFIG: Final = _configuration()


def read(markdown: str) -> tuple[str, tuple[TextSpan, ...]]:
    """Return the visible text of `markdown` and its spans. The same input always gives the same result.

    If the Markdown libraries fail, or if their result would be far too large, the function returns `markdown`
    unchanged, without spans.
    """
    source = clean(markdown)
    try:
        text, spans = _written(source)
    except Overgrown:
        logger.info("a Markdown text of %d characters would grow too much: it stays as it is", len(source))
    except Exception:  # whatever error the libraries raise, the text must be shown
        logger.warning("a Markdown text cannot be formatted: it stays as it is", exc_info=True)
    else:
        return text, spans
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


def _written(source: str) -> tuple[str, tuple[TextSpan, ...]]:
    repaired_source, events = repaired(source)
    text, entities, _ = EventWalker(_CONFIG, repaired_source).walk(cast("tuple[object, ...]", events))
    # The library counts in UTF-16 units, spans in characters: each character above U+FFFF shifts what follows
    # by one.
    astral = [found.start() + number for number, found in enumerate(_ASTRAL.finditer(text))]
    spans = [
        TextSpan(
            entity.offset - bisect_left(astral, entity.offset),
            entity.offset + entity.length - bisect_left(astral, entity.offset + entity.length),
            cast("Kind", entity.type),
            entity.url or entity.language or "",
        )
        for entity in entities
    ]
    return text, lawful(text, spans)
