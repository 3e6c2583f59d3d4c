"""The holder's side: windows of other processes on the chats of this one."""

import logging
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial

import trio

from actors import ActorError, ActorRef
from rumi.agent.events import TurnFinished
from rumi.channels.attach.connection import OTHER_VERSION
from rumi.channels.attach.file_upload import MOST_WORDS, words_from_json
from rumi.channels.attach.wire import Wire, WireClosed
from rumi.channels.control.server import ControlStream
from rumi.channels.uploads import LocalUploads
from rumi.chats.events import VERSION, ChatEvent, Replied, plain, to_json, turn_of
from rumi.chats.fact_extraction import FactExtraction
from rumi.chats.hub import Hub, HubSubscription
from rumi.chats.inbox import Inbox
from rumi.chats.local import LocalChat
from rumi.chats.publishing import PendingMessages
from rumi.errors import NotServed, NotTaken, RumiError, answer_of
from rumi.platform.caller import Caller, ControlCall
from rumi.platform.chat_ids import ChatIds
from rumi.platform.texts import replies as reply_texts
from rumi.platform.texts.language import Language
from rumi.store.journal.outbox import Undelivered
from rumi.store.journal.records import Attachment
from rumi.store.journal.transaction import JournalMessage
from rumi.store.ownership import partition_of
from rumi.tasks.schedules.schedules import Schedules
from rumi.tasks.tasks import Tasks

logger = logging.getLogger(__name__)

TERMINAL = "terminal"
"""The channel of the messages that come through windows."""

STUCK_S = 300.0
"""A window that takes nothing for so long is closed."""

EXTRACTION_WAIT_S = 60.0
"""How long a process that nobody uses extracts facts before it ends; the next one does the rest."""

IDLE_AFTER_S = 3.0
"""A program's window that was silent for so long counts as idle."""

LATEST = 64
"""How many of a window's messages are remembered as its own after their replies."""

MOST_DELIVERY = 1 << 63
"""A larger number cannot be a delivery's, because no database counts further."""

LOOK_S = 0.02
"""How often to check if the windows have been told everything, when the program is about to end."""

POLL_REPLIES_S = 0.3
"""How often to look for replies in a chat whose worker cannot be reached."""

INTERRUPT_S = 5.0
"""How long the turns that are cut off may take to end."""

MOVED_S = 0.2
"""How long it may take to tell one window that its chat has moved."""

LAST_WORDS_S = 1.0
"""How long it may take to tell the windows the last replies."""


@dataclass(frozen=True, slots=True)
class About:
    """What this process is, for its windows.

    `service`: it never ends for a window, and after its end it will be back, so that no window may take the
    home in between. `marks` are those of its settings and keys. `notes` are sentences for each user.
    """

    engine: str
    service: bool = False
    marks: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def differing(self, marks: object) -> list[str]:
        """Return the settings and keys that are others in a window with these `marks`."""
        if not isinstance(marks, dict):
            return []
        return sorted(key for key in {*marks, *self.marks} if marks.get(key, "") != self.marks.get(key, ""))


