"""Faults of a cluster at random moments of a busy run, and what became of every message.

    python -m bench.chaos_cluster

Environment: CHAOS_FAULTS (200), CHAOS_SEED (any number), CHAOS_LIMIT_S (1200: no more faults after that),
CHAOS_CHATS (300), CHAOS_ONLY (names of faults with commas between them), CHAOS_ROLLING (0: instead of faults,
restart all workers in order, so many times), CHAOS_KEEP (a folder for logs).

Three workers share a PostgreSQL database and the folder of the chats' files; Telegram and Groq are fakes in
this process. People write all the time, reminders come and schedules fire every minute. Workers are killed,
paused for longer than their lease, told to end, and cut off from the database, whose answers are lost or
late; the database is restarted, crashes, ends all connections, and its disk is full (as root, where a disk
can be mounted). Another process looks every 10 ms which chats have sandboxes. Exits with 1 where a message
has no reply, ran twice, was replied to twice without a reason or out of order, a chat had two sandboxes, or
anything of a worker is left; a rolling restart may cut no turn and send no reply twice either.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import trio

from bench import telegram_house as house
from bench.chaos import GONE_S, Crowd, Model, identified, strands, words_of
from bench.chaos_ledger import WINDOW_S, Books, Closing, Ledger, books_of
from bench.cluster_house import LEASE_S, Cluster, Worker, cluster, leftovers
from bench.rounds import percentile, row, spread
from bench.telegram_house import until
from rumi.sandbox.cgroups import Cgroups
from rumi.store.ownership import partition_of
from rumi.store.postgres import IDLE_MS
from tests.fakes.bot_api_chats import EPOCH
from tests.fakes.bot_api_world import Message
from tests.postgres import Server, server

FAULTS: Final = 200
LIMIT_S: Final = 1200.0
CHATS: Final = 300
PAUSE_S: Final = 45.0
"""Between one's messages: 300 people write about seven messages a second."""
EACH_MINUTE: Final = 20
WORKERS: Final = 3
SETTLE_S: Final = 150.0
DISK_MB: Final = 400

WEIGHTS: Final = {
    "kill": 6,
    "pause": 3,
    "end": 3,
    "cut": 3,
    "drop": 2,
    "deaf": 4,
    "slow": 2,
    "restart": 1,
    "crash": 1,
    "terminate": 2,
    "full": 1,
}
"""How often each fault is drawn."""


@dataclass
class Span:
    """A fault while it lasted, on the fakes' clock, and the partitions that it may have touched."""

    name: str
    begun: float
    ended: float
    partitions: frozenset[int]

    def overlaps(self, begun: float, ended: float) -> bool:
        """Whether it went on at a time between the two, or shortly before or after."""
        return self.begun - WINDOW_S <= ended and begun <= self.ended + WINDOW_S


SETTINGS: Final = (
    *("max_wal_size=64MB", "min_wal_size=32MB", "wal_recycle=off"),
    *("log_lock_waits=on", "deadlock_timeout=300ms", "log_line_prefix=%n %p "),
)
"""Of the database: a small disk can be filled, and its log tells who waited for whom."""

EVERYTHING: Final = frozenset(range(256))

NO_DATABASE: Final = 2
"""The exit code of a worker that starts while the database is away."""

HOLDING: Final = ("pause", "deaf", "slow")
"""Faults of a worker whose open transaction others may wait for, until the database ends it."""


