"""One object for all chats of this process, with methods to wake, end, delete and hand over chats."""

import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

import trio

from actors import ActorError, ActorRef, ActorStopped
from rumi.chats.chat import AnswerQuestion, ChatMessage, DropMessage, EndTurn, FilesCame
from rumi.chats.dispatcher import Dispatcher
from rumi.chats.jobs import EndedBy
from rumi.chats.recovery import Failed
from rumi.chats.services import ChatServices
from rumi.errors import NotServed, RumiError, UsageError
from rumi.platform.chat_ids import ChatIds
from rumi.platform.texts.folders import folder_name
from rumi.store.journal.forgetting import delete_chat
from rumi.store.journal.history import mark_files, new_session
from rumi.store.journal.inbox import newest_open, open_messages
from rumi.store.journal.records import Incoming, StoredSession
from rumi.store.journal.reopening import find_session, list_sessions, reopen_session
from rumi.store.ownership import partition_of

logger = logging.getLogger(__name__)

WRITE_S = 5.0
"""Maximum time that a front end waits for the journal, in seconds: a cancelled one for its messages to be
written, a file for the taint of its chat to be stored."""

END_TURN_S = 20.0
"""Maximum time to stop the turns of a chat that no user can reach any more, in seconds."""

NEXT_TURN_S = 0.5
"""Interval, in seconds, at which turns are stopped again, because a queued message may have begun a turn."""

SLICE_PAUSE_S = 0.01
"""Pause between two slices of a deletion in seconds, in which other requests come first."""


