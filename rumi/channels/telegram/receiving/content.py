"""Attachments of a message, and the kinds of attachment that Rumi accepts."""

import mimetypes
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from rumi.channels.telegram.api.bot import Me
from rumi.channels.telegram.files.download import MAX_BYTES
from rumi.channels.telegram.receiving.updates import (
    Fields,
    OddField,
    number,
    number_or_none,
    record_or_none,
    records,
    text_or_none,
)
from rumi.chats.commands import NAMES as COMMAND_NAMES
from rumi.platform.texts import telegram as telegram_texts
from rumi.platform.untrusted_text import one_line
from rumi.store.journal.records import Attachment
from rumi.texts import Language, gettext


@dataclass(frozen=True, slots=True)
class IncomingContent:
    """The attachments of a message, or an `answer` that explains why Rumi cannot process the message."""

    attachments: tuple[Attachment, ...] = ()
    answer: str | None = None


# An animation also comes as a document, for older clients. So unsupported kinds are checked first. The texts
# describe most of these.
_UNSUPPORTED: Final = (
    *("sticker", "animation", "video_note", "story", "poll", "location", "contact", "dice", "game"),
    *("checklist", "paid_media", "giveaway", "invoice"),
)

_FILES: Final = (("document", "file", ""), ("audio", "audio", ".mp3"), ("video", "video", ".mp4"))
"""Message fields that contain a file, each with a default name and a default file extension."""


def content_of(message: Fields, language: Language, hears: bool) -> IncomingContent | None:
    """Return the message's attachments; None for a service message, for example about a new member or a pin.

    `hears` is True if a transcriber for voice messages is configured.

    Raises:
        OddField: A field differs from Telegram's documentation.
    """
    for kind in _UNSUPPORTED:
        if message.get(kind) is not None:
            return IncomingContent(answer=telegram_texts.unsupported(language, kind))
    if (voice := record_or_none(message, "voice")) is not None:
        if not hears:
            return IncomingContent(
                answer=gettext(
                    language,
                    "I cannot listen to voice messages: there is no GROQ_API_KEY. Please write to me.",
                )
            )
        name = f"voice-{number(message, 'message_id')}.ogg"
        return _taken(_attachment("voice", voice, name), language)
    file = _file(message)
    if file is not None:
        return _taken(file, language)
    return IncomingContent() if message.get("text") is not None else None


def _taken(attachment: Attachment, language: Language) -> IncomingContent:
    if attachment.size_bytes is not None and attachment.size_bytes > MAX_BYTES:
        return IncomingContent(
            answer=gettext(
                language,
                "The file {name} is too large: I can take up to {limit_mb} MB.",
                name=attachment.name,
                limit_mb=f"{MAX_BYTES / 2**20:g}",
            )
        )
    return IncomingContent((attachment,))


def _file(message: Fields) -> Attachment | None:
    """Return the file in the message; None if the message has no file."""
    message_id = number(message, "message_id")
    if photos := records(message, "photo"):
        largest = max(photos, key=_area)
        return _attachment("file", largest, f"photo-{message_id}.jpg", "image/jpeg")
    for field, kind, ending in _FILES:
        if (file := record_or_none(message, field)) is not None:
            guessed = mimetypes.guess_extension(text_or_none(file, "mime_type") or "")
            name = text_or_none(file, "file_name") or f"{kind}-{message_id}{guessed or ending}"
            return _attachment("file", file, name)
    return None


def _area(photo: Fields) -> int:
    return number(photo, "width") * number(photo, "height")


def _attachment(kind: Literal["file", "voice"], file: Fields, name: str, media_type: str = "") -> Attachment:
    reference = text_or_none(file, "file_id")
    if not reference:
        raise OddField("file_id")
    media_type = text_or_none(file, "mime_type") or media_type
    return Attachment(kind, reference, name, media_type, number_or_none(file, "file_size"))


MOST_CHARS: Final = 100
"""Maximum length of an author's name, in characters, because authors choose their names freely."""


ELSEWHERE: Final = "(Nothing of it came along.)"
"""Text that replaces the quote if a message replies to another chat's message without quoting it."""


def made_by(message: Fields) -> str:
    """Return the author of a message's text and file if the author is not the sender; otherwise "".

    A forwarded message always has an author here, even if the sender wrote it, because its text comes from
    another conversation.

    Raises:
        OddField: A field differs from Telegram's documentation.
    """
    if (origin := record_or_none(message, "forward_origin")) is not None:
        return f"forwarded from {_origin(origin)}"
    if (bot := record_or_none(message, "via_bot")) is not None:
        return f"made by {_user(bot)}"
    return ""


