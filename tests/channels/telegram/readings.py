"""What a person sees of a part on Telegram, which here checks it as strictly as its documentation reads."""

from rumi.channels.telegram.formatting.reply import LIMIT_ENTITIES, MessagePart, format_reply
from rumi.channels.telegram.formatting.spans import LIMIT_UNITS, units
from tests.fakes.bot_api_text import settled


def seen(part: MessagePart, limit: int = LIMIT_UNITS) -> list[tuple[str, str, str]]:
    """What stands out in a part, as kind, words, and address or language. Telegram takes it as it is."""
    text, entities = settled(part.text, [entity.to_dict() for entity in part.entities])
    assert text == part.text == part.text.strip()
    assert entities == [entity.to_dict() for entity in part.entities]
    assert entities == sorted(entities, key=lambda spot: (spot["offset"], -spot["length"]))
    assert units(text) <= limit
    assert len(entities) <= LIMIT_ENTITIES
    raw = text.encode("utf-16-le")
    out = []
    for entity in entities:
        start, length = entity["offset"] * 2, entity["length"] * 2
        words = raw[start : start + length].decode("utf-16-le")
        assert words.strip()
        out.append((entity["type"], words, entity.get("url") or entity.get("language") or ""))
    return out


def reading(markdown: str) -> tuple[str, list[tuple[str, str, str]]]:
    """The text of a short reply, and what stands out in it."""
    (part,) = format_reply(markdown)
    return part.text, seen(part)
