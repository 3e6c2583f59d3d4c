"""One chat on Telegram, as the sender writes to it: every call bounded in time, and at its rate."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, TypeVar

import trio
from telegram import Bot, InlineKeyboardMarkup, LinkPreviewOptions, ReplyParameters
from telegram.constants import ChatAction
from telegram.error import BadRequest, ChatMigrated, RetryAfter, TelegramError, TimedOut

from rumi.telegram.address import Address
from rumi.telegram.api.bot import wait_of
from rumi.telegram.api.refusals import Refusal, refusal_of
from rumi.telegram.formatting import Part
from rumi.telegram.moves import Moves
from rumi.telegram.sending.limits import NOW_SHARE, Limits

T = TypeVar("T")

NO_LINK_PREVIEW = LinkPreviewOptions(is_disabled=True)
"""What a link leads to must not be fetched because a model wrote it."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long a call may take in all, in seconds. What is not answered by then may have been done or not."""

    call_s: float = 20.0
    preview_s: float = 10.0
    typing_s: float = 5.0
    upload_s: float = 120.0


@dataclass(slots=True)
class Statistics:
    """What the sender has done since the process began.

    `sent` counts messages and files, `edited` edits, `drafts` drafts, `retried` attempts at a final reply
    that did not succeed, `limited` how often Telegram asked for patience, `undeliverable` replies given up.
    """

    sent: int = 0
    edited: int = 0
    drafts: int = 0
    retried: int = 0
    limited: int = 0
    undeliverable: int = 0


@dataclass(slots=True)
class Wire:
    """What all destinations share. `moves` are the groups that got another number.

    `drafts` says whether the server offers drafts; that is known when it has refused one. `formatting`
    is the room for threads that format long texts.
    """

    bot: Bot
    limits: Limits
    bounds: Bounds = field(default_factory=Bounds)
    statistics: Statistics = field(default_factory=Statistics)
    moves: Moves = field(default_factory=Moves)
    drafts: bool = True
    formatting: trio.CapacityLimiter = field(default_factory=lambda: trio.CapacityLimiter(1))


@dataclass(frozen=True, slots=True)
class Sent:
    """A message of the bot's: its number, which counts only in the chat of that number."""

    chat: int
    id: int


