"""Messages that were accepted and that no one will reply to any more: after a crash, after a restart."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

import trio

from actors import Actor, ActorStopped
from rumi import texts
from rumi.agent import Reason, TurnFinished
from rumi.chats.commands import ChatCommand, UnknownCommand, asks_first, parse_chat_command
from rumi.chats.conversation import ending
from rumi.chats.events import Replied, turn_of
from rumi.chats.means import Means
from rumi.chats.outside import described, fetched, opening
from rumi.chats.telling import tell_reply
from rumi.journal import ChatRecord, Count, Entry, Load, OpenChats, OpenMessage, Settle, Undelivered
from rumi.texts import Language

logger = logging.getLogger(__name__)

SETTLED_AT_ONCE = 100
"""Chats that are started at the same time because something is open in them."""


async def settle_orphans(means: Means, chat: str, record: ChatRecord) -> tuple[Entry, ...]:
    """Reply to what is open and nobody's, and return what stands in the history in place of the answers.

    To be called in the step in which the record came: what is open in it has not been told by then.
    """
    in_hand = means.in_hand
    for message in record.open:
        if not in_hand.holds(chat, message.id):
            in_hand.expect(chat, message.id)
    entries: tuple[Entry, ...] = ()
    nobodys = [message for message in record.open if not in_hand.holds(chat, message.id)]
    for message in nobodys:
        if not _answers_one_of(nobodys, message):
            answers = tuple(other.id for other in nobodys if _answers_one_of([message], other))
            entries += await _settle(means, chat, record.session, message, answers)
    return entries


def _answers_one_of(messages: Sequence[OpenMessage], answer: OpenMessage) -> bool:
    """Whether a message is the yes or the no to what the turn of one of these had asked."""
    if answer.turn or fetched(answer.enclosures) or texts.yes_or_no(answer.text) is None:
        return False
    return any((message.turn or _asked(message)) and message.id < answer.id for message in messages)


def _asked(message: OpenMessage) -> bool:
    """Whether it is a command that puts a question first: it is told as a turn is."""
    return not message.turn and not fetched(message.enclosures) and asks_first(message.text)


async def _settle(
    means: Means, chat: str, session: int, message: OpenMessage, answers: tuple[int, ...]
) -> tuple[Entry, ...]:
    """Reply to one of them; `answers` are the messages that share its reply."""
    language: Language = "es" if message.language == "es" else "en" if message.language else means.language
    crashed = message.id > means.in_hand.boot
    reason: Reason = "crashed" if crashed else "interrupted"
    command = None if message.turn or fetched(message.enclosures) else parse_chat_command(message.text)
    if command is not None:
        text = _text_for_command(language, command)
        delivery = await means.journal.ask(Settle(chat, (message.id, *answers), text))
        told = (turn_of(message.id), TurnFinished(reason, text)) if _asked(message) else ("", None)
        turn, finished = told
        tell_reply(means, chat, turn, Replied(delivery, (message.id, *answers), text), finished)
        return ()
    said = described(message.text, message.enclosures)
    failed = texts.gave_up if chat in means.failed else texts.crashed
    text = failed(language) if crashed else texts.restarted(language, said)
    turn = message.turn or f"t{message.id}"
    asked = () if message.turn else opening(turn, message.text, message.enclosures)
    entries = (*asked, ending(turn, reason))
    messages = (message.id, *answers)
    delivery = await means.journal.ask(Settle(chat, messages, text, reason, session, entries))
    tell_reply(means, chat, turn, Replied(delivery, messages, text), TurnFinished(reason, text))
    return entries


def _text_for_command(language: Language, command: ChatCommand | UnknownCommand) -> str:
    if command.name == "stop":
        return texts.stopped(language)  # the turn has ended, by the crash if not by this
    name = command.name if isinstance(command, UnknownCommand) else f"/{command.name}"
    return texts.lost_command(language, name)


async def tell_again(means: Means, chat: str) -> None:
    """Tell the replies that were stored just when the chat crashed: whoever waits for them has not heard."""
    numbers = means.in_hand.untold.get(chat, frozenset[int]())
    missed = {number for number in numbers if not means.in_hand.holds(chat, number)}
    if not missed:
        return
    for reply in await means.journal.ask(Undelivered(chat)):
        if missed.isdisjoint(reply.messages):
            continue
        finished = TurnFinished(reply.reason, reply.text) if reply.reason is not None else None
        tell_reply(means, chat, reply.turn, Replied(reply.delivery, reply.messages, reply.text), finished)
    means.in_hand.told(chat, tuple(missed))  # what is not there has reached a person already


@dataclass(frozen=True, slots=True)
class ChatGaveUp:
    """A chat has reached its restart limit: what it had accepted is settled for it."""

    chat: str


@dataclass(frozen=True, slots=True)
class Stray:
    """Messages were stored and are not in their chat's mailbox yet; `bring` puts them there.

    Where it fails, they are nobody's any more, and open like any other.
    """

    chat: str
    bring: Callable[[], Awaitable[None]]


class Settler(Actor[ChatGaveUp | Stray]):
    """Sees to messages whose chat or whose sender is gone. Starts before anything is accepted."""

    concurrency = SETTLED_AT_ONCE

    def __init__(self, means: Means, open_chat: Callable[[str], Awaitable[None]]) -> None:
        self._means = means
        self._open = open_chat

    async def started(self) -> None:
        """Go on numbering where earlier processes ended, and begin to settle what is open."""
        self._means.in_hand.resume((await self._means.journal.ask(Count())).last_message)
        self.start_soon(self._open_all)

    async def receive(self, message: ChatGaveUp | Stray) -> None:
        """Start the chat afresh, which settles what is open in it; bring stray messages to their chat."""
        start = message.bring if isinstance(message, Stray) else partial(self._open, message.chat)
        await self._settle(message.chat, start)

    async def _open_all(self) -> None:
        """Start the chats with open messages, earlier processes' or this one's, and with untold replies.

        A reply may have been written by a journal that said it had failed: then the message is not open any
        more, and what waits for the reply was not told of it.
        """
        at_once = trio.CapacityLimiter(SETTLED_AT_ONCE)

        async def settle(chat: str) -> None:
            async with at_once:
                await self._settle(chat, partial(self._open, chat))

        async with trio.open_nursery() as nursery:
            for chat in dict.fromkeys(
                (*await self._means.journal.ask(OpenChats()), *self._means.in_hand.untold)
            ):
                nursery.start_soon(settle, chat)

    async def _settle(self, chat: str, start: Callable[[], Awaitable[None]]) -> None:
        """Have the chat settle what is open in it, or reply in its place if it does not start."""
        try:
            await start()
        except ActorStopped:
            logger.info("chat %s: the program ends; the next one replies to what is open", chat)
        except Exception as error:  # one chat's trouble must not become the others'
            logger.error("chat %s cannot be started", chat, exc_info=error)
            await settle_orphans(self._means, chat, await self._means.journal.ask(Load(chat, 0)))
