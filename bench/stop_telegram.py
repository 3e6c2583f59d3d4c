"""How long `/stop` takes on Telegram while 200 chats have turns.

    python -m bench.stop_telegram [CHATS [ROUNDS]]

Half of the chats run `sleep 600` in bubblewrap, the other half wait for a model that says nothing (as many of
them as there are permits have a request open, the rest wait for a permit). All are stopped, in random order,
several at once too. Rumi is a process of its own and talks to a fake Telegram and a fake Groq over HTTP.

Beside it, in every round: the same with an idle house; the same while Telegram refuses what other chats
are sent with 429; the same with commands only, while 50 other chats fetch pages of 100 KB, four at once each;
and a bare loop that polls the same fake with httpx and commits a row to SQLite for each update, which is the
least that a bot can do which loses nothing.

Exits with 1 where a reply is missing or a chat was disturbed that had not asked for anything.
"""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import trio

from bench import telegram_house as house
from bench.rounds import percentile, ratios, row, spread
from bench.telegram_house import Outside, Process, until
from rumi.models.concurrency import AT_FIRST
from rumi.platform.texts import replies as reply_texts
from rumi.sandbox.processes import descendants
from tests.fakes.bot_api import TOKEN
from tests.fakes.bot_api_faults import Flood
from tests.fakes.bot_api_world import Message, Person
from tests.fakes.groq_server import Answer, Behaviour, Body, Hang, answered_calls, last_user_text

CHATS = 200
ROUNDS = 3
NOISY = 5
FETCHING = 50
FETCHES = 4
"""So many pages at once does each of them ask for."""

IDLE_STOPS = 20
BARE_UPDATES = 50
BURSTS = (1, 1, 1, 1, 2, 4, 10)
PER_S = 12.0
"""So many `/stop` a second on average: what Telegram takes, 30 messages a second, leaves room for them."""

BEGIN_S = 8.0
"""So long does it take until all have written: people do not begin in the same moment."""

PERMITS = AT_FIRST
"""Calls that Rumi has open at one model server."""

SLEEP = json.dumps({"command": "sleep 600"})


class Model:
    """Runs commands, hangs, or answers, as the words of the user say."""

    def __init__(self) -> None:
        self._hanging: list[trio.lowlevel.Task] = []

    @property
    def hanging(self) -> int:
        """Requests that are open now. Each has a task of the server's, which ends when the client leaves."""
        self._hanging = [task for task in self._hanging if task.coro.cr_frame is not None]
        return len(self._hanging)

    def __call__(self, body: Body) -> Behaviour:
        said = last_user_text(body)
        if said.startswith("fetch "):
            done = len(answered_calls(body))
            url = said.removeprefix("fetch ")
            following = range(done, done + FETCHES)
            return Answer(calls=[("web_fetch", json.dumps({"url": f"{url}{n}"})) for n in following])
        if said == "hang":
            self._hanging.append(trio.lowlevel.current_task())
            return Hang()
        if said == "command" and not answered_calls(body):
            return Answer(calls=[("bash", SLEEP)])
        return Answer("hola")


@dataclass
class Seen:
    """What the house told: by chat, its turns, tool calls and final replies with their times."""

    turns: dict[str, int] = field(default_factory=dict)
    tools: dict[str, int] = field(default_factory=dict)
    replies: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    async def watch(self, process: Process) -> None:
        async for line in house.lines_of(process):
            chat = line["chat"]
            if line["what"] == "reply":
                self.replies.setdefault(chat, []).append(line)
            else:
                counts = self.turns if line["what"] == "turn" else self.tools
                counts[chat] = counts.get(chat, 0) + 1


@dataclass(frozen=True)
class Stop:
    """One `/stop`: the moments of its way, on the fake Telegram's clock."""

    command: bool
    said: float
    handed: float
    stored: float
    shown: float


