"""Presses of buttons: reads presses from updates, and asks chats whether a press answers a pending question.

As with messages, people are identified by their Telegram number. A button carries a random id, which is valid
only in its chat. The button of a question counts only if the person who was asked presses it. The button of a
reply represents a command, which becomes a message from the person who pressed the button.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Protocol

import trio

from actors import ActorRef, ActorStopped, MailboxFull
from rumi.channels.telegram.address import TelegramAddress
from rumi.channels.telegram.callback import answer_in
from rumi.channels.telegram.messages import Press, Pressed, Toast
from rumi.channels.telegram.receiving.reading import Here, Read, Stranger, Who
from rumi.channels.telegram.receiving.strangers import Strangers
from rumi.channels.telegram.receiving.updates import (
    OddField,
    RawUpdate,
    flag,
    number,
    number_of,
    record,
    record_or_none,
    text_or_none,
)
from rumi.texts import gettext

logger = logging.getLogger(__name__)

ANSWER_S: Final = 5.0
"""Maximum time for a chat to decide whether an answer counts, in seconds."""

MOST: Final = 256
"""Maximum number of queued presses. Presses above it are dropped, and the person may press again."""


class AnswerJudge(Protocol):
    """Decides whether an answer counts; implemented by `rumi.chats.Inbox`."""

    async def answer(self, chat: str, id: str, yes: bool, user: int | None = None) -> bool:
        """Return True if the answer counts: a question with this id is pending for that user."""
        ...


def read_presses(
    updates: Sequence[RawUpdate], who: Who, here: Here = lambda address: address
) -> dict[int, Press]:
    """Return the presses among the updates, by update number.

    An unreadable update is skipped, and logged without its content.
    """
    found: dict[int, Press] = {}
    for update in updates:
        try:
            press = read_press(update, who, here)
        except OddField as error:
            logger.warning("update %d could not be read: %s", number_of(update), error)
        else:
            if press is not None:
                found.setdefault(press.update, press)
    return found


def read_press(update: RawUpdate, who: Who, here: Here = lambda address: address) -> Press | None:
    """Return the press of a question's button; None if the update is something else.

    Raises:
        OddField: A field differs from Telegram's documentation.
    """
    query = record_or_none(update, "callback_query")
    message = None if query is None else record_or_none(query, "message")
    answer = None if query is None else answer_in(text_or_none(query, "data") or "")
    if query is None or message is None or answer is None:
        return None
    sender, chat = record(query, "from"), record(message, "chat")
    name, user = text_or_none(query, "id"), number(sender, "id")
    if not name or flag(sender, "is_bot"):
        return None
    if chat.get("type") not in ("private", "group", "supergroup"):
        return None
    topic = number(message, "message_thread_id") if flag(message, "is_topic_message") else None
    question, yes = answer
    return Press(
        update=number_of(update),
        query=name,
        user=user,
        known=who.may_talk(user),
        chat=here(TelegramAddress(number(chat, "id"), topic)).chat,
        number=number(chat, "id"),
        message=number(message, "message_id"),
        question=question,
        yes=yes,
        language=who.language_of(text_or_none(sender, "language_code")),
    )


class Presses:
    """Asks chats whether presses answer their questions, and makes the sender show the results.

    The presses of one chat are handled in order and independently of other chats. The object outlives
    restarts of the receiver.
    """

    def __init__(self, inbox: AnswerJudge, sender: ActorRef[Pressed | Toast], strangers: Strangers) -> None:
        self._inbox = inbox
        self._sender = sender
        self._strangers = strangers
        self._lines: dict[str, deque[Press]] = {}

    def react(self, update: RawUpdate, one: Read, who: Who) -> bool:
        """If the update is a press of a reply's button, acknowledge the press; otherwise return False."""
        query = record_or_none(update, "callback_query")
        if query is None:
            return False
        name = text_or_none(query, "id") or ""
        if isinstance(one, Stranger):
            self._strangers.pressed(one.user, name, one.language)
            return True
        try:
            self._sender.tell_nowait(Toast(name, gettext(one.language or who.default, "Received.")))
        except (MailboxFull, ActorStopped):
            logger.info("nothing was said to a press: the sender has no room")
        return True

    def take(self, press: Press, start: Callable[[Callable[[], Awaitable[None]]], object]) -> None:
        """Handle a press. Does not block: the slow part runs in a task that `start` starts."""
        if not press.known:
            self._strangers.pressed(press.user, press.query, press.language)
            return
        if sum(map(len, self._lines.values())) >= MOST:
            logger.warning("a press was passed over: too many wait")
            return
        line = self._lines.get(press.chat)
        if line is not None:
            line.append(press)
            return
        self._lines[press.chat] = deque([press])
        start(partial(self._serve, press.chat))

    async def _serve(self, chat: str) -> None:
        """Handle the queued presses of a chat."""
        line = self._lines[chat]
        try:
            while line:
                await self._judge(line.popleft())
        finally:
            # No await since the queue was found empty, so no press can be appended to a deleted queue.
            del self._lines[chat]

    async def _judge(self, press: Press) -> None:
        counts = False
        with trio.move_on_after(ANSWER_S):
            counts = await self._inbox.answer(press.chat, press.question, press.yes, press.user)
        try:
            self._sender.tell_nowait(Pressed(press, counts))
        except (MailboxFull, ActorStopped):
            logger.info("nothing was said to a press: the sender has no room")
