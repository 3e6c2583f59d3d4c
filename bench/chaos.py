"""`kill -9` of `rumi telegram` at random moments of a busy run, and what became of every message.

    python -m bench.chaos

Environment: CHAOS_KILLS (200), CHAOS_SEED (any number), CHAOS_LIMIT_S (480: no more kills after that).

The program is the real one with its real SQLite and real bubblewrap sandboxes; Telegram, with its limits, and
Groq are fakes in this process. People write all the time, in private chats (drafts) and in groups (previews
that become the answer), also while no program runs. Tasks are at work all the time, bots work in iterations,
reminders come and schedules fire every minute. It is killed while it starts, works or ends, and started again
at once. Exits with 1 where a message has no reply, ran twice, was replied to twice without a reason, or
anything of a dead program is left; where a reminder did not come exactly once, a minute of a schedule is
neither fired nor told as missed, an iteration of a bot is missing or ran its command twice, or a model call
stays reserved.
"""

import json
import os
import random
import re
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import trio

from bench import telegram_house as house
from bench.chaos_ledger import WORK, Closing, Ledger, read_books
from bench.rounds import percentile, row, spread
from bench.telegram_house import Outside, Process, until
from rumi.chats.resuming import MOST_RESUMED
from rumi.sandbox.cgroups import Cgroups
from rumi.sandbox.processes import descendants, named
from tests.fakes.bot_api_world import Chat, Person
from tests.fakes.groq_server import Answer, Behaviour, Body, answered_calls, last_user_text

KILLS = 200
LIMIT_S = 480.0
PRIVATE = 24
GROUPS = 6
PAUSE_S = 4.0
"""Between one's messages, on average; twice that in groups, which may get 20 messages a minute."""

TASKS = 10
"""So many tasks are at work at any time."""
NOTES = 5
"""So many notes are taken by each, one after the other."""

REMINDERS = 30
"""So many reminders are about to come at any time, each within a minute."""
EACH_MINUTE = 20
"""So many schedules fire every minute."""

BOTS = 5
BOT = """+++
max_iterations = 100000
sleep_secs = 0.3
stop_phrase = "ALL DONE"
sandbox = "workspace-write"
+++
You tend a garden.
"""

SETTLE_S = 120.0
ITERATION = re.compile(r"This is iteration ([0-9]+) of")
LINE = re.compile(r"echo [0-9]+\.[0-9]+\.([0-9]+) >>")

GONE_S = 3.0
"""How long after a kill its processes may be seen: ending a namespace takes the kernel a moment."""

SAYINGS = (
    *("answer",) * 6,
    *("stream",) * 5,
    *("long",) * 2,
    *("command",) * 5,
    *("pair",) * 3,
    *("/stop",) * 4,
    *("/reset",) * 1,
    *("/retry",) * 3,
    *("/status",) * 1,
)


class Model:
    """A Groq that does what people ask for. Each command that it wants run appends a line of its own.

    `confirmed` has the numbers of those of which it was told that they ended well. `over`: bots come to their
    end.
    """

    def __init__(self) -> None:
        self.confirmed: set[int] = set()
        self.over = False
        self._commands = 0

    def __call__(self, body: Body) -> Behaviour:
        self._extract(body)
        found = WORK.search(last_user_text(body))
        if found is None:
            return Answer("I do not know what to do with that")
        what, number = found[0].split()
        done = len(answered_calls(body))
        match what:
            case "stream":
                words = " ".join(f"word{index}" for index in range(30))
                return Answer(f"{number} in many words: {words}", pieces=24, pause_s=0.15)
            case "long":
                lines = "\n\n".join(f"{number}, paragraph {index}: {'text ' * 30}" for index in range(40))
                return Answer(lines, pieces=12, pause_s=0.2)
            case "command" if done < 1:
                return self._command(f"{number}.{done}")
            case "tend":
                (iteration,) = ITERATION.findall(body["messages"][0]["content"])
                if done < 1:
                    return self._command(f"{number}.{iteration}")
                return Answer("ALL DONE" if self.over else f"tended {iteration}")
            case "note" if done < NOTES:
                self._commands += 1
                note = json.dumps({"text": f"{number}.{done}.{self._commands}"})
                return Answer("I keep that.", calls=[("note", note)], pieces=6, pause_s=0.1)
            case "pair" if done < 2:
                return self._command(f"{number}.{done}", " && sleep 0.4")
            case _:
                return Answer(f"{number} is done, with {done} commands")

    def _command(self, step: str, more: str = "") -> Behaviour:
        self._commands += 1
        script = f"echo {step}.{self._commands} >> ran.txt{more}"
        return Answer(calls=[("bash", json.dumps({"command": script}))])

    def _extract(self, body: Body) -> None:
        wanted = {
            call["id"]: call["function"]["arguments"]
            for message in body["messages"]
            for call in message.get("tool_calls") or ()
        }
        for message in body["messages"]:
            if message["role"] == "tool" and message["content"].startswith("exit code 0"):
                self.confirmed.update(
                    int(found[1]) for found in LINE.finditer(wanted[message["tool_call_id"]])
                )


