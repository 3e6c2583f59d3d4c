"""The client's side of attaching: a chat of the daemon, with the interface of every `ChatPort`."""

import logging
import math
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import trio

from rumi.channels.attach.connection import OTHER_VERSION, ControlClient, NoAnswer, NotRunning, connect
from rumi.channels.attach.file_upload import upload_file, words_to_json
from rumi.channels.attach.wire import Wire, WireClosed
from rumi.chats.events import VERSION, ChatEvent, NotUnderstood, Replied, from_json, made
from rumi.chats.hub import Hub, HubSubscription
from rumi.chats.port import PastTurn, Uploaded
from rumi.errors import RumiError, error_of
from rumi.platform.caller import Caller
from rumi.store.journal.records import Attachment, StoredSession
from rumi.texts import Language, Text

logger = logging.getLogger(__name__)

ATTACH_TIMEOUT_S = 20.0
"""Maximum time for the daemon to attach a client, in seconds; a new session may first end a sandbox."""

LEAVE_S = 1.0
"""Maximum seconds that a detaching client waits until its last messages, such as receipts, are sent."""

LAST_WORDS_S = 0.05
"""Seconds between the last event and `DaemonGone`, so that the subscriber can handle the event first."""


class NotAccepting(RumiError):
    """No process accepts clients of this home now: no daemon runs, or the daemon is starting or ending."""


class DaemonGone(RumiError):
    """The daemon to which the client was attached has ended. `sent` is True if the request had been sent."""

    sent = False


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """A request to attach to a chat.

    `person` is True if a person uses the client and decides when it detaches. `new` requests a new session,
    `resume` the session of that number, 0 the current one.
    `model` is the model for the client's messages. If that model cannot be used, the daemon refuses the
    request if `must` is True, and otherwise uses its default model. If `apart` is True, the turn of each
    message has its own history, separate from the chat's session. `single` is True if the client is for one
    turn; the session continues after it, so no facts are extracted yet. If `tainted` is True, the client's
    messages are untrusted, and are never taken as commands or confirmations. `marks` are fingerprints of the
    client's settings and keys; the daemon returns the names of those that differ. `project` is the absolute
    path of the folder whose skills apply to the client's messages. `tz` is the variable `TZ` of the client.
    `folder` is the real path of the folder that the chat shall work on, percent-encoded as in a URL, because
    a path may have any bytes; if it is empty, the chat stays as it is.
    """

    chat: str
    person: bool
    language: Language = "en"
    new: bool = False
    model: str | None = None
    must: bool = False
    apart: bool = False
    single: bool = False
    marks: Mapping[str, str] = field(default_factory=dict)
    project: str = ""
    tainted: bool = False
    tz: str = ""
    resume: int = 0
    folder: str = ""


class _RemoteEvents:
    """The subscription to the events of a remote chat; after the last one, `receive` raises `DaemonGone`."""

    def __init__(self, chat: "RemoteChat", events: HubSubscription) -> None:
        self._chat = chat
        self._events = events

    async def receive(self) -> ChatEvent:
        """Return the next event. If cancelled, no event is lost.

        Raises:
            DaemonGone: The last event has been returned.
        """
        if not self._events.behind:
            with trio.CancelScope() as waiting, self._chat.ending(waiting):
                return await self._events.receive()
            # The end may have cancelled `receive` just as an event arrived: return that event first.
            if not self._events.behind:
                await trio.sleep(LAST_WORDS_S)
                raise self._chat.daemon_gone()
        return await self._events.receive()

    def close(self) -> None:
        """End the subscription."""
        self._events.close()