@dataclass(eq=False, slots=True)
class _AttachedClient:
    """One window: its chat, what it listens to, the messages that came by it and have no reply yet, and the
    latest. `other` are the settings and keys that are others in its process. Another worker has passed a
    `passed` one here. The chat of one that is `away` belongs to a worker of that name, which is not reached:
    the replies in `known` are told, or were there before.
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
    """Serves windows, from `open` to `wind_down`: `serve` is the stream `window` of the control socket.

    `unused` says when a process that is there for them alone may end, and `make_way` is the call by which a
    command that needs the home ends it sooner.
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
        """`gone_from` returns when a chat belongs to that worker no more: several may share a database."""
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
        """Begin to accept windows: this process is there to stay."""
        self._accepting = True

    def wind_down(self) -> None:
        """Open no more windows and begin no more turns, because the program is about to end."""
        self._accepting, self._ending = False, True

    def busy_clients(self) -> int:
        """Return how many windows wait for something: a reply, or, without a person, what comes next."""
        return sum(self._is_busy(client) for client in self._clients)

    async def wait_until_idle(self) -> None:
        """Return when no window waits for anything, and all have been told everything."""
        while self.busy_clients():  # noqa: ASYNC110  # at the end of the program, of things in several places
            await trio.sleep(LOOK_S)

    async def finish(self) -> None:
        """Wind down, end the turns that run as interrupted, and tell the windows."""
        self.wind_down()
        with suppress(ActorError):
            if self._pending.unreplied:
                await self._inbox.wind_down(0, INTERRUPT_S)
                with trio.move_on_after(LAST_WORDS_S):
                    await self.wait_until_idle()
            for chat in self._left_chats:  # the next process learns from what they said
                await self._fact_extraction.request_extraction(chat)

    # A process that is there for its windows alone

    async def wait_until_unused(
        self, linger_s: float, launcher_attached: Callable[[], Awaitable[None]]
    ) -> None:
        """Return when for so long no window, call or turn was there, and no fact is to be extracted.

        The command that started the process has a window, or has gone, when `began` returns.
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
            if self._idle:
                self.wind_down()

    def keeping_alive(self, call: ControlCall) -> ControlCall:
        """Return the call, during which the process is not unused."""

        async def count(caller: Caller, request: Mapping[str, object]) -> object:
            self._open_calls += 1
            try:
                return await call(caller, request)
            finally:
                self._open_calls -= 1
                self._notify_changed()

        return count

    def keeping_alive_stream(self, stream: ControlStream) -> ControlStream:
        """Return the stream, during which the process is not unused."""

        async def count(caller: Caller, request: Mapping[str, object], wire: Wire) -> None:
            self._open_calls += 1
            try:
                await stream(caller, request, wire)
            finally:
                self._open_calls -= 1
                self._notify_changed()

        return count

    async def yield_home(self, caller: Caller, request: Mapping[str, object]) -> Mapping[str, object]:
        """End this process if nothing goes on in it, for a command that needs the home, or whose settings are
        others: its `marks` are not those of this process. Return whether it `ends`, and the open `windows`.
        """
        await trio.lowlevel.checkpoint()
        caller.check_all()
        marks = request.get("marks")
        differs = marks is None or bool(self._about.differing(marks))
        if self._about.service or not self._idle or not differs:
            return {"ends": self._ending and not self._about.service, "windows": len(self._clients)}
        self.wind_down()
        self._notify_changed()
        return {"ends": True}

    @property
    def _idle(self) -> bool:
        works = self._tasks.at_work or self._schedules.soon
        return not (self._clients or self._open_calls or works or self._pending.unreplied)

    async def _extract_facts(self) -> None:
        """Extract the facts that are due, in bounded time, and until something else is to be done."""
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
        if not client.unreachable_worker:  # of those, `_look_for_replies` forgets what has its reply
            client.unanswered &= self._pending.unreplied.get(client.chat.chat, set())
        if client.unanswered or client.events.behind or client.sending:
            client.last_activity = trio.current_time()
            return True
        return not client.person and trio.current_time() < client.last_activity + IDLE_AFTER_S

    # One window

    async def serve(self, caller: Caller, request: Mapping[str, object], wire: Wire) -> None:
        """Open a window as it was asked for, and serve it until it goes.

        Then a program's turn is stopped; a person's goes on.
        """
        try:
            client = await self._attach(caller, request)
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
            ended = trio.current_effective_deadline() == -math.inf  # a worker that begins again
            if client.moved_away.is_set() or (
                ended and self._until_other_worker is not None and not self._ending
            ):
                await _say_moved(wire)
            client.events.close()
            self._clients.discard(client)
            self._notify_changed()
        if not client.moved_away.is_set():
            await self._detached(client)

    # Among other workers

    async def take_over(self, numbers: frozenset[int]) -> None:
        """Nothing is to be done: windows of these chats are elsewhere, and come by themselves."""

    async def hand_over(self, numbers: frozenset[int], patience_s: float) -> None:
        """Have the windows on these chats open once more: another worker serves them.

        Those of this process stay if it ends: they end with it.
        """
        moving = [
            window
            for window in self._clients
            if partition_of(window.chat.chat) in numbers and (window.forwarded or not self._ending)
        ]
        with trio.move_on_after(LAST_WORDS_S):
            while any(window.events.behind or window.sending for window in moving):  # noqa: ASYNC110
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
        """Tell the replies to a window whose chat another worker serves, out of the database."""
        chat = client.chat
        while True:
            try:
                replies = await chat.journal.ask(Undelivered(chat.chat, tuple(sorted(client.unanswered))))
            except ActorError as error:
                logger.warning("a window on %s hears nothing: %r", chat.chat, error)
                replies = ()
            for stored in replies:
                if stored.delivery in client.known_deliveries:
                    continue
                client.known_deliveries.add(stored.delivery)
                client.unanswered -= set(stored.messages)
                reply = Replied(stored.delivery, stored.messages, stored.text, stored.reason)
                turn = turn_of(stored.messages[0]) if stored.messages and stored.reason else ""
                if stored.reason:
                    ended = TurnFinished(stored.reason, stored.text)
                    client.events.put(ChatEvent(chat.chat, turn, time.time(), ended))
                client.events.put(ChatEvent(chat.chat, turn, time.time(), reply))
            await trio.sleep(POLL_REPLIES_S)

    def _later(self) -> bool:
        """Return True if another process will soon do what this one does not take any more, or not yet."""
        return not self._accepting and not (self._ending and self._about.service)

    async def _attach(self, caller: Caller, request: Mapping[str, object]) -> _AttachedClient:
        if request.get("version") != VERSION:
            raise RumiError(*OTHER_VERSION)
        if not self._accepting:
            raise _ShuttingDown
        chat = caller.chat_in(self._ids.check_chosen(str(request.get("chat"))), self._ids.owner_of)
        forwarded = request.get("passed") is True
        # One of another worker's home has the settings of that home.
        model, other = (
            self._model_for(request),
            [] if forwarded else self._about.differing(request.get("marks")),
        )
        if model is not None:
            other = [key for key in other if key != "model.default"]
        language: Language = "es" if request.get("language") == "es" else "en"
        unreachable_worker = str(request.get("away") or "")
        if request.get("new") and unreachable_worker:
            raise RumiError(
                f"The worker {unreachable_worker} serves this chat, and cannot be reached from here."
            )
        if request.get("new"):
            if self._inbox.works(chat):
                raise RumiError(reply_texts.busy(language))
            await self._inbox.begin_session(chat)
        events = self._hub.subscribe(chat, entering=True)
        local_chat = LocalChat(
            chat,
            self._inbox,
            self._hub,
            self._journal,
            language,
            apart=request.get("apart") is True,
            channel=TERMINAL,
            chosen=model or "",
            project=_project_of(request),
            tainted=request.get("tainted") is True,
        )
        person, single = bool(request.get("person")), request.get("single") is True
        client = _AttachedClient(
            local_chat, person, language, events, single, other, forwarded, unreachable_worker
        )
        if unreachable_worker:
            stored = await self._journal.ask(Undelivered(chat))
            client.known_deliveries.update(reply.delivery for reply in stored)
        elif self._until_other_worker is not None and not self._pending.takes(chat):
            events.close()
            raise NotServed("This worker does not serve the chat any more.", "Try again in a moment.")
        self._clients.add(client)
        self._left_chats.discard(chat)
        self._notify_changed()
        return client

    def _model_for(self, request: Mapping[str, object]) -> str | None:
        """Return the model that a window wants, as messages carry it; None where it cannot be used.

        Raises:
            RumiError: the window `must` have it, and it cannot be used.
        """
        try:
            return self._inbox.model_named(str(request.get("model") or self._inbox.own_model))
        except RumiError:
            if request.get("must"):
                raise
            return None

    async def _detached(self, client: _AttachedClient) -> None:
        """Stop the turns that a program began; learn from what was said, unless it was for one turn."""
        chat = client.chat.chat
        with suppress(ActorError):
            if not client.person:
                await self._inbox.withdraw(chat, client.unanswered)
            if not client.single_turn and all(other.chat.chat != chat for other in self._clients):
                if self._inbox.works(chat):
                    self._left_chats.add(chat)
                elif await self._fact_extraction.request_extraction(chat):
                    self._fact_extraction.session_ended()

    async def _send_events(self, client: _AttachedClient, wire: Wire, scope: trio.CancelScope) -> None:
        """Send the chat's events. One that does not read delays no other; after `STUCK_S` it is closed."""
        while True:
            client.sending = False
            event = await client.events.receive()
            client.sending = True
            with trio.move_on_after(STUCK_S) as patience, suppress(WireClosed):
                await wire.send({"event": to_json(event)})
            if patience.cancelled_caught:
                scope.cancel()
                return

    async def _handle_requests(self, client: _AttachedClient, wire: Wire) -> None:
        """Do what the window asks for, one after the other, until it goes."""
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
                    files = request.get("files", [])
                    await wire.send({"done": id, **await self._send(client, text, words, files)})
                case {"do": "undelivered", "id": id, "to": list(to)} if _are_numbers(to):
                    await wire.send({"done": id, **await self._undelivered(client, to)})
                case {"do": "recent", "id": id}:
                    await wire.send({"done": id, **await self._recent(chat)})
                case {"do": "model", "id": id, "name": str(name)}:
                    await wire.send({"done": id, **await self._use_model(chat, name)})
                case _:
                    raise WireClosed("not understood")

    async def _send(
        self, client: _AttachedClient, text: str, words: list[object], files: object
    ) -> Mapping[str, object]:
        try:
            attachments = (*words_from_json(words), *files_from_json(files))
        except (KeyError, TypeError, ValueError):
            raise WireClosed("not understood") from None
        try:
            # What comes while a turn runs begins nothing, and a program that is waited for may go on.
            at_work = self._inbox.works(client.chat.chat) or (not client.person and self._is_busy(client))
            if not self._accepting and not at_work:
                return {**_error_answer(_ShuttingDown()), "later": self._later()}
            number = await client.chat.send(text, attachments)
        except RumiError as error:
            return _error_answer(error)
        except ActorError:
            return _error_answer(RumiError("The message could not be stored.", "Send it again."))
        self._is_busy(client)  # forgets those that were replied to
        client.unanswered.add(number)
        client.latest_messages.append(number)
        client.last_activity = trio.current_time()
        return {"number": number}

    async def _use_model(self, chat: LocalChat, name: str) -> Mapping[str, object]:
        """Have another model work on what the window sends from now on."""
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

    async def _undelivered(self, client: _AttachedClient, to: Sequence[int]) -> Mapping[str, object]:
        """Return replies that nobody has read, without those to another window's latest messages; and those
        to messages of its own that an earlier process took.
        """
        chat = client.chat
        client.latest_messages.extend(to)
        try:
            replies = await chat.undelivered(to)
        except RumiError as error:
            return _error_answer(error)
        except Exception as error:  # noqa: BLE001  # whatever keeps the chat from starting is the window's news
            logger.warning("a window's chat %s did not start: %r", chat.chat, error)
            return _error_answer(RumiError(f"The chat {chat.chat} does not start.", "Look at: rumi status"))
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
    return (
        f"The worker {worker} serves this chat, and cannot be reached from here: "
        "each reply appears when it is complete."
    )