class ClusterLedger(Ledger):
    """A ledger for faults that overlap. What was taken twice is explained by a fault at the first time."""

    spans: list[Span]

    def close(self) -> Closing:
        books = self.read()
        due = Counter((reply.chat, text) for reply in books.outbox.values() for text in reply.texts())
        taken: dict[tuple[str, str], list[float]] = {}
        for chat, message in self._seen():
            taken.setdefault((chat, message.text), []).append(taken_at(message))
        for (chat, text), times in taken.items():
            for moment in sorted(times)[: max(0, len(times) - (1 if (chat, text) in due else 0))]:
                self.windows[chat, text] += self._may_be_unmarked(chat, moment)
        wrong = len(self.wrong)
        closing = super().close()
        marks = {
            (reply.chat, text): reply.delivered for reply in books.outbox.values() for text in reply.texts()
        }
        for (chat, text), times in taken.items():
            if any(sentence.startswith(f"{chat} saw {text[:60]!r}") for sentence in self.wrong[wrong:]):
                marked = marks.get((chat, text))
                words = ", ".join(f"{moment:.2f}" for moment in sorted(times))
                at = f"marked at {marked - EPOCH:.2f}" if marked else "no reply"
                self.wrong.append(f"  {chat} {text[:30]!r}: taken at {words}, {at}")
        self._check_order(books, due)
        return closing

    def _may_be_unmarked(self, chat: str, taken_at: float) -> bool:
        """Whether a fault came before what Telegram took then was marked, and may have touched the chat.

        The mark may wait for the transaction of another worker that is paused or cannot hear the database.
        """
        marked_at = taken_at
        for span in self.spans:  # in the order of their beginnings
            if span.name in HOLDING and span.overlaps(taken_at, marked_at):
                marked_at = max(marked_at, min(span.ended, span.begun + IDLE_MS / 1000))
        return any(
            span.overlaps(taken_at, marked_at) and partition_of(chat) in span.partitions
            for span in self.spans
        )

    def _check_order(self, books: Books, due: "Counter[tuple[str, str]]") -> None:
        """The replies of a chat are seen in the order in which they were stored."""
        first: dict[tuple[str, str], float] = {}
        for chat, message in self._seen():
            key = (chat, message.text)
            first[key] = min(first.get(key, taken_at(message)), taken_at(message))
        last: dict[str, tuple[float, str]] = {}
        for number in sorted(books.outbox):
            reply = books.outbox[number]
            key = (reply.chat, reply.texts()[0])
            if due[key] != 1 or key not in first:
                continue
            before, words = last.get(reply.chat, (0.0, ""))
            if first[key] < before:
                self.wrong.append(f"{reply.chat} saw {key[1][:40]!r} before the earlier {words[:40]!r}")
            last[reply.chat] = (first[key], key[1])


def taken_at(message: Message) -> float:
    return message.edits[-1].time if message.edits else message.time


