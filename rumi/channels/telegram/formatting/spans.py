"""Formatted spans of a text (such as bold words), and Telegram's rules for characters."""

import re
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import Final, Literal, NamedTuple, TypeAlias
from unicodedata import category, normalize

Kind: TypeAlias = Literal["blockquote", "pre", "text_link", "code", "bold", "strikethrough", "italic"]

BLOCKS: Final[tuple[Kind, ...]] = ("blockquote", "pre")
_ORDER: Final[dict[Kind, int]] = {
    "blockquote": 0,
    "bold": 1,
    "strikethrough": 2,
    "italic": 3,
    "text_link": 4,
    "code": 5,
    "pre": 6,
}


class TextSpan(NamedTuple):
    """A formatted span of a text. Its indices count characters, not UTF-16 units."""

    start: int
    end: int
    kind: Kind
    detail: str = ""
    """URL of a link, or language of a code block."""


def ordered(text: str, spans: Iterable[TextSpan]) -> tuple[TextSpan, ...]:
    """Return nested spans without white space at their ends, each before the spans that it contains."""
    trimmed = [span for span in (trim(text, span) for span in spans) if span is not None]
    return tuple(sorted(trimmed, key=lambda span: (span.start, -span.end, _ORDER[span.kind])))


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


LIMIT_UNITS: Final = 4096
"""Telegram's maximum length of a message, in UTF-16 code units."""


_SURROGATES: Final = re.compile("[\ud800-\udfff]")


_SEQUENCES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours and similar, which tools write for terminals
    r"|\x1b\][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)"  # titles and links for terminals
)


_LINE_ENDS: Final = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")


_UNCLEAN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufeff\u2028-\u202e\u2066-\u2069\u030a\u0333\u033f]"
)
"""The characters that `clean` may change."""


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
    if not _UNCLEAN.search(text):
        return text
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
