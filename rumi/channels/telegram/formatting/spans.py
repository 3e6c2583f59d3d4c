"""The formatted spans of a text, and Telegram's rules for nesting them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from rumi.channels.telegram.formatting.characters import blank

Kind: TypeAlias = Literal["blockquote", "pre", "text_link", "code", "bold", "strikethrough", "italic"]

STYLES: Final[tuple[Kind, ...]] = ("bold", "strikethrough", "italic")
BLOCKS: Final[tuple[Kind, ...]] = ("blockquote", "pre")
_OUTERMOST: Final[dict[Kind, int]] = {"blockquote": 0, "text_link": 2, "code": 3, "pre": 3}


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A span of a text, counted in characters (not in UTF-16 units)."""

    start: int
    end: int
    kind: Kind
    detail: str = ""
    """URL of a link, or language of a code block."""


def lawful(text: str, spans: Iterable[TextSpan]) -> tuple[TextSpan, ...]:
    """Return the spans that Telegram's nesting rules allow, sorted, without white space at their ends.

    Of two spans of equal length, the later one in `spans` is the outer one.

    Code contains no span, a quote no quote, a link no link, a style not the same style, and of two spans that
    overlap one is within the other. A style around code ends before it and continues after it.
    """
    ordered = [*spans]
    ordered.reverse()
    ordered.sort(key=lambda span: (span.start, -span.end))
    of: dict[Kind, list[TextSpan]] = {}
    for span in ordered:
        of.setdefault(span.kind, []).append(span)
    quotes = _outermost(of.get("blockquote", ()))
    pre = _outermost(of.get("pre", ()))
    links = _without(_outermost(of.get("text_link", ())), pre)
    code = _without(_outermost(of.get("code", ())), _in_order([*pre, *links]))
    opaque = _in_order([*pre, *code])
    styles = [piece for kind in STYLES for piece in _around(_outermost(of.get(kind, ())), opaque)]
    trimmed = (trim(text, span) for span in (*quotes, *pre, *links, *code, *styles))
    return _nested(span for span in trimmed if span is not None)


def trim(text: str, span: TextSpan) -> TextSpan | None:
    """Return the span without white space at its ends, None if it has no visible character.

    A block keeps the indentation of its first line.
    """
    start, end = span.start, span.end
    while end > start and text[end - 1].isspace():
        end -= 1
    if span.kind in BLOCKS:
        while start < end and text[start] == "\n":
            start += 1
    else:
        while start < end and text[start].isspace():
            start += 1
    if start == end or blank(text[start:end]):
        return None
    return TextSpan(start, end, span.kind, span.detail)


def _in_order(spans: Iterable[TextSpan]) -> list[TextSpan]:
    return sorted(spans, key=lambda span: span.start)


def _outermost(spans: Iterable[TextSpan]) -> list[TextSpan]:
    """Return the spans that no earlier span overlaps; `spans` are sorted, longer ones first."""
    kept: list[TextSpan] = []
    for span in spans:
        if not kept or span.start >= kept[-1].end:
            kept.append(span)
    return kept


def _without(spans: Sequence[TextSpan], taken: Sequence[TextSpan]) -> list[TextSpan]:
    """Return the spans that overlap none of `taken`."""
    kept, at = [], 0
    for span in spans:
        while at < len(taken) and taken[at].end <= span.start:
            at += 1
        if at == len(taken) or taken[at].start >= span.end:
            kept.append(span)
    return kept


def _around(spans: Sequence[TextSpan], taken: Sequence[TextSpan]) -> list[TextSpan]:
    """Return the pieces of the spans that lie outside of `taken`."""
    pieces, at = [], 0
    for span in spans:
        while at < len(taken) and taken[at].end <= span.start:
            at += 1
        start, ahead = span.start, at
        while ahead < len(taken) and taken[ahead].start < span.end:
            if start < taken[ahead].start:
                pieces.append(TextSpan(start, taken[ahead].start, span.kind, span.detail))
            start = taken[ahead].end
            ahead += 1
        if start < span.end:
            pieces.append(TextSpan(start, span.end, span.kind, span.detail))
    return pieces


def _nested(spans: Iterable[TextSpan]) -> tuple[TextSpan, ...]:
    """Return the spans in nesting order, without partial overlaps and without what Telegram forbids there."""
    kept: list[TextSpan] = []
    around: list[TextSpan] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end, _OUTERMOST.get(span.kind, 1))):
        while around and around[-1].end <= span.start:
            around.pop()
        if all(span.end <= outer.end and _holds(outer.kind, span.kind) for outer in around):
            around.append(span)
            kept.append(span)
    return tuple(kept)


def _holds(outer: Kind, inner: Kind) -> bool:
    if outer in ("pre", "code"):
        return False
    if inner in ("pre", "code"):
        return outer == "blockquote"
    if outer in STYLES or inner in STYLES:
        return outer != inner
    return outer == "blockquote" and inner != "blockquote"