class Bench:
    """A house with people. `wrong` is what must not be, in words."""

    def __init__(self, out: Outside, model: Model, process: Process, people: Sequence[Person]) -> None:
        self.out = out
        self.model = model
        self.pid = process.pid
        self.seen = Seen()
        self.people = people
        self.wrong: list[str] = []
        self.random = Random(1)

    # Turns

    async def begin(self, commands: Sequence[Person], hangs: Sequence[Person]) -> None:
        """Have a turn in progress in each of these chats."""
        await self._say(commands, "command", self.seen.tools)
        await until(lambda: self._sleeping() == len(commands), "every command runs", 60)
        hung = self.model.hanging
        await self._say(hangs, "hang", self.seen.turns)
        most = min(PERMITS, hung + len(hangs))
        await until(lambda: self.model.hanging == most, "requests to the model are open", 30)

    async def _say(self, people: Sequence[Person], text: str, counts: dict[str, int]) -> None:
        before = {person.id: counts.get(chat_of(person), 0) for person in people}
        for person in people:
            self.out.api.say(person, text)
            await trio.sleep(self.random.uniform(0, 2 * BEGIN_S / len(self.people)))

        def begun() -> bool:
            return all(counts.get(chat_of(person), 0) > before[person.id] for person in people)

        await until(begun, f"each {text} has begun", 180)

    def _sleeping(self) -> int:
        return sum(name_of(pid) == "sleep" for pid in descendants(self.pid))

    # Stops

    async def stop_all(self, commands: Sequence[Person], hangs: Sequence[Person]) -> list[Stop]:
        """Have all of them say `/stop`, and look at half of the way whether the others are untouched."""
        order = [*commands, *hangs]
        self.random.shuffle(order)
        middle = len(order) // 2
        done = await self._stop(order[:middle], commands)
        left = order[middle:]
        running = sum(person in commands for person in left)
        await self._check(left, running, min(PERMITS, len(left) - running))
        done += await self._stop(left, commands)
        await self._check([], 0, 0)
        return done

    async def _check(self, left: Sequence[Person], sleeping: int, hanging: int) -> None:
        """The turns that nobody stopped still run, and nothing else does."""

        def as_it_should() -> bool:
            return (self._sleeping(), self.model.hanging) == (sleeping, hanging)

        try:
            await until(as_it_should, "", 2)
        except TimeoutError:
            now = f"{self._sleeping()} commands and {self.model.hanging} model calls run"
            self.wrong.append(f"{now}, and {sleeping} and {hanging} should")
        for person in left:
            if any(said in ("command", "hang") for said in self._unanswered(person)):
                continue
            self.wrong.append(f"{chat_of(person)} was ended and had not asked for it")

    def _unanswered(self, person: Person) -> list[str]:
        """What the person said that has no reply yet; the house replies in order here."""
        said = [message.text for message in self.out.api.chats[person.id].messages if not message.from_bot]
        answered = sum(len(reply["messages"]) for reply in self.seen.replies.get(chat_of(person), ()))
        return said[answered:]

    async def _stop(self, people: Sequence[Person], commands: Sequence[Person]) -> list[Stop]:
        before = {person.id: len(self.seen.replies.get(chat_of(person), ())) for person in people}
        said: list[tuple[Person, Message]] = []
        for burst in self._bursts(people):
            said += [(person, self.out.api.say(person, "/stop")) for person in burst]
            await trio.sleep(self.random.uniform(0.2, 1.8) * len(burst) / PER_S)
        stops = []
        for person, message in said:
            found = await self._stopped(person, message, before[person.id], command=person in commands)
            if found is not None:
                stops.append(found)
        return stops

    def _bursts(self, people: Sequence[Person]) -> Iterator[Sequence[Person]]:
        start = 0
        while start < len(people):
            size = self.random.choice(BURSTS)
            yield people[start : start + size]
            start += size

    async def _stopped(self, person: Person, message: Message, before: int, *, command: bool) -> Stop | None:
        chat, replies = self.out.api.chats[person.id], self.seen.replies

        def shown() -> list[Message]:
            return [later for later in chat.said if later.id > message.id]

        try:
            await until(lambda: len(replies.get(chat_of(person), ())) > before, "", 20, 0.01)
            await until(shown, "", 40, 0.01)
        except TimeoutError:
            self.wrong.append(f"{chat_of(person)} has no reply to its /stop")
            return None
        reply, *more = replies[chat_of(person)][before:]
        text = reply_texts.stopped("en")
        if more or len(reply["messages"]) != 2 or [shown_message.text for shown_message in shown()] != [text]:
            self.wrong.append(f"{chat_of(person)} was replied to with {reply['text']!r}, {more}")
        assert message.update_id is not None
        handed = self.out.updates.handed_at[message.update_id]
        return Stop(command, message.time, handed, reply["time"], shown()[0].time)

    # Rounds

    async def idle_round(self) -> list[Stop]:
        """One turn at a time in an otherwise idle house."""
        stops = []
        for number in range(IDLE_STOPS):
            person = self.people[number % len(self.people)]
            commands = [person] if number % 2 else []
            await self.begin(commands, [] if commands else [person])
            await trio.sleep(0.3)
            stops += await self._stop([person], commands)
            await self._check([], 0, 0)
        return stops

    async def full_round(self) -> list[Stop]:
        """All chats at once."""
        middle = len(self.people) // 2
        commands, hangs = self.people[:middle], self.people[middle:]
        await self.begin(commands, hangs)
        await trio.sleep(3)  # previews and typing settle
        return await self.stop_all(commands, hangs)

    async def limited_round(self, noisy: Sequence[Person]) -> list[Stop]:
        """The same, while Telegram refuses other chats."""
        faults = self.out.api.faults
        before = len(faults.injected)
        for person in noisy:
            for method in ("sendMessage", "sendMessageDraft", "editMessageText"):
                faults.often(1.0, Flood(2), method, person.id)
            self.out.api.say(person, "hello")
        await until(lambda: len(faults.injected) > before, "Telegram has refused something", 20)
        stops = await self.full_round()
        if len(faults.injected) < before + 2 * len(noisy):
            self.wrong.append("Telegram has refused next to nothing: there was no trouble to withstand")
        faults.clear()
        chats = [self.out.api.chats[person.id] for person in noisy]
        await until(lambda: all(chat.messages[-1].sender.id != chat.id for chat in chats), "replies", 30)
        return stops

    async def fetching_round(self, fetching: Sequence[Person], port: int) -> tuple[list[Stop], float]:
        """The same with commands, while other chats read the web; and how many pages they got a second."""
        for index, person in enumerate(fetching):
            self.out.api.say(person, f"fetch http://127.0.0.{1 + index}:{port}/{index}/")
            await trio.sleep(0.05)
        chats = [chat_of(person) for person in fetching]
        await until(lambda: all(self.seen.tools.get(chat, 0) for chat in chats), "pages are fetched", 60)
        await self.begin(self.people, [])
        began, before = house.now(), self._fetched(chats)
        stops = await self._stop(self.people, self.people)
        rate = (self._fetched(chats) - before) / (house.now() - began)
        if rate < 1:
            self.wrong.append(f"only {rate:.1f} pages a second were fetched meanwhile")
        for person in fetching:
            if not self._unanswered(person):
                text = self.seen.replies[chat_of(person)][-1]["text"]
                self.wrong.append(f"{chat_of(person)} was to fetch for ever and ended with {text!r}")
        await self._stop(fetching, [])
        await self._check([], 0, 0)
        return stops, rate

    def _fetched(self, chats: Sequence[str]) -> int:
        return sum(self.seen.tools.get(chat, 0) for chat in chats)


