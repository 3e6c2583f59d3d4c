"""A base class for channels of texts: a subclass only receives messages, and sends texts.

The base class does the rest: each message is stored once, each reply is sent in the order of its chat and
again after a failure, questions are answered by typed commands, and of several workers one receives.
"""

import hashlib
import logging
import re
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol, final

import trio
from typing_extensions import override

from actors import (
    Actor,
    ActorRef,
    Backoff,
    ChildSpec,
    Refused,
    Request,
    Supervisor,
    answers,
)
from rumi.channels.channel import Process
from rumi.channels.registration import Serving
from rumi.channels.reply_sender import ReplySender, ReplySenderMessage
from rumi.channels.sending import DeliverFile
from rumi.channels.sending_channel import SendingChannel
from rumi.chats.events import with_commands
from rumi.chats.hub import Hub
from rumi.chats.inbox import Inbox
from rumi.errors import RumiError
from rumi.platform.chat_ids import CHAT_ID, ChannelPrefix
from rumi.platform.config.plugins import fault_of, is_fault, parted
from rumi.store.journal.outbox import mark_delivered
from rumi.store.journal.records import Incoming, StoredReply, Update
from rumi.store.journal.transaction import JournalMessage

logger = logging.getLogger(__name__)

LOOK_S: Final = 5.0
AT_ONCE: Final = 4
MOST_TEXT: Final = 1_000_000
"""Maximum length of a received text, in characters."""
STOP_S: Final = 10.0
"""Maximum time to store a message, in seconds, also while the process ends."""
_SPECIAL: Final = re.compile(rb"[^A-Za-z0-9]")
_SHORT: Final = {b"-": b"--", b".": b"-d", b"@": b"-a", b"_": b"-u"}
_LONG: Final = {short: special for special, short in _SHORT.items()}
_ESCAPED: Final = re.compile(rb"-(?:[-dau]|x[0-9a-f]{2})")
"""What stands in a chat id for other characters than letters and digits: a sign of its own, or a byte."""


class Take(Protocol):
    """Stores a received message, and returns when it is stored."""

    async def __call__(self, sender: str, text: str, id: str) -> bool:
        """Store a message of `sender`; a message with an `id` that was stored before is dropped.

        `sender` names the person or the room for `SimpleChannel.send`. Call this only for people who may talk
        to Rumi: it does not check them. Return False if the message can never be taken, because its text or
        the name of its sender is too long: that is noted as a problem of the plugin.

        Raises:
            RumiError: The message could not be stored now. Take it again later.
        """
        ...


@dataclass(frozen=True, slots=True)
class StopReceiving(Request[None]):
    """End the receiving of messages. Answered when no message is being stored."""


