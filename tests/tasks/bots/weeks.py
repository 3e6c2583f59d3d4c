"""A bot over weeks in virtual time: sleeps, people who speak to it, ends of the process; what must hold.

The bot's model acts some times in each iteration and then ends it. A process ends at any moment, in the
middle of what it does, and the next one finds what is in the file.
"""

import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from sqlite3 import connect

import trio

from rumi.agent.tool import ToolResult
from rumi.errors import RumiError
from rumi.models.dialects.conversation import NO_RESULT
from rumi.models.model import Emit, Message, ModelRequest, Reply, ToolCall, ToolSpec, Usage
from rumi.store.journal.records import Reason, TaskRecord
from rumi.tasks.kinds import Finished, NextIteration, TaskContext, TaskWork
from rumi.tasks.tasks import Tasks
from tests.chats.house import house
from tests.fakes.tools import Unasked
from tests.tasks.schedules.month import DAY_S, Wall

INSTRUCTIONS = "You tend a garden. Iteration"
GOAL = "Tend it."
LATE_S = 300.0
"""A living process is never so late."""


@dataclass
class Weeks:
    """What has happened, over all processes. `heard` has what people said, by the iteration that read it."""

    random: Random
    wall: Wall
    acts: Counter[str] = field(default_factory=Counter)
    reported: set[str] = field(default_factory=set)
    said: dict[str, float] = field(default_factory=dict)
    heard: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    began: dict[int, float] = field(default_factory=dict)
    wake_at: dict[int, float] = field(default_factory=dict)
    woken: list[float] = field(default_factory=list)
    asks: set[int] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    last: bool = False


class Act(Unasked):
    """Does something in the world, which must not be done twice."""

    spec = ToolSpec("act", "Act.", {"type": "object", "properties": {"at": {"type": "string"}}})

    def __init__(self, weeks: Weeks) -> None:
        self._weeks = weeks

    async def call(self, arguments: "object") -> ToolResult:
        at = str(arguments["at"])  # type: ignore[index]
        weeks = self._weeks
        weeks.acts[at] += 1
        await trio.sleep(weeks.random.choice([0.0, 0.1, 5.0]))
        return ToolResult(True, f"did {at}", tainted=weeks.random.random() < 0.3)


class Tending:
    """The kind of task: a bot whose iterations end as the dice say."""

    def __init__(self, weeks: Weeks) -> None:
        self._weeks = weeks

    @asynccontextmanager
    async def open(self, context: TaskContext) -> AsyncIterator[TaskWork]:
        weeks, number = self._weeks, len(context.iterations) + 1

        async def finish(answer: str, reason: Reason) -> Finished | NextIteration:
            await trio.lowlevel.checkpoint()
            if weeks.last:
                return Finished(answer, summary=f"end {number}")
            wake_at = weeks.wall() + weeks.random.choice([0.0, 1.0, 40.0, 3600.0, DAY_S])
            weeks.wake_at[number] = wake_at
            asks = f"asks {number}" if number in weeks.asks or weeks.random.random() < 0.4 else ""
            if asks:
                weeks.asks.add(number)
            return NextIteration(f"done {number}", wake_at, asks)

        yield TaskWork(f"{INSTRUCTIONS} {number}", (Act(weeks),), finish)

    async def answer(self, request: ModelRequest, emit: Emit) -> Reply:
        """Act, and end the iteration; answer a chat with a word."""
        weeks = self._weeks
        first = request.messages[0].content
        if not first.startswith(INSTRUCTIONS):
            return Reply("thanks")
        number = int(first.removeprefix(INSTRUCTIONS))
        self._look(number, request.messages[1:])
        await trio.sleep(weeks.random.choice([0.0, 0.1, 3.0]))
        done = sum(message.role == "tool" for message in request.messages)
        if done < number % 4:
            call = ToolCall(f"c{done}", "act", json.dumps({"at": f"{number}.{done}"}))
            return Reply("", (call,), usage=Usage(100, 10))
        return Reply(f"done {number}", usage=Usage(100, 10))

    def _look(self, number: int, messages: tuple[Message, ...]) -> None:
        weeks = self._weeks
        if number not in weeks.began:
            weeks.began[number] = now = weeks.wall()
            early = weeks.wake_at.get(number - 1, 0.0) - now
            since = weeks.began.get(number - 1, 0.0)
            if early > 1 and not any(time >= since for time in weeks.woken):
                weeks.wrong.append(f"iteration {number} begins {early:.0f} s early")
        users = [message.content for message in messages if message.role == "user"]
        if not users or users[-1] != GOAL:
            weeks.wrong.append(f"iteration {number} reads {users}, and not its goal last")
        for text in users[:-1]:
            weeks.heard[text].add(number)
        acted = [
            message.content for message in messages if message.role == "tool" and message.content != NO_RESULT
        ]
        if any(not done_text.startswith(f"did {number}.") for done_text in acted):
            weeks.wrong.append(f"iteration {number} reads what another one did: {acted}")


