"""What a message refers to: the message that it answers, a quote of it, a message of another chat, a story.

Telegram sends the answered message with the answer, without the messages that it answers itself. Its text and
its file are always data. An odd field costs the part that has it, never the user's message.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from rumi.channels.telegram.api.bot import Me
from rumi.channels.telegram.files.download import MAX_BYTES
from rumi.channels.telegram.receiving.authors import (
    chat_name,
    fields_in,
    made_by,
    origin_name,
    sender_name,
    words_in,
)
from rumi.channels.telegram.receiving.content import file_of, text_of, voice_of
from rumi.channels.telegram.receiving.entities import encoded, part_shown, shown
from rumi.channels.telegram.receiving.kinds import STORY, is_service, kind_in, text_of_kind
from rumi.channels.telegram.receiving.updates import Fields, OddField, flag, number_or_none
from rumi.platform.untrusted_text import one_line
from rumi.store.journal.records import Attachment

logger = logging.getLogger(__name__)

MOST_CHARS: Final = 4000
"""Maximum length of an answered message's text, in characters."""

ELSEWHERE: Final = "(Nothing of it came along.)"
"""Text that replaces the quote if a message replies to another chat's message without quoting it."""

UNREADABLE: Final = "(A message without words.)"
QUOTED: Final = "[…]"
"""Mark in the place of the quoted part, in the rest of a message."""


def references_in(message: Fields, me: Me, hears: bool) -> list[Attachment]:
    """Return what the message refers to, in the order in which a reader needs it.

    `hears` is True if voice messages can be transcribed.
    """
    parts: tuple[Callable[[], Iterable[Attachment]], ...] = (
        lambda: _answered(message, me, hears),
        lambda: _elsewhere(message, hears),
        lambda: _quoted(message),
        lambda: _story(message),
    )
    found = list[Attachment]()
    for part in parts:
        try:
            found += part()
        except OddField as error:
            logger.warning("a part of what a message answers could not be read: %s", error)
    return found


def answered_in(message: Fields) -> Fields | None:
    """Return the message that a message answers; None if it answers none.

    Every message in a topic counts as an answer to the topic's first message, which is no answer.
    """
    replied = fields_in(message, "reply_to_message")
    begins_topic = flag(message, "is_topic_message") and (
        replied.get("message_id") == message.get("message_thread_id")
    )
    if not replied or replied.get("forum_topic_created") is not None or begins_topic:
        return None
    return replied


def _answered(message: Fields, me: Me, hears: bool) -> list[Attachment]:
    """Return the text and the file of the answered message; of the text, what is not quoted."""
    replied = answered_in(message)
    if replied is None or is_service(replied):
        return []
    said, file, note = _content(replied, hears)
    quote = words_in(fields_in(message, "quote"), "text")
    if quote:
        said = _rest(replied, message, said)
    whole = "\n".join(filter(None, (said, note, _chosen(message, replied))))
    if not whole and file is None and not quote:
        # Telegram sends neither date nor content of a message that bots may not see.
        whole = UNREADABLE if replied.get("date") else ""
    base = Attachment(
        "words",
        source=_source(replied, message, me),
        answered=number_or_none(replied, "message_id") or 0,
        sent=float(number_or_none(replied, "date") or 0),
    )
    return _parts(base, whole, file)


def _parts(base: Attachment, text: str, file: Attachment | None) -> list[Attachment]:
    words = replace(base, text=text[:MOST_CHARS], cut=len(text) > MOST_CHARS)
    files = (
        [] if file is None else [replace(file, source=base.source, answered=base.answered, sent=base.sent)]
    )
    return ([words] if text.strip() else []) + files


def _content(message: Fields, hears: bool) -> tuple[str, Attachment | None, str]:
    """Return the text of a message, its file, and a note about a file that is not fetched."""
    said, kind = text_of(message), kind_in(message)
    if kind:
        said = "\n".join(filter(None, (said, text_of_kind(message, kind).text)))
    try:
        voice, file = voice_of(message), None
        file = voice or file_of(message)
    except OddField:
        return said, None, "(A file that could not be read.)"
    if voice is not None and not hears:
        return said, None, "(A voice message, which cannot be transcribed here.)"
    if file is not None and file.size_bytes is not None and file.size_bytes > MAX_BYTES:
        name = one_line(file.name, 100)
        return said, None, f"(The file {name}, which is too large: more than {MAX_BYTES / 2**20:g} MB.)"
    return said, file, ""


