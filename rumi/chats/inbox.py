"""How a message gets from a front end to its chat: stored first, then the chat is woken."""

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
"""How long a leaving front end waits for the journal to write its messages."""

END_TURN_S = 20.0
"""How long a chat that can be reached by nobody may take to stop its turns."""

NEXT_TURN_S = 0.5
"""How often it is looked whether another one has begun meanwhile."""

COMMAND_REPLY_S = 60.0
"""How long a command from outside waits for its reply."""

STORED_S = 0.05
"""How often to look for the reply to such a command, where another worker gives it."""

SLICE_PAUSE_S = 0.01
"""The pause between two slices of a deletion, in which other requests come first."""

STOP_S = 0.5
"""How long a `/stop` waits to be stored before it stops the turn all the same."""


class Inbox:
    """Accepts messages for all chats, and has their chats read them."""

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
        """The chats that were stopped at their restart limit, until their next message starts them afresh."""
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
        """Store a message for its chat; its number. From here on it will have exactly one final reply.

        It is answered in the `language`, or in the configuration's. `unattended`: no front end shows the
        reply; a caller that listens hears it. `apart`: its turn has a history of its own. `channel` is the
        name of the one that it came through, `model` the one that works on it, as `model_named` returns it.
        The skills of the folder `project` count for it as well. `tainted`: a program wrote it, not a person.

        Cancelled, it has stored the message or has not; what is stored is answered all the same.

        Raises:
            NotTaken: nothing can be stored now. The turn that a `/stop` was for is stopped nevertheless.
            RumiError: it could not be stored.
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
        """Store a batch in one transaction and hand the new messages to their chats, waiting for none.

        For each, whether it is new. Cancelled, it has stored the batch or has not; what is stored is
        answered all the same.

        Raises:
            NotTaken: nothing can be stored now; what is to be stopped is stopped nevertheless.
            RumiError: nothing of it was stored.
        """
        return [stored is not None for stored in await self._store(messages, self._services.context.language)]

    async def join_albums(self, quiet_s: float) -> float | None:
        """Hand on the albums of which no part has come for `quiet_s`; return how soon the next may be.

        None where no parts are left. Cancelled, what it has stored is answered all the same.

        Raises:
            ActorError: the journal has stopped.
        """

        async def join() -> float | None:
            stored, next_s = await self._services.journal.ask(JoinAlbums(quiet_s))
            self._hand_on(stored)
            return next_s

        return await with_grace(join, WRITE_S)

    async def _store(self, messages: Sequence[Incoming], language: Language) -> Sequence[Incoming | None]:
        """Have the journal store messages, and hand them on in the step in which it has.

        A write cannot be called back, only waited for; but not for ever, when the caller is to leave: a
        journal that crashed comes back only after those have ended that stand below it. Chats with a
        `/stop` among these do not wait for it: no disk and no lock keeps a `/stop` from stopping.
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
            if isinstance(why, RumiError):  # what the journal itself says
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
        """Wake the chats of stored messages; tell an answer that was stored with its message."""
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
        """Hand a message that is stored already to its chat. Never waits."""
        self._dispatcher.wake(message)

    async def look(self, chats: Collection[str] | None) -> None:
        """Wake the chats that have messages in the journal which other workers have stored.

        These chats, or all; those of other workers are left out.
        """
        pending, journal = self._services.pending, self._services.journal
        newest = await journal.ask(NewestOpen(None if chats is None else tuple(chats)))
        for chat, number in newest.items():
            here = pending.takes(chat) or self._chats.lookup(chat) is not None  # leaving, and hears a stop
            if here and number > (judged := pending.cursor(chat).judged):
                for message in await journal.ask(OpenMessages(chat, judged)):
                    self._dispatcher.wake(message)

    async def take_over(self, numbers: frozenset[int]) -> None:
        """Go on with what earlier workers have left in the chats of these partitions."""
        await self._dispatcher.take_over(numbers)

    async def hand_over(self, numbers: frozenset[int], patience_s: float) -> None:
        """Leave the chats of these partitions to another worker; nothing of them runs when this returns."""
        await self._dispatcher.hand_over(numbers, patience_s)

    def busy(self) -> frozenset[int]:
        """Return the partitions in which a message has no reply yet."""
        return frozenset(partition_of(chat) for chat in self._services.pending.unreplied)

    async def _stop_turns(self, chats: Collection[str]) -> None:
        for chat in chats:
            await self._end_turn(chat, "stopped")

    @property
    def own_model(self) -> str:
        """The name of the model that works on messages for which no other one was chosen."""
        return self._services.context.own_model

    def model_named(self, name: str) -> str:
        """Return a model's name as messages carry it: empty for the process's own.

        Raises:
            RumiError: it cannot be used.
        """
        context = self._services.context
        name = context.aliases.get(name.strip(), name.strip())
        if name == self.own_model:
            return ""
        context.model_for("", context.language, name)
        return name

    def takes(self, chat: str) -> bool:
        """Return True if this process serves the chat, and begins something new in it."""
        return self._services.pending.takes(chat)

    def works(self, chat: str) -> bool:
        """Return True if a message of the chat has no final reply yet."""
        return chat in self._services.pending.unreplied

    async def command(self, chat: str, text: str, language: Language | None = None) -> str:
        """Send a chat command, as a front end would, and return its reply.

        Raises:
            RumiError: no reply within `COMMAND_REPLY_S`; the chat goes on.
        """
        with self._services.hub.listening(chat) as events, trio.move_on_after(COMMAND_REPLY_S):
            number = await self.accept(chat, text, language, unattended=True)
            if not self._services.pending.takes(chat):
                return await self._stored_reply(chat, number)
            return (await reply_to(events, number)).text
        raise RumiError("The chat has not answered yet.", "It continues; look at: rumi status")

    async def _stored_reply(self, chat: str, number: int) -> str:
        """Return the reply to a message of a chat that another worker serves, when it is in the journal."""
        while True:
            for reply in await self._services.journal.ask(Undelivered(chat, (number,))):
                if number in reply.messages:
                    return reply.text
            await trio.sleep(STORED_S)

    async def reset(self, chat: str, language: Language | None = None) -> str:
        """Reset a chat from outside; the reply.

        Raises:
            UsageError: the chat is unknown.
            RumiError: see `command`.
        """
        return await self._of_known(chat, "/reset", language)

    async def stop(self, chat: str, language: Language | None = None) -> str:
        """Stop a chat's turn from outside; the reply.

        Raises:
            UsageError: the chat is unknown.
            RumiError: see `command`.
        """
        return await self._of_known(chat, "/stop", language)

    async def undo(self, chat: str, language: Language | None = None) -> str:
        """Take a chat's last turn back from outside; the reply.

        Raises:
            UsageError: the chat is unknown.
            RumiError: see `command`.
        """
        return await self._of_known(chat, "/undo", language)

    async def _of_known(self, chat: str, command: str, language: Language | None) -> str:
        known = chat == DEFAULT_CHAT or self.lookup(chat) is not None
        known = known or self._services.workspaces.has(chat)
        if not (known or await self._services.journal.ask(Knows(chat))):
            raise unknown_chat(chat)
        return await self.command(chat, command, language)

    async def answer(self, chat: str, id: str, yes: bool, user: int | None = None) -> bool:
        """Answer the question that a chat's turn asks; False where it waits for none of theirs.

        It is not stored: a question does not outlive its process.
        """
        actor = self._chats.lookup(chat)
        if actor is None:
            return False
        try:
            return await actor.ask(AnswerQuestion(id, yes, user))
        except ActorError:
            return False

    async def taint_files(self, chat: str) -> None:
        """Mark a chat's files, because something from outside comes into them by no turn of its own.

        Call it before the file is there, and again afterwards: a reset may remove the mark in between.

        Raises:
            RumiError: The mark cannot be stored.
        """
        if not self._services.pending.takes(chat):
            raise NotServed("This worker does not serve the chat any more.", "Try again in a moment.")
        try:
            with trio.fail_after(WRITE_S):
                await self._services.journal.ask(MarkFiles(chat, tainted=True))
                await (await self._dispatcher.start(chat)).ask(FilesCame())
        except (ActorError, trio.TooSlowError) as error:
            raise RumiError("The chat cannot take a file now.", "Try again in a moment.") from error

    async def open(self, chat: str) -> None:
        """Start the chat's actor, which replies to what earlier processes left open.

        Where another worker serves the chat, nothing is done.
        """
        if self._services.pending.takes(chat):
            await self._dispatcher.start(chat)

    def lookup(self, chat: str) -> ActorRef[ChatMessage] | None:
        """The chat's actor, if it is in memory."""
        return self._chats.lookup(chat)

    async def end(self, chat: str) -> None:
        """The chat can be reached by nobody any more: stop its turns, and take its actor out of memory.

        What has no reply by then gets one all the same, from the chat's next start.
        """
        pending = self._services.pending
        with trio.move_on_after(END_TURN_S):
            while chat in pending.unreplied:
                await self._end_turn(chat, "stopped")
                with trio.move_on_after(NEXT_TURN_S):  # a message behind it may have become another
                    await pending.all_replied(chat)
        await self._chats.stop(chat)
        await self._dispatcher.reopen(chat)

    async def delete(self, chat: str, *, files: bool = True) -> None:
        """Stop the chat's turns, and delete its messages, its history, its sandbox and its files; facts stay.

        Without `files`, these stay too.

        Raises:
            RumiError: some of the files are left.
        """
        await self.end(chat)
        while await self._services.journal.ask(DeleteChat(chat)):  # noqa: ASYNC110  # it waits for nothing
            await trio.sleep(SLICE_PAUSE_S)
        if files:
            await self._services.workspaces.remove(chat)
        await self.forget_copies(chat)
        await self._dispatcher.reopen(chat)

    async def forget_copies(self, chat: str) -> None:
        """Delete a chat's snapshots and recordings."""
        await self._services.forget(chat)

    async def withdraw(self, chat: str, numbers: Collection[int]) -> None:
        """The sender of these messages has left: stop the turns that they began or will begin.

        Their replies come behind. No turn of another sender's is touched.
        """
        mine = frozenset(numbers) & self._services.pending.unreplied.get(chat, set())
        if mine:
            try:
                actor = await self._dispatcher.start(chat)  # it may be about to start for one of them
                await actor.tell(EndTurn("stopped", mine))
            except Exception as error:  # noqa: BLE001  # a chat that does not start works on nothing
                logger.info("chat %s: nothing is stopped: %r", chat, error)

    async def wind_down(self, patience_s: float, then_s: float) -> None:
        """The program is about to end: let what runs finish, then end the turns that are left, and say so.

        Nothing may be accepted any more. Returns when all has been replied to, or after both times.
        """
        with trio.move_on_after(patience_s):
            await self._services.pending.all_replied()
        with trio.move_on_after(then_s):
            for chat in self._chats.keys():  # noqa: SIM118  # a supervisor, no mapping
                await self._end_turn(chat, "interrupted")
            await self._services.pending.all_replied()

    def unanswered(self) -> frozenset[tuple[str, int]]:
        """Return the messages that have no final reply: each one's chat and number."""
        unreplied = self._services.pending.unreplied
        return frozenset((chat, number) for chat, numbers in unreplied.items() for number in numbers)

    def at_work(self, chat: str) -> int:
        """Return the number of the message that the chat's turn works on; 0 if none runs."""
        started = self._services.hub.turn(chat).started
        return 0 if started is None else started.what.message

    async def stop_all(self, messages: Collection[tuple[str, int]]) -> None:
        """Stop the turns of the chats that these messages are in, and what waits for one there.

        Returns when the messages have their replies.
        """
        pending, mine = self._services.pending, set(messages)
        while mine:
            for chat in {chat for chat, _ in mine}:
                await self._end_turn(chat, "stopped")
            with trio.move_on_after(NEXT_TURN_S):  # a message behind a turn may have become another
                while mine := {(chat, n) for chat, n in mine if n in pending.unreplied.get(chat, ())}:
                    await pending.changed.wait()

    async def _end_turn(self, chat: str, by: EndedBy) -> None:
        actor = self._chats.lookup(chat)
        if actor is not None:
            with suppress(ActorStopped):
                await actor.tell(EndTurn(by))

    async def begin_session(self, chat: str) -> None:
        """Begin a new session; the old history stays stored, out of the prompt.

        A chat in memory is ended first, with what it does: it knows the old session.
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
    """Add the chats below what they depend on, and return what accepts messages for them.

    `how_to_make_room` says what to do about a trouble of the disk's, for who owns it. `whole_status` says how
    the whole process is, for an admin. `worker` returns the name of this process among the workers of a
    database, None where it is alone.
    """
    dispatcher = Dispatcher(root, services, whole_status, worker)
    return Inbox(services, dispatcher, free_space_advice)