async def play(path: Path, seed: int, days: float = 12) -> None:
    """Play; raises an `AssertionError` for what must not be."""
    random = Random(seed)
    wall = Wall(1_800_000_000 - trio.current_time())
    weeks = Weeks(random, wall)
    end = wall() + days * DAY_S
    first = True
    while wall() < end:
        life_s = random.choice([0.2, 2.0, 20.0, 20.0, 3600.0, DAY_S]) * random.uniform(0.5, 1.5)
        await _process(path, weeks, life_s, first=first)
        first = False
        wall.ahead += random.choice([0.0, 0.0, 5.0, 1800.0, DAY_S])  # nothing runs
    weeks.last = True
    await _process(path, weeks, 3 * DAY_S, first=False)
    check(path, weeks)


async def _process(path: Path, weeks: Weeks, life_s: float, *, first: bool) -> None:
    kind = Tending(weeks)
    with trio.move_on_after(life_s):
        async with house(path, kind.answer, now=weeks.wall, kinds={"bot": kind}) as home:
            if first:
                with trio.CancelScope(shield=True):
                    await home.tasks.begin(TaskRecord("bot", "local", GOAL, "cli", bot="garden"))
            began = trio.current_time()
            while True:
                await trio.sleep(weeks.random.choice([1.0, 30.0, 900.0, 3600.0]))
                if trio.current_time() - began > LATE_S:
                    _see_late(path, weeks)
                if weeks.last and home.tasks.session_of("garden") is None:
                    return
                if weeks.last:
                    continue
                match weeks.random.randrange(8):
                    case 0:
                        weeks.wall.ahead += weeks.random.choice([40.0, 5 * 3600.0])  # a suspend
                        began = trio.current_time()
                    case 1 | 2 | 3:
                        await _say(home.tasks, weeks)
                    case _:
                        pass


async def _say(tasks: Tasks, weeks: Weeks) -> None:
    """Say something to the bot, or wake it; who says it knows that it is stored when this returns."""
    text = weeks.random.choice(["", f"word {len(weeks.said)}"])
    running = tasks.session_of("garden")
    assert running is not None
    weeks.woken.append(weeks.wall())
    try:
        await tasks.say(running.id, text)
    except RumiError:
        return  # it has too much to hear
    if text:
        weeks.said[text] = weeks.wall()
    weeks.woken.append(weeks.wall())


def _see_late(path: Path, weeks: Weeks) -> None:
    with closing(connect(path / "state.db")) as db:
        ((state, wake_at, said),) = db.execute("SELECT state, wake_at, said FROM tasks").fetchall()
    if state == "sleeping" and 0 < wake_at < weeks.wall() - LATE_S:
        weeks.wrong.append(f"it sleeps {weeks.wall() - wake_at:.0f} s too long")
    waits = [text for text in json.loads(said or "[]") if weeks.wall() - weeks.said.get(text, 1e12) > LATE_S]
    if state == "sleeping" and waits:
        weeks.wrong.append(f"it sleeps, and does not hear {waits}")


def check(path: Path, weeks: Weeks) -> None:
    """Every iteration is stored once, everything said was heard once, and nothing was done twice."""
    with closing(connect(path / "state.db")) as db:
        ((state,),) = db.execute("SELECT state FROM tasks").fetchall()
        stored = db.execute("SELECT number, summary FROM iterations ORDER BY number").fetchall()
        asked = Counter(text for (text,) in db.execute("SELECT text FROM messages WHERE text LIKE 'asks %'"))
    assert not weeks.wrong, weeks.wrong
    assert state == "succeeded"
    last = len(stored)
    assert last > 3, "it has worked"
    assert stored == [(n, f"done {n}" if n < last else f"end {n}") for n in range(1, last + 1)]
    twice = {at: many for at, many in weeks.acts.items() if many > 1}
    assert not twice, f"done twice: {twice}"
    lost = [text for text, at in weeks.said.items() if not weeks.heard[text] and at < weeks.began[last]]
    assert not lost, f"never heard: {lost}"
    again = {text: numbers for text, numbers in weeks.heard.items() if len(numbers) > 1}
    assert not again, f"heard again: {again}"
    assert asked == Counter(f"asks {n}" for n in weeks.asks if n < last), "each question comes once"
