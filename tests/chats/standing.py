"""A briefing that opens a page of its text and the weather, in virtual days; people who answer; kills."""

import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import trio

from rumi.agent.mcp.messages import CallOutcome, RemoteTool, ResultPart
from rumi.agent.mcp.tool import McpTool
from rumi.agent.tool import Progress, Tool
from rumi.agent.tools.web_fetch import WebFetch
from rumi.chats.events import Replied
from rumi.chats.hub import HubSubscription
from rumi.models.model import Emit, ModelRequest, Reply, ToolCall
from rumi.platform.config.schema import SchedulesSection
from rumi.store.journal.outbox import undelivered_replies
from rumi.store.journal.records import Button, ScheduleRecord
from rumi.tasks.schedules.when import Every
from rumi.web.messages import Method, Page
from rumi.web.readers.files.viewer import Seen
from tests.chats.house import House, house
from tests.chats.test_parked import ANSWERS, ASKED, results, said
from tests.tasks.schedules.test_schedules import START

DAY_S = 86_400.0
NEWS = "https://news.example/today"
WEATHER = "https://weather.example/v1/forecast?city=Madrid&date={day}"
TEXT = f"Brief me: read {NEWS} and the weather in Madrid."

BRIEFING = ScheduleRecord("local", "cli", "turn", TEXT)

SEND = RemoteTool(
    "send",
    "Sends a mail.",
    {
        "type": "object",
        "properties": {"to": {"type": "string"}, "cc": {"type": "string"}, "body": {"type": "string"}},
    },
    destructive=False,
)


def now() -> float:
    return START + trio.current_time()


def today() -> str:
    return f"{datetime.fromtimestamp(now(), UTC):%Y-%m-%d}"


@dataclass
class Outside:
    """What can be reached, and what was: each address, and each call of the mail server, in order."""

    opened: list[str] = field(default_factory=list)
    called: list[dict[str, Any]] = field(default_factory=list)
    news: str = "Nothing happened."
    tool: RemoteTool = SEND
    at_call: Callable[[], None] = lambda: None

    async def fetch(self, url: str, method: Method, progress: Progress) -> Page:
        self.at_call()
        await trio.lowlevel.checkpoint()
        self.opened.append(url)
        self.at_call()
        await trio.lowlevel.checkpoint()
        return Page(url, 200, "text/plain", text=self.news if url == NEWS else "Sunny.")

    async def ask(self, server: str, tool: str, arguments: Any, progress: Progress) -> CallOutcome:
        self.at_call()
        await trio.lowlevel.checkpoint()
        self.called.append({"tool": tool, **arguments})
        self.at_call()
        await trio.lowlevel.checkpoint()
        return CallOutcome((ResultPart("sent"),))

    def tools(self) -> tuple[Tool, ...]:
        async def look(content: bytes) -> Seen:
            raise AssertionError("nothing is looked at")

        name = f"mail__{self.tool.name}"
        mail = McpTool("mail", name, self.tool, self.ask, look, siblings={name}, trusted=False)
        return WebFetch(self.fetch), mail

    @property
    def weather(self) -> list[str]:
        return [url for url in self.opened if "weather" in url]


Calls = Sequence[tuple[str, dict[str, object]]]


def usual() -> Calls:
    """What the model does in each run: the news, then the weather, whose address it knows by itself."""
    return (("web_fetch", {"url": NEWS}), ("web_fetch", {"url": WEATHER.format(day=today())}))


@dataclass
class Briefing:
    house: House
    outside: Outside
    events: HubSubscription
    requests: list[ModelRequest]

    async def replied(self) -> Replied:
        with trio.fail_after(3 * DAY_S):
            while True:
                what = (await self.events.receive()).what
                if isinstance(what, Replied):
                    return what

    async def next_run(self) -> str:
        """The reply of the next run."""
        while not (replied := await self.replied()).schedule:
            pass
        return replied.text

    async def ask(self, text: str) -> str:
        return await self.house.ask(text)

    async def buttons(self) -> list[Button]:
        replies = await self.house.services.journal.ask(undelivered_replies("cli"))
        return list(next((reply.buttons for reply in reversed(replies) if reply.buttons), ()))


@asynccontextmanager
async def briefing(
    path: Path,
    outside: Outside,
    calls: Callable[[], Calls] = usual,
    *,
    add: bool = True,
    record: ScheduleRecord = BRIEFING,
    **more: Any,
) -> AsyncIterator[Briefing]:
    """A house with a briefing each day at nine, in UTC; the model makes these calls, whatever they are."""
    requests: list[ModelRequest] = []

    async def works(request: ModelRequest, emit: Emit) -> Reply:
        requests.append(request)
        await trio.sleep(1)
        words, done = said(request), results(request)
        wanted = [(name, json.dumps(arguments)) for name, arguments in calls()]
        if words.startswith(ANSWERS):
            wanted = ASKED.findall(words.partition("The user said yes")[2].partition("The user said no")[0])
        elif not words.startswith("[The schedule"):
            return Reply("hello")
        if len(done) < len(wanted):
            return Reply("", (ToolCall(f"c{len(done)}", *wanted[len(done)]),))
        return Reply("Here is your briefing.")

    tools = more.pop("tools_for", lambda view: outside.tools())
    limits = SchedulesSection()
    async with house(path, works, tools_for=tools, schedule_limits=limits, now=now, **more) as home:
        with home.services.hub.listening(record.chat) as events:
            if add:
                await home.schedules.add(record, Every("0 9 * * *"), "UTC")
            yield Briefing(home, outside, events, requests)


def parked(path: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path / "state.db")) as db:
        return db.execute("SELECT number, state, schedule FROM parked ORDER BY number").fetchall()
