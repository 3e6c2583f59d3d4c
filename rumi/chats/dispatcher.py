"""The dispatcher: wakes chats for stored messages, starts their actors, and hands partitions over."""

import logging
from collections.abc import Callable, Collection
from contextlib import suppress

import trio

from actors import ActorError, ActorRef, ActorStopped, ChildSpec, DynamicSupervisor, MailboxFull, Supervisor
from rumi.chats.chat import Chat, ChatMessage, EndTurn, HandOver
from rumi.chats.commands import is_stop
from rumi.chats.recovery import CrashReplies, Failed, LookAt, Open, Recovery
from rumi.chats.services import ChatServices
from rumi.platform.texts.translation import error_text
from rumi.store.journal.inbox import open_messages
from rumi.store.journal.records import Incoming
from rumi.store.ownership import partition_of

logger = logging.getLogger(__name__)

IDLE_CHAT_S = 300.0
"""Seconds until an idle chat without a sandbox is removed from memory; its next message restarts it."""

SHUTDOWN_S = 15.0
"""Maximum wait of a stopping chat for the removal of its sandbox, in seconds.

After that the removal continues in the background.
"""

INTERRUPT_S = 15.0
"""Maximum time that a turn interrupted by a handover may take to end, in seconds."""

HANDED_S = 0.05
"""Interval, in seconds, of checks whether a chat that is being handed over has ended its turn."""

START_PAUSES_S = (0.1, 0.5, 2.0)
"""Pauses between attempts to start a chat, in seconds: a crashed journal may be restarting."""


