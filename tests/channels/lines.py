"""A channel of its own, in about a hundred lines: lines over TCP, one chat for each name.

A client names its chat and numbers its messages. Each line counts once, however often it comes:

    client                 server
    chat ana
    17 run date            stored 17            also if it was stored before: it is not answered twice
                           ask "May I?"         a line with yes or no answers it
                           reply 5 "…"          the text as JSON; again at the next connection until:
    ok 5
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from typing import Final, Never

import trio

from actors import Actor, ActorRef, ChildSpec, Supervisor
from rumi.agent.events import ConfirmationAsked
from rumi.channels.channel import Channel, Process
from rumi.chats.events import Replied
from rumi.chats.hub import Hub
from rumi.chats.inbox import Inbox
from rumi.chats.local import LocalChat
from rumi.errors import RumiError
from rumi.platform.chat_ids import CHAT_ID, ChannelPrefix
from rumi.store.journal.records import Incoming, Update
from rumi.store.journal.transaction import JournalMessage

MOST_CONNECTIONS: Final = 100
MOST_BYTES: Final = 100_000
"""Of a line."""

SEND_S: Final = 10.0
"""How long a client may read nothing before its connection ends."""


class TcpLines(Channel):
    """The channel: a listener that outlives the actor, and whether messages are still taken."""

    name = "lines"
    prefix = ChannelPrefix("ln", "the line server")

    def __init__(self) -> None:
        self.listener: trio.SocketListener
        self.storing = trio.Lock()
        self.taking = True

    @property
    def port(self) -> int:
        """The port on the loopback address."""
        return int(self.listener.socket.getsockname()[1])

    @asynccontextmanager
    async def open(self, process: Process) -> AsyncIterator[None]:
        """Listen until the block ends."""
        (self.listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        try:
            yield
        finally:
            self.listener.socket.close()

    def add_receiver(
        self, root: Supervisor, inbox: Inbox, journal: ActorRef[JournalMessage], hub: Hub
    ) -> None:
        """Add the actor that has the connections."""
        root.add(ChildSpec("lines", lambda: Lines(self, inbox, journal, hub)))

    async def stop_receiving(self) -> None:
        """Store no more lines. Their clients get no `stored`, and send them to the next process."""
        async with self.storing:
            self.taking = False


class Lines(Actor[Never]):
    """Serves the connections. What they were not told, the next connection is: it is in the journal."""

    def __init__(self, channel: TcpLines, inbox: Inbox, journal: ActorRef[JournalMessage], hub: Hub) -> None:
        self._channel = channel
        self._inbox = inbox
        self._journal = journal
        self._hub = hub

    async def started(self) -> None:
        """Begin to accept connections."""
        self.start_soon(self._accept)

    async def _accept(self) -> None:
        free = trio.CapacityLimiter(MOST_CONNECTIONS)
        async with trio.open_nursery() as nursery:
            while True:
                nursery.start_soon(self._serve, await self._channel.listener.accept(), free)

    async def _serve(self, stream: trio.SocketStream, free: trio.CapacityLimiter) -> None:
        async with stream, free:
            connection = Connection(stream)
            word, _, name = (await connection.line()).partition(" ")
            chat_id = f"{self._channel.prefix.text}{name}"
            chat = LocalChat(chat_id, self._inbox, self._hub, self._journal)
            if word != "chat" or not name or CHAT_ID.fullmatch(chat.chat) is None:
                await connection.say("error", "Begin with: chat NAME")
                return
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send_replies, chat, connection)
                while line := await connection.line():
                    await self._take(chat, connection, line)
                nursery.cancel_scope.cancel()

    async def _take(self, chat: LocalChat, connection: "Connection", line: str) -> None:
        head, _, text = line.partition(" ")
        if head == "ok" and text in connection.replied:
            await chat.delivered(int(text))
        elif head.isdecimal() and len(head) < 19 and text:
            async with self._channel.storing:
                if self._channel.taking:
                    message = Incoming(Update(chat.chat, int(head)), chat.chat, text)
                    try:
                        await self._inbox.accept_all([message])
                    except RumiError as error:
                        await connection.say("error", error.message)
                    else:
                        await connection.say("stored", int(head))
        else:
            await connection.say("error", "Send NUMBER TEXT, or ok NUMBER.")

    async def _send_replies(self, chat: LocalChat, connection: "Connection") -> None:
        with closing(chat.subscribe()) as events:
            for reply in await chat.undelivered():
                await connection.reply(reply)
            while True:
                match (await events.receive()).what:
                    case Replied() as reply:
                        await connection.reply(reply)
                    case ConfirmationAsked(question, text, whole):
                        await connection.say("ask", whole or text)
                        chat.shown(question)


class Connection:
    """One client's connection, and the numbers of the replies that it was told."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.replied: set[str] = set()
        self._stream = stream
        self._came = b""
        self._sending = trio.Lock()

    async def line(self) -> str:
        """Return the next line; "" when the connection has ended, or a line is too long."""
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while b"\n" not in self._came:
                more = await self._stream.receive_some()
                if not more or len(self._came) > MOST_BYTES:
                    return ""
                self._came += more
            line, _, self._came = self._came.partition(b"\n")
            return line.decode(errors="replace").rstrip("\r")
        return ""

    async def reply(self, reply: Replied) -> None:
        """Tell a reply, once."""
        if str(reply.delivery) not in self.replied:
            self.replied.add(str(reply.delivery))
            await self.say("reply", reply.delivery, reply.text)

    async def say(self, word: str, *values: object) -> None:
        """Send a line. A client that is gone, or does not read, loses its connection."""
        line = " ".join((word, *(json.dumps(value, ensure_ascii=False) for value in values)))
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async with self._sending:
                with trio.move_on_after(SEND_S) as limit:
                    await self._stream.send_all(line.encode() + b"\n")
                if limit.cancelled_caught:
                    await self._stream.aclose()
