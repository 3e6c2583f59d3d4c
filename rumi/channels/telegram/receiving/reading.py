"""Interpretation of updates: each is a message for a chat, a message from a stranger, or to be ignored.

Every function here is a pure function of the update. People are identified by their Telegram number, never by
name, because people choose their names freely.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from rumi.channels.telegram.address import Moves, TelegramAddress
from rumi.channels.telegram.api.bot import Me
from rumi.channels.telegram.callback import button_in
from rumi.channels.telegram.receiving.authors import (
    chat_speaking_in,
    fields_in,
    made_by,
    person_in,
    user_name,
)
from rumi.channels.telegram.receiving.comments import Comments, Handed
from rumi.channels.telegram.receiving.content import MessageText, content_of, read_words, text_of
from rumi.channels.telegram.receiving.kinds import location_of
from rumi.channels.telegram.receiving.references import answered_in, references_in
from rumi.channels.telegram.receiving.updates import (
    Fields,
    OddField,
    RawUpdate,
    flag,
    number,
    number_of,
    record,
    record_or_none,
    text_or_none,
    update_of,
)
from rumi.platform.config.groups import Groups
from rumi.platform.texts import questions as question_texts
from rumi.platform.texts import replies as reply_texts
from rumi.platform.texts import telegram as telegram_texts
from rumi.platform.texts.language import LanguageSetting, known_language
from rumi.store.journal.records import (
    CUT_FROM_UNITS,
    Attachment,
    Incoming,
    joined,
    text_units,
    texts_joined,
)
from rumi.texts import Language

logger = logging.getLogger(__name__)

Here: TypeAlias = Callable[[TelegramAddress], TelegramAddress]
"""Maps an address on Telegram to the address of the chat that handles its messages."""

_GROUPS: Final = ("group", "supergroup")


@dataclass(frozen=True, slots=True)
class Who:
    """Users who may talk to the bot, the languages of the bot's answers, and the settings of groups.

    Admins may talk even if they are not in `allowed`. `language` is the configured language. If it is "auto"
    and Telegram does not report a user's language, `default` is used.
    """

    allowed: frozenset[int]
    admins: frozenset[int] = frozenset()
    language: LanguageSetting = "auto"
    default: Language = "en"
    groups: Groups = field(default_factory=Groups)

    def may_talk(self, user: int) -> bool:
        """Return True if this user is allowed to talk to the bot."""
        return user in self.allowed or user in self.admins

    def language_of(self, code: str | None) -> Language:
        """Return the language for a user whose Telegram client uses `code` (an IETF tag such as es-419)."""
        if self.language != "auto":
            return self.language
        if not code:
            return self.default
        return known_language(code) or "en"


@dataclass(frozen=True, slots=True)
class Stranger:
    """A message from a user without permission. The message's content is not stored.

    `origin` is the message to which the bot's notice replies; None in a private chat, where no reference is
    needed. `anonymous` is True if the message was sent in the name of a group or a channel; `user` is then
    the number of that chat.
    """

    update: int
    user: int
    chat: str
    language: Language
    origin: int | None = None
    anonymous: bool = False


Read: TypeAlias = Incoming | Stranger


@dataclass(frozen=True, slots=True)
class _TelegramMessage:
    """A message from a person. `addressed` is True if the message is meant for the bot.

    Messages with the same `album` belong to one album. `comments` is True if the message may comment on a
    forwarded message or a file that follows it, `asks` if it may ask about one that came before it, `handed`
    if it is such a message; see `Comments`. `anonymous`
    is True if the message was sent in the name of a group or a channel. `corrects` is True for the new
    version of an edited message.
    """

    update: int
    message: int
    user: int
    address: TelegramAddress
    private: bool
    language: Language
    text: str
    addressed: bool
    attachments: tuple[Attachment, ...]
    answer: str | None
    album: str | None
    button: str
    sent: float
    place: tuple[float, float] | None
    comments: bool
    asks: bool
    handed: bool
    author: str
    anonymous: bool = False
    corrects: bool = False


def read_batch(
    updates: Sequence[RawUpdate],
    me: Me,
    who: Who,
    moves: Moves,
    *,
    hears: bool,
    apart: bool = False,
    comments: Comments | None = None,
) -> list[Read]:
    """Return the interpretation of each update, in order.

    An update to be ignored becomes an `Incoming` with only its number. `moves` maps an address on Telegram to
    a chat; `hears` is passed to `content_of`. A message from a group's old number gets the origin 0, because
    its message number is valid only in the old group.

    The messages of an album become one message, at the index of the album's last message. So if an album is
    received again with one more message, it counts as new and is not dropped with the known updates. An
    unreadable update is ignored, and logged without its content. An update that occurs twice counts once.
    `apart` is True if the messages of an album arrive one by one; each is then read as a part of the album.
    `comments` remembers who has addressed the bot in earlier batches.
    """
    comments = Comments() if comments is None else comments
    once: dict[int, RawUpdate] = {}
    for update in updates:
        once.setdefault(number_of(update), update)
    incoming = [
        None if received is None else _with_comment(received, who, comments)
        for received in (_read_raw(update, me, who, moves, hears) for update in once.values())
    ]
    albums: dict[tuple[object, ...], list[_TelegramMessage]] = {}
    for received in incoming:
        if received is not None:
            albums.setdefault(_album_key(received), []).append(received)
    read: list[Read] = []
    for update_id, received in zip(once, incoming, strict=True):
        found: Read | None = None
        if received is not None and (album := albums[_album_key(received)])[-1] is received:
            found = _judge(album, who, apart=apart)
        read.append(found or Incoming(update_of(update_id, moves.bot)))
    return read


def _read_raw(update: RawUpdate, me: Me, who: Who, moves: Moves, hears: bool) -> _TelegramMessage | None:
    try:
        return _message_in(update, me, who, moves, hears)
    except OddField as error:  # counts as read; otherwise Telegram would deliver it forever
        logger.warning("update %d could not be read: %s", number_of(update), error)
        return None


def _with_comment(received: _TelegramMessage, who: Who, comments: Comments) -> _TelegramMessage:
    """Return the message as addressed to the bot if its sender has just commented on it for the bot.

    What its sender has handed to the group just before a message to the bot is added to that message.
    """
    if received.private or received.corrects or not who.may_talk(received.user):
        return received
    place, sent = (received.address.chat, received.user), int(received.sent)
    cut = text_units(received.text) >= CUT_FROM_UNITS
    if received.addressed:
        comments.note(place, sent, comments=received.comments, cut=cut)
        if received.asks:
            return _with_earlier(received, comments.before(place, sent, received.update))
    elif comments.belongs(place, sent, received.update, handed=received.handed, cut=cut):
        return replace(received, addressed=True)
    elif received.handed or cut:
        comments.keep(place, Handed(received.update, sent, received.text, _material_of(received)))
    else:
        comments.keep(place, None)
    return received


def _with_earlier(received: _TelegramMessage, earlier: Sequence[Handed]) -> _TelegramMessage:
    """Return a message to the bot with what its sender has handed over before it, in order."""
    if not earlier:
        return received
    texts = [*(handed.text for handed in earlier), received.text]
    attachments = [*(one for handed in earlier for one in handed.attachments), *received.attachments]
    return replace(
        received,
        text=texts_joined([text for text in texts if text.strip()]),
        attachments=tuple(dict.fromkeys(attachments)),
    )


def _material_of(received: _TelegramMessage) -> tuple[Attachment, ...]:
    """Return the attachments of a message; for one that cannot be taken, the sentence that says why."""
    if received.answer is None:
        return received.attachments
    return (*received.attachments, *_words("what the user sent before", received.answer))


def _album_key(received: _TelegramMessage) -> tuple[object, ...]:
    """Return a key that is equal for messages of the same album and for no others."""
    return (received.address, received.user, received.album) if received.album else (received.update,)


def _message_in(update: RawUpdate, me: Me, who: Who, moves: Moves, hears: bool) -> _TelegramMessage | None:
    """Return a message, an edited one, or a press of a reply's button; None if the update contains none."""
    query = record_or_none(update, "callback_query")
    button = "" if query is None else button_in(text_or_none(query, "data") or "")
    edited = record_or_none(update, "edited_message") if query is None else None
    message = edited or (record_or_none(update, "message") if query is None else _pressed(query, button))
    person = None if message is None else person_in(message)
    sender = None if message is None else person or chat_speaking_in(message)
    if message is None or sender is None or (edited is not None and edited.get("location") is not None):
        return None  # a live location is edited at each step
    chat = record(message, "chat")
    private = chat.get("type") == "private"
    # Direct messages of a channel are private conversations of many people in what looks like one group.
    if not private and (chat.get("type") not in _GROUPS or flag(chat, "is_direct_messages")):
        return None
    language = who.language_of(text_or_none(sender, "language_code"))
    content = content_of(message, language, hears)
    if content is None or (edited is not None and content.answer is not None):
        return None
    words = read_words(message, me)
    maker = made_by(message)
    attachments = [
        replace(attachment, source=maker or attachment.source) for attachment in content.attachments
    ]
    if maker:  # forwarded text is untrusted: it is no command, mention or answer of the sender
        attachments[:0] = [*_words(maker, text_of(message)), *_words(maker, content.text)]
        words = MessageText("", addressed=False)
    elif content.text:
        words = replace(words, text="\n".join(filter(None, (content.text, words.text))))
    if not private and words.other_bot:
        return None
    attachments[:0] = references_in(message, me, hears)
    if edited is not None and not words.text.strip() and not attachments:
        return None
    topic = number(message, "message_thread_id") if flag(message, "is_topic_message") else None
    there = TelegramAddress(number(chat, "id"), topic)
    listen = who.groups.of(*moves.names_of(there)).listen
    addressed = private or words.addressed or bool(button)
    if listen != "mention":
        addressed = addressed or _answers_bot(message, me)
    if listen == "all" and who.may_talk(number(sender, "id")):
        addressed = addressed or not (words.for_others or _answers_other_bot(message, me))
    album = text_or_none(message, "media_group_id")
    return _TelegramMessage(
        update=number_of(update),
        message=number(message, "message_id") if moves.now(there.number) == there.number else 0,
        user=number(sender, "id"),
        address=moves.here(there),
        private=private,
        language=language,
        text=words.text,
        addressed=addressed,
        attachments=tuple(attachments),
        answer=content.answer,
        album=album if edited is None else None,
        button=button,
        comments=not (words.command or button or album),
        asks=not (words.command or button) and question_texts.yes_or_no(words.text) is None,
        handed=message.get("forward_origin") is not None
        or bool(content.attachments or content.text or content.answer),
        author=user_name(sender),
        anonymous=person is None,
        corrects=edited is not None,
        sent=_sent_at(message),
        place=_place_of(message) if private and not maker else None,
    )