class Dispatcher:
    """Owns the supervisor of the chats, and the recovery actor, which starts chats with unanswered messages.

    `failed` are the chats that reached their restart limit and stay stopped until a new message arrives.
    `whole_status` returns the status of the process, which chats show to admins. `worker` returns this
    process's name as one of several workers that share a database, or None if this process is the only one.
    """

    def __init__(
        self,
        root: Supervisor,
        services: ChatServices,
        whole_status: Callable[[], str],
        worker: Callable[[], str | None] = lambda: None,
    ) -> None:
        journal, pending, language = services.journal, services.pending, services.context.language
        self._services = services
        self._whole_status = whole_status
        self.failed: dict[str, Failed] = {}
        self._replies = CrashReplies(
            journal,
            services.publisher,
            pending,
            self.failed,
            language,
            services.handlers,
            services.context.people,
            services.context.settings.chat.together_s,
        )
        # Recovery starts before the chats: it reads the last message number of earlier processes, where the
        # cursors of chats begin.
        self._recovery = root.add(
            ChildSpec("recovery", lambda: Recovery(self._replies, self.start, worker), capacity=10_000)
        )
        self.chats = root.add_supervisor(DynamicSupervisor("chats", self._spec, on_limit=self._give_up))

    def wake(self, message: Incoming) -> None:
        """Send a stored message to its chat's mailbox; if the chat is not running, start it.

        Never waits.
        """
        if not self._services.pending.takes(message.chat):  # another worker wakes the chat
            if is_stop(message) and (leaving := self.chats.lookup(message.chat)) is not None:
                with suppress(ActorStopped, MailboxFull):
                    leaving.tell_nowait(message)
            return
        cursor = self._services.pending.cursor(message.chat)
        if message.id <= cursor.judged:  # the chat has read the message from the journal meanwhile
            return
        self._services.pending.add(message.chat, message.id)
        actor = self.chats.lookup(message.chat)
        if actor is not None:
            with suppress(ActorStopped, MailboxFull):
                actor.tell_nowait(message)
                return
        # No actor, or its mailbox is full: the cursor makes the chat read this message from the journal.
        cursor.missed = max(cursor.missed, message.id)
        self.open_soon(message.chat, urgent=is_stop(message))

    def open_soon(self, chat: str, *, urgent: bool = False) -> None:
        """Ask recovery to start the chat if it has a message without a reply. Never waits."""
        if chat in self._services.pending.unreplied:
            self._open(Open(chat, urgent))

    async def reopen(self, chat: str) -> None:
        """Ask recovery to restart a stopped chat if it has a message without a reply.

        The journal is searched for such messages, because it may have crashed right after it committed a
        message. Then no task in this process knows of the message.

        Raises:
            ActorError: the journal has crashed; then all chats restart after it.
        """
        left = await self._services.journal.ask(open_messages(chat, 0))
        if left or chat in self._services.pending.unreplied:
            self._open(Open(chat))

    def _open(self, open: Open) -> None:
        with suppress(ActorStopped, MailboxFull):  # this process ends; the next one starts the chat
            self._recovery.tell_nowait(open)

    # Handover between workers

    async def take_over(self, numbers: frozenset[int]) -> None:
        """Begin to serve the chats of these partitions, and handle their open messages.

        Chats that remain from an unfinished handover are restarted.
        """
        pending = self._services.pending
        # These actors may have `_leaving` set and judge nothing more, so they cannot be used again.
        left = pending.closing & numbers
        for chat in self.chats.keys() if left else ():
            if partition_of(chat) in left:
                await self.chats.stop(chat)
        pending.served |= numbers
        pending.closing -= numbers
        with suppress(ActorStopped):
            self._recovery.tell_nowait(LookAt(numbers))

    async def hand_over(self, numbers: Collection[int], patience_s: float) -> None:
        """Begin no new work for chats in these partitions; return when all these chats have stopped.

        Running turns may continue for `patience_s` seconds; then they are interrupted, and their replies say
        so. If this call is cancelled, the partitions stay `closing` until `take_over`.
        """
        pending = self._services.pending
        # First of all: from here no chat of these partitions starts, so the list below is complete.
        pending.closing.update(numbers)
        chats = [chat for chat in (*self.chats.keys(),) if partition_of(chat) in numbers]
        async with trio.open_nursery() as nursery:
            for chat in chats:
                nursery.start_soon(self._hand_over, chat, patience_s)
        for chat in [*pending.unreplied, *pending.cursors]:
            if partition_of(chat) in numbers:
                pending.forget(chat)
        pending.served.difference_update(numbers)
        pending.closing.difference_update(numbers)

    async def _hand_over(self, chat: str, patience_s: float) -> None:
        actor = self.chats.lookup(chat)
        if actor is not None:
            with suppress(ActorError):
                for seconds in (patience_s, INTERRUPT_S):
                    with trio.move_on_after(seconds):
                        while not await actor.ask(HandOver()):  # noqa: ASYNC110  # a turn has no event for it
                            await trio.sleep(HANDED_S)
                        break
                    await actor.tell(EndTurn("interrupted"))
        await self.chats.stop(chat)
        # The next worker publishes the end of a turn that is left; here it would seem to run for ever.
        self._services.hub.nothing_runs(chat)

    async def start(self, chat: str) -> ActorRef[ChatMessage]:
        """Return the chat's actor. If it is not running, try several times to start it.

        Raises:
            ActorStopped: the supervisor has stopped, because the process is ending.
            Exception: the error of the last attempt.
        """
        for pause in START_PAUSES_S:
            try:
                return await self.chats.get_or_start(chat)
            except ActorStopped:
                raise
            except Exception as error:  # noqa: BLE001  # the last attempt raises what it meets
                logger.warning("chat %s did not start: %r", chat, error)
            await trio.sleep(pause)
        return await self.chats.get_or_start(chat)

    def _spec(self, chat: str) -> ChildSpec[ChatMessage]:
        return ChildSpec(
            chat,
            lambda: Chat(chat, self._services, self._replies, self._whole_status),
            restart="transient",
            shutdown=SHUTDOWN_S,
            idle_s=IDLE_CHAT_S,
        )

    def _give_up(self, chat: str, error: BaseException) -> None:
        """Record that a chat reached its restart limit; start a new actor to reply to its open messages."""
        self.failed[chat] = Failed(self._services.context.now(), error_text("en", error))
        self.open_soon(chat)
