"""Attachments of a message, and the kinds that Rumi accepts."""

import mimetypes
from dataclasses import dataclass
from typing import Final, Literal

from rumi.channels.telegram.files.download import MAX_BYTES
from rumi.channels.telegram.receiving.fields import (
    Fields,
    OddField,
    number,
    number_or_none,
    record_or_none,
    records,
    text_or_none,
)
from rumi.platform.texts import telegram as telegram_texts
from rumi.platform.texts.language import Language
from rumi.store.journal.records import Attachment


@dataclass(frozen=True, slots=True)
class IncomingContent:
    """The attachments of a message, or an `answer` that explains why Rumi cannot process it."""

    attachments: tuple[Attachment, ...] = ()
    answer: str | None = None


# An animation also comes as a document, for older clients. So unsupported kinds are checked first. The texts
# describe most of these.
_UNSUPPORTED: Final = (
    *("sticker", "animation", "video_note", "story", "poll", "location", "contact", "dice", "game"),
    *("checklist", "paid_media", "giveaway", "invoice"),
)

_FILES: Final = (("document", "file", ""), ("audio", "audio", ".mp3"), ("video", "video", ".mp4"))
"""Fields of a message that hold a file, with the default name and the usual file extension."""


def content_of(message: Fields, language: Language, hears: bool) -> IncomingContent | None:
    """Return the message's attachments; None if it has no content of a person, such as a join or a pin.

    `hears` is True if a transcriber for voice messages is configured.

    Raises:
        OddField: A field differs from Telegram's documentation.
    """
    for kind in _UNSUPPORTED:
        if message.get(kind) is not None:
            return IncomingContent(answer=telegram_texts.unsupported(language, kind))
    if (voice := record_or_none(message, "voice")) is not None:
        if not hears:
            return IncomingContent(answer=telegram_texts.no_transcription(language))
        name = f"voice-{number(message, 'message_id')}.ogg"
        return _taken(_attachment("voice", voice, name), language)
    file = _file(message)
    if file is not None:
        return _taken(file, language)
    return IncomingContent() if message.get("text") is not None else None


def _taken(attachment: Attachment, language: Language) -> IncomingContent:
    if attachment.size_bytes is not None and attachment.size_bytes > MAX_BYTES:
        return IncomingContent(
            answer=telegram_texts.file_too_large(language, attachment.name, MAX_BYTES / 2**20)
        )
    return IncomingContent((attachment,))


def _file(message: Fields) -> Attachment | None:
    """Return the message's file; None if it has none."""
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
