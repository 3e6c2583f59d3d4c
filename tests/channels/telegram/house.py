"""The whole house behind a Telegram in memory: journal, sender, chats and poller, in virtual time.

Its model reads a page and then sends something, which has to be asked for: `Reading` taints, `Sending` asks.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import trio

from actors import ActorRef, ChildSpec, Supervisor
from rumi.agent.tool import Question, Tool, ToolResult
from rumi.channels.telegram.channel import Telegram
from rumi.channels.telegram.receiving.reading import Who
from rumi.chats.context import ChatContext
from rumi.chats.fact_extraction import FactExtraction, add_fact_extraction
from rumi.chats.hub import Hub
from rumi.chats.inbox import Inbox, add_chats
from rumi.chats.lists.commands import ListCommands
from rumi.chats.publishing import PendingMessages, Publisher
from rumi.chats.services import ChatServices, ChatWorkspaces
from rumi.chats.speaking import SpeechService
from rumi.models.model import Emit, ModelRequest, Reply, ToolCall, ToolSpec
from rumi.models.speech import Speaks
from rumi.platform.chat_ids import BUILT_IN
from rumi.platform.config.groups import Groups
from rumi.platform.config.schema import ChatSection, SessionSection, Settings
from rumi.platform.home import Home
from rumi.platform.logs.audit import AuditLog
from rumi.platform.redact import Redactor
from rumi.platform.texts.voice import Spoken
from rumi.sandbox.chat_files import ChatFiles
from rumi.store.journal.actor import Journal
from rumi.store.journal.records import Attachment
from rumi.store.journal.transaction import JournalMessage
from rumi.tasks.schedules.clock import ScheduleClock
from rumi.tasks.schedules.schedules import Schedules, ScheduleServices
from tests.channels.telegram.sending import bot_in_memory
from tests.chats.house import FunctionModel, InlineOffload, MemorySandboxes, limited, queueing
from tests.fakes.bot_api import BotApi
from tests.fakes.bot_api_world import Chat, Message
from tests.fakes.telegram_exchange import until
from tests.fakes.tools import Unasked

ANA, BEN, EVE = 11, 12, 66
"""Ana and Ben may talk to the bot."""


@dataclass
class Reading(Unasked):
    """Reads a page."""

    spec: ToolSpec = field(default_factory=lambda: ToolSpec("read", "Reads.", {}))

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        await trio.sleep(float(str(arguments.get("seconds", 0))))
        return ToolResult(True, "a page", tainted=True)


@dataclass
class Sending:
    """Sends something; `sent` lists what."""

    sent: list[str] = field(default_factory=list)
    spec: ToolSpec = field(default_factory=lambda: ToolSpec("send", "Sends.", {}))
    concurrent: bool = False

    async def prepare(self) -> None:
        return

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        return Question("send_file", {"path": str(arguments["path"])})

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        await trio.lowlevel.checkpoint()
        self.sent.append(str(arguments["path"]))
        return ToolResult(True, "sent")


async def sends_what_it_is_told(request: ModelRequest, emit: Emit) -> Reply:
    """`send PATH…` reads a page and then sends each path, one reply each; anything else is answered."""
    await trio.lowlevel.checkpoint()
    last = max(index for index, message in enumerate(request.messages) if message.role == "user")
    word, *paths = request.messages[last].content.split()
    results = [message.content for message in request.messages[last:] if message.role == "tool"]
    if word != "send":
        return Reply(f"you said {request.messages[last].content}")
    if not results:
        return Reply("", (ToolCall("c0", "read", "{}"),))
    if len(results) <= len(paths):
        path = paths[len(results) - 1]
        return Reply("", (ToolCall(f"c{len(results)}", "send", f'{{"path": "{path}"}}'),))
    return Reply(f"done: {'; '.join(results[1:])}")


@dataclass
class TelegramHouse:
    """A running house, and what people see of it."""

    api: BotApi
    inbox: Inbox
    sending: Sending
    root: Supervisor
    telegram: Telegram
    fact_extraction: FactExtraction
    journal: ActorRef[JournalMessage]
    schedules: Schedules

    async def until(self, condition: Any, within_s: float = 30) -> None:
        """Wait until something holds on this Telegram."""
        with trio.fail_after(within_s):
            await until(self.api, condition)

    async def asked(self, chat: Chat | int, number: int = 1, within_s: float = 30) -> Message:
        """Wait for so many questions in a chat; the last."""
        index = self.api.chat(chat)
        await self.until(lambda: len(asking(index)) >= number, within_s)
        return asking(index)[-1]

    async def idle(self, within_s: float = 60) -> None:
        """Wait until no lane has anything to do."""
        with trio.fail_after(within_s):
            while self.activity("sender") or self.api.pending:  # noqa: ASYNC110  # the sender tells nobody
                await trio.sleep(0.1)

    def activity(self, name: str) -> str:
        return next(child.activity for child in self.root.status().children if child.id == name)


def asking(chat: Chat) -> list[Message]:
    """The messages with buttons."""
    return [message for message in chat.said if message.buttons]


@asynccontextmanager
async def telegram_house(
    path: Path,
    api: BotApi,
    *,
    answer: Any = sends_what_it_is_told,
    confirm_timeout_s: float = 600.0,
    max_queued: int = 0,
    chat_section: ChatSection | None = None,
    bring: Callable[[str, Attachment], Awaitable[str]] | None = None,
    telegram: Telegram | None = None,
    speaker: Speaks | None = None,
    files: Any = None,
    spoken: Spoken = "to_voice",
    groups: Groups | None = None,
    now: Callable[[], float] = time.time,
    add: Callable[..., object] = lambda root, inbox, journal, hub: None,
) -> AsyncIterator[TelegramHouse]:
    """Start it on a folder; leaving it is an orderly stop, and the folder keeps the journal.

    `add` adds more to the tree, below everything.
    """
    home = Home(path)
    (path / "logs").mkdir(exist_ok=True)
    who = Who(frozenset({ANA, BEN}), groups=groups or Groups())
    telegram = telegram or Telegram()
    bot = bot_in_memory(api)
    telegram.connect(
        bot, who, cast(Any, files), ChatFiles(home.workspaces), voice=files is not None, speaker=speaker
    )
    root = Supervisor("rumi", strategy="rest_for_one")
    offload, hub, sending = InlineOffload(), Hub(), Sending()
    journal = root.add(ChildSpec("journal", lambda: Journal(path / "state.db", offload, now)))
    telegram.add_sender(root, journal, hub, lambda chat: inbox.chats.end(chat))
    tools: tuple[Tool, ...] = (Reading(), sending)
    model = FunctionModel(answer)
    audit = AuditLog(path / "logs" / "audit.jsonl", max_mb=10, backup_count=5, redact=Redactor([]))
    pending, sandboxes = PendingMessages(), MemorySandboxes()
    context = ChatContext(
        model_for=lambda chat, language, chosen: model,
        settings=Settings(
            agent=limited(confirm_timeout_s=confirm_timeout_s),
            session=SessionSection(history_messages=40),
            chat=chat_section or queueing(max_queued),
        ),
        context_tokens=100_000,
        language="en",
        ids=BUILT_IN,
        now=now,
        bring=bring or telegram.bring,
        tools_for=lambda chat: tools,
    )
    speech = SpeechService(journal, spoken, telegram.speaks, telegram.speak)
    schedules = Schedules(
        ScheduleServices(
            journal=journal,
            tasks=cast(Any, None),
            hub=hub,
            ids=BUILT_IN,
            wake=lambda message: inbox.chats.wake(message),
            now=now,
        )
    )
    services = ChatServices(
        journal=journal,
        sandboxes=sandboxes,
        workspaces=ChatWorkspaces(ChatFiles(home.workspaces), offload),
        hub=hub,
        publisher=Publisher(hub, audit, pending, now, sandboxes.container_id),
        pending=pending,
        context=context,
        fact_extraction=add_fact_extraction(root, journal, context),
        handlers={"speech": speech, "lists": ListCommands(journal.ask), "schedules": schedules},
        speech=speech,
    )
    inbox = add_chats(root, services)
    telegram.add_receiver(root, inbox, journal, hub)
    root.add(ChildSpec("schedules", lambda: ScheduleClock(schedules)))
    add(root, inbox, journal, hub)
    try:
        async with root.running():
            extraction = services.fact_extraction
            yield TelegramHouse(api, inbox, sending, root, telegram, extraction, journal, schedules)
    finally:
        audit.close()
