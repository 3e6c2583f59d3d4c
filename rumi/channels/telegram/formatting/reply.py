"""Formatting of replies for Telegram: messages of an accepted length, with formatting entities.

Text takes precedence over formatting: if both do not fit, the text stays and formatting is dropped.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from telegram import MessageEntity

from rumi.channels.telegram.formatting.cutting import Cuts
from rumi.channels.telegram.formatting.markdown import ending, read
from rumi.channels.telegram.formatting.spans import (
    LIMIT_UNITS,
    Kind,
    TextSpan,
    blank,
    characters_within,
    trim,
    units,
)

LIMIT_ENTITIES: Final = 100
"""Maximum number of entities in a message. Telegram ignores the entities above this number."""

NOTHING: Final = "…"
"""Replacement for a text without visible characters, because Telegram accepts no empty message."""

_LAST_TO_GO: Final[tuple[Kind, ...]] = (
    "text_link",
    "pre",
    "blockquote",
    "code",
    "bold",
    "strikethrough",
    "italic",
)


@dataclass(frozen=True, slots=True)
class MessagePart:
    """The content of one message: never blank, without white space at its ends, and never too long."""

    text: str
    entities: tuple[MessageEntity, ...] = ()

    def plain(self) -> "MessagePart":
        """Return the same text without formatting."""
        return MessagePart(self.text)


def format_reply(markdown: str) -> tuple[MessagePart, ...]:
    """Return a reply as one or more parts, in order. The same input always gives the same parts.

    Every visible character is in one of the parts. The reply is cut between paragraphs if possible, otherwise
    between lines or words. A word, a link or an emphasis is cut only if it is longer than a message. If a
    code block or quote is cut, the next part continues it in a block of the same kind.
    """
    text, spans = read(markdown)
    parts = tuple(_parts(text, spans))
    return parts or (MessagePart(NOTHING),)


def format_preview(markdown: str, limit_units: int = LIMIT_UNITS) -> MessagePart:
    """Return a preview of a growing answer, at most `limit_units` UTF-16 units long (at least two).

    If the answer is longer, the result is a line with an ellipsis and, below it, the last part of the answer.
    That part begins at the start of a line if possible.
    """
    limit_units = min(limit_units, LIMIT_UNITS)
    shown = ending(markdown)
    text, spans = read(shown)
    if len(shown) == len(markdown):
        parts = _parts(text, spans, limit_units)
        first = next(parts, MessagePart(NOTHING))
        if next(parts, None) is None:
            return first
    above = f"{NOTHING}\n"
    end = len(text.rstrip())
    start = end - characters_within(text[max(0, end - limit_units) : end][::-1], limit_units - units(above))
    if start < end:
        start = Cuts(text, spans, limit_units).tail(start)
    return MessagePart(NOTHING) if blank(text[start:end]) else _part(text, start, end, spans, above)


def _parts(text: str, spans: Sequence[TextSpan], limit: int = LIMIT_UNITS) -> Iterator[MessagePart]:
    cuts = Cuts(text, spans, limit, links=LIMIT_ENTITIES)
    ahead = iter(spans)
    coming = next(ahead, None)
    reaching: list[TextSpan] = []  # spans that may reach into the current part
    for start, end, above in cuts:
        while coming is not None and coming.start < end:
            reaching.append(coming)
            coming = next(ahead, None)
        reaching = [span for span in reaching if span.end > start]
        if not blank(text[start:end]):
            yield _part(text, start, end, reaching, above)


def _part(text: str, start: int, end: int, spans: Iterable[TextSpan], above: str) -> MessagePart:
    """Return the text from `start` to `end`, preceded by `above`, with the spans that overlap this text."""
    while end > start and text[end - 1].isspace():
        end -= 1
    clipped = (_clipped(text, span, start, end) for span in spans if span.start < end and span.end > start)
    kept = [span for span in clipped if span is not None]
    if len(kept) > LIMIT_ENTITIES:
        kept = _most_important(kept)
    body = text[start:end]
    offsets = _offsets(body)
    shift = units(above)
    entities = tuple(
        MessageEntity(
            span.kind,
            shift + offsets[span.start - start],
            offsets[span.end - start] - offsets[span.start - start],
            url=span.detail if span.kind == "text_link" else None,
            language=(span.detail or None) if span.kind == "pre" else None,
        )
        for span in kept
    )
    return MessagePart(above + body, entities)


def _clipped(text: str, span: TextSpan, start: int, end: int) -> TextSpan | None:
    if start <= span.start and span.end <= end:
        return span
    return trim(text, TextSpan(max(start, span.start), min(end, span.end), span.kind, span.detail))


def _most_important(spans: list[TextSpan]) -> list[TextSpan]:
    order = sorted(range(len(spans)), key=lambda index: (_LAST_TO_GO.index(spans[index].kind), index))
    return [spans[index] for index in sorted(order[:LIMIT_ENTITIES])]


def _offsets(text: str) -> list[int] | range:
    """Return the start of each character in UTF-16 units, followed by the end of the last character."""
    if units(text) == len(text):
        return range(len(text) + 1)
    return [0, *accumulate(2 if character > "\uffff" else 1 for character in text)]


def stacked(words: MessagePart, line: MessagePart, between: str = "\n\n") -> MessagePart:
    """Return a message with `line` below `words`."""
    above = words.text + between
    moved = (
        MessageEntity(entity.type, entity.offset + units(above), entity.length) for entity in line.entities
    )
    return MessagePart(above + line.text, (*words.entities, *moved))
