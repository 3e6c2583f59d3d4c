"""The inbox: delivers messages from front ends to chats. It stores each message, then wakes its chat."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import trio

from actors import ActorError, ActorRef, ActorStopped, Supervisor
from rumi.agent.prompts.message_entries import bounded
from rumi.chats.chat import AnswerQuestion, ChatMessage, EndTurn, FilesCame
from rumi.chats.commands import is_stop
from rumi.chats.dispatcher import Dispatcher
from rumi.chats.events import Replied
from rumi.chats.hub import reply_to
from rumi.chats.jobs import EndedBy
from rumi.chats.recovery import Failed
from rumi.chats.services import ChatServices
from rumi.errors import NotServed, NotTaken, RumiError
from rumi.platform.chat_ids import DEFAULT_CHAT, ChatIds, unknown_chat
from rumi.platform.grace import with_grace
from rumi.platform.texts import replies as reply_texts
from rumi.platform.texts import storage as storage_texts
from rumi.platform.texts.language import Language
from rumi.store.journal.forgetting import DeleteChat
from rumi.store.journal.history import MarkFiles, NewSession
from rumi.store.journal.inbox import Accept, JoinAlbums, Knows, NewestOpen, OpenMessages
from rumi.store.journal.outbox import Undelivered
from rumi.store.journal.records import Attachment, Incoming, NotStored
from rumi.store.ownership import partition_of

logger = logging.getLogger(__name__)

WRITE_S = 5.0
"""Maximum time that a cancelled front end waits for the journal to write its messages, in seconds."""

END_TURN_S = 20.0
"""Maximum time that a chat which no user can reach any more may take to stop its turns, in seconds."""

NEXT_TURN_S = 0.5
"""Interval in seconds at which turns that began meanwhile are stopped as well."""

COMMAND_REPLY_S = 60.0
"""Maximum time that `Inbox.command` waits for the reply to a command, in seconds."""

STORED_S = 0.05
"""Polling interval in seconds for the reply to such a command, if another worker serves the chat."""

SLICE_PAUSE_S = 0.01
"""Pause between two slices of a deletion in seconds, in which other requests come first."""

STOP_S = 0.5
"""Maximum time that a `/stop` waits to be stored, in seconds; then it stops the turn anyway."""


class Inbox:
    """Accepts messages for all chats and wakes the chats that they are for."""

    def __init__(
        self,
        services: ChatServices,
        dispatcher: Dispatcher,
        free_space_advice: Callable[[str, Language], str],
    ) -> None:
        self._services = services
        self._dispatcher = dispatcher
        self._chats = dispatcher.chats
        self._free_space_advice = free_space_advice

    @property
    def failed(self) -> Mapping[str, Failed]:
        """The chats that were stopped at their restart limit, until their next message restarts them."""
        return self._dispatcher.failed

    @property
    def ids(self) -> ChatIds:
        """The chat ids of all channels."""
        return self._services.context.ids

    async def accept(
        self,
        chat: str,
        text: str,
        language: Language | None = None,
        attachments: Sequence[Attachment] = (),
        *,
        unattended: bool = False,
        apart: bool = False,
        channel: str = "",
        model: str = "",
        project: str = "",
        tainted: bool = False,
    ) -> int:
        """Store a message for its chat and return its number. A stored message gets exactly one final reply.

        The reply is in `language`, by default the configured one. `unattended`: no front end shows the reply;
        only a caller that has subscribed gets it. `apart`: the turn has a history of its own. `channel` is
        the name of the channel that the message came through, `model` the model that works on it, as returned
        by `model_named`. Skills of the folder `project` are available to its turn. `tainted`: a program wrote
        the message, not a person.

        On cancellation the message is either stored or not; a stored message is answered anyway.

        Raises:
            NotTaken: nothing can be stored now. A `/stop` stops the turn nevertheless.
            RumiError: the message could not be stored.
        """
        message = Incoming(
            chat=chat,
            text=text,
            language=language,
            attachments=tuple(attachments),
            unattended=unattended,
            apart=apart,
            channel=channel,
            model=model,
            project=project,
            tainted=tainted,
        )
        language = language or self._services.context.language
        try:
            (stored,) = await self._store([message], language)
        except NotTaken as error:
            if is_stop(message):
                said = f"{reply_texts.stopped(language)} {error.message}"
                raise NotTaken(said, error.advice, error.trouble) from None
            raise
        assert stored is not None, "without an update's number it is always new"
        return stored.id

    async def accept_all(self, messages: Sequence[Incoming]) -> list[bool]:
        """Store a batch in one transaction and wake the chats of the new messages, without waiting for them.

        Return for each message whether it is new. On cancellation the batch is either stored or not; stored
        messages are answered anyway.

        Raises:
            NotTaken: nothing can be stored now; each `/stop` stops its turn nevertheless.
            RumiError: no message of the batch was stored.
        """
        return [stored is not None for stored in await self._store(messages, self._services.context.language)]

    async def join_albums(self, quiet_s: float) -> float | None:
        """Join each album of which no part has come for `quiet_s` seconds to one message; wake its chat.

        Return the time in seconds until the next album may be complete, None if no parts are left. On
        cancellation, messages that are already stored are answered anyway.

        Raises:
            ActorError: the journal has stopped.
        """

        async def join() -> float | None:
            stored, next_s = await self._services.journal.ask(JoinAlbums(quiet_s))
            self._hand_on(stored)
            return next_s

        return await with_grace(join, WRITE_S)

    async def _store(self, messages: Sequence[Incoming], language: Language) -> Sequence[Incoming | None]:
        """Store messages in the journal, and wake their chats in the same step in which the write succeeds.

        A write that has begun can only be waited for, not withdrawn. A cancelled caller waits `WRITE_S` at
        most: a crashed journal restarts only after the actors below it in the tree have ended, and the caller
        may be one of them. A `/stop` among the messages stops its chat's turn after `STOP_S` even if the
        write has not returned: neither a disk nor a lock may delay a `/stop`.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        most = self._services.context.limits.handed_chars
        batch = tuple(
            replace(message, attachments=bounded(message.attachments, most))
            if message.attachments
            else message
            for message in messages
        )
        stops = tuple(message.chat for message in batch if is_stop(message))
        stored: Sequence[Incoming | None] | NotStored = ()
        failed: Exception | None = None

        async def stop_meanwhile() -> None:
            await trio.sleep(STOP_S)
            await self._stop_turns(stops)

        async def write() -> None:
            nonlocal stored, failed
            try:
                stored = await self._services.journal.ask(Accept(batch))
            except Exception as error:  # noqa: BLE001  # raised below: a nursery would wrap it
                failed = error
            else:
                # Here and not after `with_grace`: a cancelled caller never gets there, and nothing else
                # would wake the chats of messages that are stored.
                if not isinstance(stored, NotStored):
                    self._hand_on(stored)

        async def write_and_stop() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(stop_meanwhile)
                await write()
                nursery.cancel_scope.cancel()

        await with_grace(write_and_stop if stops else write, WRITE_S)
        if isinstance(failed, ActorError):
            why = failed.__cause__
            if isinstance(why, RumiError):  # an error with a text for users, raised by the journal itself
                raise RumiError(f"The message could not be stored. {why.message}", why.advice) from failed
            raise RumiError("The message could not be stored.", "Send it again.") from failed
        if failed is not None:
            raise failed
        if isinstance(stored, NotStored):
            await self._stop_turns(stops)
            trouble = stored.trouble
            advice = self._free_space_advice(trouble, language)
            raise NotTaken(storage_texts.not_stored(language, trouble), advice, trouble)
        return stored

    def _hand_on(self, stored: Sequence[Incoming | None]) -> None:
        """Wake the chats of stored messages; publish replies that were stored together with their message."""
        for message in stored:
            if message is None or not message.chat or not self._services.pending.takes(message.chat):
                continue
            if message.reply:
                self._services.pending.add(message.chat, message.id)
                replied = Replied(message.reply, (message.id,), message.answer or "")
                self._services.publisher.reply(message.chat, "", replied)
            else:
                self._dispatcher.wake(message)

    def wake(self, message: Incoming) -> None:
        """Wake the chat of a message that is already stored. Never waits."""
        self._dispatcher.wake(message)

    async def look(self, chats: Collection[str] | None) -> None:
        """Wake those of these `chats`, or of all, for which other workers have stored messages.

        Chats that other workers serve are skipped.
        """
        pending, journal = self._services.pending, self._services.journal
        newest = await journal.ask(NewestOpen(None if chats is None else tuple(chats)))
        for chat, number in newest.items():
            # A chat that is being handed over is not served any more, but its actor still obeys a `/stop`.
            here = pending.takes(chat) or self._chats.lookup(chat) is not None
            if here and number > (judged := pending.cursor(chat).judged):
                for message in await journal.ask(OpenMessages(chat, judged)):
                    self._dispatcher.wake(message)

    async def take_over(self, numbers: frozenset[int]) -> None:
        """Serve the chats of these partitions, and continue with the messages that earlier workers left."""
        await self._dispatcher.take_over(numbers)

    async def hand_over(self, numbers: frozenset[int], patience_s: float) -> None:
        """Hand the chats of these partitions over to another worker; none of them runs when this returns.

        Running turns may continue for `patience_s` seconds; then they are interrupted.
        """
        await self._dispatcher.hand_over(numbers, patience_s)

    def busy(self) -> frozenset[int]:
        """Return the partitions with a message that has no reply yet."""
        return frozenset(partition_of(chat) for chat in self._services.pending.unreplied)

    async def _stop_turns(self, chats: Collection[str]) -> None:
        for chat in chats:
            await self._end_turn(chat, "stopped")

    @property
    def own_model(self) -> str:
        """The name of the process's own model, which works on messages without a chosen model."""
        return self._services.context.own_model

    def model_named(self, name: str) -> str:
        """Return the name of a model or alias as messages carry it: empty for the process's own model.

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

    async def command(self, chat: str, text: str, language: Language | None = None) -> str:
        """Send a chat command, as a front end would, and return its reply.

        Raises:
            RumiError: no reply within `COMMAND_REPLY_S`; the chat continues.
        """
        # Subscribe before the message is accepted: its reply may be published before `accept` returns.
        with self._services.hub.listening(chat) as events, trio.move_on_after(COMMAND_REPLY_S):
            number = await self.accept(chat, text, language, unattended=True)
            # Another worker publishes the reply in its own process, so look for it in the shared journal.
            if not self._services.pending.takes(chat):
                return await self._stored_reply(chat, number)
            return (await reply_to(events, number)).text
        raise RumiError("The chat has not answered yet.", "It continues; look at: rumi status")

    async def _stored_reply(self, chat: str, number: int) -> str:
        """Wait until the journal has the reply of the worker that serves the chat; return its text."""
        while True:
            for reply in await self._services.journal.ask(Undelivered(chat, (number,))):
                if number in reply.messages:
                    return reply.text
            await trio.sleep(STORED_S)

    async def reset(self, chat: str, language: Language | None = None) -> str:
        """Reset a chat by the command `/reset` and return the reply.

        Raises:
            UsageError: the chat is unknown.
            RumiError: see `Inbox.command`.
        """
        return await self._of_known(chat, "/reset", language)

    async def stop(self, chat: str, language: Language | None = None) -> str:
        """Stop a chat's turn by the command `/stop` and return the reply.

        Raises:
            UsageError: the chat is unknown.
            RumiError: see `Inbox.command`.
        """
        return await self._of_known(chat, "/stop", language)

    async def undo(self, chat: str, language: Language | None = None) -> str:
        """Undo a chat's last turn by the command `/undo` and return the reply.

        Raises:
            UsageError: the chat is unknown.
            RumiError: see `Inbox.command`.
        """
        return await self._of_known(chat, "/undo", language)

    async def _of_known(self, chat: str, command: str, language: Language | None) -> str:
        known = chat == DEFAULT_CHAT or self.lookup(chat) is not None
        known = known or self._services.workspaces.has(chat)
        if not (known or await self._services.journal.ask(Knows(chat))):
            raise unknown_chat(chat)
        return await self.command(chat, command, language)

    async def answer(self, chat: str, id: str, yes: bool, user: int | None = None) -> bool:
        """Answer the question of a chat's turn; return False if no question of that user is pending.

        The answer is not stored, because a question does not survive its process.
        """
        actor = self._chats.lookup(chat)
        if actor is None:
            return False
        try:
            return await actor.ask(AnswerQuestion(id, yes, user))
        except ActorError:
            return False

    async def taint_files(self, chat: str) -> None:
        """Taint a chat's files, because something other than its own turns puts untrusted content there.

        Call it before the file is there, and again afterwards: a reset may clear the taint in between.

        Raises:
            NotServed: another worker serves the chat.
            RumiError: the taint cannot be stored.
        """
        if not self._services.pending.takes(chat):
            raise NotServed("This worker does not serve the chat any more.", "Try again in a moment.")
        try:
            with trio.fail_after(WRITE_S):
                # The journal first: if the chat restarts in between, it reads the taint from there.
                await self._services.journal.ask(MarkFiles(chat, tainted=True))
                await (await self._dispatcher.start(chat)).ask(FilesCame())
        except (ActorError, trio.TooSlowError) as error:
            raise RumiError("The chat cannot take a file now.", "Try again in a moment.") from error

    async def open(self, chat: str) -> None:
        """Start the chat's actor, which replies to messages that earlier processes left open.

        Do nothing if another worker serves the chat.
        """
        if self._services.pending.takes(chat):
            await self._dispatcher.start(chat)

    def lookup(self, chat: str) -> ActorRef[ChatMessage] | None:
        """Return the chat's actor if it is in memory, else None."""
        return self._chats.lookup(chat)

    async def end(self, chat: str) -> None:
        """Stop the turns of a chat that no user can reach any more, and remove its actor from memory.

        This takes `END_TURN_S` at most. Messages without a reply by then get one from the chat's next start.
        """
        pending = self._services.pending
        with trio.move_on_after(END_TURN_S):
            while chat in pending.unreplied:
                await self._end_turn(chat, "stopped")
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
        while await self._services.journal.ask(DeleteChat(chat)):  # noqa: ASYNC110  # it waits for nothing
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
        """Stop the turns that these messages began or will begin, because their sender has disconnected.

        The replies follow later. Turns of other senders are not touched.
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
        """Let running turns finish before the process ends; after `patience_s` interrupt the rest.

        The caller must have stopped accepting messages. Return when all messages have their reply, or after
        `patience_s` plus `then_s` seconds.
        """
        with trio.move_on_after(patience_s):
            await self._services.pending.all_replied()
        with trio.move_on_after(then_s):
            for chat in self._chats.keys():  # noqa: SIM118  # a supervisor, no mapping
                await self._end_turn(chat, "interrupted")
            await self._services.pending.all_replied()

    def unanswered(self) -> frozenset[tuple[str, int]]:
        """Return the chat and the number of each message without a final reply."""
        unreplied = self._services.pending.unreplied
        return frozenset((chat, number) for chat, numbers in unreplied.items() for number in numbers)

    def at_work(self, chat: str) -> int:
        """Return the number of the message that the chat's turn works on; 0 if no turn runs."""
        started = self._services.hub.turn(chat).started
        return 0 if started is None else started.what.message

    async def stop_all(self, messages: Collection[tuple[str, int]]) -> None:
        """Stop the running and queued turns of the chats of these messages.

        Return when the messages have their replies.
        """
        pending, mine = self._services.pending, set(messages)
        while mine:
            for chat in {chat for chat, _ in mine}:
                await self._end_turn(chat, "stopped")
            with trio.move_on_after(NEXT_TURN_S):  # a queued message may have become the next turn
                while mine := {(chat, n) for chat, n in mine if n in pending.unreplied.get(chat, ())}:
                    await pending.changed.wait()

    async def _end_turn(self, chat: str, by: EndedBy) -> None:
        actor = self._chats.lookup(chat)
        if actor is not None:
            with suppress(ActorStopped):
                await actor.tell(EndTurn(by))

    async def begin_session(self, chat: str) -> None:
        """Begin a new session; the old history stays stored but no longer appears in prompts.

        The chat's actor is stopped first, together with its job, because it holds the old session in memory.
        """
        await self._chats.stop(chat)
        await self._services.journal.ask(NewSession(chat))
        await self._dispatcher.reopen(chat)
        self._services.fact_extraction.session_ended()


def add_chats(
    root: Supervisor,
    services: ChatServices,
    *,
    free_space_advice: Callable[[str, Language], str] = lambda trouble, language: "",
    whole_status: Callable[[], str] = lambda: "",
    worker: Callable[[], str | None] = lambda: None,
) -> Inbox:
    """Add the chats and their recovery to the tree below `root`, and return their inbox.

    `free_space_advice` returns what a user can do about a disk problem, in their language. `whole_status`
    returns the status of the whole process, for admins. `worker` returns the name of this process among the
    workers of a database, None if it is the only one.
    """
    dispatcher = Dispatcher(root, services, whole_status, worker)
    return Inbox(services, dispatcher, free_space_advice)