class Destination:
    """A chat, or a topic of one. Each call raises `TelegramError`; waiting for the rate is the caller's.

    When a group gets another number, messages that were sent before stay where they are: to touch one raises
    `ChatMigrated`, as Telegram does, and nothing is sent as an answer to one.
    """

    def __init__(self, wire: Wire, address: Address) -> None:
        self.wire = wire
        self.group = address.group
        self._number = address.number
        self._topic = address.topic
        self._first = self.number

    @property
    def number(self) -> int:
        """Telegram's number of the chat, which changes when a group becomes a supergroup."""
        return self.wire.moves.now(self._number)

    def found(self, message: int) -> Sent:
        """A message that stood here when this was made."""
        return Sent(self._first, message)

    def has(self, sent: Sent) -> bool:
        """Whether the message stands in the group that there is now."""
        return sent.chat == self.number

    @property
    def closed_until(self) -> float:
        """Until when Telegram takes nothing for the chat, on trio's clock."""
        return self.wire.limits.closed_until(self.number)

    async def turn(self) -> None:
        """Wait until a message may go, which counts for the number that the chat has by then."""
        number = None
        while number != self.number:
            number = self.number
            await self.wire.limits.turn(number)

    def take(self, share: float = NOW_SHARE) -> bool:
        """Whether something less important may go now; then it is counted."""
        return self.wire.limits.take(self.number, share)

    def room(self, share: float) -> bool:
        """Whether something may go now that is no message and is not counted."""
        return self.wire.limits.room(self.number, share)

    def learn(self, error: TelegramError) -> bool:
        """Take from an error what it says of the chat; whether the same request may be made again at once.

        After a `RetryAfter` it may as well: its turn then comes when the wait is over.
        """
        if isinstance(error, ChatMigrated):
            self.wire.moves.refused(self._number, error.new_chat_id)
            return True
        if isinstance(error, RetryAfter):
            self.wire.statistics.limited += 1
            self.wire.limits.pause(self.number, wait_of(error))
            return True
        return False

    async def send(
        self,
        part: Part,
        reply_to: int | None = None,
        bound_s: float | None = None,
        *,
        keyboard: InlineKeyboardMarkup | None = None,
    ) -> Sent:
        """Send a message."""
        seconds = self.wire.bounds.call_s if bound_s is None else bound_s
        if self.number != self._first:
            reply_to = None  # in the new group that number is another message's
        quoted = None if reply_to is None else ReplyParameters(reply_to, allow_sending_without_reply=True)

        async def send(topic: int | None) -> Sent:
            number = self.number  # the answer may come when it is another one
            message = await self.wire.bot.send_message(
                number,
                part.text,
                entities=part.entities or None,
                message_thread_id=topic,
                reply_parameters=quoted,
                link_preview_options=NO_LINK_PREVIEW,
                reply_markup=keyboard,
                **timeouts(seconds),
            )
            return Sent(number, message.message_id)

        sent = await bounded(seconds, self._in_topic(send))
        self.wire.statistics.sent += 1
        return sent

    async def edit(self, message: Sent, part: Part, bound_s: float | None = None) -> None:
        """Let a message say something else, without buttons. That it says so already is no error."""
        seconds = self.wire.bounds.call_s if bound_s is None else bound_s
        if not self.has(message):
            raise ChatMigrated(self.number)
        try:
            await bounded(
                seconds,
                self.wire.bot.edit_message_text(
                    part.text,
                    chat_id=message.chat,
                    message_id=message.id,
                    entities=part.entities or None,
                    link_preview_options=NO_LINK_PREVIEW,
                    **timeouts(seconds),
                ),
            )
        except TelegramError as error:
            if refusal_of(error) is not Refusal.UNCHANGED:
                raise
        self.wire.statistics.edited += 1

    async def disarm(self, message: Sent) -> None:
        """Take a message's buttons away."""
        if not self.has(message):
            raise ChatMigrated(self.number)
        seconds = self.wire.bounds.call_s
        call = self.wire.bot.edit_message_reply_markup(message.chat, message.id, **timeouts(seconds))
        await bounded(seconds, call)
        self.wire.statistics.edited += 1

    async def delete(self, message: Sent) -> None:
        """Take a message away."""
        if not self.has(message):
            raise BadRequest("MESSAGE_ID_INVALID")  # nothing is there to be taken away
        seconds = self.wire.bounds.preview_s
        await bounded(seconds, self.wire.bot.delete_message(message.chat, message.id, **timeouts(seconds)))

    async def draft(self, draft: int, part: Part) -> None:
        """Show a text that the next message replaces, or that goes by itself after half a minute."""
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

        await bounded(seconds, self._in_topic(send))
        self.wire.statistics.drafts += 1

    async def typing(self) -> None:
        """Show that somebody is writing, for about five seconds."""
        seconds = self.wire.bounds.typing_s
        await bounded(
            seconds,
            self.wire.bot.send_chat_action(
                self.number, ChatAction.TYPING, message_thread_id=self._topic, **timeouts(seconds)
            ),
        )

    async def upload(self, name: str, content: bytes) -> None:
        """Send a file."""
        seconds = self.wire.bounds.upload_s

        async def send(topic: int | None) -> None:
            await self.wire.bot.send_document(
                self.number,
                BytesIO(content),
                filename=name,
                message_thread_id=topic,
                **timeouts(seconds),
            )

        await bounded(seconds, self._in_topic(send))
        self.wire.statistics.sent += 1

    async def _in_topic(self, send: Callable[[int | None], Awaitable[T]]) -> T:
        """Send into the topic; into the chat where it has gone."""
        topic = self._topic
        try:
            return await send(topic)
        except TelegramError as error:
            if topic is None or refusal_of(error) is not Refusal.TOPIC:
                raise
        self._topic = None
        return await send(None)


async def bounded(seconds: float, call: Awaitable[T]) -> T:
    """The call's answer, or `TimedOut` when it has not come in time."""
    with trio.move_on_after(seconds):
        return await call
    raise TimedOut


def timeouts(seconds: float) -> dict[str, Any]:
    """The library's own limits, which are for single steps: none of them is to be shorter than the whole."""
    return {"read_timeout": seconds, "write_timeout": seconds, "pool_timeout": seconds}