async def _say_moved(wire: Wire) -> None:
    """Say that another worker serves the chat, or this one in a moment. It may be too late for words."""
    with trio.move_on_after(MOVED_S, shield=True), suppress(WireClosed):
        await wire.send({"moved": True})


class _ShuttingDown(RumiError):
    def __init__(self) -> None:
        super().__init__("The running Rumi is about to end.", "Try again when it has.")


def _are_numbers(values: Sequence[object]) -> bool:
    """Return True for a few numbers that messages may have."""
    return len(values) <= LATEST and all(type(value) is int and 0 < value < MOST_DELIVERY for value in values)


def _project_of(request: Mapping[str, object]) -> str:
    """Return the folder whose skills count for a window; empty for none."""
    project = request.get("project")
    return project if isinstance(project, str) and project.startswith("/") else ""


def _error_answer(error: RumiError) -> Mapping[str, object]:
    refused = answer_of(error)
    return refused | {"not_taken": True} if isinstance(error, NotTaken) else refused


def files_from_json(data: object) -> tuple[Attachment, ...]:
    """Return files that the window has handed over, by their names in the workspace.

    Raises:
        ValueError: they are not what this version knows.
    """
    if (
        not isinstance(data, list)
        or len(data) > MOST_WORDS
        or not all(isinstance(item, str) for item in data)
    ):
        raise ValueError("not a short list of names")
    return tuple(map(LocalUploads.attachment, data))
