"""What Telegram does to a message's text and entities: it cleans, trims, measures in UTF-16 and refuses."""

import re
from typing import Any, TypeAlias

from tests.fakes.bot_api_world import Refused

Entity: TypeAlias = dict[str, Any]
Span: TypeAlias = tuple[int, int, Entity]
"""Where an entity begins and ends, in UTF-16 units."""

TEXT_LIMIT = 4096
ENTITY_LIMIT = 100
"""Further entities are dropped without a word."""

STYLES = frozenset({"bold", "italic", "underline", "strikethrough", "spoiler"})
QUOTES = frozenset({"blockquote", "expandable_blockquote"})
CODE = frozenset({"code", "pre"})
GIVEN = STYLES | QUOTES | CODE | {"text_link", "text_mention", "custom_emoji", "date_time"}
# Telegram finds these by itself and ignores them in a request.
FOUND = frozenset(
    {"mention", "hashtag", "cashtag", "bot_command", "url", "email", "phone_number", "bank_card_number"}
)

_TRIMMED = " \n"
_SPACES = {code: " " for code in range(0x21) if code not in (0x0A, 0x0D)}
_GONE = dict.fromkeys([0x0D, *range(0x2028, 0x202F), 0x0333, 0x033F, 0x030A])
_CLEAN: dict[int, str | None] = {**_SPACES, **_GONE}
_UNCLEAN = re.compile("[\x00-\x09\x0b-\x1f\u2028-\u202e\u0333\u033f\u030a]")
_EMPTY = re.compile(
    "[ \n\u00a0\u1680\u180e\u2000-\u200f\u202e\u202f\u205f\u2800\u3000\ufeff\ufffc\U000e0000-\U000e007f]*"
)
_DETECTED = re.compile(
    r"(?P<bot_command>(?<![\w/<>@])/[A-Za-z0-9_]{1,64}(?:@[A-Za-z0-9_]{3,32})?(?![\w/<>@]))"
    r"|(?P<url>https?://[^\s<>\"]*[^\s<>\".,;:!?)])"
    r"|(?P<mention>(?<![\w@/])@[A-Za-z0-9_]{3,32}(?!\w))"
)


