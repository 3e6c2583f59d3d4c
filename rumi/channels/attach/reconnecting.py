"""A chat for a front end that stays attached when the daemon ends and another daemon takes over."""

import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import trio

from rumi.channels.attach.client import DaemonGone, NotAccepting, OpenRequest, attach
from rumi.channels.attach.connection import connect
from rumi.chats.events import ChatEvent, Moved, Replied
from rumi.chats.port import ChatPort, ChatSubscription, PastTurn, Uploaded
from rumi.errors import RumiError
from rumi.platform.caller import Caller
from rumi.platform.texts import operating as operation_texts
from rumi.store.journal.records import Attachment, StoredSession
from rumi.texts import Language

ACKNOWLEDGED = 64
"""After a change of process, this many of the last read replies are acknowledged again.

The old process may have ended before it stored the acknowledgements.
"""


class ReconnectingChat:
    """A `ChatPort` to a chat that successive processes serve.

    The caller calls `connect` with each process's port, and `disconnect` when that process has ended; other
    calls wait until the next process is connected. `left` is set when the front end has finished. When a
    process ends, its running turn produces no more events, and subscribers get a `Moved`.
    """

    def __init__(self, chat: str, language: Language) -> None:
        self.chat = chat
        self._language = language
        self.left = trio.Event()
        self._port: ChatPort | None = None
        self.model = ""
        self.chosen_model = ""
        """The model that was chosen since the client attached; it is also requested from the next process."""
        self._final_error: DaemonGone | None = None
        self._changed = trio.Event()
        self._followers: list[_ReconnectingEvents] = []
        self._read: deque[int] = deque(maxlen=ACKNOWLEDGED)

    # Called by the owner

    def connect(self, port: ChatPort, note: str = "") -> None:
        """Continue with the port of the next process. Subscribers get the `note` as an event."""
        self._port = port
        self.model = port.model
        for follower in self._followers:
            follower.notes.append(Moved(note, back=True))
        self._notify_changed()

    def disconnect(self, note: str) -> None:
        """Make calls wait for the next process: the current one has ended. Subscribers get the `note`."""
        self._port = None
        for follower in self._followers:
            follower.notes.append(Moved(note, back=False))
        self._notify_changed()

    def notify(self, note: str) -> None:
        """Send the subscribers a note about the change to another process."""
        for follower in self._followers:
            follower.notes.append(Moved(note, back=False))
        self._notify_changed()

    def fail(self, gone: DaemonGone) -> None:
        """Make all later calls raise this error: the process has ended, and no other one will follow."""
        self._final_error = gone
        self._notify_changed()

    # The interface of `ChatPort`

    async def send(self, text: str, attachments: Sequence[Attachment] = ()) -> int:
        """Store a message and hand it to the chat; return its number. Between two processes this waits.

        Raises:
            RumiError: the message was not stored, or the process ended and may have stored it.
        """
        while True:
            port = await self._connected_port()
            try:
                return await port.send(text, attachments)
            except NotAccepting:
                await self._until_port_changes(port)
            except DaemonGone as gone:
                await self._until_port_changes(port)
                # Sent again only if it never went out: the old process may have stored it, and a message
                # must not run twice. The user decides.
                if gone.sent:
                    raise RumiError(*operation_texts.perhaps_lost(self._language, text)) from None

    async def upload(self, attachment: Attachment) -> Uploaded:
        """Store a file in the chat's workspace. Between two processes this waits.

        Raises:
            RumiError: the file cannot be read, or the process refused it or ended meanwhile.
        """
        return await (await self._connected_port()).upload(attachment)

    def subscribe(self) -> "_ReconnectingEvents":
        """Subscribe to the events of the current process and of the processes after it."""
        follower = _ReconnectingEvents(self)
        self._followers.append(follower)
        return follower

    async def undelivered(self, to: Sequence[int] = ()) -> list[Replied]:
        """Return the unacknowledged replies that were not read through this object, oldest first.

        The result includes the replies `to` the given messages, which another client may have acknowledged.
        """
        while True:
            port = await self._connected_port()
            try:
                # First: the old process may have ended before it stored these acknowledgements.
                for delivery in self._read:
                    await port.delivered(delivery)
                return [reply for reply in await port.undelivered(to) if reply.delivery not in self._read]
            except DaemonGone:
                await self._until_port_changes(port)

    async def use_model(self, name: str) -> None:
        """Use this model for all messages that are sent after this call, including those to later processes.

        Raises:
            RumiError: the model cannot be used.
        """
        while True:
            port = await self._connected_port()
            try:
                await port.use_model(name)
            except DaemonGone:
                await self._until_port_changes(port)
            else:
                self.model = self.chosen_model = port.model
                return

    async def recent(self) -> list[PastTurn]:
        """Return the last turns of the current session, oldest first, without a running turn."""
        while True:
            port = await self._connected_port()
            try:
                return await port.recent()
            except DaemonGone:
                await self._until_port_changes(port)

    async def sessions(self) -> list[StoredSession]:
        """Return the chat's sessions that can be reopened, the latest first, and the current one."""
        while True:
            port = await self._connected_port()
            try:
                return await port.sessions()
            except DaemonGone:
                await self._until_port_changes(port)

    def shown(self, question: str) -> None:
        """Report that the question is shown to a person. Between two processes this does nothing."""
        if self._port is not None:
            self._port.shown(question)

    def unasked(self, question: str) -> None:
        """Report that no person can answer the question. Between two processes this does nothing."""
        if self._port is not None:
            self._port.unasked(question)

    async def delivered(self, delivery: int) -> None:
        """Acknowledge a reply that a person has read; between two processes, this happens later."""
        self._read.append(delivery)
        if self._port is None:
            await trio.lowlevel.checkpoint()
        else:
            await self._port.delivered(delivery)

    async def _connected_port(self) -> ChatPort:
        while self._port is None:
            await self._wait()
        return self._port

    async def _until_port_changes(self, port: ChatPort) -> None:
        while self._port is port:
            await self._wait()

    async def _wait(self) -> None:
        if self._final_error is not None:
            raise self._final_error
        await self._changed.wait()

    def _notify_changed(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


class _ReconnectingEvents:
    """Subscription to successive processes; it returns all events of one process before those of the next."""

    def __init__(self, chat: ReconnectingChat) -> None:
        self.notes: deque[Moved] = deque()
        self._chat = chat
        self._port = chat._port
        self._events: ChatSubscription | None = self._port.subscribe() if self._port is not None else None

    async def receive(self) -> ChatEvent:
        """Return the next event. If cancelled, no event is lost."""
        while True:
            if self._events is not None:
                try:
                    return await self._events.receive()
                except DaemonGone:  # only after the last event: the notes about the move come behind it
                    self._events.close()
                    self._events = None
            if self.notes:
                return ChatEvent(self._chat.chat, "", time.time(), self._next_note())
            await self._chat._wait()

    def _next_note(self) -> Moved:
        note = self.notes.popleft()
        port = self._chat._port
        # Only the note of the newest port subscribes: that process may be gone before its note is read.
        if note.back and port is not None and port is not self._port:
            self._port, self._events = port, port.subscribe()
        return note

    def close(self) -> None:
        """End the subscription."""
        self._chat._followers.remove(self)
        if self._events is not None:
            self._events.close()


AGAIN_S: Final = 0.5
"""Pause before the client attaches again after its worker has ended or its chat has moved, in seconds."""


class RoutedChat(ReconnectingChat):
    """A chat that another worker may serve, reached over this process's control socket at `path`.

    This process forwards the connection to the worker that serves the chat.
    """

    def __init__(self, path: Path, caller: Caller, chat: str, language: Language = "en") -> None:
        super().__init__(chat, language)
        self._path = path
        self._caller = caller
        self._request = OpenRequest(chat, person=True, language=language, single=True)

    async def keep_attached(self) -> None:
        """Attach to the chat, and attach again whenever the connection has ended, until cancelled."""
        while True:
            try:
                async with attach(self._path, self._caller, self._request, "rumi serve") as port:
                    self.connect(port)
                    try:
                        await port.ended()
                    finally:
                        self.disconnect("")
            except RumiError:  # the worker may be restarting, or the chat may be moving to another worker
                pass
            await trio.sleep(AGAIN_S)

    async def answer(self, question: str, yes: bool) -> bool:
        """Answer the pending question of the chat's turn; return False if no question is pending.

        Raises:
            RumiError: The worker is unreachable.
        """
        async with connect(self._path, self._caller) as client:
            return bool(await client.call("answer", chat=self.chat, id=question, yes=yes))
