"""Memory after 1,000 turns of `rumi telegram` is what it was after 100, and idle chats leave it.

    python -m bench.soak [TURNS]

50 chats have turns, one after the other, each with a command in bubblewrap and a streamed answer that is
shown as it grows. The program is a process of its own, measured from outside after a pause; only how many
Python objects and trio tasks it has are its own words. Some of its limits are small, so that what is bounded
has reached its bound at the first measurement, and the end of what is idle can be waited for: a chat keeps 8
entries of its history in memory (otherwise 320), and leaves memory after 20 s, as its sandbox does.

Beside it a bare loop makes the same HTTP calls with httpx and trio, in a process of its own, and is measured
in the same way.

What is tolerated: 10 % more resident memory (4 % in the second half), because SQLite may keep 2 MB of pages
and allocators keep what a peak needed (the bare loop's too); 2 % more objects; no more actors or tasks; a few
more threads, and as many more open files as connections may be kept. Exits with 1 beyond that, or where idle
chats stay in memory. With fewer TURNS than 1,000 the bounds are not reached at first.
"""

import gc
import json
import os
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import trio

from bench import telegram_house as house
from bench.rounds import row
from bench.telegram_house import Outside, Process, until
from rumi.sandbox.processes import descendants
from tests.fakes.bot_api import TOKEN
from tests.fakes.bot_api_world import Person
from tests.fakes.groq_server import KEY, Answer, Behaviour, Body, answered_calls, last_user_text

CHATS = 50
TURNS = 1000
SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)
RSS_GROWTH, LATE_GROWTH = 1.10, 1.04
OBJECT_GROWTH = 1.02
THREADS = 4
CONNECTIONS = 2 * CHATS
"""One to Telegram and one to the model for each chat may be kept open for a while."""

PAUSE_S = 12.0
"""Idle worker threads end after 10 s."""

IDLE_S = 20.0
TURN_S = 60.0
WORDS = " ".join(f"word{number}" for number in range(150))
TABLES = ("messages", "outbox", "history", "updates", "sessions")


def model(body: Body) -> Behaviour:
    """A command first, then an answer that takes more than a second."""
    said = last_user_text(body)
    if not answered_calls(body):
        return Answer(calls=[("bash", json.dumps({"command": f"echo {said}"}))])
    return Answer(f"{said}: {WORDS}", pieces=20, pause_s=0.07)


@dataclass(frozen=True)
class Measured:
    """A process at one moment; -1 is what it has not or does not say. `processes` are those below it."""

    turns: int
    rss_mb: float
    files: int
    threads: int
    processes: int
    actors: int = -1
    tasks: int = -1
    objects: int = -1
    rows: int = -1


