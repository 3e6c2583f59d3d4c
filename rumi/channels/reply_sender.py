"""The base class of senders: sends each chat's stored replies in order. No chat delays another chat."""

import logging
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Final, TypeAlias, TypeVar

import trio
from typing_extensions import override

from actors import Actor, ActorError, ActorRef, Backoff, answers
from rumi.channels.sending import DeliverFile, Flush, LeaveChats, LookFor, TakeChats
from rumi.chats.events import ChatEvent, Replied
from rumi.chats.hub import Hub
from rumi.errors import RumiError
from rumi.store.journal.outbox import undelivered_chats, undelivered_replies
from rumi.store.journal.records import StoredReply
from rumi.store.journal.store import NotOwner
from rumi.store.journal.transaction import JournalMessage
from rumi.store.journal.unreachable import mark_unreachable
from rumi.store.ownership import partition_of

logger = logging.getLogger(__name__)

ReplySenderMessage: TypeAlias = DeliverFile | Flush | LookFor | TakeChats | LeaveChats

M = TypeVar("M", contravariant=True)

LOOK_S: Final = 0.5


class ReplySender(Actor[M]):
    """Sends the stored replies of a channel's chats, in the order of each chat.

    `owns` returns True for chats of the channel, `serves` for those that this process serves. `ended` ends a
    chat whose people cannot be reached any more. `at_once` is the maximum number of sends at the same time.
    After a failure, a chat pauses as `waits` says; each pause is randomly shortened by up to a half.
    """

    concurrency = 64
    SHUTDOWN_S = 10.0

    def __init__(
        self,
        journal: ActorRef[JournalMessage],
        hub: Hub,
        ended: Callable[[str], Awaitable[None]],
        *,
        owns: Callable[[str], bool],
        serves: Callable[[str], bool],
        at_once: int,
        waits: Backoff,
        random: Random | None = None,
    ) -> None:
        self.trouble = ""
        """Why the last send failed; empty if it did not."""
        self._journal = journal
        self._hub = hub
        self._ended = ended
        self._owns = owns
        self._serves = serves
        self._waits = waits
        self._random = random or Random()
        self._free = trio.CapacityLimiter(at_once)
        self._driving: dict[str, trio.CancelScope] = {}
        self._again: set[str] = set()
        self._resting: set[str] = set()
        self._left: set[int] = set()

    @abstractmethod
    async def send_reply(self, chat: str, reply: StoredReply) -> None:
        """Send a reply and record it, or record that it can never be sent.

        Raises:
            RumiError: It was not sent now; it is tried again after a pause.
            ActorError: The journal did not answer.
        """

    async def started(self) -> None:
        """Subscribe to replies, then look for those that earlier processes have stored."""
        await self.start(self._listen)
        await self._look()

    @override
    def activity(self) -> str:
        return f"waits: {self.trouble}" if self._resting else ""

    @property
    def sending(self) -> int:
        """The number of chats that have something to send."""
        return len(self._driving)

    # Which chats have something to send

    async def _listen(self, task_status: trio.TaskStatus[None]) -> None:
        with self._hub.listening() as events:
            task_status.started()
            while True:
                self.happened(await events.receive())

    def happened(self, event: ChatEvent) -> None:
        """Handle an event of a chat; never blocks."""
        if isinstance(event.what, Replied):
            self.look_in((event.chat,))

    async def _look(self, partitions: frozenset[int] | None = None) -> None:
        self.look_in(await self._journal.ask(undelivered_chats(partitions)))

    def sends_to(self, chat: str) -> bool:
        """Return True if this sender sends to the chat now."""
        return self._owns(chat) and self._serves(chat) and partition_of(chat) not in self._left

    def look_in(self, chats: Sequence[str]) -> None:
        """Send what is stored for these chats."""
        for chat in chats:
            if not self.sends_to(chat):
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
                except (RumiError, ActorError) as error:
                    await self.rest(chat, attempt, error)
                    attempt += 1
                    continue
                except Exception as error:
                    logger.exception("replies in %s were not sent", chat)
                    await self.rest(chat, attempt, error)
                    attempt += 1
                    continue
                self.trouble = ""
                attempt = 0
                if chat not in self._again:
                    break
        # No await since the last look: a later reply opens the chat again.
        del self._driving[chat]

    async def rest(self, chat: str, attempt: int, error: Exception) -> None:
        """Pause after a failure to send to a chat."""
        trouble = error.message if isinstance(error, RumiError) else type(error).__name__
        if trouble != self.trouble:
            logger.warning("replies wait: %s", trouble)
        self.trouble = trouble
        self._resting.add(chat)
        try:
            await trio.sleep(self.pause_s(attempt, error))
        finally:
            self._resting.discard(chat)

    def pause_s(self, attempt: int, error: Exception | None) -> float:
        """Return the pause after a failure, in seconds."""
        return self._waits.delay_s(attempt) * self._random.uniform(0.5, 1.0)

    async def _send_all(self, chat: str) -> None:
        """Send the chat's stored replies. They are read again before each: an undo may withdraw one."""
        sent = set[int]()
        while True:
            # A reply to a terminal or to the page: its reader sees it there.
            waiting = [
                reply
                for reply in await self._journal.ask(undelivered_replies(chat))
                if reply.delivery not in sent
                and (reply.origin is not None or reply.task or reply.schedule or reply.trigger)
            ]
            if not waiting:
                return
            async with self._free:
                await self.send_reply(chat, waiting[0])
            sent.add(waiting[0].delivery)

    async def unreachable(self, chat: str, why: str) -> None:
        """Record that nothing reaches the chat's people, and end the chat."""
        logger.warning("nobody can be reached in %s", chat)
        await self._journal.ask(mark_unreachable(chat, why))
        self.start_soon(self._end, chat)

    async def _end(self, chat: str) -> None:
        try:
            await self._ended(chat)
        except Exception:
            logger.exception("%s could not be ended", chat)

    # Requests

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