def _rest(replied: Fields, message: Fields, said: str) -> str:
    """Return the answered message's text without the quoted part; empty if all of it is quoted."""
    text, entities, place = _place(replied, message)
    if place is None:
        return said
    start, end = place
    before = part_shown(text, entities, 0, start)
    behind = part_shown(text, entities, end, len(encoded(text)) // 2)
    if not any(character.isalnum() for character in before + behind):
        return ""
    if len(before) > MOST_CHARS // 2:
        before = f"…{before[-MOST_CHARS // 2 :]}"
    return f"{before}{QUOTED}{behind}"


def _place(replied: Fields, message: Fields) -> tuple[str, object, tuple[int, int] | None]:
    """Return the answered text, its entities, and the place of the quote in it, in UTF-16 code units."""
    captioned = "text" not in replied
    text = words_in(replied, "caption" if captioned else "text")
    entities = replied.get("caption_entities" if captioned else "entities")
    quote = fields_in(message, "quote")
    part, position = words_in(quote, "text"), quote.get("position")
    if not part or part not in text:
        return text, entities, None
    units, length = encoded(text), len(encoded(part))
    start = 2 * position if type(position) is int and position >= 0 else 0
    if units[start : start + length] != encoded(part):
        start = len(encoded(text.partition(part)[0]))
    return text, entities, (start // 2, (start + length) // 2)


def _quoted(message: Fields) -> list[Attachment]:
    """Return the quoted part of an answered message, with the links that it has there."""
    quote = fields_in(message, "quote")
    if not quote or message.get("external_reply") is not None:
        return []
    replied = fields_in(message, "reply_to_message")
    source = f"quoted from a message {made_by(replied) or f'of {sender_name(replied)}'}"
    return _parts(Attachment("words", source=source), _quote_text(message), None)


def _quote_text(message: Fields) -> str:
    quote = fields_in(message, "quote")
    # Telegram leaves links out of quotes. The answered message has them.
    text, entities, place = _place(fields_in(message, "reply_to_message"), message)
    own = shown(words_in(quote, "text"), quote.get("entities"))
    return own if place is None or own != words_in(quote, "text") else part_shown(text, entities, *place)


def _elsewhere(message: Fields, hears: bool) -> list[Attachment]:
    """Return the message of another chat or topic that a message answers: its quoted part, and its file."""
    elsewhere = fields_in(message, "external_reply")
    if not elsewhere:
        return []
    origin = fields_in(elsewhere, "origin")
    said, file, note = _content(elsewhere, hears)
    quote = _quote_text(message)
    base = Attachment(
        "words",
        source=f"a message in another chat, from {origin_name(origin)}",
        answered=0,
        sent=float(number_or_none(origin, "date") or 0),
    )
    whole = "\n".join(filter(None, (quote, said, note)))
    return _parts(base, whole or ("" if file is not None else ELSEWHERE), file)


def _story(message: Fields) -> list[Attachment]:
    story = fields_in(message, "reply_to_story")
    source = f"a story of {chat_name(fields_in(story, 'chat'))}"
    return [Attachment("words", source=source, text=STORY, answered=0)] if story else []


def _source(replied: Fields, message: Fields, me: Me) -> str:
    if made := made_by(replied):
        return f"a message {made}"
    author = fields_in(replied, "from").get("id")
    if replied.get("sender_chat") is None and type(author) is int:
        if author == me.id:
            return "your message"
        if author == fields_in(message, "from").get("id"):
            return "the user's own message"
    return f"a message of {sender_name(replied)}"


def _chosen(message: Fields, replied: Fields) -> str:
    """Return the task of a checklist or the option of a poll that is answered; empty if none is."""
    for mark, kind, items, key in (
        ("reply_to_checklist_task_id", "checklist", "tasks", "id"),
        ("reply_to_poll_option_id", "poll", "options", "persistent_id"),
    ):
        listed, chosen = fields_in(replied, kind).get(items), message.get(mark)
        for item in listed[:100] if chosen is not None and isinstance(listed, list) else []:
            if isinstance(item, dict) and item.get(key) == chosen:
                return f"(The answer is to: {one_line(words_in(item, 'text'), 200)})"
    return ""