class RemoteChat:
    """A chat in another process. Its events are read at once and buffered here, so the process never waits.

    `model` is used for the messages that are sent. `engine` is the sandbox engine of the other process.
    `notes` are sentences for the user. `differing_settings` are the settings and keys that differ between the
    two processes. `moved` is True if another worker serves the chat now. `files` says where the chat's files
    are, for people. `linked` is True if that is a folder of the user that it works on; `applies` is True if
    changes to it need no `/apply`.
    """

    def __init__(
        self,
        wire: Wire,
        path: Path,
        caller: Caller,
        request: OpenRequest,
        opened: Mapping[str, Any],
        gone: str,
        advice: str,
    ) -> None:
        self._path = path
        self._caller = caller
        self.chat = request.chat
        self.model = str(opened.get("model", ""))
        self.engine = str(opened.get("engine", ""))
        self.notes = tuple(map(str, opened.get("notes", ())))
        self.differing_settings = tuple(map(str, opened.get("other", ())))
        self.service = bool(opened.get("service"))
        self.files = str(opened.get("files", ""))
        self.linked = bool(opened.get("linked"))
        self.applies = bool(opened.get("applies"))
        self._final = self.service
        self.moved = False
        self._ended = False
        self._waiting: set[trio.CancelScope] = set()
        self._written = trio.Event()
        self._wire = wire
        self._gone = (gone, advice)
        self._hub = Hub()
        self._early_events: HubSubscription | None = self._hub.subscribe(self.chat)
        self._last_id = 0
        # Unbounded: a person types little, and a program waits for each response before it sends more.
        self._out, self._to_send = trio.open_memory_channel[Mapping[str, object]](math.inf)
        self._answers: dict[int, trio.MemorySendChannel[Mapping[str, Any]]] = {}

    def daemon_gone(self) -> DaemonGone:
        """Return the error to raise once the daemon has ended."""
        return DaemonGone(*self._gone)

    def final_error(self) -> DaemonGone | None:
        """Return the error that ends this chat permanently; None if another process may continue the chat.

        The error is final if the process was a service: it will restart and must be able to lock the home. It
        is also final if the process has another version and keeps running.
        """
        return self.daemon_gone() if self._final else None

    @contextmanager
    def ending(self, scope: trio.CancelScope) -> Iterator[None]:
        """During the block, cancel `scope`, in which the caller waits, as soon as the process has ended."""
        if self._ended:
            scope.cancel()
        self._waiting.add(scope)
        try:
            yield
        finally:
            self._waiting.discard(scope)

    async def ended(self) -> None:
        """Return when the process has ended."""
        with trio.CancelScope() as waiting, self.ending(waiting):
            await trio.sleep_forever()

    async def follow(self) -> None:
        """Receive messages until the process ends or this call is cancelled; then wake all waiting tasks."""
        try:
            with suppress(WireClosed, KeyError, TypeError):
                while True:
                    self._receive(await self._wire.receive())
        except NotUnderstood as error:
            logger.warning("%s", error)
            self._gone, self._final = OTHER_VERSION, True
        finally:
            # Set before the wake-up: a task that starts to wait now has to find it.
            self._ended = True
            for scope in self._waiting:
                scope.cancel()
            for answer in self._answers.values():
                answer.close()

    async def write(self) -> None:
        """Send the queued messages, until `leave` closes the queue."""
        try:
            with suppress(WireClosed):
                async for message in self._to_send:
                    await self._wire.send(message)
        finally:
            self._written.set()

    async def leave(self) -> None:
        """Close the queue; wait until its messages are sent, for at most `LEAVE_S`, even if cancelled."""
        self._out.close()
        # Shielded: without the read receipt of the last reply, the next client would show that reply again.
        with trio.move_on_after(LEAVE_S, shield=True):
            await self._written.wait()

    def _receive(self, message: Mapping[str, Any]) -> None:
        if "event" in message:
            self._hub.publish(from_json(message["event"]))
        elif message.get("moved"):  # to another worker; this process stays, and forwards the client there
            self._final, self.moved = False, True
        elif message["done"] in self._answers:  # the request may have been cancelled meanwhile
            self._answers[message["done"]].send_nowait(message)

    async def _ask(self, do: str, **more: object) -> Mapping[str, Any]:
        self._last_id += 1
        id = self._last_id
        send, answer = trio.open_memory_channel[Mapping[str, Any]](math.inf)
        self._answers[id] = send
        try:
            if self._ended:
                raise self.daemon_gone()
            self._out.send_nowait({"do": do, "id": id, **more})
            found = await answer.receive()
        except trio.EndOfChannel:
            error = self.daemon_gone()
            error.sent = True
            raise error from None
        finally:
            del self._answers[id]
        if "error" in found:
            raise _refusal(found)
        return found

    # The interface of `ChatPort`

    async def send(self, text: str, attachments: Sequence[Attachment] = ()) -> int:
        """Store a message or a command and hand it to the chat; return its number.

        Raises:
            RumiError: the message was not stored.
            DaemonGone: the daemon has ended; if `sent` is set, it may have stored the message.
        """
        words = [attachment for attachment in attachments if attachment.kind == "words"]
        files = [[one.reference, one.name] for one in attachments if one.kind == "file"]
        command = next((one.text for one in attachments if one.kind == "command"), "")
        sent = await self._ask("send", text=text, words=words_to_json(words), files=files, command=command)
        return int(sent["number"])

    async def upload(self, attachment: Attachment) -> Uploaded:
        """Store a file of this machine in the chat's workspace.

        Raises:
            RumiError: the file cannot be read, or the daemon refused it or has ended.
        """
        return await upload_file(self._path, self._caller, self.chat, attachment)

    def subscribe(self) -> _RemoteEvents:
        """Subscribe to the chat's events. The first subscriber also gets all events since attaching."""
        events, self._early_events = self._early_events or self._hub.subscribe(self.chat), None
        return _RemoteEvents(self, events)

    async def use_model(self, name: str) -> None:
        """Use this model for all messages that are sent after this call.

        Raises:
            RumiError: the model cannot be used.
            DaemonGone: the daemon has ended.
        """
        self.model = str((await self._ask("model", name=name))["model"])

    async def recent(self) -> list[PastTurn]:
        """Return the last turns of the current session, oldest first, without a running turn."""
        return [PastTurn(**fields) for fields in (await self._ask("recent"))["exchanges"]]

    async def sessions(self) -> list[StoredSession]:
        """Return the chat's sessions that can be reopened, the latest first, and the current one."""
        return [StoredSession(**fields) for fields in (await self._ask("sessions"))["sessions"]]

    async def undelivered(self, to: Sequence[int] = ()) -> list[Replied]:
        """Return the unacknowledged replies, oldest first, and all replies `to` the given messages."""
        return [made(Replied, reply) for reply in (await self._ask("undelivered", to=list(to)))["replies"]]

    def shown(self, question: str) -> None:
        """Report that the question is shown to a person."""
        self._out.send_nowait({"do": "shown", "question": question})

    def unasked(self, question: str) -> None:
        """Report that no person is available to answer the question."""
        self._out.send_nowait({"do": "unasked", "question": question})

    async def delivered(self, delivery: int) -> None:
        """Acknowledge a reply that a person has read. Otherwise the next client shows the reply again."""
        self._out.send_nowait({"do": "delivered", "delivery": delivery})
        await trio.lowlevel.checkpoint()