class SimpleChannel(SendingChannel):
    """Base class of channels that receive and send texts. A subclass defines `receive` and `send`.

    Its questions wait for typed commands, such as `/yes 3`, as in the mail channel.
    """

    WAITS: ClassVar[Backoff] = Backoff(first_s=1.0, factor=2.0, cap_s=300.0)
    """Pauses after a failure to receive or to send, in seconds."""

    def __init__(self, serving: Serving) -> None:
        assert serving.prefix is not None, "only plugins have channels of this kind"
        self.prefix: ChannelPrefix | None = serving.prefix
        self.name = self.account = serving.prefix.text.rstrip("-")
        self._process: Process
        self._failed: Callable[[str, BaseException], None] = lambda what, error: None
        self._works: Callable[[str], None] = lambda what: None
        self._receiver: ActorRef[StopReceiving] | None = None

    @asynccontextmanager
    async def open(self, process: Process) -> AsyncIterator[None]:
        """Keep the process. A subclass opens its connection here, around `super().open(process)`."""
        self._process = process
        yield

    @abstractmethod
    async def receive(self, take: Take) -> None:
        """Receive messages, and await `take` for each, until cancelled.

        When this returns or raises an error, it is called again after a pause.
        """

    @abstractmethod
    async def send(self, to: str, text: str, key: str) -> None:
        """Send a text, in Markdown, to the person or room `to`. Return when the service has accepted it.

        If a process is killed before it has recorded the return, a later one sends the text again, with the
        same `key`: pass it on if the service recognizes repeated messages by a key.

        Raises:
            Exception: The text was not sent. It is sent again after a pause.
        """

    @final
    def report(self, failed: Callable[[str, BaseException], None], works: Callable[[str], None]) -> None:
        """Report failures and later successes of `receive` and `send` to these functions."""
        self._failed, self._works = failed, works

    # Names in chat ids

    @final
    def chat_of(self, name: str) -> str:
        """Return the chat id for a name at the service.

        Raises:
            RumiError: The name is too long for an id.
        """
        assert self.prefix is not None
        escaped = _SPECIAL.sub(
            lambda found: _SHORT.get(found[0], f"-x{found[0].hex()}".encode()),
            name.encode("utf-8", "replace"),
        )
        chat = f"{self.prefix.text}{escaped.decode()}"
        if not name or CHAT_ID.fullmatch(chat) is None:
            raise RumiError("The name {name} is empty, or too long for a chat.", name=f"{name[:80]!r}")
        return chat

    @final
    def name_of(self, chat: str) -> str:
        """Return the name at the service for a chat id."""
        assert self.prefix is not None
        escaped = chat.removeprefix(self.prefix.text).encode()
        plain = _ESCAPED.sub(
            lambda found: _LONG.get(found[0]) or bytes.fromhex(found[0][2:].decode()), escaped
        )
        return plain.decode("utf-8", "replace")

    # The tree

    @override
    def add_sender(
        self,
        root: Supervisor,
        journal: ActorRef[JournalMessage],
        hub: Hub,
        ended: Callable[[str], Awaitable[None]],
    ) -> None:
        self._sender = root.add(
            ChildSpec(
                "sender",
                lambda: _Sender(self, journal, hub, ended, self._process.serves),
                capacity=1024,
                shutdown=_Sender.SHUTDOWN_S,
            )
        )

    @override
    def add_receiver(
        self, root: Supervisor, inbox: Inbox, journal: ActorRef[JournalMessage], hub: Hub
    ) -> None:
        self._receiver = root.add(ChildSpec("receiver", lambda: _Receiver(self, inbox, self._process.serves)))

    # The process

    @override
    async def stop_receiving(self) -> None:
        if self._receiver is not None:
            await self._receiver.ask(StopReceiving())


class _Sender(ReplySender[ReplySenderMessage]):
    """Sends the channel's replies by its `send`."""

    def __init__(
        self,
        channel: SimpleChannel,
        journal: ActorRef[JournalMessage],
        hub: Hub,
        ended: Callable[[str], Awaitable[None]],
        serves: Callable[[str], bool],
    ) -> None:
        waits = channel.WAITS
        super().__init__(journal, hub, ended, owns=channel.owns, serves=serves, at_once=AT_ONCE, waits=waits)
        self._channel = channel
        self._sent = 0

    @override
    def metrics(self) -> Mapping[str, object]:
        return {"sent": self._sent, "waiting": self.sending, "trouble": self.trouble or None}

    @override
    async def send_reply(self, chat: str, reply: StoredReply) -> None:
        text = with_commands(reply.text, tuple(button.words for button in reply.buttons))
        whole = "\n\n".join(filter(None, (text, reply.note)))
        key = f"{self._channel.name}-{reply.delivery}"
        try:
            await self._channel.send(self._channel.name_of(chat), whole, key)
        except BaseException as error:
            if not is_fault(error):
                raise
            self._channel._failed(f"{self._channel.name} send", error)
            raise RumiError("{why}", why=fault_of(error)) from error
        self._channel._works(f"{self._channel.name} send")
        await self._journal.ask(mark_delivered(reply.delivery))
        self._sent += 1

    @answers(DeliverFile)
    async def send_file(self, file: DeliverFile) -> None:
        """Refuse a file: the channel sends texts."""
        raise Refused(RumiError("{channel} takes no files.", channel=self._channel.name))