def utf16_length(text: str) -> int:
    """How long Telegram says that it is."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def detected(text: str) -> list[Entity]:
    """The commands, mentions and links that Telegram finds in what a person wrote."""
    return [
        {
            "type": found.lastgroup,
            "offset": utf16_length(text[: found.start()]),
            "length": utf16_length(found[0]),
        }
        for found in _DETECTED.finditer(text)
    ]


def settled(
    text: str, raw_entities: Any, *, empty: bool = False, strict: bool = True, limit: int = TEXT_LIMIT
) -> tuple[str, list[Entity]]:
    """The text and the entities that become of a request's, or `Refused` in Telegram's words.

    `empty`: a text without anything to see is fine. `strict`: entities that overlap or nest in a way that the
    documentation rules out are refused; Telegram cuts them up without a word.
    """
    if not isinstance(text, str):
        raise Refused(400, "Bad Request: text must be a String")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Refused(400, "Bad Request: strings must be encoded in UTF-8") from None
    entities = _checked_entities(raw_entities)
    if not entities and not _UNCLEAN.search(text):
        text = text.strip(_TRIMMED)
    else:
        spans = _spans(text, entities)
        if strict:
            _check_nesting(spans)
        text, entities = _cleaned(text, spans)
    if not text or _EMPTY.fullmatch(text):
        if empty:
            return "", []
        raise Refused(400, "Bad Request: message text is empty")
    if len(text) * 2 > limit and utf16_length(text) > limit:
        what = "message" if limit == TEXT_LIMIT else "message caption"
        raise Refused(400, f"Bad Request: {what} is too long")
    return text, entities


def _checked_entities(raw_entities: Any) -> list[Entity]:
    if raw_entities is None:
        return []
    if not isinstance(raw_entities, list | tuple):
        raise Refused(400, "Bad Request: can't parse entities: expected an Array of MessageEntity")
    entities = [entity for value in raw_entities if (entity := _one(value)) is not None]
    for entity in entities:
        for name in ("offset", "length"):
            if not 0 <= entity[name] <= 1_000_000:
                raise Refused(400, f"Bad Request: receive an entity with incorrect {name} {entity[name]}")
    return [entity for entity in entities if entity["length"]][:ENTITY_LIMIT]


def _one(value: Any) -> Entity | None:
    if not isinstance(value, dict):
        raise _unparsed("expected an Object")
    for name in ("offset", "length"):
        if name not in value:
            raise _unparsed(f'Can\'t find field "{name}"')
        if not isinstance(value[name], int) or isinstance(value[name], bool):
            raise _unparsed(f'Field "{name}" must be of type Number')
    kind = value.get("type")
    if not isinstance(kind, str):
        raise _unparsed('Can\'t find field "type"')
    if kind in FOUND:
        return None
    if kind not in GIVEN:
        raise _unparsed("Unsupported type specified")
    entity = {"type": str.__str__(kind), "offset": value["offset"], "length": value["length"]}
    match kind:
        case "text_link":
            entity["url"] = _url(value.get("url"))
        case "text_mention":
            if not isinstance(value.get("user"), dict):
                raise _unparsed('Can\'t find field "user"')
            entity["user"] = value["user"]
        case "custom_emoji":
            if not str(value.get("custom_emoji_id", "")).isdigit():
                raise _unparsed('Field "custom_emoji_id" must be a valid Number')
            entity["custom_emoji_id"] = str(value["custom_emoji_id"])
        case "date_time":
            if not isinstance(value.get("unix_time"), int):
                raise _unparsed('Can\'t find field "unix_time"')
            entity["unix_time"] = value["unix_time"]
        case "pre" if value.get("language"):
            if not isinstance(value["language"], str):
                raise _unparsed('Field "language" must be of type String')
            entity["language"] = value["language"]
    return entity


def _unparsed(why: str) -> Refused:
    return Refused(400, f"Bad Request: can't parse MessageEntity: {why}")


def _url(url: Any) -> str:
    if url is None:
        raise _unparsed('Can\'t find field "url"')
    if not isinstance(url, str):
        raise _unparsed('Field "url" must be of type String')
    scheme, colon, rest = url.partition(":")
    if colon and rest.startswith("//") and scheme.lower() not in ("http", "https", "tg", "ton", "tonsite"):
        raise Refused(400, f"Bad Request: entity URL '{url}' is invalid: Unsupported URL protocol")
    if scheme.lower() == "tg" and colon:
        return url
    host = re.split(r"[/?#]", rest.removeprefix("//") if rest.startswith("//") else url)[0]
    host = host.rpartition("@")[2].partition(":")[0]
    if "." not in host.strip(".") or any(letter.isspace() for letter in url):
        raise Refused(400, f"Bad Request: entity URL '{url}' is invalid: Wrong HTTP URL")
    return url


def _spans(text: str, entities: list[Entity]) -> list[Span]:
    """The entities with begin and end, outermost first, if none begins or ends inside a character."""
    units = text.encode("utf-16-le")
    width = len(units) // 2
    spans = []
    for entity in entities:
        begin, end = entity["offset"], entity["offset"] + entity["length"]
        if begin >= width:
            text = f"entity begins after the end of the text at UTF-16 offset {begin}"
            raise Refused(400, f"Bad Request: {text}")
        name = f"entity beginning at UTF-16 offset {begin}"
        if end > width:
            raise Refused(400, f"Bad Request: {name} ends after the end of the text at UTF-16 offset {end}")
        for what, offset in (("entity begins", begin), (f"{name} ends", end)):
            if offset < width and 0xDC <= units[offset * 2 + 1] < 0xE0:
                at = len(units[: offset * 2 + 2].decode("utf-16-le").encode())
                raise Refused(400, f"Bad Request: {what} in a middle of a UTF-16 symbol at byte offset {at}")
        spans.append((begin, end, entity))
    spans.sort(key=lambda span: (span[0], -span[1]))
    return spans


def _check_nesting(spans: list[Span]) -> None:
    around: list[tuple[int, Entity]] = []
    for begin, end, entity in spans:
        while around and around[-1][0] <= begin:
            around.pop()
        for outer_end, outer in around:
            pair = f"{entity['type']} at {entity['offset']} and {outer['type']} at {outer['offset']}"
            if end > outer_end:
                raise Refused(400, f"Bad Request: can't parse entities: {pair} overlap")
            if not _may_contain(outer["type"], entity["type"]):
                raise Refused(400, f"Bad Request: can't parse entities: {pair} can't be nested")
        around.append((end, entity))


def _may_contain(outer: str, inner: str) -> bool:
    if outer in CODE or outer == inner:
        return False
    if inner in CODE:
        return outer in QUOTES
    if outer in STYLES or inner in STYLES:
        return True
    return outer in QUOTES and inner not in QUOTES


def _cleaned(text: str, spans: list[Span]) -> tuple[str, list[Entity]]:
    """Cleaned and trimmed, never into an entity at the start, and the entities moved along."""
    if _UNCLEAN.search(text):
        units = text.encode("utf-16-le")
        clean = text.translate(_CLEAN)
        # Only a character that takes one unit is ever removed or replaced.
        kept = [0]
        for letter in text:
            kept.append(kept[-1] + (0 if ord(letter) in _GONE else 2 if letter > "\uffff" else 1))

        def new_offset(unit: int) -> int:
            return kept[len(units[: unit * 2].decode("utf-16-le"))]

        text, spans = clean, [(new_offset(begin), new_offset(end), entity) for begin, end, entity in spans]
    ended = text.rstrip(_TRIMMED)
    start = len(ended) - len(ended.lstrip(_TRIMMED))
    if spans:
        start = min(start, spans[0][0])
    text = ended[start:]
    width = utf16_length(text)
    moved = ((begin - start, min(end - start, width), entity) for begin, end, entity in spans)
    return text, [
        {**entity, "offset": begin, "length": end - begin} for begin, end, entity in moved if begin < end
    ]
