"""The daemon's side of attached clients: other processes that use the chats of this process."""

import logging
import math
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import trio

from actors import ActorError, ActorRef
from rumi.agent.events import TurnFinished
from rumi.channels.attach.client import OpenRequest
from rumi.channels.attach.connection import OTHER_VERSION
from rumi.channels.attach.file_upload import MOST_WORDS, words_from_json
from rumi.channels.attach.wire import Wire, WireClosed
from rumi.channels.control.server import ControlStream
from rumi.channels.uploads import LocalUploads
from rumi.chats.events import VERSION, ChatEvent, Replied, SessionFigures, plain, to_json, turn_of
from rumi.chats.fact_extraction import FactExtraction
from rumi.chats.hub import Hub, HubSubscription
from rumi.chats.inbox import Inbox
from rumi.chats.local import LocalChat
from rumi.chats.publishing import PendingMessages
from rumi.errors import NotServed, NotTaken, RumiError, UsageError, answer_of
from rumi.platform.caller import Caller, ControlCall, NotAllowed
from rumi.platform.calls import CHAT, answer, call
from rumi.platform.chat_ids import ChatIds
from rumi.platform.texts import replies as reply_texts
from rumi.platform.zones import zone_of_machine
from rumi.store.journal.outbox import undelivered_replies
from rumi.store.journal.records import Attachment
from rumi.store.journal.transaction import JournalMessage
from rumi.store.ownership import partition_of
from rumi.tasks.schedules.schedules import Schedules
from rumi.tasks.tasks import Tasks
from rumi.texts import Language, Text

logger = logging.getLogger(__name__)

TERMINAL = "terminal"
"""The channel name of messages from attached clients."""

STUCK_S = 300.0
"""A client that has read nothing for this many seconds is detached."""

EXTRACTION_WAIT_S = 60.0
"""Maximum seconds that an unused process extracts facts before it ends; the next process continues."""

IDLE_AFTER_S = 3.0
"""A program's client that has sent nothing for this many seconds counts as idle."""

LATEST = 64
"""How many of a client's latest messages are remembered as its own after they have been answered."""

MOST_COMMAND_CHARS = 20_000
"""Maximum length of a command that a person runs without the model."""

MOST_DELIVERY = 1 << 63
"""Upper bound of delivery and message numbers, exclusive: databases store them as signed 64-bit integers."""

LOOK_S = 0.02
"""Before the process ends, it checks at this interval (seconds) that clients have received all events."""

POLL_REPLIES_S = 0.3
"""Interval of the queries for replies in a chat whose worker is unreachable, in seconds."""

INTERRUPT_S = 5.0
"""Maximum time for interrupted turns to end, in seconds."""

MOVED_S = 0.2
"""Maximum time to notify one client that its chat has moved, in seconds."""

LAST_WORDS_S = 1.0
"""Maximum time to send the last replies to the clients, in seconds."""


@dataclass(frozen=True, slots=True)
class About:
    """Properties of this process for its attached clients.

    If `service` is True, the process never ends on a client's request, and is restarted when it has ended; no
    client may lock the home between the end and the restart. `marks` are fingerprints of the process's
    settings and keys. `notes` are sentences that are shown to every user.
    """

    engine: str
    service: bool = False
    marks: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def differing(self, marks: Mapping[str, object]) -> list[str]:
        """Return the names of the settings and keys in which a client with the given `marks` differs."""
        return sorted(key for key in {*marks, *self.marks} if marks.get(key, "") != self.marks.get(key, ""))


@dataclass(eq=False, slots=True)
class _AttachedClient:
    """One attached client, with its chat, its event subscription, and its messages.

    `differing_settings` are the settings and keys that differ in the client's process. `forwarded` is True if
    another worker has forwarded the client here. `unreachable_worker` is the name of the unreachable worker
    that serves the chat; empty if this process serves it. `known_deliveries` are the replies that the client
    already has, or that existed before it attached to a chat of an unreachable worker.
    """

    chat: LocalChat
    person: bool
    language: Language
    events: HubSubscription
    single_turn: bool = False
    differing_settings: Sequence[str] = ()
    forwarded: bool = False
    unreachable_worker: str = ""
    known_deliveries: set[int] = field(default_factory=set)
    moved_away: trio.Event = field(default_factory=trio.Event)
    unanswered: set[int] = field(default_factory=set)
    sending: bool = False
    last_activity: float = field(default_factory=trio.current_time)
    latest_messages: deque[int] = field(default_factory=partial(deque, maxlen=LATEST))


