"""A sender with everything around it that it needs: a real journal, a hub, and Telegram in memory."""

import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import trio
from telegram import Bot

from actors import ActorError, ActorRef, ChildSpec, Supervisor
from rumi.agent.events import Thinking, ToolFinished, ToolStarted, TurnFinished
from rumi.agent.tool import ToolResult
from rumi.channels.sending import Flush
from rumi.channels.telegram.api.guarded import Guarded
from rumi.channels.telegram.messages import SenderMessage
from rumi.channels.telegram.receiving.updates import update_of
from rumi.channels.telegram.sending.sender import Sender
from rumi.chats.events import ChatEvent, Happening, Replied, TurnStarted
from rumi.chats.hub import Hub
from rumi.models.model import TextDelta, ToolCall
from rumi.platform.texts.telegram import sent_again
from rumi.store.journal.actor import Journal
from rumi.store.journal.inbox import accept_messages
from rumi.store.journal.outbox import settle, undelivered_chats, undelivered_replies
from rumi.store.journal.records import FinalReply, Incoming, StoredReply
from rumi.store.journal.transaction import JournalMessage
from tests.chats.house import InlineOffload
from tests.fakes.bot_api import TOKEN, BotApi
from tests.fakes.telegram_request import InMemoryRequest


def unmarked(text: str) -> str:
    """A message without the mark of one that was sent again; nothing where there is only the mark."""
    return text.removeprefix(sent_again("en")).lstrip("\n")


class _Bytes(InMemoryRequest):
    """Answers as bytes, which is what the guard reads."""

    __slots__ = ()

    async def do_request(self, *args: Any, **kwargs: Any) -> tuple[int, bytes]:
        code, payload = await super().do_request(*args, **kwargs)
        return code, json.dumps(payload.body).encode() if hasattr(payload, "body") else payload

    parse_json_payload = staticmethod(Guarded.parse_json_payload)


class GuardedMemory(Guarded, _Bytes):
    """Telegram in memory behind the guard, as in the program."""

    __slots__ = ()


def bot_in_memory(api: BotApi, **how: Any) -> Bot:
    """A bot whose Telegram is `api`."""
    return Bot(TOKEN, request=GuardedMemory(api, **how), get_updates_request=GuardedMemory(api, seed=1))


@dataclass
class PostOffice:
    """A running journal and sender. `ended` lists the chats that were told to be gone."""

    api: BotApi
    hub: Hub
    root: Supervisor
    journal: ActorRef[JournalMessage]
    sender: ActorRef[SenderMessage]
    incarnations: list[Sender]
    ended: list[str] = field(default_factory=list)
    on_ended: Callable[[str], Any] | None = None
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    @property
    def actor(self) -> Sender:
        """The sender's incarnation."""
        return self.incarnations[-1]

    async def asked(self, chat: str, *, origin: int | None = 1) -> int:
        """Store a message of somebody's; its number."""
        message = Incoming(update_of(next(self._numbers)), chat, "hi", "en", origin=origin)
        (stored,) = await self.journal.ask(accept_messages((message,)))  # type: ignore[misc]
        return stored.id  # type: ignore[union-attr]

    async def reply(
        self,
        chat: str,
        text: str,
        *messages: int,
        turn: str = "",
        origin: int | None = 1,
        published: bool = True,
    ) -> int:
        """Store a final reply, to a new message where none is named, and tell it; its delivery."""
        numbers = messages or (await self.asked(chat, origin=origin),)
        delivery = await self.journal.ask(settle(chat, FinalReply(numbers, text)))
        if published:
            if turn:
                self.publish(chat, turn, TurnFinished("complete", text))
            self.publish(chat, turn, Replied(delivery, numbers, text))
        return delivery

    def publish(self, chat: str, turn: str, what: Happening) -> None:
        """Something happens in a chat."""
        self.hub.publish(ChatEvent(chat, turn, trio.current_time(), what))

    async def begin(self, chat: str, *, origin: int | None = 1, language: Any = "en") -> "Turn":
        """A message becomes a turn."""
        number = await self.asked(chat, origin=origin)
        self.publish(chat, f"t{number}", TurnStarted("hi", number, language, origin))
        turn = Turn(self, chat, number, f"t{number}")
        turn.publish(Thinking(1))
        return turn

    async def undelivered(self, chat: str) -> tuple[StoredReply, ...]:
        return await self.journal.ask(undelivered_replies(chat))

    async def flush(self, seconds: float = 3600) -> None:
        """Wait until nothing waits that could go."""
        with trio.fail_after(seconds):
            await self.sender.ask(Flush())

    async def all_sent(self, seconds: float = 3600) -> None:
        """Wait until nothing waits at all."""
        with trio.fail_after(seconds):
            while await self._waiting():  # noqa: ASYNC110  # the journal tells nobody
                await trio.sleep(0.1)

    async def _waiting(self) -> tuple[str, ...]:
        try:
            return await self.journal.ask(undelivered_chats())
        except ActorError:
            return ("?",)

    async def sent(self, chat: str, delivery: int) -> None:
        """Wait until nothing has to be sent any more for a delivery."""
        while any(reply.delivery == delivery for reply in await self.undelivered(chat)):  # noqa: ASYNC110
            await trio.sleep(0.1)


@dataclass
class Turn:
    """A turn that runs in a chat."""

    office: PostOffice
    chat: str
    message: int
    id: str

    def publish(self, what: Happening) -> None:
        self.office.publish(self.chat, self.id, what)

    def says(self, text: str) -> None:
        self.publish(TextDelta(text))

    def tool(self, name: str = "bash", id: str = "c1", **arguments: object) -> Callable[[], None]:
        """A tool call begins; call what this returns to end it."""
        call = ToolCall(id, name, json.dumps(arguments))
        self.publish(ToolStarted(call, arguments))
        return lambda: self.publish(ToolFinished(call, ToolResult(True, "done")))

    async def ends(self, text: str, *others: int) -> int:
        """It ends with this final reply."""
        return await self.office.reply(self.chat, text, self.message, *others, turn=self.id)


@asynccontextmanager
async def post_office(
    path: Path, api: BotApi, bot: Bot | None = None, **settings: Any
) -> AsyncIterator[PostOffice]:
    """A journal in a folder and a sender. Leaving this is an orderly stop; the folder keeps the journal."""
    root = Supervisor("rumi", strategy="rest_for_one")
    journal = root.add(
        ChildSpec(
            "journal",
            lambda: Journal(path / "state.db", settings.pop("offload", InlineOffload()), time.time),
        )
    )
    hub = Hub()
    incarnations: list[Sender] = []
    ended: list[str] = []
    used = bot or bot_in_memory(api)
    settings.setdefault("random", Random(1))

    async def on_ended(chat: str) -> None:
        ended.append(chat)
        if office.on_ended is not None:
            await office.on_ended(chat)

    def sender() -> Sender:
        incarnations.append(Sender(used, journal, hub, on_ended, **settings))
        return incarnations[-1]

    reference = root.add(ChildSpec("sender", sender, shutdown=Sender.SHUTDOWN_S))
    office = PostOffice(api, hub, root, journal, reference, incarnations, ended)
    async with root.running():
        yield office
