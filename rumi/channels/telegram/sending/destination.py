"""Calls to Telegram for one chat. Each call has a time limit; rate limits are respected."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, TypeVar

import trio
from telegram import Bot, InlineKeyboardMarkup, LinkPreviewOptions, ReplyParameters
from telegram.constants import ChatAction
from telegram.error import BadRequest, ChatMigrated, NetworkError, RetryAfter, TelegramError, TimedOut

from rumi.channels.telegram.address import Moves, TelegramAddress
from rumi.channels.telegram.api.bot import wait_of
from rumi.channels.telegram.api.refusals import RefusalReason, refusal_of
from rumi.channels.telegram.formatting.reply import MessagePart
from rumi.channels.telegram.sending.limits import NOW_SHARE, SendLimits
from rumi.models.speech import format_of
from rumi.platform.file_kinds import HEAD_BYTES, picture_type

T = TypeVar("T")

PHOTO_BYTES = 10 * 1024 * 1024
"""Telegram's size limit for photos, in bytes."""

PHOTOS = ("image/png", "image/jpeg", "image/webp")
"""What goes to Telegram as a photo. As a file, a WebP picture would be a sticker."""

MOMENT_S = 0.05
"""Waits for a rate limit that are shorter than this, in seconds, are not counted."""

NO_LINK_PREVIEW = LinkPreviewOptions(is_disabled=True)
"""Disables link previews, so that a link in a model's text never makes Telegram fetch a page."""


@dataclass(frozen=True, slots=True)
class CallTimeouts:
    """Time limits of calls, in seconds. Telegram may or may not have executed a call that timed out."""

    call_s: float = 20.0
    preview_s: float = 10.0
    typing_s: float = 5.0
    upload_s: float = 120.0


@dataclass(slots=True)
class Statistics:
    """Counters of the sender since the process started.

    `sent` counts sent messages and files. `edited` counts edited messages. `drafts` counts sent drafts.
    `retried` counts failed attempts to send a final reply. `limited` counts how often Telegram asked the bot
    to wait. `undeliverable` counts abandoned replies. `waits` counts final replies that waited for a rate
    limit, and `waited_s` is the sum of their waits in seconds.
    """

    sent: int = 0
    edited: int = 0
    drafts: int = 0
    retried: int = 0
    limited: int = 0
    undeliverable: int = 0
    waits: int = 0
    waited_s: float = 0.0