def _sent_at(message: Fields) -> float:
    """Return when a message was sent, in seconds since 1970; 0 if the field is missing or odd."""
    date = message.get("date")
    return float(date) if type(date) is int and 0 < date < 2**53 else 0.0


def _place_of(message: Fields) -> tuple[float, float] | None:
    """Return where the sender of a location is; None for any other message. A venue is not where they are."""
    return None if message.get("venue") is not None else location_of(message)


def _pressed(query: Fields, button: str) -> Fields | None:
    """Return a press as a message whose text is the button's id. The journal maps the id to a command."""
    below = record_or_none(query, "message")
    if below is None or not button:
        return None
    kept_fields = ("message_id", "chat", "message_thread_id", "is_topic_message")
    return {name: below[name] for name in kept_fields if name in below} | {
        "from": query.get("from"),
        "text": button,
    }


def _words(source: str, text: str) -> list[Attachment]:
    return [Attachment("words", source=source, text=text)] if text.strip() else []


def _answers_bot(message: Fields, me: Me) -> bool:
    """Return True if the message replies to a message of the bot."""
    replied = answered_in(message)
    return replied is not None and fields_in(replied, "from").get("id") == me.id


def _answers_other_bot(message: Fields, me: Me) -> bool:
    """Return True if the message replies to a message of another bot."""
    author = fields_in(answered_in(message) or {}, "from")
    return flag(author, "is_bot") and author.get("id") != me.id