@dataclass
class Chaos:
    """Makes the faults. `doing` are the workers that a fault is busy with, and the database."""

    cluster: Cluster
    ledger: ClusterLedger
    dice: Random
    disk: Path | None
    done: Counter[str] = field(default_factory=Counter)
    spans: list[Span] = field(default_factory=list)
    doing: set[object] = field(default_factory=set)
    by_itself: Counter[str] = field(default_factory=Counter)
    stranded: int = 0
    took_over_s: list[float] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    over: bool = False

    def note(self, what: str) -> None:
        """Keep a line for those who look for the cause of something."""
        self.log.append(f"{house.now():.2f} {what}")

    # Workers stay up, as a service manager sees to it

    async def look_after(self, worker: Worker) -> None:
        """Start the worker whenever it has ended and no fault is busy with it."""
        while True:
            if worker not in self.doing and not worker.runs and not self.over:
                if worker.process is not None:
                    code = await worker.process.ended()
                    last = (worker.said.read_text().strip().splitlines() or [""])[-1][:200]
                    self.by_itself[f"exit code {code}: {last[:100]}"] += 1
                    self.note(f"{worker.name} ended by itself with {code}: {last}")
                    if worker.serves:  # only a worker that starts may end because the database is away
                        self.ledger.wrong.append(f"{worker.name} served, and ended with {code}: {last}")
                    worker.kill()
                self.note(f"{worker.name} starts")
                worker.start()
            self.cluster.partitions_of(worker)  # is known when a fault finds the database away
            await trio.sleep(0.3)

    # Faults

    @contextmanager
    def span(self, name: str, worker: Worker | None, **more: object) -> Iterator[Span]:
        """Note that a fault goes on."""
        whose = EVERYTHING if worker is None else self.cluster.partitions_of(worker)
        span = Span(name, house.now(), float("inf"), whose)
        self.spans.append(span)
        words = " ".join(f"{key}={value}" for key, value in more.items())
        self.note(f"{name} {worker.name if worker else 'database'} {words} begins")
        try:
            yield span
        finally:
            span.ended = house.now()
            if worker is not None:
                span.partitions |= self.cluster.partitions_of(worker)
            self.note(f"{name} {worker.name if worker else 'database'} ends")

    async def kill(self, worker: Worker) -> None:
        with self.span("kill", worker) as span:
            family = identified(worker.kill())
        await self._gone(family)
        self.spans.append(Span("taken over", span.ended, span.ended, span.partitions))
        await trio.sleep(self.dice.choice((0.0, 0.0, self.dice.uniform(0, 2 * LEASE_S))))

    async def _gone(self, family: set[tuple[int, str]]) -> None:
        def left() -> list[int]:
            return [pid for pid, since in family if identified([pid]) == {(pid, since)}]

        try:
            await until(lambda: not left(), "", GONE_S, 0.02)
        except TimeoutError:
            remaining = left()
            self.stranded += len(remaining)
            if running := [pid for pid in remaining if not strands(pid)]:
                words = ", ".join(map(words_of, running))
                self.ledger.wrong.append(f"{GONE_S:.0f} s after a kill there are: {words}")

    async def pause(self, worker: Worker) -> None:
        seconds = self.dice.choice((self.dice.uniform(0.2, LEASE_S), self.dice.uniform(LEASE_S, 3 * LEASE_S)))
        with self.span("pause", worker, seconds=round(seconds, 2)):
            worker.signal(signal.SIGSTOP)
            try:
                await trio.sleep(seconds)
            finally:
                worker.signal(signal.SIGCONT)

    async def end(self, worker: Worker) -> None:
        with self.span("end", worker):
            code = await worker.end()
            if code is None:
                self.ledger.wrong.append(f"{worker.name} did not end within 60 s of SIGTERM")
            elif code and (worker.serves or code not in (-signal.SIGTERM, NO_DATABASE)):
                said = worker.said.read_text()[-300:]
                self.ledger.wrong.append(f"{worker.name}, told to end, exited with {code}: {said}")
            worker.kill()

    async def cut(self, worker: Worker) -> None:
        await self._proxied("cut", worker, self.dice.uniform(0.1, 2 * LEASE_S))

    async def drop(self, worker: Worker) -> None:
        with self.span("drop", worker):
            worker.proxy.cut()

    async def deaf(self, worker: Worker) -> None:
        await self._proxied(
            "deaf", worker, self.dice.choice((0.05, 0.3, self.dice.uniform(0.3, 2 * LEASE_S)))
        )

    async def slow(self, worker: Worker) -> None:
        worker.proxy.slow_s = self.dice.choice((0.02, 0.1, 0.4))
        await self._proxied("slow", worker, self.dice.uniform(1, 6))

    async def _proxied(self, way: str, worker: Worker, seconds: float) -> None:
        with self.span(way, worker, seconds=round(seconds, 2)):
            worker.proxy.way = way
            try:
                if way == "cut":
                    worker.proxy.cut()
                await trio.sleep(seconds)
            finally:
                worker.proxy.way = "pass"
                if way == "deaf":
                    worker.proxy.cut()

    async def restart(self) -> None:
        await self._restart("restart", "INT")

    async def crash(self) -> None:
        await self._restart("crash", "QUIT")

    async def _restart(self, name: str, number: str) -> None:
        away_s = self.dice.choice((0.0, 0.5, self.dice.uniform(0, 2 * LEASE_S)))
        with self.span(name, None, seconds=round(away_s, 2)):
            database = self.cluster.server
            await trio.to_thread.run_sync(database.stop, number)
            await trio.sleep(away_s)
            await trio.to_thread.run_sync(database.start)

    async def terminate(self) -> None:
        with self.span("terminate", None):
            self.cluster.query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid != pg_backend_pid()"
            )

    async def full(self) -> None:
        """Fill the database's disk, so that its next new segment of the log, or page, finds no room."""
        assert self.disk is not None
        with self.span("full", None):
            filler, database = self.disk / "filler", self.cluster.server
            try:
                with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                    while file.write(b"\0" * 65536):
                        pass
                self.cluster.query("SELECT pg_switch_wal()")  # so that it needs a new segment
                await trio.sleep(self.dice.uniform(1, 2 * LEASE_S))
            finally:
                filler.unlink(missing_ok=True)
            await trio.sleep(1)
            if not database.runs:  # it had no room to write what it needs to run
                self.note("the database had ended for lack of room")
                database.stop()
                await trio.to_thread.run_sync(database.start)

    async def run(self, name: str, what: Worker | None) -> None:
        """Make a fault, and free what it was about."""
        key: object = what or "database"
        fault: Callable[..., Awaitable[None]] = getattr(self, name)
        try:
            await (fault() if what is None else fault(what))
            self.done[name] += 1
        finally:
            self.doing.discard(key)

    async def roll(self) -> None:
        """Restart each worker in order; the next one when all serve again."""
        for worker in self.cluster.workers:
            self.doing.add(worker)
            await self.run("end", worker)
            await until(lambda ended=worker: ended.runs, f"{worker.name} starts again", 30)
            await self.cluster.ready(len(self.cluster.workers), 60)

    def draw(self, names: Mapping[str, int]) -> tuple[str, Worker | None] | None:
        """Draw the next fault; None while all that it could be about is busy."""
        name = self.dice.choices(list(names), list(names.values()))[0]
        if name in ("restart", "crash", "terminate", "full"):
            if "database" in self.doing:
                return None
            self.doing.add("database")
            return name, None
        free = [
            free_worker
            for free_worker in self.cluster.workers
            if free_worker not in self.doing and free_worker.runs
        ]
        if not free or (len(self.doing) > 1 and self.dice.random() < 0.7):
            return None
        worker = self.dice.choice(free)
        self.doing.add(worker)
        return name, worker

    # The end

    async def settle(self) -> None:
        """Let them work off everything, and end in order."""
        try:
            await until(self.settled, "everything is replied to and sent", SETTLE_S, 0.5)
        except TimeoutError as error:
            self.ledger.wrong.append(str(error))
            for worker in self.cluster.workers:
                self.note(await worker.status())
        self.over = True
        for worker in self.cluster.workers:
            code = await worker.end()
            # A worker that was killed a moment ago starts again, and takes signals only later.
            if code != 0 and (worker.serves or code != -signal.SIGTERM):
                self.ledger.wrong.append(f"at the end {worker.name} exited with {code}")

    def settled(self) -> bool:
        books = self.ledger.read()
        return not self.cluster.out.api.pending and bool(books.updates) and books.settled