class Crowd:
    """People who write, each at their own pace, until `hush`.

    One's messages are `pause_s` apart on average, and twice that in groups.
    """

    def __init__(
        self, out: Outside, seed: int, private: int = PRIVATE, groups: int = GROUPS, pause_s: float = PAUSE_S
    ) -> None:
        self._api = out.api
        self._seed = seed
        self._private = private
        self._pause_s = pause_s
        self._numbers = self._tasks = self._reminders = 0
        self._hushed = trio.CancelScope()
        self.talks: list[tuple[Person, Chat]] = []
        for number in range(1, private + 1):
            person = self._api.user(number)
            self.talks.append((person, self._api.chats[number]))
        for number in range(private + 1, private + groups + 1):
            person = self._api.user(number)
            self.talks.append((person, self._api.group(-1000 - number, members=[person])))

    async def write(self) -> None:
        with self._hushed:
            async with trio.open_nursery() as nursery:
                for person, chat in self.talks:
                    nursery.start_soon(self._write, person, chat, Random(f"{self._seed} {person.id}"))

    async def _write(self, person: Person, chat: Chat, dice: Random) -> None:
        while True:
            await trio.sleep(dice.expovariate(1 / (self._pause_s * (2 if chat.id < 0 else 1))))
            self._say(person, chat, dice.choice(SAYINGS))

    def say(self, saying: str) -> None:
        """Have somebody say something."""
        self._say(*self.talks[0], saying)

    def ask_for_tasks(self, ended: int) -> None:
        """Have people ask for tasks, until there are `TASKS` that have not ended."""
        while self._tasks - ended < TASKS:
            self._numbers += 1
            person, chat = self.talks[self._tasks % self._private]
            self._api.say(person, f"/research note {self._numbers}", chat)
            self._tasks += 1

    def ask_for_bots(self) -> None:
        """Have people start the bots, each with a goal that they never reach."""
        for number, (person, chat) in enumerate(self.talks[:BOTS], 1):
            self._numbers += 1
            self._api.say(person, f"/bot b{number} tend {self._numbers}", chat)

    def ask_for_schedules(self, number: int = EACH_MINUTE) -> None:
        """Have so many people ask for what fires every minute."""
        for person, chat in self.talks[:number]:
            self._api.say(person, "/timezone Europe/Madrid", chat)  # without one it asks back
            self._api.say(person, f"/remind every minute drop {person.id}", chat)

    def ask_for_reminders(self, waiting: int) -> None:
        """Have people ask for reminders, until so many wait; `waiting` are those that the program knows."""
        for _ in range(min(REMINDERS - waiting, 2)):
            person, chat = self.talks[self._reminders % self._private]
            self._reminders += 1
            self._api.say(person, f"/remind in 1 minute cup {self._reminders}", chat)

    def _say(self, person: Person, chat: Chat, saying: str) -> None:
        bot = f"@{self._api.bot.username}" if chat.id < 0 else ""
        if saying.startswith("/"):
            self._api.say(person, f"{saying}{bot}", chat)
        else:
            self._numbers += 1
            self._api.say(person, f"{bot} {saying} {self._numbers}".strip(), chat)

    def hush(self) -> None:
        self._hushed.cancel()