def chat_of(person: Person) -> str:
    return f"tg{person.id}"


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


# --- the bare loop


async def bare(*where: str) -> None:
    """Poll, commit a row for each update, say when it was committed. `where`: the fake, and the database."""
    import httpx

    url, path = where

    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE updates (id INTEGER PRIMARY KEY, text TEXT)")
    offset = 0
    async with httpx.AsyncClient(timeout=40) as client:
        while True:
            asked = await client.post(f"{url}/bot{TOKEN}/getUpdates", json={"offset": offset, "timeout": 25})
            for update in asked.json()["result"]:
                number, text = update["update_id"], update["message"]["text"]
                db.execute("INSERT INTO updates VALUES (?, ?)", (number, text))
                print(json.dumps({"id": number, "time": house.now()}), flush=True)
                offset = number + 1


@asynccontextmanager
async def bare_loop(folder: Path) -> Any:
    """A function that gives the times from handed out to committed of so many updates."""
    async with house.outside(Answer("")) as out:
        person = out.api.user(1)
        command = [
            sys.executable,
            "-m",
            "bench.stop_telegram",
            "bare",
            out.telegram.root,
            str(folder / "bare.db"),
        ]
        with house.running(command, dict(os.environ), folder / "bare.err", read=True) as process:
            await until(lambda: out.updates.poll, "the bare loop polls", 20)
            lines = house.lines_of(process)

            async def measure(number: int) -> list[float]:
                times = []
                for _ in range(number):
                    update = out.api.say(person, "/stop").update_id or 0
                    line = await anext(lines)
                    assert line["id"] == update
                    times.append(line["time"] - out.updates.handed_at[update])
                    await trio.sleep(0.02)
                return times

            yield measure


# --- the report


