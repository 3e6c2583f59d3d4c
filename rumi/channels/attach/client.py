"""The window's side: a chat of the process that holds the home, as a front end uses any chat."""

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
from rumi.chats.port import PastTurn
from rumi.errors import RumiError, error_of
from rumi.platform.caller import Caller
from rumi.platform.texts.language import Language
from rumi.store.journal.records import Attachment

logger = logging.getLogger(__name__)

ATTACH_TIMEOUT_S = 20.0
"""How long a process may take to open a window; with a new session it may have to end a sandbox."""

LEAVE_S = 1.0
"""How long a leaving window waits until its last messages are sent, such as a read receipt."""

LAST_WORDS_S = 0.05
"""The pause between the last event and `Gone`, in which the listener handles that event."""


class NotAccepting(RumiError):
    """No process accepts windows on this home now: none holds it, or its holder starts or ends."""


class DaemonGone(RumiError):
    """The process that the window was attached to has ended. `sent`: what was asked of it had gone out."""

    sent = False


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """What a window is opened for. `person`: somebody sits in front of it and decides when it closes.

    `model` works on its messages; where it cannot be used, a window that `must` have it is refused, and
    another one gets the process's own. `apart`: each message's turn has a history of its own, beside the
    chat's session. `single`: for one turn; the session goes on, so that nothing is learned from it
    yet. `tainted`: what it sends is from outside, no command and no yes. `marks` are those of settings and
    keys: the holder says which are others there. The skills of the `project`, an absolute path, count for its
    messages.
    """

    chat: str
    person: bool
    language: Language
    new: bool = False
    model: str | None = None
    must: bool = False
    apart: bool = False
    single: bool = False
    marks: Mapping[str, str] = field(default_factory=dict)
    project: str = ""
    tainted: bool = False


class _RemoteEvents:
    """The events of the chat; after the last one, `receive` raises `Gone`."""

    def __init__(self, chat: "RemoteChat", events: HubSubscription) -> None:
        self._chat = chat
        self._events = events

    async def receive(self) -> ChatEvent:
        """Return the next event. Cancelled, it loses nothing.

        Raises:
            Gone: there will be no more.
        """
        if not self._events.behind:
            with trio.CancelScope() as waiting, self._chat.ending(waiting):
                return await self._events.receive()
            if not self._events.behind:
                await trio.sleep(LAST_WORDS_S)
                raise self._chat.daemon_gone()
        return await self._events.receive()

    def close(self) -> None:
        """Stop listening."""
        self._events.close()