class AttachServer:
    """The stream `window` of the control socket: `serve` handles one client.

    Clients are accepted after `open` is called, until `wind_down` is called. `wait_until_unused` returns when
    a process that runs only for its clients may end. `yield_home` is the control call with which a command
    that needs the home asks the process to end.
    """

    def __init__(
        self,
        inbox: Inbox,
        tasks: Tasks,
        schedules: Schedules,
        fact_extraction: FactExtraction,
        journal: ActorRef[JournalMessage],
        hub: Hub,
        pending: PendingMessages,
        ids: ChatIds,
        about: About,
        until_other_worker: Callable[[str, str], Awaitable[None]] | None = None,
    ) -> None:
        """Create a server that does not accept clients yet.

        `until_other_worker` returns when a chat no longer belongs to the named worker; None if this process
        does not share its database with other workers.
        """
        self._inbox = inbox
        self._tasks = tasks
        self._schedules = schedules
        self._fact_extraction = fact_extraction
        self._journal = journal
        self._hub = hub
        self._pending = pending
        self._ids = ids
        self._about = about
        self._until_other_worker = until_other_worker
        self._clients: set[_AttachedClient] = set()
        self._left_chats: set[str] = set()
        self._open_calls = 0
        self._changed = trio.Event()
        self._accepting = False
        self._ending = False

    def open(self) -> None:
        """Start to accept clients: the startup of the process is complete."""
        self._accepting = True

    def wind_down(self) -> None:
        """Reject new clients and start no more turns, because the process is about to end."""
        self._accepting, self._ending = False, True

    def busy_clients(self) -> int:
        """Return the number of clients that wait for a reply or belong to a recently active program."""
        return sum(self._is_busy(client) for client in self._clients)

    async def wait_until_idle(self) -> None:
        """Wait until no client waits for a reply and all clients have received all their events."""
        while self.busy_clients():  # noqa: ASYNC110  # at the end of the program, of things in several places
            await trio.sleep(LOOK_S)

    async def finish(self) -> None:
        """Call `wind_down`, interrupt the running turns, and send the turns' last replies to the clients."""
        self.wind_down()
        with suppress(ActorError):
            if self._pending.unreplied:
                await self._inbox.chats.wind_down(0, INTERRUPT_S)
                with trio.move_on_after(LAST_WORDS_S):
                    await self.wait_until_idle()
            for chat in self._left_chats:  # stored: the next process extracts facts from these sessions
                await self._fact_extraction.request_extraction(chat)

    # A process that runs only for its clients

    async def wait_until_unused(
        self, linger_s: float, launcher_attached: Callable[[], Awaitable[None]]
    ) -> None:
        """Return when there was no client, call or turn for `linger_s` seconds and no fact extraction is due.

        `launcher_attached` returns when the command that started the process has attached, or has ended.
        """
        await launcher_attached()
        while not self._ending:
            while not self._idle:
                if self._clients or self._open_calls:
                    await self._changed.wait()
                elif self._tasks.at_work:
                    await self._tasks.all_ended()
                elif self._schedules.soon:
                    await self._schedules.none_soon()
                else:
                    await self._pending.all_replied()
            with trio.move_on_after(linger_s):
                await self._changed.wait()
                continue
            await self._extract_facts()
            # A client may have attached during the extraction. No await between this check and `wind_down`.
            if self._idle:
                self.wind_down()

    def keeping_alive(self, call: ControlCall) -> ControlCall:
        """Return the call, wrapped so that the process counts as used while it runs."""

        async def count(caller: Caller, request: Mapping[str, object]) -> object:
            self._open_calls += 1
            try:
                return await call(caller, request)
            finally:
                self._open_calls -= 1
                self._notify_changed()

        return count

    def keeping_alive_stream(self, stream: ControlStream) -> ControlStream:
        """Return the stream, wrapped so that the process counts as used while it runs."""

        async def count(caller: Caller, request: Mapping[str, object], wire: Wire) -> None:
            self._open_calls += 1
            try:
                await stream(caller, request, wire)
            finally:
                self._open_calls -= 1
                self._notify_changed()

        return count

    @call("make_way", rights="all")
    async def yield_home(
        self, caller: Caller, *, marks: Mapping[str, Any] | None = None
    ) -> Mapping[str, object]:
        """End this process if it is idle, for a command that needs the home or has different settings.

        A request without `marks` comes from a command that needs the home. A request with `marks`
        (fingerprints of the command's settings) ends the process only if they differ from the marks of this
        process. The result has two fields: `ends`, True if the process ends, and `windows`, the number of
        attached clients.
        """
        await trio.lowlevel.checkpoint()
        differs = marks is None or bool(self._about.differing(marks))
        if self._about.service or not self._idle or not differs:
            return {"ends": self._ending and not self._about.service, "windows": len(self._clients)}
        # No await since the check: a client that attaches now is rejected and tries the next daemon.
        self.wind_down()
        self._notify_changed()
        return {"ends": True}

    @property
    def _idle(self) -> bool:
        works = self._tasks.at_work or self._schedules.soon
        return not (self._clients or self._open_calls or works or self._pending.unreplied)

    async def _extract_facts(self) -> None:
        """Extract facts from chats that are due.

        This takes at most `EXTRACTION_WAIT_S`, and stops when a client attaches.
        """
        with suppress(ActorError), trio.move_on_after(EXTRACTION_WAIT_S):
            for chat in self._left_chats:
                await self._fact_extraction.request_extraction(chat)
            self._left_chats.clear()
            if await self._fact_extraction.is_due():
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._cancel_when_changed, nursery.cancel_scope)
                    await self._fact_extraction.extract_now()
                    nursery.cancel_scope.cancel()

    async def _cancel_when_changed(self, scope: trio.CancelScope) -> None:
        await self._changed.wait()
        scope.cancel()

    def _notify_changed(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def _is_busy(self, client: _AttachedClient) -> bool:
        # This process does not track the messages of an unreachable worker: `_poll_replies` removes those.
        if not client.unreachable_worker:
            client.unanswered &= self._pending.unreplied.get(client.chat.chat, set())
        if client.unanswered or client.events.behind or client.sending:
            client.last_activity = trio.current_time()
            return True
        return not client.person and trio.current_time() < client.last_activity + IDLE_AFTER_S

    # One client

    async def serve(self, caller: Caller, request: Mapping[str, object], wire: Wire) -> None:
        """Attach a client as the request asks, and serve it until it detaches.

        When the client detaches, a turn that a program started is stopped; a person's turn continues.
        """
        try:
            if request.get("version") != VERSION:  # before the fields, which another version may change
                raise RumiError(*OTHER_VERSION)
            client = await answer(self, "window", caller, request)
        except RumiError as error:
            later = self._later() or isinstance(error, NotServed)
            await wire.send({**_error_answer(error), "later": later})
            return
        try:
            about = self._about
            notes = (
                (*about.notes, _unreachable_note(client.unreachable_worker))
                if client.unreachable_worker
                else about.notes
            )
            opened = {
                "model": client.chat.model,
                "engine": about.engine,
                "service": about.service,
                "notes": notes,
                "other": client.differing_settings,
                **self._inbox.chats.whereabouts(client.chat.chat),
            }
            await wire.send({"opened": opened})
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send_events, client, wire, nursery.cancel_scope)
                nursery.start_soon(self._detach_when_moved, client, nursery.cancel_scope)
                if client.unreachable_worker:
                    nursery.start_soon(self._poll_replies, client)
                with suppress(WireClosed):
                    await self._handle_requests(client, wire)
                nursery.cancel_scope.cancel()
        finally:
            # Cancelled without `wind_down`: this worker restarts, so that the client has to attach again.
            ended = trio.current_effective_deadline() == -math.inf
            if client.moved_away.is_set() or (
                ended and self._until_other_worker is not None and not self._ending
            ):
                await _say_moved(wire)
            client.events.close()
            # Before `_detached`, which looks for other clients of the same chat.
            self._clients.discard(client)
            self._notify_changed()
        if not client.moved_away.is_set():
            await self._detached(client)

    # Among other workers

    async def take_over(self, numbers: frozenset[int]) -> None:
        """Do nothing: the clients of these chats will attach to this worker themselves."""

    async def hand_over(self, numbers: frozenset[int], patience_s: float) -> None:
        """Make the clients of these groups of chats attach again: another worker serves the chats now.

        If this process is about to end, only forwarded clients are moved: its own clients end with it.
        """
        moving = [
            client
            for client in self._clients
            if partition_of(client.chat.chat) in numbers and (client.forwarded or not self._ending)
        ]
        # The events up to the handover exist only here: send them before the client leaves.
        with trio.move_on_after(LAST_WORDS_S):
            while any(client.events.behind or client.sending for client in moving):  # noqa: ASYNC110
                await trio.sleep(LOOK_S)
        for client in moving:
            client.moved_away.set()

    async def _detach_when_moved(self, client: _AttachedClient, scope: trio.CancelScope) -> None:
        if client.unreachable_worker and self._until_other_worker is not None:
            await self._until_other_worker(client.chat.chat, client.unreachable_worker)
            client.moved_away.set()
        await client.moved_away.wait()
        scope.cancel()

    async def _poll_replies(self, client: _AttachedClient) -> None:
        """Send a client the stored replies of its chat, until cancelled.

        This is for a chat that is served by an unreachable worker.

        The events of that worker do not arrive here, so the replies are polled from the shared database.
        """
        chat = client.chat
        while True:
            try:
                replies = await chat.journal.ask(
                    undelivered_replies(chat.chat, tuple(sorted(client.unanswered)))
                )
            except ActorError as error:
                logger.warning("a window on %s hears nothing: %r", chat.chat, error)
                replies = ()
            for stored in replies:
                if stored.delivery in client.known_deliveries:
                    continue
                client.known_deliveries.add(stored.delivery)
                client.unanswered -= set(stored.messages)
                reply = Replied(
                    stored.delivery, stored.messages, stored.text, stored.reason, note=stored.note
                )
                turn = turn_of(stored.messages[0]) if stored.messages and stored.reason else ""
                if stored.reason:
                    ended = TurnFinished(stored.reason, stored.text)
                    client.events.put(ChatEvent(chat.chat, turn, time.time(), ended))
                client.events.put(ChatEvent(chat.chat, turn, time.time(), reply))
            await trio.sleep(POLL_REPLIES_S)

    def _later(self) -> bool:
        """Return True if the client should retry: this process is starting, or another will replace it."""
        return not self._accepting and not (self._ending and self._about.service)

    @call("window", key=CHAT, stream=True)
    async def attach(
        self,
        caller: Caller,
        *,
        opening: OpenRequest,
        version: int,
        passed: bool = False,
        away: str = "",
    ) -> _AttachedClient:
        """Attach to a chat: send messages, and get its events."""
        if not self._accepting:
            raise _ShuttingDown
        chat = caller.chat_in(self._ids.check_chosen(opening.chat), self._ids.owner_of)
        if opening.folder:
            await self._link(caller, opening, chat, elsewhere=passed or bool(away))
        # A forwarded client has the settings of its own worker's home, which may differ from these.
        model, other = (
            self._model_for(opening),
            [] if passed else self._about.differing(opening.marks),
        )
        if model is not None:
            other = [key for key in other if key != "model.default"]
        language = opening.language
        if (opening.new or opening.resume) and away:
            raise RumiError(
                "The worker {unreachable_worker} serves this chat, and cannot be reached from here.",
                unreachable_worker=away,
            )
        if opening.new or opening.resume:
            if self._inbox.chats.works(chat):
                raise RumiError(reply_texts.busy(language))
            if opening.resume:
                session = await self._inbox.chats.reopen_session(chat, opening.resume)
            else:
                session = await self._inbox.chats.begin_session(chat)
            # Other windows on the chat are told; nobody else is: this is no reply to a message.
            figures = SessionFigures(session, begun=True)
            told = Replied(0, (), "", silent=True, figures=figures)
            self._hub.publish(ChatEvent(chat, "", time.time(), told))
        # Subscribed before the queries below, so that no event between them and `serve` is lost.
        events = self._hub.subscribe(chat, entering=True)
        local_chat = LocalChat(
            chat,
            self._inbox,
            self._hub,
            self._journal,
            language,
            apart=opening.apart,
            channel=TERMINAL,
            chosen=model or "",
            project=opening.project if opening.project.startswith("/") else "",
            tainted=opening.tainted,
            zone=_zone_of(opening),
        )
        client = _AttachedClient(
            local_chat, opening.person, language, events, opening.single, other, passed, away
        )
        if away:
            stored = await self._journal.ask(undelivered_replies(chat))
            client.known_deliveries.update(reply.delivery for reply in stored)
        elif self._until_other_worker is not None and not self._pending.takes(chat):
            events.close()
            raise NotServed("This worker does not serve the chat any more.", "Try again in a moment.")
        # No await between the check above and this line: `hand_over` has to find the client in the set.
        self._clients.add(client)
        self._left_chats.discard(chat)
        self._notify_changed()
        return client

    async def _link(self, caller: Caller, opening: OpenRequest, chat: str, *, elsewhere: bool) -> None:
        """Let the chat work on the folder that the request names.

        Raises:
            NotAllowed: the caller is not the owner's terminal: only a person there chooses a folder.
            RumiError: the folder is refused, or the chat has other files.
        """
        caller.check_all()
        if caller.channel != TERMINAL or opening.tainted:
            raise NotAllowed
        if elsewhere:
            raise RumiError(
                "The worker that serves the chat {chat} runs elsewhere, and does not see this folder.",
                "Start with: rumi --own",
                chat=chat,
            )
        folder = Path(os.fsdecode(unquote_to_bytes(opening.folder)))
        if not folder.is_absolute() or "\0" in str(folder):
            raise UsageError("The path of the folder is not absolute.")
        await self._inbox.chats.link(chat, folder)

    def _model_for(self, opening: OpenRequest) -> str | None:
        """Return the requested model's name as used in messages; None if the model cannot be used.

        Raises:
            RumiError: the model cannot be used, and the client has `must` set, so no other model will do.
        """
        try:
            return self._inbox.chats.model_named(opening.model or self._inbox.chats.own_model)
        except RumiError:
            if opening.must:
                raise
            return None

    async def _detached(self, client: _AttachedClient) -> None:
        """Stop the turns of a detached program; request fact extraction, unless the client was `single`."""
        chat = client.chat.chat
        with suppress(ActorError):
            if not client.person:
                await self._inbox.chats.withdraw(chat, client.unanswered)
            if not client.single_turn and all(other.chat.chat != chat for other in self._clients):
                if self._inbox.chats.works(chat):
                    self._left_chats.add(chat)
                elif await self._fact_extraction.request_extraction(chat):
                    self._fact_extraction.session_ended()

    async def _send_events(self, client: _AttachedClient, wire: Wire, scope: trio.CancelScope) -> None:
        """Send the chat's events. A client that does not read delays no other client.

        After `STUCK_S` without progress the client is detached.
        """
        while True:
            # `_is_busy` reads `sending`: an event counts as pending from the subscription to the socket.
            client.sending = False
            event = await client.events.receive()
            client.sending = True
            with trio.move_on_after(STUCK_S) as patience, suppress(WireClosed):
                await wire.send({"event": to_json(event)})
            if patience.cancelled_caught:
                scope.cancel()
                return

    async def _handle_requests(self, client: _AttachedClient, wire: Wire) -> None:
        """Handle the client's requests one after the other, until it detaches.

        Raises:
            WireClosed: The client has disconnected, or sent a request that is not understood.
        """
        chat = client.chat
        while True:
            request = await wire.receive()
            match request:
                case {"do": "shown", "question": str(question)}:
                    chat.shown(question)
                case {"do": "unasked", "question": str(question)}:
                    chat.unasked(question)
                case {"do": "delivered", "delivery": int(delivery)} if 0 < delivery < MOST_DELIVERY:
                    with suppress(ActorError):
                        await chat.delivered(delivery)
                case {"do": "send", "id": id, "text": str(text), "words": list(words)}:
                    files, command = request.get("files", []), request.get("command", "")
                    await wire.send({"done": id, **await self._send(client, text, words, files, command)})
                case {"do": "undelivered", "id": id, "to": list(to)} if _are_numbers(to):
                    await wire.send({"done": id, **await self._undelivered(client, to)})
                case {"do": "recent", "id": id}:
                    await wire.send({"done": id, **await self._recent(chat)})
                case {"do": "sessions", "id": id}:
                    await wire.send({"done": id, **await self._sessions(chat)})
                case {"do": "model", "id": id, "name": str(name)}:
                    await wire.send({"done": id, **await self._use_model(chat, name)})
                case _:
                    raise WireClosed("not understood")

    async def _send(
        self, client: _AttachedClient, text: str, words: list[object], files: object, command: object
    ) -> Mapping[str, object]:
        try:
            attachments = (*words_from_json(words), *files_from_json(files))
            if not isinstance(command, str) or (command and client.chat.tainted):
                raise ValueError("no command of a person")
        except (KeyError, TypeError, ValueError):
            raise WireClosed("not understood") from None
        try:
            if command:
                if len(command) > MOST_COMMAND_CHARS:
                    raise RumiError("A command has at most {count} characters.", count=MOST_COMMAND_CHARS)
                attachments = (Attachment("command", text=command),)
            # While winding down: a message to a running turn starts no new turn, and a program that still
            # waits for something may continue.
            at_work = self._inbox.chats.works(client.chat.chat) or (
                not client.person and self._is_busy(client)
            )
            if not self._accepting and not at_work:
                return {**_error_answer(_ShuttingDown()), "later": self._later()}
            number = await client.chat.send(text, attachments)
        except RumiError as error:
            return _error_answer(error)
        except ActorError:
            return _error_answer(RumiError("The message could not be stored.", "Send it again."))
        self._is_busy(client)  # removes answered messages; the new one may already have its reply
        client.unanswered.add(number)
        client.latest_messages.append(number)
        client.last_activity = trio.current_time()
        return {"number": number}

    async def _use_model(self, chat: LocalChat, name: str) -> Mapping[str, object]:
        """Use another model for all messages that the client sends after this request."""
        try:
            await chat.use_model(name)
        except RumiError as error:
            return _error_answer(error)
        return {"model": chat.model}

    async def _recent(self, chat: LocalChat) -> Mapping[str, object]:
        try:
            return {"exchanges": [asdict(exchange) for exchange in await chat.recent()]}
        except ActorError:
            return {"exchanges": []}

    async def _sessions(self, chat: LocalChat) -> Mapping[str, object]:
        try:
            return {"sessions": [asdict(session) for session in await chat.sessions()]}
        except ActorError:
            return {"sessions": []}

    async def _undelivered(self, client: _AttachedClient, to: Sequence[int]) -> Mapping[str, object]:
        """Return the chat's unread replies, and the replies `to` messages that an earlier process received.

        Replies to another client's latest messages are left out: that client shows them itself.
        """
        chat = client.chat
        client.latest_messages.extend(to)
        try:
            replies = await chat.undelivered(to)
        except RumiError as error:
            return _error_answer(error)
        except Exception as error:  # noqa: BLE001  # a chat that fails to start must not end the daemon
            logger.warning("a window's chat %s did not start: %r", chat.chat, error)
            return _error_answer(
                RumiError("The chat {chat} does not start.", "Look at: rumi status", chat=chat.chat)
            )
        client.known_deliveries.update(reply.delivery for reply in replies)
        others = {
            number for other in self._clients if other is not client for number in other.latest_messages
        }
        return {
            "replies": [
                plain(reply)
                for reply in replies
                if others.isdisjoint(reply.messages) or not set(to).isdisjoint(reply.messages)
            ]
        }


