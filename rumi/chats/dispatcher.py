"""How chats learn that messages wait for them in the journal, and how they are started for that."""

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
from rumi.store.journal.inbox import OpenMessages
from rumi.store.journal.records import Incoming
from rumi.store.ownership import partition_of

logger = logging.getLogger(__name__)

IDLE_CHAT_S = 300.0
"""A chat with neither work nor sandbox leaves memory after this time; its next message brings it back."""

SHUTDOWN_S = 15.0
"""How long a chat waits at its end for the removal of its sandbox, which otherwise goes on behind."""

INTERRUPT_S = 15.0
"""How long a turn that is interrupted at a hand-over may take to end."""

HANDED_S = 0.05
"""How often it is looked whether a chat that is handed over has ended its turn."""

START_PAUSES_S = (0.1, 0.5, 2.0)
"""Between attempts to start a chat: the journal may be about to come back."""


class Dispatcher:
    """Has the chats, and above them in the tree the recovery that starts those that are away.

    `failed` are the chats that were stopped at their restart limit, until their next message starts them
    afresh. The `whole_status` is that of the process, which a chat has for an admin.
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
        )
        self._recovery = root.add(
            ChildSpec("recovery", lambda: Recovery(self._replies, self.start, worker), capacity=10_000)
        )
        self.chats = root.add_supervisor(DynamicSupervisor("chats", self._spec, on_limit=self._give_up))

    def wake(self, message: Incoming) -> None:
        """Give a stored message to its chat now, or have the chat read it."""
        if not self._services.pending.takes(message.chat):  # its worker wakes it
            if is_stop(message) and (leaving := self.chats.lookup(message.chat)) is not None:
                with suppress(ActorStopped, MailboxFull):
                    leaving.tell_nowait(message)
            return
        cursor = self._services.pending.cursor(message.chat)
        if message.id <= cursor.judged:  # the chat has read it in the meantime
            return
        self._services.pending.add(message.chat, message.id)
        actor = self.chats.lookup(message.chat)
        if actor is not None:
            with suppress(ActorStopped, MailboxFull):
                actor.tell_nowait(message)
                return
        cursor.missed = max(cursor.missed, message.id)
        self.open_soon(message.chat, urgent=is_stop(message))

    def open_soon(self, chat: str, *, urgent: bool = False) -> None:
        """Have the chat started where something in it has no reply. Never waits."""
        if chat in self._services.pending.unreplied:
            self._open(Open(chat, urgent))

    async def reopen(self, chat: str) -> None:
        """Have a chat that was stopped started again where something in it has no reply.

        That may be a message of which no task was told, because the journal crashed with its commit on the
        disk: the chat may have read it, and have been stopped before it judged it.

        Raises:
            ActorError: the journal has crashed; then all chats start again behind it.
        """
        left = await self._services.journal.ask(OpenMessages(chat, 0))
        if left or chat in self._services.pending.unreplied:
            self._open(Open(chat))

    def _open(self, open: Open) -> None:
        with suppress(ActorStopped, MailboxFull):  # at the end of the program: the next one starts it
            self._recovery.tell_nowait(open)

    # Among other workers

    async def take_over(self, numbers: frozenset[int]) -> None:
        """Serve the chats of these partitions, and go on with what is open in them.

        Chats that a hand-over has left, because it did not come to its end, begin again.
        """
        pending = self._services.pending
        left = pending.closing & numbers
        for chat in self.chats.keys() if left else ():
            if partition_of(chat) in left:
                await self.chats.stop(chat)
        pending.served |= numbers
        pending.closing -= numbers
        with suppress(ActorStopped):
            self._recovery.tell_nowait(LookAt(numbers))

    async def hand_over(self, numbers: Collection[int], patience_s: float) -> None:
        """Begin nothing more in these partitions; return when none of their chats is there any more.

        Turns go on for `patience_s`, then they are interrupted, and told so.
        """
        pending = self._services.pending
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
        self._services.hub.nothing_runs(chat)

    async def start(self, chat: str) -> ActorRef[ChatMessage]:
        """The chat's actor, started if need be, in more than one attempt."""
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
        """A chat has reached its restart limit: another one answers what it has left."""
        self.failed[chat] = Failed(self._services.context.now(), error_text("en", error))
        self.open_soon(chat)