def quoted_in(message: Fields) -> tuple[str, str] | None:
    """Return the author of a quote and the quoted text; None if the message has no quote.

    If the message replies to another message, only the quoted part of that message is used.

    Raises:
        OddField: A field differs from Telegram's documentation.
    """
    elsewhere, quote = record_or_none(message, "external_reply"), record_or_none(message, "quote")
    if elsewhere is None and quote is None:
        return None
    text = "" if quote is None else text_or_none(quote, "text") or ""
    if elsewhere is not None:
        origin = record_or_none(elsewhere, "origin") or {}
        return f"a message in another chat, from {_origin(origin)}", text or ELSEWHERE
    answered = record_or_none(message, "reply_to_message") or {}
    return f"quoted from a message {made_by(answered) or f'of {_sender(answered)}'}", text


def _origin(origin: Fields) -> str:
    """Return the author's name from a `MessageOrigin`; a generic name if its kind is unknown."""
    match origin.get("type"):
        case "user":
            return _user(record_or_none(origin, "sender_user") or {})
        case "hidden_user":
            return _name(text_or_none(origin, "sender_user_name"))
        case "chat":
            return _chat(record_or_none(origin, "sender_chat") or {})
        case "channel":
            return _chat(record_or_none(origin, "chat") or {})
        case _:
            return _name(None)


def _sender(message: Fields) -> str:
    chat = record_or_none(message, "sender_chat")
    return _user(record_or_none(message, "from") or {}) if chat is None else _chat(chat)


def name_of(user: Fields) -> str:
    """Return the name that a user has chosen on Telegram, on one line and bounded."""
    return _user(user)


def _user(user: Fields) -> str:
    names = (text_or_none(user, "first_name"), text_or_none(user, "last_name"))
    return _called(" ".join(name for name in names if name), user)


def _chat(chat: Fields) -> str:
    kind = "the channel" if chat.get("type") == "channel" else "the group"
    title = text_or_none(chat, "title")
    return f"{kind} {_called(title, chat)}" if title else _called(text_or_none(chat, "first_name"), chat)


def _called(name: str | None, known: Fields) -> str:
    handle = text_or_none(known, "username")
    return f"{_name(name)} (@{one_line(handle, MOST_CHARS)})" if handle else _name(name)


def _name(name: str | None) -> str:
    return one_line(name or "", MOST_CHARS) or "somebody"


_COMMAND: Final = re.compile(r"/([A-Za-z_][A-Za-z0-9_-]*)(?:@(\w+))?(?=\s|$)")


_OTHER_BOT: Final = re.compile(r"\s*@\w*bot\b", re.IGNORECASE)
"""The name of a bot at the beginning of a text. The names of all bots on Telegram end with `bot`."""

_BEHIND_NAME: Final = " \t,:;"


@dataclass(frozen=True, slots=True)
class MessageText:
    """The text of a message, without mentions of the bot and without the bot's name after a command.

    `addressed` is True if the text mentions the bot or is a command for this bot. `other_bot` is True if the
    text is a command for another bot. `command` is True if the text is a command. `for_others` is True if
    the text is probably for another bot: it begins with that bot's name, or is a command that Rumi does not
    have.
    """

    text: str
    addressed: bool
    other_bot: bool = False
    command: bool = False
    for_others: bool = False


def read_words(message: Fields, me: Me) -> MessageText:
    """Return the text of a message, or the caption of the message's attachment.

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
        return MessageText(text, mentioned, for_others=not mentioned and bool(_OTHER_BOT.match(text)))
    name, target = command[1], command[2]
    if target is None:
        addressed = mentioned or name.lower() in COMMAND_NAMES
        return MessageText(text, addressed, command=True, for_others=not addressed)
    if me.username and target.casefold() == me.username.casefold():
        return MessageText(f"/{name}{text[command.end() :]}", addressed=True, command=True)
    return MessageText(text, mentioned, other_bot=True)


def _without_mentions(text: str, entities: Sequence[Fields], me: Me) -> tuple[str, bool]:
    """Return the text without mentions of the bot, and whether the text had any such mention."""
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
    """Return the byte offsets of a mention's start and end; None if the entity does not mention the bot."""
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