@dataclass(slots=True)
class SharedDelivery:
    """State that all destinations of a bot share. `moves` maps old group numbers to new ones.

    `serves` returns True for a chat whose replies this process sends. `drafts` becomes False when the Bot API
    server has refused a draft. `formatting` limits the number of threads that format long texts.
    """

    bot: Bot
    limits: SendLimits
    bounds: CallTimeouts = field(default_factory=CallTimeouts)
    statistics: Statistics = field(default_factory=Statistics)
    moves: Moves = field(default_factory=Moves)
    drafts: bool = True
    serves: Callable[[str], bool] = lambda chat: True
    formatting: trio.CapacityLimiter = field(default_factory=lambda: trio.CapacityLimiter(1))


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that the bot sent. Its id is valid only in the chat with the Telegram number `chat`."""

    chat: int
    id: int


class Unserved(NetworkError):
    """Another worker sends to this chat now.

    A subclass of NetworkError, so that the sender tries again later.
    """


class Destination:
    """A Telegram chat, or a topic in a chat. Calls raise `TelegramError`; callers wait for the rate limit.

    When a group's number changes, earlier messages stay in the old group. A call on such a message raises
    `ChatMigrated`, as Telegram does, and new messages do not reply to it.

    An `owned` destination sends only while this process serves the chat, so that each message is sent by one
    worker only. While `silent` returns True, messages come without a sound.
    """

    def __init__(
        self,
        wire: SharedDelivery,
        address: TelegramAddress,
        *,
        owned: bool = False,
        silent: Callable[[], bool] = lambda: False,
    ) -> None:
        self.wire = wire
        self._silent = silent
        self._chat = address.chat if owned else None
        self.group = address.group
        self._number = address.number
        self._topic = address.topic
        self._first = self.number

    @property
    def number(self) -> int:
        """Return the chat's Telegram number, which changes when a group becomes a supergroup."""
        return self.wire.moves.now(self._number)

    def found(self, message: int) -> Sent:
        """Return the message with this id, under the chat number that this object had when created."""
        return Sent(self._first, message)

    def has(self, sent: Sent) -> bool:
        """Return True if the message was sent under the chat's current number."""
        return sent.chat == self.number

    @property
    def closed_until(self) -> float:
        """Return the time before which Telegram accepts no message for the chat, on trio's clock."""
        return self.wire.limits.closed_until(self.number)

    async def turn(self) -> None:
        """Wait until the rate limits allow a message, and count the message.

        If the chat's number changes during the wait, the message counts for the new number.
        """
        number, began = None, trio.current_time()
        try:
            # The group may get another number during the wait; the new number has limits of its own.
            while number != self.number:
                number = self.number
                await self.wire.limits.turn(number)
        finally:
            if (waited_s := trio.current_time() - began) > MOMENT_S:
                self.wire.statistics.waits += 1
                self.wire.statistics.waited_s = round(self.wire.statistics.waited_s + waited_s, 3)
        if not self._served:
            await trio.sleep_forever()  # cancelled when the lease or the hand-over ends

    @property
    def _served(self) -> bool:
        return self._chat is None or self.wire.serves(self._chat)

    def _check_served(self) -> None:
        if not self._served:
            raise Unserved("another worker serves this chat")

    def take(self, share: float = NOW_SHARE) -> bool:
        """If a preview may be sent now without delaying final replies, count it. Return True if counted."""
        return self.wire.limits.take(self.number, share)

    def has_capacity(self, share: float) -> bool:
        """Return True if the rate limits allow an action (such as "typing") now. Nothing is counted."""
        return self.wire.limits.has_capacity(self.number, share)

    def note_error(self, error: TelegramError) -> bool:
        """Record an error's information about the chat. Return True if the request may be repeated at once.

        After `RetryAfter`, the result is also True, because the next call of `turn` waits for as long as
        Telegram asked.
        """
        if isinstance(error, ChatMigrated):
            self.wire.moves.refused(self._number, error.new_chat_id)
            return True
        return isinstance(error, RetryAfter)

    async def send(
        self,
        part: MessagePart,
        reply_to: int | None = None,
        bound_s: float | None = None,
        *,
        keyboard: InlineKeyboardMarkup | None = None,
    ) -> Sent:
        """Send a message."""
        self._check_served()
        seconds = self.wire.bounds.call_s if bound_s is None else bound_s
        if self.number != self._first:
            reply_to = None  # in the new group, this number identifies another message
        quoted = None if reply_to is None else ReplyParameters(reply_to, allow_sending_without_reply=True)

        async def send(topic: int | None) -> Sent:
            number = self.number  # may change before the response arrives
            message = await self.wire.bot.send_message(
                number,
                part.text,
                entities=part.entities or None,
                message_thread_id=topic,
                reply_parameters=quoted,
                disable_notification=self._silent() or None,
                link_preview_options=NO_LINK_PREVIEW,
                reply_markup=keyboard,
                **timeouts(seconds),
            )
            return Sent(number, message.message_id)

        sent = await self._call(seconds, self._in_topic(send))
        self.wire.statistics.sent += 1
        return sent

    async def edit(
        self,
        message: Sent,
        part: MessagePart,
        bound_s: float | None = None,
        *,
        keyboard: InlineKeyboardMarkup | None = None,
    ) -> None:
        """Change a message's text and its buttons. If the text is already the same, this is not an error."""
        self._check_served()
        seconds = self.wire.bounds.call_s if bound_s is None else bound_s
        if not self.has(message):
            raise ChatMigrated(self.number)
        try:
            await self._call(
                seconds,
                self.wire.bot.edit_message_text(
                    part.text,
                    chat_id=message.chat,
                    message_id=message.id,
                    entities=part.entities or None,
                    link_preview_options=NO_LINK_PREVIEW,
                    reply_markup=keyboard,
                    **timeouts(seconds),
                ),
            )
        except TelegramError as error:
            if refusal_of(error) is not RefusalReason.UNCHANGED:
                raise
        self.wire.statistics.edited += 1

    async def disarm(self, message: Sent) -> None:
        """Remove a message's buttons."""
        if not self.has(message):
            raise ChatMigrated(self.number)
        seconds = self.wire.bounds.call_s
        call = self.wire.bot.edit_message_reply_markup(message.chat, message.id, **timeouts(seconds))
        await self._call(seconds, call)
        self.wire.statistics.edited += 1

    async def delete(self, message: Sent) -> None:
        """Delete a message."""
        if not self.has(message):
            raise BadRequest("MESSAGE_ID_INVALID")  # nothing to delete in the new group
        seconds = self.wire.bounds.preview_s
        await self._call(seconds, self.wire.bot.delete_message(message.chat, message.id, **timeouts(seconds)))

    async def draft(self, draft: int, part: MessagePart) -> None:
        """Show a draft. The next message replaces the draft; otherwise it disappears after half a minute."""
        self._check_served()
        seconds = self.wire.bounds.preview_s

        async def send(topic: int | None) -> None:
            await self.wire.bot.send_message_draft(
                self.number,
                draft,
                part.text,
                entities=part.entities or None,
                message_thread_id=topic,
                **timeouts(seconds),
            )

        await self._call(seconds, self._in_topic(send))
        self.wire.statistics.drafts += 1

    async def typing(self) -> None:
        """Show "typing" for about five seconds."""
        self._check_served()
        seconds = self.wire.bounds.typing_s
        await self._call(
            seconds,
            self.wire.bot.send_chat_action(
                self.number, ChatAction.TYPING, message_thread_id=self._topic, **timeouts(seconds)
            ),
        )

    async def upload(self, name: str, content: bytes) -> None:
        """Send a file: as a photo if Telegram accepts it as one, otherwise as a document."""
        self._check_served()
        if is_photo(content):
            try:
                await self._file(self.wire.bot.send_photo, name, content)
            except BadRequest as error:  # unusual proportions, or a broken image
                if refusal_of(error) is not RefusalReason.OTHER:
                    raise
            else:
                return
        await self._file(self.wire.bot.send_document, name, content)

    async def speak(self, name: str, content: bytes) -> None:
        """Send speech: as a voice message, or as a file if Telegram or the recipient takes no voice message.

        Telegram plays Opus, MP3 and M4A as voice messages. Some people refuse voice messages in their
        settings.
        """
        self._check_served()
        if format_of(content) in ("ogg", "mp3", "m4a"):
            try:
                await self._file(self.wire.bot.send_voice, name, content)
            except BadRequest as error:
                if refusal_of(error) is not RefusalReason.OTHER:
                    raise
            else:
                return
        await self.upload(name, content)

    async def _file(self, send: Callable[..., Awaitable[object]], name: str, content: bytes) -> None:
        """Send a file by a method of the bot, without a sound in quiet hours."""
        seconds = self.wire.bounds.upload_s

        async def deliver(topic: int | None) -> None:
            await send(
                self.number,
                BytesIO(content),
                filename=name,
                disable_notification=self._silent() or None,
                message_thread_id=topic,
                **timeouts(seconds),
            )

        await self._call(seconds, self._in_topic(deliver))
        self.wire.statistics.sent += 1

    async def _call(self, seconds: float, call: Awaitable[T]) -> T:
        """Return the call's result. If Telegram asks the bot to wait, block sending to the chat meanwhile."""
        try:
            return await bounded(seconds, call)
        except RetryAfter as error:
            # At once: what handles the error may first wait for the journal, and others send to the chat too.
            self.wire.statistics.limited += 1
            self.wire.limits.pause(self.number, wait_of(error))
            raise

    async def _in_topic(self, send: Callable[[int | None], Awaitable[T]]) -> T:
        """Send into the topic. If the topic no longer exists, send into the chat from now on."""
        topic = self._topic
        try:
            return await send(topic)
        except TelegramError as error:
            if topic is None or refusal_of(error) is not RefusalReason.TOPIC:
                raise
        self._topic = None
        return await send(None)


def is_photo(content: bytes) -> bool:
    """Return True for pictures that Telegram may take as photos."""
    return len(content) <= PHOTO_BYTES and picture_type(content[:HEAD_BYTES]) in PHOTOS


async def bounded(seconds: float, call: Awaitable[T]) -> T:
    """Return the call's result.

    Raises:
        TimedOut: The result did not arrive within `seconds`.
    """
    with trio.move_on_after(seconds):
        return await call
    raise TimedOut


def timeouts(seconds: float) -> dict[str, Any]:
    """Return the library's timeouts for the steps of a call. Each is as long as the whole call's limit."""
    return {"read_timeout": seconds, "write_timeout": seconds, "pool_timeout": seconds}