def _unreachable_note(worker: str) -> str:
    return Text(
        "The worker {worker} serves this chat, and cannot be reached from here: each reply appears "
        "when it is complete.",
        worker=worker,
    )


async def _say_moved(wire: Wire) -> None:
    """Tell the client to attach again, because another worker serves the chat, or this process restarts.

    Ignores a closed connection.
    """
    # Shielded: this runs while the stream is being cancelled. Bounded: a client that does not read must not
    # delay the handover.
    with trio.move_on_after(MOVED_S, shield=True), suppress(WireClosed):
        await wire.send({"moved": True})


class _ShuttingDown(RumiError):
    def __init__(self) -> None:
        super().__init__("The running Rumi is about to end.", "Try again when it has.")


def _are_numbers(values: Sequence[object]) -> bool:
    """Return True if `values` contains only valid message numbers, and at most `LATEST` of them."""
    return len(values) <= LATEST and all(type(value) is int and 0 < value < MOST_DELIVERY for value in values)


def _error_answer(error: RumiError) -> Mapping[str, object]:
    refused = answer_of(error)
    return refused | {"not_taken": True} if isinstance(error, NotTaken) else refused


def files_from_json(data: object) -> tuple[Attachment, ...]:
    """Return the attachments of uploaded files, given by the path in the workspace and the sender's name.

    Raises:
        ValueError: `data` is not a short list of these.
    """
    if not isinstance(data, list) or len(data) > MOST_WORDS:
        raise ValueError("not a short list")
    found = []
    for item in data:
        match item:
            case [str(path), str(name)]:
                found.append(LocalUploads.attachment(path, name=name))
            case _:
                raise ValueError("not a path and a name")
    return tuple(found)


def _zone_of(opening: OpenRequest) -> str:
    """Return the time zone of a person's client, which runs on this machine; empty for a program's."""
    return zone_of_machine({"TZ": opening.tz} if opening.tz else {}) if opening.person else ""