@dataclass
class Chaos:
    """Starts the program and kills it.

    `ended` counts the times that it was told to end and was faster, `stranded` the bubblewraps that kills
    left; `starts_s` is how long it took to the first poll.
    """

    out: Outside
    home: Path
    ledger: Ledger
    dice: Random
    kills: Counter[str] = field(default_factory=Counter)
    ended: int = 0
    stranded: int = 0
    starts_s: list[float] = field(default_factory=list)

    @property
    def said(self) -> Path:
        return self.home.parent / "rumi.err"

    def start(self) -> Process:
        return house.start(house.RUMI, self.out.environment(self.home), self.said)

    async def ready(self, process: Process) -> None:
        """Wait until it polls."""
        began = trio.current_time()
        polls = self.out.updates.polls
        await until(lambda: self.out.updates.polls > polls or process.over, "the program polls", 40, 0.02)
        if process.over:
            raise RuntimeError(f"the program ended by itself: {self.said.read_text()[-2000:]}")
        self.starts_s.append(trio.current_time() - began)

    async def once(self) -> None:
        """One life of the program, and its end."""
        # With drafts an answer grows in what vanishes by itself, without them in a message that becomes it.
        self.out.api.drafts = self.dice.random() < 0.5
        process = self.start()
        try:
            when = self.dice.choices(("start", "work", "long work", "end"), (12, 50, 16, 22))[0]
            if when == "start":
                await trio.sleep(self.dice.uniform(0, 1.0))
            else:
                await self.ready(process)
                await trio.sleep(
                    self.dice.uniform(1.5, 3.5) if when == "long work" else self.dice.uniform(0, 1.5)
                )
            if when == "end":
                process.signal(signal.SIGTERM)
                with trio.move_on_after(self.dice.uniform(0, 1.2)):
                    code = await process.ended()
                    self.ended += 1
                    if code:
                        self.ledger.wrong.append(f"told to end, it exited with {code}")
            await self.kill(process, when)
        finally:
            process.kill()

    async def kill(self, process: Process, when: str) -> None:
        """Kill it, and look at what is left: in the journal, of processes."""
        family = identified(descendants(process.pid))
        killed_at = house.now()
        if not process.over:
            self.kills[when] += 1
            process.signal(signal.SIGKILL)
            await process.ended()
        family |= identified(named(f"-{self.installation}"))
        # What it had sent is read to its end: only then is it known what Telegram took.
        with trio.fail_after(10):
            await self.out.telegram.wait_idle()
            await self.out.groq.wait_idle()
        self.ledger.after_kill(killed_at)
        await self.gone(family)

    async def gone(self, family: set[tuple[int, str]]) -> None:
        """Wait until nothing of the dead program is left.

        A bubblewrap may be: one that was killed while its child did not know of it yet leaves that child,
        which waits for ever and runs nothing. The next program's first sandbox sweeps it away.
        """
        try:
            await until(
                lambda: not any(identified([pid]) == {(pid, since)} for pid, since in family),
                "",
                GONE_S,
                0.01,
            )
        except TimeoutError:
            left = [pid for pid, since in family if identified([pid]) == {(pid, since)}]
            self.stranded += len(left)
            if running := [pid for pid in left if not strands(pid)]:
                words = ", ".join(map(words_of, running))
                self.ledger.wrong.append(f"{GONE_S:.0f} s after the kill there are: {words}")

    @property
    def installation(self) -> str:
        path = self.home / "installation"
        return path.read_text().strip() if path.exists() else "none yet"

    async def settle(self) -> None:
        """Let it work off everything, and end in order."""
        process = self.start()
        try:
            await self.ready(process)
            await until(self.settled, "everything is replied to and sent", SETTLE_S, 0.5)
            process.signal(signal.SIGTERM)
            with trio.move_on_after(60):
                code = await process.ended()
                if code:
                    self.ledger.wrong.append(f"at the end it exited with {code}")
                return
            self.ledger.wrong.append("at the end it did not end")
        except TimeoutError as error:
            self.ledger.wrong.append(str(error))
        finally:
            process.kill()

    def settled(self) -> bool:
        if self.out.api.pending:
            return False
        try:
            return read_books(self.home).settled
        except sqlite3.DatabaseError:  # copied while the program was at a checkpoint
            return False

    def leftovers(self) -> list[str]:
        """What is still there of any of the programs."""
        found = [f"process {pid}" for pid in named(f"-{self.installation}")]
        found += [f"process {pid} of this home" for pid in of_home(self.home)]
        return found + [f"control group {left}" for left in Cgroups(self.installation).leftovers()]


def identified(pids: list[int]) -> set[tuple[int, str]]:
    """Processes with the moment of their start: a number alone may be given to another one."""
    found = set()
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            found.add((pid, fields[19]))
    return found


def strands(pid: int) -> bool:
    """Whether it is a bubblewrap that runs nothing."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return True
    return name == "bwrap" and not descendants(pid)


def words_of(pid: int) -> str:
    """What a process is called."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()[:80].replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return str(pid)