def _judge(received: Sequence[_TelegramMessage], who: Who, *, apart: bool) -> Read | None:
    """Return the interpretation of a message, an album, or, if `apart` is True, one part of an album."""
    last = received[-1]
    addressed, part = (
        any(part_of_album.addressed for part_of_album in received),
        apart and last.album is not None,
    )
    # A part of an album may be unaddressed: only its caption mentions the bot, in another part.
    if not addressed and not (part and who.may_talk(last.user)):
        return None
    message = joined([_as_incoming(part_of_album, who) for part_of_album in received])
    if last.anonymous:
        chat = last.address.chat
        return (
            None
            if last.corrects
            else Stranger(last.update, last.user, chat, last.language, message.origin or None, anonymous=True)
        )
    if last.corrects and not who.may_talk(last.user):
        return None
    if not who.may_talk(last.user):
        origin = None if last.private else message.origin or None
        return Stranger(last.update, last.user, last.address.chat, last.language, origin)
    return replace(message, album=f"{last.user}/{last.album}") if part else message


def _as_incoming(received: _TelegramMessage, who: Who) -> Incoming:
    answer, text = received.answer, received.text
    if answer is None and not received.attachments and not text.strip():
        answer = reply_texts.greeting(received.language)  # the message only mentions the bot
    if received.button:
        # Used only if the journal no longer knows the button's command.
        answer, text = telegram_texts.question_closed(received.language), ""
    return Incoming(
        update=update_of(received.update, received.address.bot),
        chat=received.address.chat,
        text=text,
        language=received.language,
        admin=received.private and received.user in who.admins,
        origin=received.message,
        attachments=received.attachments,
        answer=answer,
        user=received.user,
        button=received.button,
        addressed=received.addressed,
        author="" if received.private else received.author,
        corrects=received.corrects,
        sent=received.sent,
        place=received.place,
    )