def report(name: str, rounds: Sequence[Sequence[float]], aim: str = "") -> list[float]:
    """Median, p99 (with its spread over the rounds) and maximum; the p99 of each round."""
    every = [time * 1000 for times in rounds for time in times]
    p99 = [percentile(times, 0.99) * 1000 for times in rounds]
    row(name, f"median {percentile(every, 0.5):.0f}, p99 {spread(p99)}, max {max(every):.0f} ms", aim)
    return p99


def ways(name: str, rounds: Sequence[Sequence[Stop]], aim: str = "") -> list[float]:
    """The parts of a `/stop`'s way; the p99 of each round to the outbox."""
    p99 = report(f"{name}, handed out to outbox", [[s.stored - s.handed for s in r] for r in rounds], aim)
    report("    said to outbox", [[s.stored - s.said for s in r] for r in rounds])
    report("    said to seen on Telegram", [[s.shown - s.said for s in r] for r in rounds])
    return p99


async def main() -> int:
    chats = int(sys.argv[1]) if len(sys.argv) > 1 else CHATS
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    model, machine = Model(), house.Machine()
    numbers = range(1, chats + NOISY + FETCHING + 1)
    pages = subprocess.Popen(
        [sys.executable, "-m", "bench.pages", str(FETCHING)], stdout=subprocess.PIPE, cwd=house.ROOT
    )
    try:
        assert pages.stdout is not None
        return await measure(chats, rounds, numbers, model, machine, port=int(pages.stdout.readline()))
    finally:
        pages.kill()
        pages.communicate()


async def measure(
    chats: int, rounds: int, numbers: range, model: Model, machine: house.Machine, *, port: int
) -> int:
    patient: dict[str, dict[str, object]] = {
        "model": {"timeout_s": 3600},
        "agent": {"turn_timeout_s": 3600, "max_turns": 100_000},
        "fetch": {"allow": [f"127.0.0.{1 + index}:{port}" for index in range(FETCHING)]},
        "sandbox": {"timeout_s": 3600},
    }
    idle: list[list[Stop]] = []
    calm: list[list[Stop]] = []
    limited: list[list[Stop]] = []
    fetching: list[tuple[list[Stop], float]] = []
    least: list[list[float]] = []
    with house.home(numbers, **patient) as root:
        async with house.outside(model) as out, bare_loop(root.parent) as measure_bare:
            people = [out.api.user(number) for number in numbers]
            errors = root.parent / "rumi.err"
            env = out.environment(root)
            with house.running(house.WITNESSED, env, errors, read=True) as process:
                bench = Bench(out, model, process, people[:chats])
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(bench.seen.watch, process)
                    await until(lambda: out.api.updates.poll, "Rumi polls", 60)
                    for _ in range(rounds):
                        least.append(await measure_bare(BARE_UPDATES))
                        idle.append(await bench.idle_round())
                        calm.append(await bench.full_round())
                        limited.append(await bench.limited_round(people[chats : chats + NOISY]))
                        fetching.append(await bench.fetching_round(people[chats + NOISY :], port))
                    nursery.cancel_scope.cancel()
    stops = sum(map(len, (*calm, *limited, *(stops for stops, _ in fetching))))
    print(f"{chats} chats, half run a command, half wait for a model; {rounds} rounds")
    ours = ways("/stop", calm, "250 ms")
    ways("/stop, 429 elsewhere", limited, "250 ms")
    ways("/stop of commands, pages fetched elsewhere", [stops for stops, _ in fetching], "250 ms")
    row("pages that were fetched and read meanwhile", spread([rate for _, rate in fetching], "a second"))
    both = [s for r in (*calm, *limited) for s in r]
    for name, command in (("a command", True), ("a model", False)):
        times = [[s.stored - s.handed for s in both if s.command is command]]
        report(f"/stop of {name}, all rounds", times)
    ways("/stop, idle house", idle)
    theirs = report("bare loop, handed out to committed", least)
    row("p99 of /stop over that of the bare loop", spread(ratios(ours, theirs)))
    row("of this machine, other programs had", f"{machine.others():.0%}")
    row("/stop sent, replies", f"{3 * rounds * chats}, {stops}")
    row("chats disturbed or replied to wrongly", str(len(bench.wrong)), "0")
    for sentence in bench.wrong[:20]:
        print(f"  {sentence}")
    return 1 if bench.wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["bare"]:
        trio.run(bare, *sys.argv[2:])
    else:
        sys.exit(trio.run(main))