@contextmanager
def small_disk() -> Iterator[Path | None]:
    """A file system of `DISK_MB` for temporary files; None where the machine does not allow it."""
    with tempfile.TemporaryDirectory(prefix="rumi-disk-") as folder:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m,mode=0777", "none", folder], capture_output=True
        )
        if done.returncode:
            yield None
            return
        before = tempfile.tempdir
        tempfile.tempdir = folder
        try:
            yield Path(folder)
        finally:
            tempfile.tempdir = before
            subprocess.run(["umount", "--lazy", folder], capture_output=True)


@contextmanager
def database() -> Iterator[tuple[Server, Path | None]]:
    """A server that keeps what it has promised, on a disk that can be filled."""
    with small_disk() as disk:
        before = tempfile.tempdir
        with server(*SETTINGS) as running:
            tempfile.tempdir = None
            try:
                yield running, disk
            finally:
                tempfile.tempdir = before


class Eyes:
    """The watcher's process, and what it has seen."""

    def __init__(self, workers: list[Worker]) -> None:
        words = [sys.executable, "-m", "bench.cluster_house", *(worker.installation for worker in workers)]
        self._popen = subprocess.Popen(words, stdout=subprocess.PIPE, cwd=house.ROOT, text=True)

    def close(self) -> tuple[list[str], dict[str, float]]:
        """What chats had two sandboxes, and how often it looked."""
        self._popen.terminate()
        said, _ = self._popen.communicate(timeout=20)
        lines = [json.loads(line) for line in said.splitlines()] or [{}]
        return [f"{line['at'] - EPOCH:.2f} {line['doubled']}" for line in lines[:-1]], lines[-1]


def setting(name: str, default: float) -> float:
    return float(os.environ.get(f"CHAOS_{name}", default))


