"""50 research tasks at once beside 50 chats, and the same chats without tasks, in alternating rounds.

    python -m bench.tasks [TASKS [CHATS [ROUNDS]]]

Rumi is this process. The model server is a second one, which answers after two seconds; a third one serves
pages of 100 KB, each of which a task stores in its sandbox. The chats ask again as soon as they have their
answer. A task of trio's that sleeps for 10 ms looks how much later it is woken.

Exits with 1 where a task does not succeed, or not all ran at once.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trio

from bench import house
from bench.rounds import percentile, row, spread
from bench.telegram_house import ROOT, Machine
from rumi.app.app import App
from rumi.cli.serve import look_for_cycles_seldom
from rumi.sandbox.processes import descendants
from rumi.store.journal.records import TaskRecord
from tests.fakes.groq_server import KEY, Answer, Body, answered_calls, last_user_text, serve_groq

TASKS = CHATS = 50
ROUNDS = 3
PER_OWNER = 5
TICK_S = 0.01
REPLY_S = 2.0
FETCHES = 6
SETTLE_S = 4.0
"""So long after the beginning of a round is measured what its work takes."""

MEASURED_S = 10.0


def think(body: Body) -> Answer:
    """A task reads page after page, a chat gets an answer; each call takes two seconds."""
    said, done = last_user_text(body), len(answered_calls(body))
    if not said.startswith("Read "):
        return Answer("That is how it is.", begin_s=REPLY_S, pieces=1)
    if done == FETCHES:
        return Answer("It was measured [1].", begin_s=REPLY_S, pieces=1)
    url = f"{said.removeprefix('Read ').rstrip('0')}{done}"
    return Answer(calls=[("web_fetch", json.dumps({"url": url}))], begin_s=REPLY_S)


@contextmanager
def started(*words: str) -> Iterator[str]:
    """A server in a process of its own; what it prints first."""
    command = [sys.executable, "-m", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


@dataclass
class Seen:
    """What was seen in rounds of one sort: delays of the event loop in each, turns, and failures."""

    late_s: list[list[float]] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    task_kb: list[float] = field(default_factory=list)
    sandbox_kb: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


class Crowd:
    """Chats that ask again and again, and tasks beside them."""

    def __init__(self, app: App, chats: int, port: int) -> None:
        self._app = app
        self._tasks = app.tasks
        self._chats = chats
        self._port = port

    async def round(self, seen: Seen, tasks: int = 0) -> None:
        """Work for a while with all chats, and with so many tasks; note what is seen."""
        late: list[float] = []
        turns = 0

        async def talk(chat: str) -> None:
            nonlocal turns
            while True:
                await house.turn(self._app, chat, "How is it?")
                turns += 1

        async def tick() -> None:
            while True:
                began = time.perf_counter()
                await trio.sleep(TICK_S)
                late.append(max(0.0, time.perf_counter() - began - TICK_S))

        before = own_kb(), sandboxes_kb()
        async with trio.open_nursery() as nursery:
            for number in range(self._chats):
                nursery.start_soon(talk, f"c{number}")
            begun = [await self._begin(number) for number in range(tasks)]
            await trio.sleep(SETTLE_S)
            turns = 0
            nursery.start_soon(tick)
            await trio.sleep(MEASURED_S)
            seen.late_s.append(late[:])
            seen.turns.append(turns)
            if tasks:
                running = [
                    task_id for task_id in begun if (await self._tasks.show(task_id, None)).state == "running"
                ]
                if len(running) < tasks:
                    seen.wrong.append(f"only {len(running)} of {tasks} tasks ran at once")
                seen.task_kb.append((own_kb() - before[0]) / tasks)
                seen.sandbox_kb.append((sandboxes_kb() - before[1]) / tasks)
                await self._tasks.all_ended()
                for task_id in begun:
                    task = await self._tasks.show(task_id, None)
                    if task.state != "succeeded" or task.spent.calls != FETCHES + 1:
                        seen.wrong.append(f"task {task_id} is {task.state}: {task.answer[:200]}")
            nursery.cancel_scope.cancel()

    async def _begin(self, number: int) -> int:
        url = f"http://127.0.0.{1 + number}:{self._port}/{number}/0"
        owner = f"tg{1000 + number // PER_OWNER}"
        return (await self._tasks.begin(TaskRecord("web", owner, f"Read {url}"))).id


def own_kb() -> float:
    """This process's memory."""
    return _pss_kb("self")


def sandboxes_kb() -> float:
    """The memory of all processes below this one: sandboxes, and those that read pages."""
    return sum(_pss_kb(str(pid)) for pid in descendants(int(Path("/proc/self").readlink().name)))


def _pss_kb(process: str) -> float:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(float(line.split()[1]) for line in lines if line.startswith("Pss:"))


def show(name: str, seen: Seen) -> None:
    """Print the delays in the rounds of one sort."""
    parts: Sequence[tuple[str, Callable[[list[float]], float]]] = (
        ("median", lambda late: percentile(late, 0.5)),
        ("p99", lambda late: percentile(late, 0.99)),
        ("most", max),
    )
    for part, of in parts:
        row(
            f"{name}: delay of the event loop, {part}", spread([of(late) for late in seen.late_s], "ms", 1000)
        )
    row(f"{name}: turns in {MEASURED_S:.0f} s", spread(seen.turns))


async def main() -> None:
    arguments = parse()
    tasks, chats, rounds = arguments.tasks, arguments.chats, arguments.rounds
    calm, busy, machine = Seen(), Seen(), Machine()
    with started("bench.tasks", "--serve") as model, started("bench.pages", str(tasks)) as port:
        settings = {
            "sandbox.backend": "bubblewrap",
            "memory.extract": False,
            "model.fallbacks": [],
            "model.max_concurrent": 2 * (tasks + chats),
            "tasks.max_running": tasks,
            "tasks.per_owner": PER_OWNER,
            "fetch.allow": [f"127.0.0.{1 + number}:{port}" for number in range(tasks)],
        }
        async with house.app(settings, {"GROQ_API_KEY": KEY, "GROQ_BASE_URL": model}) as app:
            look_for_cycles_seldom()
            crowd = Crowd(app, chats, int(port))
            await crowd.round(Seen(), 1)  # what is loaded once is loaded
            for _ in range(rounds):
                await crowd.round(calm)
                await crowd.round(busy, tasks)
    show(f"{chats} chats", calm)
    show(f"{chats} chats, {tasks} tasks", busy)
    row("memory for a task: Rumi's process, first round", f"{busy.task_kb[0]:.0f} KB")
    row("  in later rounds, of freed memory too", spread(busy.task_kb[1:] or busy.task_kb, "KB"))
    row("  its sandbox and readers", spread(busy.sandbox_kb, "KB"))
    row("of this machine, other programs had", f"{machine.others():.0%}")
    row("wrong", str(len(busy.wrong)), "0")
    for sentence in busy.wrong[:20]:
        print(f"  {sentence}")
    if busy.wrong:
        sys.exit(1)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("tasks", nargs="?", type=int, default=TASKS)
    parser.add_argument("chats", nargs="?", type=int, default=CHATS)
    parser.add_argument("rounds", nargs="?", type=int, default=ROUNDS)
    parser.add_argument("--serve", action="store_true")
    return parser.parse_args()


async def serve() -> None:
    """Serve the model until this process is killed."""
    async with serve_groq(think) as server:
        print(server.base_url, flush=True)
        await trio.sleep_forever()


if __name__ == "__main__":
    if parse().serve:
        trio.run(serve)
    else:
        house.run(main)
