"""Text of messages with its entities: links behind words and code become visible, mentions of the bot go.

Telegram counts offsets in UTF-16 code units. An entity that is odd, out of range or inside a character is
ignored: it never costs the text.
"""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from rumi.channels.telegram.api.bot import Me
from rumi.channels.telegram.receiving.updates import Fields

MOST_ENTITIES: Final = 200
"""Maximum number of entities that are read. Telegram keeps at most 100 in a text."""

MOST_URL: Final = 2048
MOST_INSERTED: Final = 16_000
"""Maximum number of characters of all URLs that one text gets. Further links stay hidden."""

_BEHIND_NAME: Final = " \t,:;"
_SCHEME: Final = re.compile(r"^https?://", re.IGNORECASE)
_NOT_IN_URL: Final = re.compile(r"[\s\x00-\x1f\x7f<>\"]")
_LANGUAGE: Final = re.compile(r"[\w+#.-]{1,40}")


class Span(NamedTuple):
    """An entity with a valid place: the byte offsets of its start and end in the UTF-16 text."""

    start: int
    end: int
    entity: Fields


class _Change(NamedTuple):
    """A replacement of a part of the UTF-16 text; without `inserted`, the removal of a mention."""

    start: int
    end: int
    inserted: str = ""


def shown(text: str, entities: object, preview: object = None) -> str:
    """Return a text with the URLs behind its words, as `words (URL)`, and with several lines of code fenced.

    `preview` are the text's `LinkPreviewOptions`. A URL in them is added if the text has no link to it.
    """
    return read_entities(text, entities, None, preview)[0]


def read_entities(text: str, entities: object, me: Me | None, preview: object = None) -> tuple[str, bool]:
    """Return the text as `shown` does, without mentions of the bot, and whether it had such a mention."""
    units = encoded(text)
    spans = spans_in(units, entities)
    calls = [_Change(*span[:2]) for span in spans if me is not None and _calls(span, units, me)]
    for start, end, inserted in sorted({*calls, *_insertions(spans, units)}, reverse=True):
        if inserted:
            units = units[:start] + encoded(inserted) + units[start:]
            continue
        before, behind = decoded(units[:start]), decoded(units[end:])
        if not before.strip():
            before, behind = "", behind.lstrip(_BEHIND_NAME)
        elif before[-1].isspace() and behind[:1] in ("", " "):
            behind = behind[1:]
        units = encoded(before + behind)
    left = decoded(units).strip() if calls else decoded(units)
    return _with_preview(left, preview), bool(calls)


def part_shown(text: str, entities: object, start: int, end: int) -> str:
    """Return the part of a text between two UTF-16 offsets, as `shown` does."""
    units = encoded(text)
    inside = [
        {**span.entity, "offset": span.start // 2 - start, "length": (span.end - span.start) // 2}
        for span in spans_in(units, entities)
        if start <= span.start // 2 and span.end // 2 <= end
    ]
    return shown(decoded(units[2 * start : 2 * end]), inside)


def encoded(text: str) -> bytes:
    """Return the text's UTF-16 code units. Half surrogates are kept."""
    return text.encode("utf-16-le", "surrogatepass")


def decoded(units: bytes) -> str:
    """Return the text of UTF-16 code units."""
    return units.decode("utf-16-le", "surrogatepass")


def spans_in(units: bytes, entities: object) -> list[Span]:
    """Return the entities that have a valid place in the text, in the order of the list."""
    found = []
    for entity in entities[:MOST_ENTITIES] if isinstance(entities, list) else []:
        if not isinstance(entity, dict):
            continue
        offset, length = entity.get("offset"), entity.get("length")
        if type(offset) is not int or type(length) is not int:
            continue
        start, end = 2 * offset, 2 * (offset + length)
        if 0 <= start < end <= len(units) and not (_splits(units, start) or _splits(units, end)):
            found.append(Span(start, end, entity))
    return found


def _splits(units: bytes, place: int) -> bool:
    """Return True if the place is between the two halves of a character."""
    return 0 < place < len(units) and units[place - 1] & 0xFC == 0xD8 and units[place + 1] & 0xFC == 0xDC


def _insertions(spans: Sequence[Span], units: bytes) -> list[_Change]:
    left, found = MOST_INSERTED, list[_Change]()
    for start, end, entity in spans:
        words = decoded(units[start:end])
        match entity.get("type"):
            case "text_link":
                url = url_in(entity)
                left -= len(url)
                if url and left >= 0 and not _same(words, url):
                    blank = len(words) - len(words.rstrip()) if words.strip() else 0
                    place = end - 2 * blank  # white space has one unit a character
                    found.append(_Change(place, place, f" ({url})"))
            case "pre" if "\n" in words.strip("\n"):
                fence = "````" if "```" in words else "```"
                language = entity.get("language")
                known = isinstance(language, str) and _LANGUAGE.fullmatch(language)
                opening = f"{_break(decoded(units[:start])[-1:])}{fence}{language if known else ''}\n"
                closing = f"{_break(words[-1:])}{fence}{_break(decoded(units[end:])[:1])}"
                found += [_Change(start, start, opening), _Change(end, end, closing)]
    return found


def _break(beside: str) -> str:
    """Return the line break that a fence needs beside a character."""
    return "" if beside in ("", "\n") else "\n"


def url_in(fields: Fields) -> str:
    """Return the URL of an entity or of preview options, in a form that ends at a closing bracket; or ""."""
    url: Any = fields.get("url")
    if not isinstance(url, str) or not 0 < len(url := url.strip()) <= MOST_URL or _NOT_IN_URL.search(url):
        return ""
    depth = 0
    for character in url:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            break
    return url if depth == 0 else url.replace("(", "%28").replace(")", "%29")


def _same(words: str, url: str) -> bool:
    """Return True if the words are the URL itself, perhaps without its scheme."""
    return _bare(words) == _bare(url)


def _bare(url: str) -> tuple[str, str]:
    host, _, path = _SCHEME.sub("", url.strip()).rstrip("/").partition("/")
    return host.casefold(), path


def _with_preview(text: str, preview: object) -> str:
    url = url_in(preview) if isinstance(preview, dict) and preview.get("is_disabled") is not True else ""
    return f"{text}\n{url}".lstrip() if url and _SCHEME.sub("", url).rstrip("/") not in text else text


def _calls(span: Span, units: bytes, me: Me) -> bool:
    """Return True if the entity mentions the bot."""
    match span.entity.get("type"):
        case "text_mention":
            user = span.entity.get("user")
            return isinstance(user, dict) and user.get("id") == me.id
        case "mention":
            name = decoded(units[span.start : span.end])
            return bool(me.username) and name.casefold() == f"@{me.username}".casefold()
        case _:
            return False