@dataclass(frozen=True)
class Plan:
    """What is tried: so many faults, drawn by their weights, within a time, while so many chats write.

    `pause_s` is the time between one's messages; `reminders`: some ask for reminders and schedules, too.
    `rolling`: instead of faults, all workers are restarted in order, so many times.
    """

    seed: int
    faults: int
    limit_s: float
    chats: int
    weights: Mapping[str, int]
    groups: int = 10
    pause_s: float = PAUSE_S
    between_s: float = 1.5
    reminders: bool = True
    rolling: int = 0


@dataclass(frozen=True)
class Outcome:
    """What became of it; `wrong` is what must not be, in words."""

    chaos: Chaos
    closing: Closing
    left: list[str]
    looks: Mapping[str, float]
    seconds: float

    @property
    def wrong(self) -> list[str]:
        return self.chaos.ledger.wrong


SECTIONS: Final[Mapping[str, Mapping[str, object]]] = {
    "log": {"max_mb": 100},
    "budget": {"total_tokens_per_day": 1_000_000_000},  # so that each model call is reserved
}


async def main() -> int:
    wanted, chats = int(setting("FAULTS", FAULTS)), int(setting("CHATS", CHATS))
    limit_s, seed = setting("LIMIT_S", LIMIT_S), int(setting("SEED", random.randrange(1_000_000)))
    weights = dict(WEIGHTS)
    if only := os.environ.get("CHAOS_ONLY"):
        weights = {name: WEIGHTS[name] for name in only.split(",")}
    print(f"CHAOS_SEED={seed}: {wanted} faults within {limit_s:.0f} s, {chats} chats", flush=True)
    model, machine = Model(), house.Machine()
    with database() as (running, disk):
        if disk is None:
            print("The database's disk cannot be filled: this machine does not let folders be mounted.")
            weights.pop("full", None)
        rolling = int(setting("ROLLING", 0))
        plan = Plan(seed, wanted, limit_s, chats, weights, pause_s=PAUSE_S * chats / CHATS, rolling=rolling)
        async with (
            house.outside(model) as out,
            cluster(running, out, WORKERS, range(1, chats + 1), sections=SECTIONS) as workers,
        ):
            outcome = await torment(workers, model, plan, disk, print)
    report(outcome)
    row("of this machine, other programs had", f"{machine.others():.0%}")
    return 1 if outcome.wrong else 0


async def torment(
    workers: Cluster,
    model: Model,
    plan: Plan,
    disk: Path | None = None,
    say: Callable[[str], object] = lambda line: None,
) -> Outcome:
    """Make the faults while people write, have everything worked off, end the workers, and look at it all."""
    began = time.monotonic()

    def read() -> Books:
        try:
            return books_of(workers.query)
        except ValueError:  # the database is away
            return Books()

    out = workers.out
    ledger = ClusterLedger(
        out.api,
        [any_worker.root for any_worker in workers.workers],
        model.confirmed,
        read,
        workers.workspaces,
    )
    crowd = Crowd(out, plan.seed, plan.chats - plan.groups, plan.groups, plan.pause_s)
    chaos = Chaos(workers, ledger, Random(plan.seed), disk)
    ledger.spans = chaos.spans
    eyes = Eyes(workers.workers)
    try:
        async with trio.open_nursery() as nursery:
            for worker in workers.workers:
                nursery.start_soon(chaos.look_after, worker)
            await workers.ready(len(workers.workers), 90)
            nursery.start_soon(crowd.write)
            if plan.reminders:
                crowd.ask_for_schedules(EACH_MINUTE)
            shown, reminded = 0, 0.0
            for turn in range(plan.rolling):
                await chaos.roll()
                say(f"restarted {turn + 1} times, {time.monotonic() - began:.0f} s")
            while (
                not plan.rolling
                and chaos.done.total() < plan.faults
                and time.monotonic() - began < plan.limit_s
            ):
                if plan.reminders and time.monotonic() > reminded + 1:
                    reminded = time.monotonic()
                    crowd.ask_for_reminders(sum(schedule.waits for schedule in read().schedules.values()))
                await trio.sleep(chaos.dice.expovariate(1 / plan.between_s))
                if (drawn := chaos.draw(plan.weights)) is not None:
                    nursery.start_soon(chaos.run, *drawn)
                if chaos.done.total() >= shown + 20:
                    shown = chaos.done.total()
                    say(f"{shown} faults, {time.monotonic() - began:.0f} s")
            await until(lambda: not chaos.doing, "the last faults are over", 90)
            if plan.rolling:
                chaos.spans.clear()  # which explain nothing
            crowd.hush()
            await chaos.settle()
            nursery.cancel_scope.cancel()
        await trio.sleep(0.5)
        left = leftovers(workers.workers)
        for worker in workers.workers:
            left += [f"control group {left}" for left in Cgroups(worker.installation).leftovers()]
        ledger.wrong += left
        closing = ledger.close()
        if plan.rolling and (cut := closing.reasons["interrupted"]):
            ledger.wrong.append(f"{cut} turns were cut, though each could have ended in time")
    finally:
        doubled, looks = eyes.close()
        keep(workers, chaos)
    ledger.wrong += doubled
    for worker in workers.workers:
        if "Traceback" in (said := worker.said.read_text()):
            ledger.wrong.append(f"{worker.name}, a traceback: {said[said.index('Traceback') :][:2000]}")
    return Outcome(chaos, closing, left, looks, time.monotonic() - began)


