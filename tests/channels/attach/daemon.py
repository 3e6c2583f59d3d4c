"""A house whose chats can be seen through windows: the control socket, and windows on it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from actors import ChildSpec, Supervisor
from rumi.channels.attach.client import OpenRequest, RemoteChat, attach
from rumi.channels.attach.connection import connect
from rumi.channels.attach.wire import Wire
from rumi.channels.control.attach_server import About, AttachServer
from rumi.channels.control.event_stream import EventStream
from rumi.channels.control.server import ControlServer
from rumi.chats.events import ChatEvent, Replied
from rumi.models.model import Emit, ModelRequest, Reply, TextDelta, ToolCall
from rumi.platform.caller import TERMINAL
from tests.chats.house import Answer, House, house

DAEMON = "rumi chat (process 1)"


async def obedient(request: ModelRequest, emit: Emit) -> Reply:
    """`sleep N` sleeps in the sandbox, and everything is said again, in two pieces."""
    await trio.lowlevel.checkpoint()
    said = next(m.content for m in reversed(request.messages) if m.role == "user")
    if said.startswith("sleep") and request.messages[-1].role == "user":
        return Reply("", (ToolCall("c1", "bash", f'{{"command": "{said}"}}'),))
    emit(TextDelta("you said "))
    await trio.lowlevel.checkpoint()
    emit(TextDelta(said))
    return Reply(f"you said {said}")


@dataclass
class DaemonHouse:
    """The house, and where its socket is."""

    home: House
    server: AttachServer
    event_stream: EventStream
    path: Path

    @asynccontextmanager
    async def attached(self, chat: str = "cli", **more: Any) -> AsyncIterator["AttachedClient"]:
        """A window, as another process has it."""
        request = OpenRequest(**{"chat": chat, "person": True, "language": "en", **more})
        async with attach(self.path, TERMINAL, request, DAEMON) as remote:
            yield AttachedClient(remote)

    @asynccontextmanager
    async def stream(self, name: str, **fields: Any) -> AsyncIterator[Wire]:
        """A stream, as any program has it."""
        async with connect(self.path, TERMINAL) as client:
            yield await client.stream(name, **fields)

    async def until_running(self, chat: str, commands: int) -> None:
        """Wait until so many commands run in the chat's sandbox."""
        with trio.fail_after(60):
            while self.home.sandboxes.running.get(chat, 0) != commands:  # noqa: ASYNC110  # no event for it
                await trio.sleep(0.01)


class AttachedClient:
    """What one window sees."""

    def __init__(self, remote: RemoteChat) -> None:
        self.remote = remote
        self.events = remote.subscribe()
        self.seen: list[ChatEvent] = []

    async def send(self, text: str) -> int:
        return await self.remote.send(text)

    async def next(self) -> ChatEvent:
        with trio.fail_after(60):
            self.seen.append(await self.events.receive())
        return self.seen[-1]

    async def until(self, kind: type) -> Any:
        """The next event of a kind."""
        while not isinstance(what := (await self.next()).what, kind):
            pass
        return what

    async def ask(self, text: str) -> str:
        """Send, and wait for the final reply."""
        number = await self.send(text)
        while number not in (reply := await self.until(Replied)).messages:
            pass
        assert isinstance(reply.text, str)
        return reply.text

    @property
    def words(self) -> str:
        return "".join(event.what.text for event in self.seen if isinstance(event.what, TextDelta))


def attach_server_of(home: House, about: About) -> AttachServer:
    """The windows of a house's chats."""
    of = home.services
    return AttachServer(
        home.inbox,
        home.tasks,
        home.schedules,
        of.fact_extraction,
        of.journal,
        of.hub,
        of.pending,
        of.context.ids,
        about,
    )


@asynccontextmanager
async def running_daemon(path: Path, answer: Answer = obedient, **more: Any) -> AsyncIterator[DaemonHouse]:
    """A house with a control socket."""
    more = {"own_model": "groq:big", **more}
    async with house(path, answer, **more) as home:
        server = attach_server_of(home, About("bubblewrap"))
        server.open()
        event_stream = EventStream(home.services.hub)
        socket = path / "run" / "control.sock"
        streams = {"window": server.serve, "events": event_stream.serve}
        control = Supervisor("control")
        control.add(ChildSpec("server", lambda: ControlServer(socket, {}, streams)))
        async with control.running():
            yield DaemonHouse(home, server, event_stream, socket)