def measured(process: Process, turns: int, **more: int) -> Measured:
    """What /proc says."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines if ":" in line)
    rss_mb = int(status["VmRSS"].split()[0]) / 1024
    files = len(os.listdir(f"/proc/{process.pid}/fd"))
    return Measured(turns, rss_mb, files, int(status["Threads"]), len(descendants(process.pid)), **more)


class Rumi:
    """The program, and people who talk to it."""

    def __init__(self, out: Outside, home: Path, process: Process) -> None:
        self.out = out
        self.home = home
        self.process = process
        self.people = [out.api.user(number) for number in range(1, CHATS + 1)]
        self.turns = 0

    async def have_turns(self, number: int) -> None:
        """So many turns, spread over the chats."""
        with trio.fail_after(TURN_S * number / CHATS + TURN_S):
            await self._have_turns(number)
        self.turns += number

    async def _have_turns(self, number: int) -> None:
        async with trio.open_nursery() as nursery:
            for index, person in enumerate(self.people):
                nursery.start_soon(self._talk, person, number // CHATS + (index < number % CHATS))

    async def _talk(self, person: Person, turns: int) -> None:
        chat = self.out.api.chats[person.id]
        for turn in range(turns):
            said = len(chat.said)
            self.out.api.say(person, f"turn {self.turns + turn}")
            while len(chat.said) == said:
                await trio.sleep(0.05)
            assert chat.said[-1].text.startswith("turn"), chat.said[-1].text

    async def measure(self) -> Measured:
        """Measure it after a pause."""
        await trio.sleep(PAUSE_S)
        found = measured(self.process, self.turns, rows=self._rows(), actors=len(await self.actors()))
        spoken = self.home / "soak.json"
        self.process.signal(signal.SIGRTMIN)
        await until(spoken.exists, "the program counts its objects", 20)
        own = json.loads(spoken.read_text())
        spoken.unlink()
        return Measured(**{**asdict(found), **own})

    async def actors(self) -> list[str]:
        """The ids of all nodes of the tree, as `rumi status` tells them."""
        words = [sys.executable, "-m", "rumi", "status", "--json"]
        env = self.out.environment(self.home)
        asked = await trio.run_process(words, env=env, cwd=house.ROOT, capture_stdout=True)
        return _ids(json.loads(asked.stdout)["tree"])

    def _rows(self) -> int:
        db = sqlite3.connect(self.home / "state.db")
        try:
            return sum(db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in TABLES)
        finally:
            db.close()

    async def idle(self) -> Measured:
        """Wait until no chat and no sandbox is in memory."""
        with trio.fail_after(10 * IDLE_S):
            while any(name.startswith("tg") for name in await self.actors()):
                await trio.sleep(2)
        return await self.measure()


def _ids(node: dict[str, Any]) -> list[str]:
    return [str(node["id"]), *(name for child in node["children"] for name in _ids(child))]


def serve() -> None:
    """The program, with a short time for idle chats; at SIGRTMIN it counts its objects and tasks."""
    import rumi.chats.dispatcher
    from rumi.cli import main as rumi_main

    def count(*_: object) -> None:
        gc.collect()
        tasks = trio.lowlevel.current_statistics().tasks_living
        spoken = Path(os.environ["RUMI_HOME"], "soak.json")
        draft = spoken.with_suffix(".draft")
        draft.write_text(
            json.dumps({"objects": len(gc.get_objects()) + gc.get_freeze_count(), "tasks": tasks})
        )
        draft.rename(spoken)

    signal.signal(signal.SIGRTMIN, count)
    vars(rumi.chats.dispatcher)["IDLE_CHAT_S"] = IDLE_S
    sys.argv[1:] = ["telegram"]
    rumi_main()


# --- the bare loop


async def bare(telegram: str, groq: str) -> None:
    """For each line of standard input: the HTTP calls of so many turns, `CHATS` at once; then a line."""
    import httpx

    tool = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}
    function = {"name": "bash", "arguments": '{"command": "echo"}'}
    called = {"id": "call0", "type": "function", "function": function}
    first: list[dict[str, object]] = [
        {"role": "system", "content": WORDS * 4},
        {"role": "user", "content": "turn"},
    ]
    second: list[dict[str, object]] = [
        *first,
        {"role": "assistant", "content": "", "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "call0", "content": "exit code 0"},
    ]

    async def turn(client: httpx.AsyncClient, chat: int, limit: trio.CapacityLimiter) -> None:
        async def call(method: str, **params: object) -> None:
            await client.post(f"{telegram}/bot{TOKEN}/{method}", json={"chat_id": chat, **params})

        async with limit:
            await call("sendChatAction", action="typing")
            for messages in (first, second):
                body = {"model": "openai/gpt-oss-120b", "messages": messages, "tools": [tool], "stream": True}
                url, headers = f"{groq}/openai/v1/chat/completions", {"Authorization": f"Bearer {KEY}"}
                async with client.stream("POST", url, json=body, headers=headers) as answer:
                    assert answer.status_code == 200, await answer.aread()
                    assert [json.loads(line[6:]) async for line in answer.aiter_lines() if line[6:7] == "{"]
                await call("sendMessageDraft", draft_id=1, text=WORDS)
            await call("sendMessage", text=WORDS)

    async def poll(client: httpx.AsyncClient) -> None:
        while True:
            await client.post(f"{telegram}/bot{TOKEN}/getUpdates", json={"timeout": 25})

    limits = httpx.Limits(max_connections=512)
    async with httpx.AsyncClient(timeout=60, limits=limits) as client, trio.open_nursery() as nursery:
        nursery.start_soon(poll, client)
        at_once = trio.CapacityLimiter(CHATS)
        async for line in trio.wrap_file(sys.stdin):
            async with trio.open_nursery() as turns:
                for number in range(int(line)):
                    turns.start_soon(turn, client, 1 + number % CHATS, at_once)
            print("{}", flush=True)
        nursery.cancel_scope.cancel()


# --- the report


COLUMNS: Sequence[tuple[str, Callable[[Measured], str]]] = (
    ("turns", lambda m: str(m.turns)),
    ("memory", lambda m: f"{m.rss_mb:.1f} MB"),
    ("files", lambda m: str(m.files)),
    ("threads", lambda m: str(m.threads)),
    ("processes", lambda m: str(m.processes)),
    ("actors", lambda m: str(m.actors)),
    ("tasks", lambda m: str(m.tasks)),
    ("objects", lambda m: str(m.objects)),
    ("rows", lambda m: str(m.rows)),
)


def table(name: str, lines: Sequence[Measured]) -> None:
    print(name)
    print("  ".join(f"{column:>9}" for column, _ in COLUMNS))
    for line in lines:
        shown = (show(line) for _, show in COLUMNS)
        print("  ".join(f"{'' if figure == '-1' else figure:>9}" for figure in shown), flush=True)


async def soak(turns: int) -> list[Measured]:
    """Rumi, and at last when it is idle."""
    found: list[Measured] = []
    small: dict[str, dict[str, object]] = {
        "sandbox": {"idle_ttl_s": IDLE_S},
        "session": {"history_messages": 1},
    }
    with house.home(range(1, CHATS + 1), **small) as root:
        async with house.outside(model) as out:
            command = (sys.executable, "-m", "bench.soak", "serve")
            with house.running(command, out.environment(root), root.parent / "rumi.err") as process:
                await until(lambda: out.updates.polls, "the program polls", 60)
                rumi = Rumi(out, root, process)
                for share in SHARES:
                    await rumi.have_turns(int(turns * share) - rumi.turns)
                    found.append(await rumi.measure())
                    print(f"{rumi.turns} turns, {found[-1].rss_mb:.1f} MB", flush=True)
                found.append(await rumi.idle())
    return found


async def soak_bare(turns: int) -> list[Measured]:
    """The bare loop."""
    found: list[Measured] = []
    done = 0
    with tempfile.TemporaryDirectory(prefix="rumi-bench-") as folder:
        async with house.outside(model) as out:
            for number in range(1, CHATS + 1):
                out.api.user(number)
            command = (sys.executable, "-m", "bench.soak", "bare", out.telegram.root, out.groq.base_url)
            errors = Path(folder) / "bare.err"
            with house.running(command, dict(os.environ), errors, read=True, write=True) as process:
                lines = house.lines_of(process)
                for share in SHARES:
                    number = int(turns * share) - done
                    assert process.popen.stdin is not None
                    process.popen.stdin.write(f"{number}\n".encode())
                    process.popen.stdin.flush()
                    await anext(lines)
                    done += number
                    await trio.sleep(PAUSE_S)
                    found.append(measured(process, done))
    return found


async def main() -> int:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else TURNS
    machine = house.Machine()
    theirs = await soak_bare(turns)
    *ours, idle = await soak(turns)
    table("bare loop", theirs)
    table("rumi telegram; in the last line all chats are idle", [*ours, idle])
    first, middle, last = ours[0], ours[2], ours[-1]
    span = f"{last.turns} turns over {first.turns}"
    checks = (
        (f"memory, {span}", last.rss_mb / first.rss_mb, RSS_GROWTH),
        (f"memory, {last.turns} turns over {middle.turns}", last.rss_mb / middle.rss_mb, LATE_GROWTH),
        (f"objects, {span}", last.objects / first.objects, OBJECT_GROWTH),
        ("more actors", last.actors - first.actors, 0),
        ("more tasks", last.tasks - first.tasks, 0),
        ("more threads", last.threads - first.threads, THREADS),
        ("more open files", last.files - first.files, CONNECTIONS),
        ("idle: processes of sandboxes", idle.processes, 0),
        ("idle: objects, of those after the first turns", idle.objects / first.objects, 1),
    )
    for name, figure, most in checks:
        row(name, f"{figure:.3g}", f"at most {most:g}")
    row(f"the bare loop's memory, {span}", f"{theirs[-1].rss_mb / theirs[0].rss_mb:.3g}")
    row("of this machine, other programs had", f"{machine.others():.0%}")
    return 1 if any(figure > most for _, figure, most in checks) else 0


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve"]:
            serve()
        case ["bare", telegram, groq]:
            trio.run(bare, telegram, groq)
        case _:
            sys.exit(trio.run(main))
