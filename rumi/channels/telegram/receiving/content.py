"""Attachments of a message, and the kinds of attachment that Rumi accepts."""

import mimetypes
import re
from dataclasses import dataclass
from typing import Final, Literal

from rumi.channels.telegram.api.bot import Me
from rumi.channels.telegram.files.download import MAX_BYTES
from rumi.channels.telegram.receiving.entities import read_entities, shown
from rumi.channels.telegram.receiving.kinds import is_service, kind_in, text_of_kind
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
from rumi.store.journal.records import Attachment
from rumi.texts import Language, gettext


@dataclass(frozen=True, slots=True)
class IncomingContent:
    """The attachments of a message, or an `answer` that explains why Rumi cannot process the message.

    `text` are words that the sender made without writing, for example a location.
    """

    attachments: tuple[Attachment, ...] = ()
    answer: str | None = None
    text: str = ""


# An animation also comes as a document, for older clients. So it is looked for first.
_FILES: Final = (
    *(("animation", "animation", ".mp4"), ("video_note", "video-message", ".mp4")),
    *(("document", "file", ""), ("audio", "audio", ".mp3"), ("video", "video", ".mp4")),
)
"""Message fields that contain a file, each with a default name and a default file extension."""


def content_of(message: Fields, language: Language, hears: bool) -> IncomingContent | None:
    """Return the message's attachments; None for a service message, for example about a new member or a pin.

    `hears` is True if a transcriber for voice messages is configured. Content that is unknown or differs from
    Telegram's documentation gets an answer.
    """
    kind = kind_in(message)
    try:
        found = _of_kind(message, kind) if kind else _content_of(message, language, hears)
    except OddField:
        found = None
    if found is None and not kind and is_service(message):
        return None
    return found or IncomingContent(answer=telegram_texts.unsupported(language, kind))


def _of_kind(message: Fields, kind: str) -> IncomingContent | None:
    said = text_of_kind(message, kind)
    given = tuple(Attachment("words", source=source, text=text) for source, text in said.given)
    return IncomingContent(given, text=said.own) if said.text else None


def _content_of(message: Fields, language: Language, hears: bool) -> IncomingContent | None:
    if hears and (note := record_or_none(message, "video_note")) is not None:
        # A round video is how some people send voice messages; its sound is transcribed.
        name = f"video-note-{number(message, 'message_id')}.mp4"
        return _taken(_attachment("voice", note, name, "video/mp4"), language)
    if message.get("voice") is not None and not hears:
        return IncomingContent(
            answer=gettext(
                language,
                "I cannot listen to voice messages: there is no [voice] server, and no GROQ_API_KEY. "
                "Please write to me.",
            )
        )
    file = voice_of(message) or file_of(message)
    if file is not None:
        return _taken(file, language)
    return IncomingContent() if text_or_none(message, "text") is not None else None


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


def voice_of(message: Fields) -> Attachment | None:
    """Return the recording of a voice message; None if the message has none.

    Raises:
        OddField: A field differs from Telegram's documentation.
    """
    voice = record_or_none(message, "voice")
    name = f"voice-{number_or_none(message, 'message_id') or 0}.ogg"
    return None if voice is None else _attachment("voice", voice, name)


def file_of(message: Fields) -> Attachment | None:
    """Return the file in the message; None if the message has no file.

    Raises:
        OddField: A field differs from Telegram's documentation.
    """
    message_id = number_or_none(message, "message_id") or 0
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


_COMMAND: Final = re.compile(r"/([A-Za-z_][A-Za-z0-9_-]*)(?:@(\w+))?(?=\s|$)")

_OTHER_BOT: Final = re.compile(r"\s*@\w*bot\b", re.IGNORECASE)
"""The name of a bot at the beginning of a text. The names of all bots on Telegram end with `bot`."""


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


def text_of(message: Fields) -> str:
    """Return the text or the caption of a message, with the URLs behind its words; empty if it has none."""
    text, entities = _text_in(message)
    return shown(text or "", entities, message.get("link_preview_options"))


def read_words(message: Fields, me: Me) -> MessageText:
    """Return the text of a message, or the caption of the message's attachment; empty if it is odd."""
    raw_text, entities = _text_in(message)
    if raw_text is None:
        return MessageText("", addressed=False)
    text, mentioned = read_entities(raw_text, entities, me, message.get("link_preview_options"))
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


def _text_in(message: Fields) -> tuple[str | None, object]:
    """Return the text, or else the caption, and its entities."""
    for name in ("text", "caption"):
        if isinstance(text := message.get(name), str):
            return text, message.get("entities" if name == "text" else "caption_entities")
    return None, None
