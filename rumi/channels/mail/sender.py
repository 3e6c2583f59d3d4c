"""The sender: sends replies as mails, each once. A mail whose outcome is unknown is never sent again."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Final, TypeAlias

import trio
from typing_extensions import override

from actors import Actor, ActorError, ActorRef, Backoff, Refused, answers
from rumi.channels.mail.delivery import MailDelivery, Office
from rumi.channels.sending import DeliverFile, Flush, LeaveChats, LookFor, TakeChats
from rumi.chats.events import Replied
from rumi.chats.hub import Hub
from rumi.errors import RumiError
from rumi.services.mail.errors import MailError
from rumi.store.journal.mails import (
    unknown_mails,
)
from rumi.store.journal.outbox import undelivered_chats, undelivered_replies
from rumi.store.journal.store import NotOwner
from rumi.store.journal.transaction import JournalMessage
from rumi.store.journal.unreachable import mark_unreachable
from rumi.store.ownership import partition_of

logger = logging.getLogger(__name__)

MailSenderMessage: TypeAlias = DeliverFile | Flush | LookFor | TakeChats | LeaveChats

WAITS: Final = Backoff(first_s=5.0, factor=2.0, cap_s=900.0)
"""Pauses after a failure of the mail server, in seconds."""

AT_ONCE: Final = 2
"""Maximum number of mails that are sent at the same time."""

LOOK_S: Final = 0.5


class MailSender(Actor[MailSenderMessage]):
    """Sends the stored replies of the channel's chats, in the order of each chat.

    `owns` returns True for chats of the channel, `serves` for those that this process serves. `ended` ends a
    chat whose person cannot be reached any more.
    """

    concurrency = 64
    SHUTDOWN_S = 10.0

    def __init__(
        self,
        office: Office,
        journal: ActorRef[JournalMessage],
        hub: Hub,
        ended: Callable[[str], Awaitable[None]],
        *,
        owns: Callable[[str], bool],
        serves: Callable[[str], bool],
        random: Random | None = None,
    ) -> None:
        self._office = office
        self._journal = journal
        self._hub = hub
        self._ended = ended
        self._delivery = MailDelivery(office, journal, self._unreachable)
        self._owns = owns
        self._serves = serves
        self._random = random or Random()
        self._free = trio.CapacityLimiter(AT_ONCE)
        self._driving: dict[str, trio.CancelScope] = {}
        self._again: set[str] = set()
        self._resting: set[str] = set()
        self._left: set[int] = set()

    async def started(self) -> None:
        """Subscribe to replies, then look for those that earlier processes have stored."""
        self._office.figures.unknown = len(await self._journal.ask(unknown_mails()))
        await self.start(self._listen)
        await self._look()

    async def receive(self, message: MailSenderMessage) -> None:
        """Handle the message to which no caller waits for an answer."""
        if isinstance(message, LookFor):
            self._look_in(message.chats)

    @override
    def activity(self) -> str:
        return f"waits: {self._office.figures.trouble}" if self._resting else ""

    @override
    def metrics(self) -> Mapping[str, object]:
        figures = self._office.figures
        counts = {"sent": figures.sent, "unknown": figures.unknown, "refused": figures.refused}
        return {**counts, "waiting": len(self._driving), "trouble": figures.trouble or None}

    # Which chats have something to send

    async def _listen(self, task_status: trio.TaskStatus[None]) -> None:
        with self._hub.listening() as events:
            task_status.started()
            while True:
                event = await events.receive()
                if isinstance(event.what, Replied):
                    self._look_in((event.chat,))

    async def _look(self, partitions: frozenset[int] | None = None) -> None:
        self._look_in(await self._journal.ask(undelivered_chats(partitions)))

    def _look_in(self, chats: Sequence[str]) -> None:
        for chat in chats:
            if not self._owns(chat) or not self._serves(chat) or partition_of(chat) in self._left:
                continue
            if chat in self._driving:
                self._again.add(chat)
            else:
                self._driving[chat] = trio.CancelScope()
                self.start_soon(self._drive, chat)

    async def _drive(self, chat: str) -> None:
        """Send a chat's replies until none is left. A failure pauses this chat only."""
        attempt = 0
        with self._driving[chat]:
            while True:
                self._again.discard(chat)
                try:
                    await self._send_all(chat)
                except NotOwner:
                    break  # another worker serves the chat
                except (MailError, ActorError) as error:
                    await self._rest(chat, attempt, error)
                    attempt += 1
                    continue
                except Exception:
                    logger.exception("replies in %s were not sent", chat)
                    await self._rest(chat, attempt, None)
                    attempt += 1
                    continue
                self._office.figures.trouble = ""
                attempt = 0
                if chat not in self._again:
                    break
        # No await since the last look: a later reply opens the chat again.
        del self._driving[chat]

    async def _rest(self, chat: str, attempt: int, error: Exception | None) -> None:
        trouble = error.message if isinstance(error, RumiError) else type(error).__name__
        if trouble != self._office.figures.trouble:
            logger.warning("mails wait: %s", trouble)
        self._office.figures.trouble = trouble
        self._resting.add(chat)
        try:
            await trio.sleep(WAITS.delay_s(attempt) * self._random.uniform(0.5, 1.0))
        finally:
            self._resting.discard(chat)

    async def _send_all(self, chat: str) -> None:
        for reply in await self._journal.ask(undelivered_replies(chat)):
            # A reply to a terminal or to the page: its reader sees it there.
            if reply.origin is None and not (reply.task or reply.schedule or reply.trigger):
                continue
            async with self._free:
                await self._delivery.send_reply(chat, reply)

    async def _unreachable(self, chat: str, why: str) -> None:
        """Record that nothing reaches the chat's person, and end the chat."""
        logger.warning("nobody can be reached in %s", chat)
        await self._journal.ask(mark_unreachable(chat, why))
        self.start_soon(self._end, chat)

    async def _end(self, chat: str) -> None:
        try:
            await self._ended(chat)
        except Exception:
            logger.exception("%s could not be ended", chat)

    # Requests

    @answers(DeliverFile)
    async def send_file(self, file: DeliverFile) -> None:
        """Send a file in a mail of its own."""
        if not self._owns(file.chat):
            raise Refused(RumiError("{chat} is not a chat by mail.", chat=file.chat))
        try:
            async with self._free:
                await self._delivery.send_file(file.chat, file.name, file.content)
        except RumiError as error:
            raise Refused(error) from None

    @answers(TakeChats)
    async def take_chats(self, message: TakeChats) -> None:
        """Send what is stored for the chats in these partitions."""
        self._left -= message.partitions
        await self._look(message.partitions)

    @answers(LeaveChats)
    async def leave_chats(self, message: LeaveChats) -> None:
        """Let sends of these partitions end, then cancel those that wait."""
        self._left |= message.partitions

        def theirs() -> list[str]:
            return [chat for chat in self._driving if partition_of(chat) in message.partitions]

        with trio.move_on_after(message.patience_s):
            while set(theirs()) - self._resting:  # noqa: ASYNC110
                await trio.sleep(LOOK_S)
        for chat in theirs():
            self._driving[chat].cancel()
        while theirs():  # noqa: ASYNC110  # a send in progress ends within the client's bounds
            await trio.sleep(LOOK_S)

    @answers(Flush)
    async def flush(self, message: Flush) -> None:
        """Wait until every reply is sent or cannot be sent now."""
        try:
            await self._look()
        except ActorError:
            logger.warning("the journal did not say what waits")
        while set(self._driving) - self._resting:  # noqa: ASYNC110
            await trio.sleep(LOOK_S / 10)