class Chats:
    """The chats of this process, for all front ends. (`Inbox` accepts the messages.)"""

    def __init__(self, services: ChatServices, dispatcher: Dispatcher) -> None:
        self._services = services
        self._dispatcher = dispatcher
        self._chats = dispatcher.chats

    @property
    def failed(self) -> Mapping[str, Failed]:
        """The chats that reached their restart limit and stay stopped until a new message arrives."""
        return self._dispatcher.failed

    @property
    def ids(self) -> ChatIds:
        """The prefixes of chat ids, by which a chat's channel is known."""
        return self._services.context.ids

    def wake(self, message: Incoming) -> None:
        """Wake the chat to which an already stored message belongs. Never waits."""
        self._dispatcher.wake(message)

    async def look(self, chats: Collection[str] | None) -> None:
        """Wake those of the given `chats`, or of all chats, for which other workers have stored messages.

        Chats that other workers serve are skipped.
        """
        pending, journal = self._services.pending, self._services.journal
        newest = await journal.ask(newest_open(None if chats is None else tuple(chats)))
        for chat, number in newest.items():
            # A chat that is being handed over is not served any more, but its actor still obeys a `/stop`.
            here = pending.takes(chat) or self._chats.lookup(chat) is not None
            if here and number > (judged := pending.cursor(chat).judged):
                for message in await journal.ask(open_messages(chat, judged)):
                    self._dispatcher.wake(message)

    async def take_over(self, numbers: frozenset[int]) -> None:
        """Begin to serve the chats of these partitions, and handle messages left open by earlier workers."""
        await self._dispatcher.take_over(numbers)

    async def hand_over(self, numbers: frozenset[int], patience_s: float) -> None:
        """Hand the chats of these partitions over to another worker; return when this process runs none.

        Running turns may continue for `patience_s` seconds; then they are interrupted.
        """
        await self._dispatcher.hand_over(numbers, patience_s)

    def busy(self) -> frozenset[int]:
        """Return the partitions with a message that has no reply yet."""
        return frozenset(partition_of(chat) for chat in self._services.pending.unreplied)

    @property
    def own_model(self) -> str:
        """The name of this process's default model, which is used for messages without a chosen model."""
        return self._services.context.own_model

    def model_named(self, name: str) -> str:
        """Return the name that messages store for a model's name or alias: empty for the default model.

        Raises:
            RumiError: the model cannot be used.
        """
        context = self._services.context
        name = context.aliases.get(name.strip(), name.strip())
        if name == self.own_model:
            return ""
        context.model_for("", context.language, name)
        return name

    def takes(self, chat: str) -> bool:
        """Return True if this process serves the chat and may begin new work in it."""
        return self._services.pending.takes(chat)

    def works(self, chat: str) -> bool:
        """Return True if a message of the chat has no final reply yet."""
        return chat in self._services.pending.unreplied

    async def answer(self, chat: str, id: str, yes: bool, user: int | None = None) -> bool:
        """Answer the pending question of a chat's turn; return False if no question to this user is pending.

        The answer is not stored, because a question is dropped when the process that asked it ends.
        """
        actor = self._chats.lookup(chat)
        if actor is None:
            return False
        try:
            return await actor.ask(AnswerQuestion(id, yes, user))
        except ActorError:
            return False

    async def drop(self, chat: str, number: int) -> bool:
        """Drop a message that waits for its turn; return False if it does not wait, or its turn has begun.

        When this returns True, the message has its final reply, so that no later process works on it.

        Raises:
            RumiError: the reply could not be stored yet; the message may or may not be dropped.
        """
        actor, pending = self._chats.lookup(chat), self._services.pending
        if actor is None:
            return False
        try:
            with trio.fail_after(WRITE_S):
                if not await actor.ask(DropMessage(number)):
                    return False
                while number in pending.unreplied.get(chat, ()):
                    await pending.changed.wait()
        except (ActorError, trio.TooSlowError) as error:
            raise RumiError("The message could not be dropped.", "Try again in a moment.") from error
        return True

    async def taint_files(self, chat: str) -> None:
        """Taint a chat's files, because something other than the chat's turns adds untrusted content.

        Call this method before writing a file and again after writing it, because a reset may clear the taint
        in between.

        Raises:
            NotServed: another worker serves the chat.
            RumiError: the taint cannot be stored.
        """
        if not self._services.pending.takes(chat):
            raise NotServed("This worker does not serve the chat any more.", "Try again in a moment.")
        try:
            with trio.fail_after(WRITE_S):
                # The journal first: if the chat restarts in between, it reads the taint from there.
                await self._services.journal.ask(mark_files(chat, tainted=True))
                await (await self._dispatcher.start(chat)).ask(FilesCame())
        except (ActorError, trio.TooSlowError) as error:
            raise RumiError("The chat cannot take a file now.", "Try again in a moment.") from error

    async def link(self, chat: str, folder: Path) -> None:
        """Let a chat work on a folder of this machine from now on; do nothing if it does already.

        Raises:
            RumiError: the folder is refused, or the chat works on another one or has files of its own.
        """
        folders = self._services.folders
        if folders is None:
            raise RumiError("This Rumi cannot work on folders.", "Start with: rumi --own")
        await folders.link(chat, folder)

    def whereabouts(self, chat: str) -> Mapping[str, object]:
        """Return where the chat's files are, for people.

        `linked` is True if this is a folder that the chat works on, and `applies` if its changes need no
        `/apply`.
        """
        services = self._services
        linked = None if services.folders is None else services.folders.linked(chat)
        files = services.workspaces.folder / chat if linked is None else linked.folder
        applies = services.context.settings.terminal.apply == "auto"
        return {"files": folder_name(files), "linked": linked is not None, "applies": applies}

    async def open(self, chat: str) -> None:
        """Start the chat's actor, which replies to messages that earlier processes left unanswered.

        Do nothing if another worker serves the chat.
        """
        if self._services.pending.takes(chat):
            await self._dispatcher.start(chat)

    def lookup(self, chat: str) -> ActorRef[ChatMessage] | None:
        """Return the chat's actor if it is in memory, else None."""
        return self._chats.lookup(chat)

    async def end(self, chat: str) -> None:
        """Stop the turns of a chat that no user can reach any more, and remove its actor from memory.

        This takes `END_TURN_S` at most. Messages that have no reply by then get one when the chat next
        starts.
        """
        pending = self._services.pending
        with trio.move_on_after(END_TURN_S):
            while chat in pending.unreplied:
                await self.end_turn(chat, "stopped")
                with trio.move_on_after(NEXT_TURN_S):  # a queued message may have become the next turn
                    await pending.all_replied(chat)
        await self._chats.stop(chat)
        await self._dispatcher.reopen(chat)

    async def delete(self, chat: str, *, files: bool = True) -> None:
        """Stop the chat's turns and delete its messages, history, sandbox and, with `files`, its files.

        Facts extracted from the chat remain.

        Raises:
            RumiError: some of the files could not be deleted.
        """
        await self.end(chat)
        while await self._services.journal.ask(delete_chat(chat)):  # noqa: ASYNC110  # it waits for nothing
            await trio.sleep(SLICE_PAUSE_S)
        if files:
            await self._services.workspaces.remove(chat)
        await self.forget_copies(chat)
        # A message may have been accepted during the deletion.
        await self._dispatcher.reopen(chat)

    async def forget_copies(self, chat: str) -> None:
        """Delete a chat's snapshots and recordings."""
        await self._services.forget(chat)

    async def withdraw(self, chat: str, numbers: Collection[int]) -> None:
        """Stop the turns of these messages, even before they begin, because the sender has disconnected.

        The turns' replies are published after this call. Turns of other senders continue.
        """
        # By message and not "the running turn": that may belong to another sender by the time it is ended.
        mine = frozenset(numbers) & self._services.pending.unreplied.get(chat, set())
        if mine:
            try:
                actor = await self._dispatcher.start(chat)  # the chat may be starting because of one of them
                await actor.tell(EndTurn("stopped", mine))
            except Exception as error:  # noqa: BLE001  # a chat that does not start works on nothing
                logger.info("chat %s: nothing is stopped: %r", chat, error)

    async def wind_down(self, patience_s: float, then_s: float) -> None:
        """Let running turns finish before the process ends; after `patience_s` seconds, interrupt them.

        A turn that is in a tool call is interrupted earlier, after `[serve] drain_s` seconds. The next
        process goes on with interrupted turns, and begins messages that wait. The caller must have stopped
        accepting messages. Return when no chat runs a job, or after `patience_s` plus `then_s` seconds.
        """
        await self._dispatcher.wind_down(patience_s, then_s)

    def unanswered(self) -> frozenset[tuple[str, int]]:
        """Return the chat and the number of each message without a final reply."""
        unreplied = self._services.pending.unreplied
        return frozenset((chat, number) for chat, numbers in unreplied.items() for number in numbers)

    def at_work(self, chat: str) -> int:
        """Return the number of the message that the chat's running turn handles; 0 if no turn runs."""
        started = self._services.hub.turn(chat).started
        return 0 if started is None else started.what.message

    async def stop_all(self, messages: Collection[tuple[str, int]]) -> None:
        """Stop the running and queued turns of the chats of these messages.

        Return when the messages have their replies.
        """
        pending, mine = self._services.pending, set(messages)
        while mine:
            for chat in {chat for chat, _ in mine}:
                await self.end_turn(chat, "stopped")
            with trio.move_on_after(NEXT_TURN_S):  # a queued message may have become the next turn
                while mine := {(chat, n) for chat, n in mine if n in pending.unreplied.get(chat, ())}:
                    await pending.changed.wait()

    async def end_turn(self, chat: str, by: EndedBy) -> None:
        """End the running turn of a chat; do nothing if its actor is not in memory."""
        actor = self._chats.lookup(chat)
        if actor is not None:
            with suppress(ActorStopped):
                await actor.tell(EndTurn(by))

    async def begin_session(self, chat: str) -> int:
        """Begin a new session, and return its number; the old history stays stored, but not in prompts.

        First, the chat's actor and its job are stopped, because the actor holds the old session in memory.
        """
        await self._chats.stop(chat)
        session = await self._services.journal.ask(new_session(chat))
        await self._dispatcher.reopen(chat)
        self._services.fact_extraction.session_ended()
        return session

    async def sessions(self, chat: str, limit: int) -> tuple[StoredSession, ...]:
        """Return the sessions of a chat that can be reopened, the latest first, and the current one."""
        return await self._services.journal.ask(list_sessions(chat, limit))

    async def reopen_session(self, chat: str, number: int) -> int:
        """Continue an earlier session of an idle chat; the current one stays stored. Return the `number`.

        First, the chat's actor is stopped, as in `begin_session`.

        Raises:
            UsageError: the chat has no such session.
        """
        context = self._services.context
        found = await self._services.journal.ask(find_session(chat, number))
        if found is None:
            raise UsageError(
                "The chat {chat} has no session {number}.",
                "List them with: rumi chats sessions {chat}",
                chat=chat,
                number=number,
            )
        if found.current:
            return number
        await self._chats.stop(chat)
        due = context.now() + context.settings.session.ttl_s
        await self._services.journal.ask(reopen_session(chat, number, due))
        await self._dispatcher.reopen(chat)
        self._services.fact_extraction.session_ended()
        return number
