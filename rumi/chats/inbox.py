"""The inbox delivers messages from front ends to chats: it stores each message, then wakes its chat."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace

import trio

from actors import ActorError, Supervisor
from rumi.agent.prompts.message_entries import bounded
from rumi.chats.chats import WRITE_S, Chats
from rumi.chats.commands import is_stop
from rumi.chats.dispatcher import Dispatcher
from rumi.chats.events import Replied
from rumi.chats.hub import HubSubscription, reply_to
from rumi.chats.services import ChatServices
from rumi.errors import NotTaken, RumiError
from rumi.platform.chat_ids import DEFAULT_CHAT, unknown_chat
from rumi.platform.grace import with_grace
from rumi.platform.secret_forms import HIDDEN, only_secret
from rumi.platform.texts import models as model_texts
from rumi.platform.texts import replies as reply_texts
from rumi.platform.texts import storage as storage_texts
from rumi.store.journal.deliveries import Taken, accept_event
from rumi.store.journal.inbox import accept_messages, join_albums, knows_chat, message_of_update
from rumi.store.journal.mails import ReceivedMail, accept_mail
from rumi.store.journal.matrix import StoredEvent, SyncBatch, accept_sync
from rumi.store.journal.outbox import undelivered_replies
from rumi.store.journal.records import Attachment, Incoming, NotStored, Update
from rumi.store.steps import Run
from rumi.texts import Language, Text

COMMAND_REPLY_S = 60.0
"""Maximum time that `Inbox.command` waits for the reply to a command, in seconds."""

STORED_S = 0.05
"""Polling interval of `Inbox.command` for the reply, in seconds, if another worker serves the chat."""

STOP_S = 0.5
"""Maximum time that a `/stop` waits to be stored, in seconds; then it stops the turn anyway."""


class Inbox:
    """Accepts messages for the chats in `chats`: stores each message and wakes its chat."""

    def __init__(
        self, services: ChatServices, chats: Chats, free_space_advice: Callable[[str, Language], str]
    ) -> None:
        self._services = services
        self.chats = chats
        self._free_space_advice = free_space_advice

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
        zone: str = "",
        once: Update | None = None,
        branches: int = 0,
    ) -> int:
        """Store a message for its chat and return its number. A stored message gets exactly one final reply.

        The reply is in `language`, by default the configured one. With `unattended`, no front end shows the
        reply; only a caller that has subscribed gets it. With `apart`, the turn uses a new history instead of
        the chat's. `channel` is the name of the channel that the message came through, `model` the model for
        its turn, as returned by `model_named`. The turn can also use skills from the folder `project`.
        `tainted` means that a program wrote the message, not a person. `zone` is the time zone of the
        sender's device. A front end that may send a message twice names it by `once`: the second time,
        nothing is stored, and the number is that of the first time. The turn of a message that `branches` an
        earlier one continues from before that one.

        On cancellation the message may or may not be stored; a stored message still gets its reply.

        Raises:
            NotTaken: nothing can be stored now. If the message is a `/stop`, it still stops the turn.
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
            zone=zone,
            update=once,
            branches=branches,
        )
        language = language or self._services.context.language
        try:
            (stored,) = await self._store([message], language)
        except NotTaken as error:
            if is_stop(message):
                said = Text(
                    "{stopped} {message}", stopped=reply_texts.stopped(language), message=error.message
                )
                raise NotTaken(said, error.advice, error.trouble) from None
            raise
        if stored is not None:
            return stored.id
        assert once is not None, "without an update's number it is always new"
        return await self._services.journal.ask(message_of_update(once.source, once.number))

    async def accept_all(self, messages: Sequence[Incoming]) -> list[bool]:
        """Store a batch in one transaction and wake the chats of the new messages, without waiting for them.

        Return for each message whether it is new. On cancellation either the whole batch is stored or
        nothing; stored messages still get replies.

        Raises:
            NotTaken: nothing can be stored now. A `/stop` in the batch still stops its chat's turn.
            RumiError: no message of the batch was stored.
        """
        return [stored is not None for stored in await self._store(messages, self._services.context.language)]

    async def accept_event(
        self, event: Incoming, delivery: str, most_per_hour: int, window_s: float = 0.0
    ) -> Taken:
        """Store an event of a trigger, unless its delivery was taken earlier, and wake its chat.

        `most_per_hour` and `window_s` limit what is stored: see the step of this name. On cancellation, the
        event may or may not be stored.

        Raises:
            NotTaken: nothing can be stored now.
            RumiError: the event could not be stored.
        """
        event = replace(event, attachments=self._bounded(event))
        return await self._take(accept_event(event, delivery, most_per_hour, window_s))

    async def accept_mail(self, mail: ReceivedMail, most_per_hour: int) -> Taken:
        """Store a mail as a message, unless it was stored earlier, and wake its chat.

        `most_per_hour` limits what is stored: see the step of this name. On cancellation, the mail may or may
        not be stored; a later call finds out.

        Raises:
            NotTaken: nothing can be stored now.
            RumiError: the mail could not be stored.
        """
        message = replace(self._without_secret(mail.message), attachments=self._bounded(mail.message))
        stops = (message.chat,) if is_stop(message) else ()
        return await self._take(accept_mail(replace(mail, message=message), most_per_hour), stops)

    async def accept_sync(self, batch: SyncBatch) -> tuple[StoredEvent, ...] | None:
        """Store the events of a Matrix account in one transaction, and wake the chats of its new messages.

        Return what became of each event; None if another process was faster, so nothing was stored.
        On cancellation either the whole batch is stored or nothing.

        Raises:
            NotTaken: nothing can be stored now. A `/stop` in the batch still stops its chat's turn.
            RumiError: nothing was stored.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        messages = await self._prepared(
            [event.message for event in batch.events if event.message is not None]
        )
        prepared = iter(messages)
        events = tuple(
            event if event.message is None else replace(event, message=next(prepared))
            for event in batch.events
        )
        stops = tuple(message.chat for message in messages if is_stop(message))
        stored: tuple[StoredEvent, ...] | None = None

        async def store() -> Sequence[Incoming | None] | NotStored:
            nonlocal stored
            found = await self._services.journal.ask(accept_sync(replace(batch, events=events)))
            if isinstance(found, NotStored):
                return found
            stored = found
            return [event.message for event in found or ()]

        await self._write(store, stops, self._services.context.language)
        return stored

    def _bounded(self, message: Incoming) -> tuple[Attachment, ...]:
        return bounded(message.attachments, self._services.context.settings.session.handed_chars)

    async def _take(self, step: Run[Taken | NotStored], stops: Collection[str] = ()) -> Taken:
        """Run a step that stores a message once, and wake its chat."""
        taken = Taken()

        async def store() -> Sequence[Incoming | None] | NotStored:
            nonlocal taken
            found = await self._services.journal.ask(step)
            if isinstance(found, NotStored):
                return found
            taken = found
            return (taken.message,)

        await self._write(store, stops, self._services.context.language)
        return taken

    async def join_albums(self, quiet_s: float) -> float | None:
        """Merge each album that got no new part for `quiet_s` seconds into one message, and wake its chat.

        An album is a group of files that a person sends together.

        Return the time in seconds until the next album may be complete, None if no incomplete album remains.
        On cancellation, messages that are already stored still get replies.

        Raises:
            ActorError: the journal has stopped.
        """

        async def join() -> float | None:
            stored, next_s = await self._services.journal.ask(join_albums(quiet_s))
            self._hand_on(stored)
            return next_s

        return await with_grace(join, WRITE_S)

    async def _store(self, messages: Sequence[Incoming], language: Language) -> Sequence[Incoming | None]:
        """Store messages in the journal, and wake their chats as soon as the write succeeds.

        A write that has begun cannot be cancelled. A cancelled caller waits for it, but at most `WRITE_S`
        seconds: a crashed journal restarts only after the actors below it in the actor tree have ended, and
        the caller may be one of these actors. A `/stop` among the messages stops its chat's turn after
        `STOP_S` even if the write has not returned: neither a slow disk nor a lock may delay a `/stop`.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        batch = await self._prepared(messages)
        stops = tuple(message.chat for message in batch if is_stop(message))

        async def store() -> Sequence[Incoming | None] | NotStored:
            return await self._services.journal.ask(accept_messages(batch))

        return await self._write(store, stops, language)

    async def _prepared(self, messages: Sequence[Incoming]) -> tuple[Incoming, ...]:
        """Return messages as they are stored, and propose the time zones that they tell."""
        most = self._services.context.settings.session.handed_chars
        batch = tuple(
            replace(message, attachments=bounded(message.attachments, most))
            if message.attachments
            else self._without_secret(message)
            for message in messages
        )
        if self._services.propose_zone is not None:
            for message in batch:
                if message.zone or message.place is not None:
                    await self._services.propose_zone(message)
        return batch

    def _without_secret(self, message: Incoming) -> Incoming:
        """Return a message that is nothing but a secret without it, with a reply that says so.

        Such a message is a mistake: neither a model nor the history may get it.
        """
        if not message.by_hand or message.answer is not None or not only_secret(message.text):
            return message
        language = message.language or self._services.context.language
        return replace(message, text=HIDDEN, answer=model_texts.key_refused(language))

    async def _write(
        self,
        store: Callable[[], Awaitable[Sequence[Incoming | None] | NotStored]],
        stops: Collection[str],
        language: Language,
    ) -> Sequence[Incoming | None]:
        """Run a write that stores messages, and wake the chats of the messages: see `_store`.

        After `STOP_S`, or if nothing can be stored, the turns of the chats in `stops` are stopped anyway.
        """
        stored: Sequence[Incoming | None] | NotStored = ()
        failed: Exception | None = None

        async def stop_meanwhile() -> None:
            await trio.sleep(STOP_S)
            await self._stop_turns(stops)

        async def write() -> None:
            nonlocal stored, failed
            try:
                stored = await store()
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
                raise RumiError(
                    "The message could not be stored. {message}", why.advice, message=why.message
                ) from failed
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
        """Wake the chats of stored messages; publish the replies that were already stored with messages."""
        for message in stored:
            if message is None or not message.chat or not self._services.pending.takes(message.chat):
                continue
            if message.reply:
                self._services.pending.add(message.chat, message.id)
                replied = Replied(message.reply, (message.id,), message.answer or "")
                self._services.publisher.reply(message.chat, "", replied)
            else:
                self.chats.wake(message)

    async def _stop_turns(self, chats: Collection[str]) -> None:
        for chat in chats:
            await self.chats.end_turn(chat, "stopped")

    async def command(self, chat: str, text: str, language: Language | None = None) -> str:
        """Send a chat command, as a front end would, and return its reply.

        Raises:
            RumiError: no reply came within `COMMAND_REPLY_S` seconds. The chat keeps running.
        """
        # Subscribe before the message is accepted: its reply may be published before `accept` returns.
        with self._services.hub.listening(chat) as events, trio.move_on_after(COMMAND_REPLY_S):
            number = await self.accept(chat, text, language, unattended=True)
            return await self._reply(events, chat, number)
        raise RumiError("The chat has not answered yet.", "It continues; look at: rumi status")

    async def reply(self, chat: str, number: int, wait_s: float) -> str:
        """Return the final reply to a stored message; empty if it takes longer than `wait_s` seconds."""
        with self._services.hub.listening(chat) as events, trio.move_on_after(wait_s):
            # It may have come before this call subscribed.
            for reply in await self._services.journal.ask(undelivered_replies(chat, (number,))):
                if number in reply.messages:
                    return reply.text
            return await self._reply(events, chat, number)
        return ""

    async def _reply(self, events: HubSubscription, chat: str, number: int) -> str:
        # Another worker publishes the reply in its own process, so look for it in the shared journal.
        if not self._services.pending.takes(chat):
            return await self._stored_reply(chat, number)
        return (await reply_to(events, number)).text

    async def _stored_reply(self, chat: str, number: int) -> str:
        """Wait until the worker that serves the chat has stored the reply; return the reply's text."""
        while True:
            for reply in await self._services.journal.ask(undelivered_replies(chat, (number,))):
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
        known = chat == DEFAULT_CHAT or self.chats.lookup(chat) is not None
        known = known or self._services.workspaces.has(chat)
        if not (known or await self._services.journal.ask(knows_chat(chat))):
            raise unknown_chat(chat)
        return await self.command(chat, command, language)


def add_chats(
    root: Supervisor,
    services: ChatServices,
    *,
    free_space_advice: Callable[[str, Language], str] = lambda trouble, language: "",
    whole_status: Callable[[], str] = lambda: "",
    worker: Callable[[], str | None] = lambda: None,
) -> Inbox:
    """Add the chats and their recovery to the actor tree below `root`, and return their inbox.

    `free_space_advice` returns advice for users about a full disk, in their language. `whole_status` returns
    the status of the whole process, for admins. `worker` returns this process's name as one of several
    workers that share a database, or None if this process is the only one.
    """
    dispatcher = Dispatcher(root, services, whole_status, worker)
    return Inbox(services, Chats(services, dispatcher), free_space_advice)
