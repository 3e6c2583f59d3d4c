"""The text of a message: detects if it addresses the bot, and removes the mentions of the bot."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rumi.channels.telegram.api.bot import Me
from rumi.channels.telegram.receiving.fields import Fields, number, record_or_none, records, text_or_none
from rumi.chats.commands import NAMES as COMMAND_NAMES

_COMMAND: Final = re.compile(r"/([A-Za-z_][A-Za-z0-9_-]*)(?:@(\w+))?(?=\s|$)")
_BEHIND_NAME: Final = " \t,:;"


@dataclass(frozen=True, slots=True)
class MessageText:
    """The text without mentions of the bot and without the bot's name after a command.

    `addressed` is True if the text mentions the bot or is a command for it. `other_bot` is True if the text
    is a command for another bot.
    """

    text: str
    addressed: bool
    other_bot: bool = False


def read_words(message: Fields, me: Me) -> MessageText:
    """Return the text of a message or the caption of its attachment.

    Raises:
        OddField: A field differs from Telegram's documentation.
    """
    raw_text, entities = text_or_none(message, "text"), records(message, "entities")
    if raw_text is None:
        raw_text, entities = text_or_none(message, "caption"), records(message, "caption_entities")
    if raw_text is None:
        return MessageText("", addressed=False)
    text, mentioned = _without_mentions(raw_text, entities, me)
    command = _COMMAND.match(text)
    if command is None:
        return MessageText(text, mentioned)
    name, target = command[1], command[2]
    if target is None:
        return MessageText(text, mentioned or name.lower() in COMMAND_NAMES)
    if me.username and target.casefold() == me.username.casefold():
        return MessageText(f"/{name}{text[command.end() :]}", addressed=True)
    return MessageText(text, mentioned, other_bot=True)


def _without_mentions(text: str, entities: Sequence[Fields], me: Me) -> tuple[str, bool]:
    """Return the text without mentions of the bot, and True if there were any."""
    # Telegram counts in UTF-16 code units; an offset inside a character must not raise an error.
    units = text.encode("utf-16-le", "surrogatepass")
    found = [span for entity in entities if (span := _call(entity, units, me)) is not None]
    # From the end to the start: the offsets of earlier mentions stay valid.
    for start, end in sorted(found, reverse=True):
        before = units[:start].decode("utf-16-le", "surrogatepass")
        behind = units[end:].decode("utf-16-le", "surrogatepass")
        if not before.strip():
            before, behind = "", behind.lstrip(_BEHIND_NAME)
        elif before[-1].isspace() and behind[:1] in ("", " "):
            behind = behind[1:]
        units = (before + behind).encode("utf-16-le", "surrogatepass")
    left = units.decode("utf-16-le", "surrogatepass")
    return (left.strip(), True) if found else (text, False)


def _call(entity: Fields, units: bytes, me: Me) -> tuple[int, int] | None:
    """Return start and end of a mention of the bot, in bytes; None if the entity is something else."""
    kind = text_or_none(entity, "type")
    if kind not in ("mention", "text_mention"):
        return None
    start = 2 * number(entity, "offset")
    end = start + 2 * number(entity, "length")
    if not 0 <= start < end <= len(units):
        return None
    if kind == "text_mention":
        user = record_or_none(entity, "user")
        called = user is not None and number(user, "id") == me.id
    else:
        name = units[start:end].decode("utf-16-le", "surrogatepass")
        called = bool(me.username) and name.casefold() == f"@{me.username}".casefold()
    return (start, end) if called else None