@asynccontextmanager
async def attach(path: Path, caller: Caller, request: OpenRequest, daemon: str) -> AsyncIterator[RemoteChat]:
    """Attach to a chat of the daemon whose control socket is `path`, for as long as the block lasts.

    `daemon` is the daemon's name in error messages.

    Raises:
        NotAccepting: no daemon accepts clients at `path` now.
        RumiError: the daemon refuses this client, or does not answer.
    """
    try:
        async with connect(path, caller) as client:
            wire = await client.stream("window", version=VERSION, **asdict(request))
            with trio.move_on_after(ATTACH_TIMEOUT_S) as patience:
                answer: Mapping[str, Any] = await wire.receive()
            if patience.cancelled_caught:
                raise NoAnswer
            if "opened" not in answer:
                raise _refusal(answer)
            gone = (
                Text("{daemon} has ended, and this window with it.", daemon=daemon),
                "Start again with: rumi chat",
            )
            chat = RemoteChat(wire, path, caller, request, answer["opened"], *gone)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(chat.follow)
                nursery.start_soon(chat.write)
                try:
                    yield chat
                finally:
                    await chat.leave()  # before the cancellation below, which ends `write`
                nursery.cancel_scope.cancel()
    except NoAnswer:
        raise RumiError(
            "{daemon} does not answer.", "Try again, or look at its log.", daemon=daemon
        ) from None
    except (NotRunning, WireClosed):
        raise NotAccepting(
            "{daemon} takes no windows now.", "Try again in a moment.", daemon=daemon
        ) from None


async def run_task(
    client: ControlClient,
    request: Mapping[str, object],
    step: Callable[[str], None],
    began: Callable[[int], None] = lambda id: None,
) -> dict[str, Any]:
    """Run or follow a task over the stream `task`; return the task when it has ended.

    `step` is called with each step, `began` with the task's number. If this call is cancelled, the daemon
    stops the task if this call started it.

    Raises:
        RumiError: The task could not be started, or the daemon ended before the task.
    """
    try:
        wire = await client.stream("task", **{"do": "run", **request})
        while True:
            match await wire.receive():
                case {"began": int(id)}:
                    began(id)
                case {"step": str(text)}:
                    step(text)
                case {"ended": dict(task)}:
                    return task
                case {"error": str(_)} as answer:
                    raise error_of(answer)
    except WireClosed:
        raise RumiError("The running Rumi ended before the task.", "Look at: rumi tasks") from None


def _refusal(message: Mapping[str, Any]) -> RumiError:
    """Return the error for a request that the process refused or, having another version, does not know."""
    if message.get("later"):
        return NotAccepting(message["error"], message["advice"])
    if "error" not in message or "ok" in message:  # the control server's answer to an unknown request
        return RumiError(*OTHER_VERSION)
    return error_of(message)