def report(outcome: Outcome) -> None:
    chaos, closing, looks = outcome.chaos, outcome.closing, outcome.looks
    done, wrong = chaos.done, outcome.wrong
    row("faults", f"{done.total()}: {', '.join(f'{name} {done[name]}' for name in sorted(done))}")
    row("messages, all confirmed ones stored", str(closing.messages))
    row("final replies", str(closing.replies), "one for each message; a stop shares its turn's")
    row("turns", f"{closing.turns}, {closing.retried} of them by /retry", "none twice")
    row("schedules and reminders", str(closing.schedules), "each instant once, or told as missed")
    row("fires of them, and instants told as missed", f"{closing.fires}, {closing.missed}")
    row("commands that left a line", str(closing.lines), "none twice")
    reasons = ", ".join(f"{reason} {number}" for reason, number in closing.reasons.most_common())
    row("how turns ended", reasons)
    if closing.marking_s:
        row("from taken by Telegram to marked", f"p99 {percentile(closing.marking_s, 0.99) * 1000:.0f} ms")
    row("replies seen twice, explained by a fault", str(closing.duplicates))
    row("replies seen twice, not explained", str(closing.duplicates_elsewhere), "0")
    row("previews left, explained by a fault", str(closing.previews))
    row("previews left, not explained", str(closing.previews_elsewhere), "0")
    row("looks at all sandboxes", f"{looks['looks']:.0f}, slowest {looks['slowest_s'] * 1000:.0f} ms")
    row("sandboxes at once, at most", f"{looks['most']:.0f}", "one for each chat")
    row("bubblewraps stranded until the next start", str(chaos.stranded))
    row("starts of workers", spread([float(worker.starts) for worker in chaos.cluster.workers]))
    for words, times in chaos.by_itself.most_common(6):
        row("a worker ended by itself", f"{times} times with {words}")
    row("processes and sandboxes left at the end", str(len(outcome.left)), "0")
    row("what must not be", str(len(wrong)), "0")
    for sentence in wrong[:60]:
        print(f"  {sentence}")
    print(f"It took {outcome.seconds:.0f} s.")


def keep(workers: Cluster, chaos: Chaos) -> None:
    """Keep what explains a fault where CHAOS_KEEP says: logs, and the times of the faults."""
    if not (kept_path := os.environ.get("CHAOS_KEEP")):
        return
    import shutil

    folder = Path(kept_path)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "faults").write_text("\n".join([f"0 = {EPOCH}", *chaos.log]) + "\n")
    for worker in workers.workers:
        shutil.copytree(worker.root / "logs", folder / worker.name, dirs_exist_ok=True)
        shutil.copy(worker.said, folder / f"{worker.name}.err")
    shutil.copy(workers.server.folder / "log", folder / "postgres.log")
    subprocess.run(
        ["pg_dump", "--inserts", "--data-only", "-f", str(folder / "dump.sql"), workers.url],
        capture_output=True,
    )


if __name__ == "__main__":
    sys.exit(trio.run(main))