class RemoteChat:
    """A chat of another process. What comes is taken at once and kept here: that process waits for nobody.

    `model` works on what is sent. `engine` is that of the process. `notes` are sentences for its user, and
    `other` the settings and keys that are others there. `moved`: another worker serves the chat.
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
        # Without a limit: what a person types is little, and what a program sends waits for its answer.
        self._out, self._to_send = trio.open_memory_channel[Mapping[str, object]](math.inf)
        self._answers: dict[int, trio.MemorySendChannel[Mapping[str, Any]]] = {}

    def daemon_gone(self) -> DaemonGone:
        """Return the error that says that the process has ended."""
        return DaemonGone(*self._gone)

    def final_error(self) -> DaemonGone | None:
        """Return what ends this chat with the process: a service is about to be back, and needs the home;
        one that is not understood stays. None where another process takes its place."""
        return self.daemon_gone() if self._final else None

    @contextmanager
    def ending(self, scope: trio.CancelScope) -> Iterator[None]:
        """Cancel what waits in the block when the process has ended."""
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
        """Take what comes, until the process ends or this is cancelled."""
        try:
            with suppress(WireClosed, KeyError, TypeError):
                while True:
                    self._receive(await self._wire.receive())
        except NotUnderstood as error:
            logger.warning("%s", error)
            self._gone, self._final = OTHER_VERSION, True
        finally:
            self._ended = True
            for scope in self._waiting:
                scope.cancel()
            for answer in self._answers.values():
                answer.close()

    async def write(self) -> None:
        """Send the queued messages, until `leave` is called."""
        try:
            with suppress(WireClosed):
                async for message in self._to_send:
                    await self._wire.send(message)
        finally:
            self._written.set()

    async def leave(self) -> None:
        """Send what is queued, for at most `LEAVE_S`; nothing can be queued after that."""
        self._out.close()
        with trio.move_on_after(LEAVE_S, shield=True):
            await self._written.wait()

    def _receive(self, message: Mapping[str, Any]) -> None:
        if "event" in message:
            self._hub.publish(from_json(message["event"]))
        elif message.get("moved"):  # to another worker: the process stays, and takes the window once more
            self._final, self.moved = False, True
        elif message["done"] in self._answers:
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
            gone = self.daemon_gone()
            gone.sent = True
            raise gone from None
        finally:
            del self._answers[id]
        if "error" in found:
            raise _refusal(found)
        return found

    # As a front end uses it

    async def send(self, text: str, attachments: Sequence[Attachment] = ()) -> int:
        """Store a message or a command and hand it to the chat; return its number.

        A file is handed over first; its reference is its path on this machine.

        Raises:
            RumiError: it was not stored, or a file was not taken.
            Gone: the process has ended; whether it was stored is not known.
        """
        words = [attachment for attachment in attachments if attachment.kind == "words"]
        files = [
            (await upload_file(self._path, self._caller, self.chat, attachment)).reference
            for attachment in attachments
            if attachment.kind == "file"
        ]
        sent = await self._ask("send", text=text, words=words_to_json(words), files=files)
        return int(sent["number"])

    def subscribe(self) -> _RemoteEvents:
        """Listen. The first listener also gets the events since the window was opened."""
        events, self._early_events = self._early_events or self._hub.subscribe(self.chat), None
        return _RemoteEvents(self, events)

    async def use_model(self, name: str) -> None:
        """Have this model work on what is sent from now on.

        Raises:
            RumiError: it cannot be used.
            Gone: the process has ended.
        """
        self.model = str((await self._ask("model", name=name))["model"])

    async def recent(self) -> list[PastTurn]:
        """Return the last exchanges of the session that goes on, without the turn that runs; oldest first."""
        return [PastTurn(**fields) for fields in (await self._ask("recent"))["exchanges"]]

    async def undelivered(self, to: Sequence[int] = ()) -> list[Replied]:
        """Return the replies that no one has acknowledged, oldest first, and those `to` these messages."""
        return [made(Replied, reply) for reply in (await self._ask("undelivered", to=list(to)))["replies"]]

    def shown(self, question: str) -> None:
        """Tell the process that a person can read the question."""
        self._out.send_nowait({"do": "shown", "question": question})

    def unasked(self, question: str) -> None:
        """Tell the process that nobody is there who could answer the question."""
        self._out.send_nowait({"do": "unasked", "question": question})

    async def delivered(self, delivery: int) -> None:
        """Tell the process that a person has read it; otherwise the next window shows it again."""
        self._out.send_nowait({"do": "delivered", "delivery": delivery})
        await trio.lowlevel.checkpoint()


@asynccontextmanager
async def attach(path: Path, caller: Caller, request: OpenRequest, daemon: str) -> AsyncIterator[RemoteChat]:
    """Open a window of the caller on the process `holder`, by its control socket at `path`.

    It is open for as long as the block lasts.

    Raises:
        NotThere: nobody takes windows there now.
        RumiError: this one is refused.
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
            gone = (f"{daemon} has ended, and this window with it.", "Start again with: rumi chat")
            chat = RemoteChat(wire, path, caller, request, answer["opened"], *gone)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(chat.follow)
                nursery.start_soon(chat.write)
                try:
                    yield chat
                finally:
                    await chat.leave()
                nursery.cancel_scope.cancel()
    except NoAnswer:
        raise RumiError(f"{daemon} does not answer.", "Try again, or look at its log.") from None
    except (NotRunning, WireClosed):
        raise NotAccepting(f"{daemon} takes no windows now.", "Try again in a moment.") from None


async def run_task(
    client: ControlClient,
    request: Mapping[str, object],
    step: Callable[[str], None],
    began: Callable[[int], None] = lambda id: None,
) -> dict[str, Any]:
    """Run or follow a task over the stream `task`; return it at its end. `began` gets its number.

    Cancelled, a task that was begun here ends.

    Raises:
        RumiError: It could not be begun, or the process ended before it.
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
    """Return the error of a refusal; a process that knows no windows is of another version."""
    if message.get("later"):
        return NotAccepting(message["error"], message["advice"])
    if "error" not in message or "ok" in message:  # as to any request that it does not know
        return RumiError(*OTHER_VERSION)
    return error_of(message)
