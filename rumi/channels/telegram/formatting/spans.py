"""Formatted spans of a text (such as bold words), and Telegram's rules for nesting such spans."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Literal, TypeAlias
from unicodedata import category, normalize

Kind: TypeAlias = Literal["blockquote", "pre", "text_link", "code", "bold", "strikethrough", "italic"]

STYLES: Final[tuple[Kind, ...]] = ("bold", "strikethrough", "italic")
BLOCKS: Final[tuple[Kind, ...]] = ("blockquote", "pre")
_OUTERMOST: Final[dict[Kind, int]] = {"blockquote": 0, "text_link": 2, "code": 3, "pre": 3}


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A formatted span of a text. Its indices count characters, not UTF-16 units."""

    start: int
    end: int
    kind: Kind
    detail: str = ""
    """URL of a link, or language of a code block."""


def lawful(text: str, spans: Iterable[TextSpan]) -> tuple[TextSpan, ...]:
    """Return the spans that Telegram's nesting rules allow, sorted, without white space at their ends.

    If two nested spans have equal length, the later one in `spans` becomes the outer one.

    The rules: code contains no span, a quote contains no quote, a link contains no link, and a style does not
    contain the same style. If two spans overlap, one is within the other. A style around code ends before the
    code and continues after it.
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
    """Return the span without white space at its ends; None if the span has no visible character.

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
    """Return `spans` without those that overlap an earlier returned span. `spans` are sorted by start."""
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
    """Return the spans, outer spans before the spans that they contain.

    Omits spans that overlap an earlier span partially, and spans that Telegram does not allow inside the
    outer span.
    """
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


LIMIT_UNITS: Final = 4096
"""Telegram's maximum length of a message, in UTF-16 code units."""


_SURROGATES: Final = re.compile("[\ud800-\udfff]")


_SEQUENCES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours and similar, which tools write for terminals
    r"|\x1b\][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)"  # titles and links for terminals
)


_LINE_ENDS: Final = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")


_RINGED: Final = re.compile("[A-Za-z]\u030a")


_DROPPED: Final = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\ufeff"
    "\u202a-\u202e\u2066-\u2069"  # change the direction of writing, so that a command reads as another one
    "\u030a\u0333\u033f]"  # marks that Telegram removes from every text
)


# The excluded characters are no content for Telegram: it refuses a message of them alone as empty.
_CONTENT: Final = re.compile(
    "[^\\s\u180e\u200b-\u200f\u2800\ufeff\ufffc\U000e0000-\U000e007f"
    "\u00ad\u2060-\u2064\ufe00-\ufe0f\U000e0100-\U000e01ef]"  # Telegram accepts these, but they are invisible
)


_FLAG_LETTERS: Final = "".join(map(chr, range(0x1F1E6, 0x1F200)))


def units(text: str) -> int:
    """Return the length of `text` in UTF-16 code units, as Telegram counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def characters_within(text: str, limit: int) -> int:
    """Return the number of leading characters of `text` that fit into `limit` UTF-16 units."""
    head = text[: max(0, limit)]
    if units(head) <= limit:
        return len(head)
    sizes = list(accumulate(2 if character > "\uffff" else 1 for character in head))
    return bisect_right(sizes, limit)


def clean(text: str) -> str:
    """Return `text` without the characters that Telegram refuses or removes.

    The removed characters are control characters, terminal sequences and marks of writing direction. Tabs and
    newlines stay, and all other kinds of line end become newlines. A surrogate pair becomes the character
    that it encodes, and a lone surrogate becomes U+FFFD.
    """
    if _SURROGATES.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    text = _LINE_ENDS.sub("\n", _SEQUENCES.sub("", text))
    text = _RINGED.sub(lambda found: normalize("NFC", found[0]), text)
    return _DROPPED.sub("", text)


def blank(text: str) -> bool:
    """Return True if `text` has no visible character."""
    return _CONTENT.search(text) is None


def breakable(text: str, index: int) -> bool:
    """Return True if the text can be cut before `index` without splitting a displayed character.

    The function handles combining marks, joiners, variation selectors, skin tones, flags and Korean
    syllables.
    """
    if not 0 < index < len(text):
        return True
    before, after = text[index - 1], text[index]
    if after < "\u0300":  # no character below joins the one before it
        return before != "\u200d"
    if before == "\u200d" or after == "\u200d" or category(after) in {"Mn", "Me", "Mc"}:
        return False
    if "\U0001f3fb" <= after <= "\U0001f3ff" or "\U000e0020" <= after <= "\U000e007f":
        return False
    if "\u1160" <= after <= "\u11ff":
        return False
    return after not in _FLAG_LETTERS or _flag_letters_before(text, index) % 2 == 0


def _flag_letters_before(text: str, index: int) -> int:
    # A flag is a pair of letters, so a cut depends on how many precede it. The near text nearly always
    # suffices; scanning all of it at every cut would take quadratic time.
    near = max(0, index - 1024)
    count = index - near - len(text[near:index].rstrip(_FLAG_LETTERS))
    if count == index - near > 0:
        count = index - len(text[:index].rstrip(_FLAG_LETTERS))
    return count
