"""Scheduled turns that park calls, people who answer at any time, and kills in the middle; what must hold."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from sqlite3 import connect

import trio
import trio.testing

from rumi.agent.events import ConfirmationAsked
from rumi.agent.permissions.parking import answers_in
from rumi.agent.tool import Question, ToolResult
from rumi.chats.commands import answer_in
from rumi.models.model import Emit, ModelRequest, Reply, ToolCall, ToolSpec
from rumi.store.journal.records import ScheduleRecord
from rumi.tasks.schedules.when import Every
from tests.chats.house import House
from tests.chats.test_confirmations import Page
from tests.fakes.tools import Unasked

QUESTION = re.compile(r"^(\d+)\. This chat.*\n```\n  address: (\S+)", re.MULTILINE)
ALLOWED = re.compile(r"^- visit (.*)$", re.MULTILINE)


@dataclass
class Visits(Unasked):
    """Counts how often each address was visited."""

    runs: Counter[str] = field(default_factory=Counter)
    spec: ToolSpec = field(default_factory=lambda: ToolSpec("visit", "Goes.", {}))

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        return Question("fetch", {"url": str(arguments.get("url"))})

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        await trio.lowlevel.checkpoint()
        self.runs[str(arguments.get("url"))] += 1
        return ToolResult(True, "been there")


@dataclass
class Answering:
    """The model, the people and the kills of one month; they have chance of their own."""

    path: Path
    random: Random
    visits: Visits = field(default_factory=Visits)
    page: Page = field(default_factory=Page)
    schedules: set[int] = field(default_factory=set)
    life: trio.CancelScope = field(default_factory=trio.CancelScope)
    calm: bool = False
    yes: set[int] = field(default_factory=set)
    _typed: set[int] = field(default_factory=set)
    _made: int = 0

    async def begin(self, home: House) -> None:
        """Add the schedules whose turns park."""
        for cron in ("0 9 * * *", "0 */6 * * *", "15 14 * * 1-5"):
            record = ScheduleRecord("local", "cli", "turn", f"park {cron}")
            self.schedules.add((await home.schedules.add(record, Every(cron), "UTC")).id)

    # The model

    async def model(self, request: ModelRequest, emit: Emit) -> Reply:
        """Park calls in turns of schedules, and make the calls that are allowed in turns of answers."""
        await trio.sleep(0 if self.calm else self.random.choice([0.0, 0.0, 5.0, 60.0]))
        if not self.calm and self.random.random() < 0.05:
            self.life.cancel()  # a kill in the middle of a turn
            await trio.lowlevel.checkpoint()
        text = next(m.content for m in reversed(request.messages) if m.role == "user")
        last = max(index for index, m in enumerate(request.messages) if m.role == "user")
        done = sum(m.role == "tool" for m in request.messages[last:])
        if text.startswith("[The schedule") and not request.words_only:
            return self._parks(done)
        if text.startswith("[The user answers") and not request.words_only:
            return self._makes(text, done)
        return Reply("hello")

    def _parks(self, done: int) -> Reply:
        if done == 0:
            return _call("page", "{}", done)
        if done > 3 or self.random.random() < 0.3:
            return Reply("I did the rest.")
        self._made += 1
        which = "same" if self.random.random() < 0.2 else str(self._made)
        return _call("visit", f'{{"url": "http://e.example/?d={which}"}}', done)

    def _makes(self, text: str, done: int) -> Reply:
        allowed = ALLOWED.findall(text.partition("The user said yes")[2].partition("The user said no")[0])
        if done < len(allowed) and self.random.random() < 0.9:
            return _call("visit", allowed[done], done)
        if done == len(allowed) and self.random.random() < 0.3:
            return _call("visit", self.random.choice(allowed), done)  # a second time
        return Reply("I did it.")

    # The people

    async def refuse(self, home: House) -> None:
        """Say no to whatever a turn asks a person who is there."""
        with home.services.hub.listening("cli") as events:
            while True:
                what = (await events.receive()).what
                if isinstance(what, ConfirmationAsked):
                    await home.inbox.chats.answer("cli", what.id, False)

    async def act(self, home: House) -> None:
        """Do what a person does now and then."""
        asked = [number for _, number, _ in _asked(self.path)]
        recent = asked[-12:]
        match self.random.randrange(14):
            case 0 | 1 | 2 | 3 if recent:
                some = self.random.sample(recent, min(len(recent), self.random.randrange(1, 4)))
                await self._say(home, f"/yes {' '.join(map(str, some))}")
            case 4 | 5 if recent:
                await self._say(home, f"/yes {self.random.choice(recent)} no {recent[-1]}")
            case 6 if recent:
                await self._say(home, f"/no {self.random.choice(recent)}")
            case 7:  # nobody has asked that yet
                await self._say(home, f"/yes {max(asked, default=0) + self.random.randrange(1, 4)}")
            case 8:
                await self._say(home, "/retry")
            case 9 if self.random.random() < 0.3:
                await self._say(home, "/stop")
            case 10 if self.random.random() < 0.2:
                await self._say(home, "/reset")
            case 11:
                await home.schedules.run(self.random.choice(sorted(self.schedules)), None)
                await trio.sleep(self.random.choice([0.0, 1.0, 30.0]))
                await self._say(home, f"/yes {max(asked, default=0) + 1}")  # it may be about to be asked
            case _:
                pass

    async def _say(self, home: House, text: str) -> None:
        """Send a message, and note which calls it may allow: those that had been asked when it came."""
        try:
            await home.inbox.accept("cli", text)
            await trio.testing.wait_all_tasks_blocked()
        finally:  # a kill leaves it stored or not
            yes = {number for number, state in answers_in(answer_in(text)).items() if state == "allowed"}
            self._typed |= yes
            again = self._typed if text == "/retry" else yes
            self.yes |= again & {number for _, number, _ in _asked(self.path)}

    def check(self) -> None:
        """Each parked call is asked in exactly one message, and runs at most once, only after a yes.

        Replies to later runs repeat it, behind a mark.
        """
        with closing(connect(self.path / "state.db")) as db:
            rows = db.execute("SELECT number, asked FROM parked WHERE chat = 'cli' AND call != ''").fetchall()
        asked: dict[int, list[int]] = defaultdict(list)
        numbers: dict[str, set[int]] = defaultdict(set)
        for message, number, url in _asked(self.path):
            asked[number].append(message)
            numbers[url].add(number)
        for number, messages in asked.items():
            assert len(messages) == 1, f"call {number} is asked in {len(messages)} messages"
        for number, noted in rows:
            assert noted, f"call {number} waits, and no message has asked for it"
            assert number in asked, f"call {number} counts as asked, and no message has asked for it"
        for url, runs in self.visits.runs.items():
            yes = numbers[url] & self.yes
            assert runs <= len(yes), f"{url} ran {runs} times, with a yes for {yes}"


def _call(tool: str, arguments: str, number: int) -> Reply:
    return Reply("", (ToolCall(f"c{number}", tool, arguments),))


def _asked(path: Path) -> list[tuple[int, int, str]]:
    """Return which message has asked for which number and address."""
    with closing(connect(path / "state.db")) as db:
        rows = db.execute("SELECT id, text FROM outbox WHERE text LIKE '%🔒%' ORDER BY id").fetchall()
    # Behind the mark, a later run repeats questions that have no answer yet.
    first = [(id, text.partition("⏳")[0]) for id, text in rows]
    return [(id, int(number), url) for id, text in first for number, url in QUESTION.findall(text)]