def of_home(home: Path) -> list[int]:
    """The processes that have the home in their words or their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes() + (path / "environ").read_bytes()
        except OSError:
            continue
        if str(home).encode() in words and int(path.name) != os.getpid():
            found.append(int(path.name))
    return found


def report(chaos: Chaos, closing: Closing, left: list[str], seconds: float) -> None:
    kills, wrong = chaos.kills, chaos.ledger.wrong
    middle = f"median {percentile(closing.marking_s, 0.5) * 1000:.0f} ms"
    row("kills", f"{kills.total()}: {', '.join(f'{kills[when]} in {when}' for when in sorted(kills))}")
    row("told to end, and faster than the kill", str(chaos.ended))
    row("messages, all confirmed ones stored", str(closing.messages))
    row("final replies", str(closing.replies), "one for each message; a stop shares its turn's")
    row("turns", f"{closing.turns}, {closing.retried} of them by /retry", "none twice")
    row("tasks that ended, with one result each", str(closing.tasks))
    row("notes that they took", str(closing.notes), "none twice")
    row("iterations of bots", spread(list(map(float, closing.iterations)), ""), "each once, in order")
    row("schedules and reminders", str(closing.schedules), "each instant once, or told as missed")
    row("fires of them, and instants told as missed", f"{closing.fires}, {closing.missed}")
    row("commands that left a line", str(closing.lines), "none twice")
    row(
        "how turns ended", ", ".join(f"{reason} {number}" for reason, number in closing.reasons.most_common())
    )
    row(
        "turns resumed",
        f"{closing.resumed}, {closing.resumptions} times",
        f"each {MOST_RESUMED} times at most",
    )
    row("of these, ended by themselves", str(closing.went_on), "no command of theirs twice")
    row("interrupted turns that asked", str(closing.reasons["interrupted"]))
    row("answers that grew in a message", str(closing.previewed))
    row(
        "from taken by Telegram to marked",
        f"p99 {percentile(closing.marking_s, 0.99) * 1000:.0f} ms, {middle}",
    )
    row("kills between taken and marked", str(closing.windows))
    row("replies seen twice, explained by these", str(closing.duplicates))
    row("replies seen twice, not explained", str(closing.duplicates_elsewhere), "0")
    row("previews left, explained by these", str(closing.previews))
    row("previews left, not explained", str(closing.previews_elsewhere), "0")
    row("bubblewraps stranded until the next start", str(chaos.stranded))
    row("processes and sandboxes left at the end", str(len(left)), "0")
    row("start to first poll", spread(chaos.starts_s, "s"))
    row("429 by Telegram's limits", str(len(chaos.out.api.rates.refused)))
    row("what must not be", str(len(wrong)), "0")
    for sentence in wrong[:40]:
        print(f"  {sentence}")
    print(f"It took {seconds:.0f} s.")


def setting(name: str, default: float) -> float:
    return float(os.environ.get(f"CHAOS_{name}", default))


async def main() -> int:
    wanted, limit_s = int(setting("KILLS", KILLS)), setting("LIMIT_S", LIMIT_S)
    seed = int(setting("SEED", random.randrange(1_000_000)))
    print(f"CHAOS_SEED={seed}: {wanted} kills within {limit_s:.0f} s", flush=True)
    began = time.monotonic()
    model, machine = Model(), house.Machine()
    sections: Mapping[str, Mapping[str, object]] = {
        "log": {"max_mb": 100},
        "budget": {"total_tokens_per_day": 1_000_000_000},  # so that each model call is reserved
        "bots": {"max_calls_per_day": 1_000_000},
    }
    with house.home(range(1, PRIVATE + GROUPS + 1), **sections) as root:
        for number in range(1, BOTS + 1):
            folder = root / "bots" / f"b{number}"
            folder.mkdir(mode=0o700, parents=True)
            (folder / "config.md").write_text(BOT)
        async with house.outside(model) as out, trio.open_nursery() as nursery:
            crowd = Crowd(out, seed)
            chaos = Chaos(
                out,
                root,
                Ledger(out.api, [root], model.confirmed, lambda: read_books(root), root / "workspace"),
                Random(seed),
            )
            nursery.start_soon(crowd.write)
            crowd.ask_for_schedules()
            crowd.ask_for_bots()
            shown = 0
            while chaos.kills.total() < wanted and time.monotonic() - began < limit_s:
                books = read_books(root)
                crowd.ask_for_tasks(sum(task.ended is not None for task in books.tasks.values()))
                crowd.ask_for_reminders(sum(schedule.waits for schedule in books.schedules.values()))
                await chaos.once()
                if chaos.kills.total() >= shown + 20:
                    shown = chaos.kills.total()
                    print(f"{shown} kills, {time.monotonic() - began:.0f} s", flush=True)
            crowd.hush()
            model.over = True
            crowd.say("command")  # the first sandbox of a program sweeps away what the dead ones left
            await chaos.settle()
            await trio.sleep(0.5)
            left = chaos.leftovers()
            chaos.ledger.wrong += left
            closing = chaos.ledger.close()
        if "Traceback" in (said := chaos.said.read_text()):
            chaos.ledger.wrong.append(f"a traceback: {said[said.index('Traceback') :][:2000]}")
        report(chaos, closing, left, time.monotonic() - began)
        row("of this machine, other programs had", f"{machine.others():.0%}")
        return 1 if chaos.ledger.wrong else 0


if __name__ == "__main__":
    sys.exit(trio.run(main))