class _Receiver(Actor[StopReceiving]):
    """Runs the channel's `receive`, at one of the workers that share a database."""

    def __init__(self, channel: SimpleChannel, inbox: Inbox, serves: Callable[[str], bool]) -> None:
        self._channel = channel
        self._inbox = inbox
        self._serves = serves
        self._scope = trio.CancelScope()
        self._ended = trio.Event()
        self._stored = 0
        self._trouble = ""
        self._waits = False

    async def started(self) -> None:
        """Begin to receive."""
        self.start_soon(self._run)

    @override
    def activity(self) -> str:
        return f"waits: {self._trouble}" if self._waits else ""

    @override
    def metrics(self) -> Mapping[str, object]:
        return {"messages": self._stored, "trouble": self._trouble or None}

    @answers(StopReceiving)
    async def stop_receiving(self, message: StopReceiving) -> None:
        """End receiving; a message that is being stored is stored first, for a bounded time."""
        self._scope.cancel()
        await self._ended.wait()

    async def _run(self) -> None:
        attempt = 0
        with self._scope:
            while True:
                if self._mine():
                    began = trio.current_time()
                    await self._receive()
                    long = trio.current_time() - began > self._channel.WAITS.cap_s
                    attempt = 0 if long else attempt + 1
                    self._waits = True
                    await trio.sleep(self._channel.WAITS.delay_s(min(attempt, 30)))
                    self._waits = False
                else:
                    attempt = 0
                    await trio.sleep(LOOK_S)
        self._ended.set()

    def _mine(self) -> bool:
        return self._serves(f"{self._channel.name} receiver")

    async def _receive(self) -> None:
        """Receive until an error, or until another worker receives."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._until_other, nursery.cancel_scope)
                await self._channel.receive(self._take)
                nursery.cancel_scope.cancel()
        except BaseException as error:
            fault, rest = parted(error)  # a plugin may raise an error while it is cancelled
            if fault is None:
                raise
            self._channel._failed(f"{self._channel.name} receive", fault)
            trouble = fault_of(fault)
            if trouble != self._trouble:
                logger.warning("%s receives nothing: %s", self._channel.name, trouble, exc_info=error)
            self._trouble = trouble
            if rest is not None:
                raise rest from None

    async def _until_other(self, scope: trio.CancelScope) -> None:
        while self._mine():
            await trio.sleep(LOOK_S)
            self._worked()
        scope.cancel()

    def _worked(self) -> None:
        self._trouble = ""
        self._channel._works(f"{self._channel.name} receive")

    async def _take(self, sender: str, text: str, id: str) -> bool:
        name = self._channel.name
        try:
            if not all(isinstance(value, str) for value in (sender, text, id)):
                raise RumiError("A message has texts only: its sender, its text and its id.")
            if len(text) > MOST_TEXT:
                raise RumiError("The text has more than {count} characters.", count=MOST_TEXT)
            chat = self._channel.chat_of(sender)
        except RumiError as error:
            self._channel._failed(f"{name} take", error)
            return False
        digest = hashlib.sha256(f"{name} {sender} {id}".encode("utf-8", "replace")).digest()
        number = int.from_bytes(digest[:8]) >> 1
        message = Incoming(
            Update(name, number),
            chat,
            text,
            origin=number,
            channel=name,
        )
        scope = trio.CancelScope(shield=True, deadline=trio.current_time() + STOP_S)
        with scope:
            (new,) = await self._inbox.accept_all([message])
            self._stored += new
        if scope.cancelled_caught:
            raise RumiError("The message could not be stored in time.", "Try again in a moment.")
        self._worked()
        return True
