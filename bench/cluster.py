"""Several workers on one PostgreSQL database, beside one process with its own SQLite file.

    python -m bench.cluster [MESSAGES [ROUNDS]]

How many messages a second get their reply with one, two and three workers on this machine, what a message
costs in processor time at the workers and at the database, and in transactions, statements, rows, bytes and
notifications; how long `/stop` takes through another worker; how long it takes until others serve the chats
of a killed worker. Telegram and Groq are fakes in this process, which takes processor time too. Each round
runs all of them side by side. Exits with 1 where a reply is missing.
"""

import json
import os
import sqlite3
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import trio

from bench import telegram_house as house
from bench.cluster_house import LEASE_S, Cluster, Worker, cluster
from bench.rounds import percentile, row, spread
from bench.telegram_house import Outside, until
from rumi.channels.telegram.channel import POLLER
from rumi.store.ownership import partition_of
from tests.fakes.bot_api_rates import UNLIMITED
from tests.fakes.bot_api_world import Chat
from tests.fakes.groq_server import Answer, Behaviour, Body, answered_calls, last_user_text
from tests.postgres import Server, server

MESSAGES: Final = 150
ROUNDS: Final = 3
STOPS: Final = 20
WITHIN_S: Final = 180.0
IDLE_S: Final = 4.0
COUNTED_S: Final = 1.5
"""How late a server's process may tell what it has counted."""

SETTINGS: Final = ("shared_preload_libraries=pg_stat_statements", "track_io_timing=off")
TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")


def model(body: Body) -> Behaviour:
    """Answer at once, or run a long command."""
    if last_user_text(body).startswith("sleep") and not answered_calls(body):
        return Answer(calls=[("bash", json.dumps({"command": "sleep 600"}))])
    return Answer("hola")


@dataclass
class Costs:
    """What the database counts, of all that has happened."""

    transactions: float = 0.0
    statements: float = 0.0
    rows: float = 0.0
    log_bytes: float = 0.0
    notifications: float = 0.0

    def since(self, before: "Costs", times: float, idle: "Costs | None" = None) -> "Costs":
        """The difference by message; `idle` is what happened in the same time without messages."""
        names = ("transactions", "statements", "rows", "log_bytes", "notifications")
        return Costs(
            *(
                (getattr(self, name) - getattr(before, name) - (getattr(idle, name) if idle else 0.0)) / times
                for name in names
            )
        )


async def costs_of(workers: Cluster) -> Costs:
    """Wait until the server's processes have told what they have counted, and read it."""
    await trio.sleep(COUNTED_S)
    name = workers.url.rpartition("/")[2]
    ((commits,),) = workers.query(f"SELECT xact_commit FROM pg_stat_database WHERE datname = '{name}'")
    ((calls, rows, notified),) = workers.query(
        "SELECT coalesce(sum(calls), 0), coalesce(sum(rows), 0),"
        " coalesce(sum(calls) FILTER (WHERE query ILIKE '%pg_notify%'), 0)"
        " FROM pg_stat_statements JOIN pg_database ON pg_database.oid = dbid"
        f" WHERE datname = '{name}' AND query NOT ILIKE '%pg_stat%'"
    )
    ((log_bytes,),) = workers.query("SELECT wal_bytes FROM pg_stat_wal")
    return Costs(*map(float, (commits, calls, rows, log_bytes, notified)))


def seconds_of(pids: Sequence[int]) -> float:
    """Processor time of processes, with that of their children that have ended."""
    used = 0.0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        used += sum(map(int, fields[11:15])) * TICK_S
    return used


def database_pids(database: Server) -> list[int]:
    pid = database.pid
    return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


@dataclass
class Figures:
    """What was measured of one kind, a value for each round."""

    a_second: list[float] = field(default_factory=list)
    worker_ms: list[float] = field(default_factory=list)
    database_ms: list[float] = field(default_factory=list)
    costs: list[Costs] = field(default_factory=list)


async def replied(count: Callable[[], int], out: Outside, messages: int) -> float:
    """Have so many people write at once; return the seconds until all their replies are stored."""
    before, began = count(), trio.current_time()
    for number in range(1, messages + 1):
        out.api.say(out.api.people[number], f"answer {number}", out.api.chats[number])
    await until(lambda: count() >= before + messages, f"{messages} replies", WITHIN_S, 0.02)
    return trio.current_time() - began


async def alone(out: Outside, figures: Figures, messages: int) -> None:
    """One process with its own file."""
    with house.home(range(1, messages + 1)) as root:
        worker = Worker(0, root, None, out.environment(root), house.RUMI, "")  # type: ignore[arg-type]

        def count() -> int:
            try:
                db = sqlite3.connect(f"file:{root}/state.db?mode=ro", uri=True)
                with_reply = db.execute("SELECT count(*) FROM messages WHERE reply IS NOT NULL").fetchone()[0]
                db.close()
            except sqlite3.Error:
                return 0
            return int(with_reply)

        process = worker.start()
        try:
            await until(lambda: worker.serves, "it serves", 60)
            await replied(count, out, messages)  # the first time makes sessions
            used = seconds_of([process.pid])
            took_s = await replied(count, out, messages)
            figures.a_second.append(messages / took_s)
            figures.worker_ms.append((seconds_of([process.pid]) - used) * 1000 / messages)
            await worker.end()
        finally:
            worker.kill()


async def several(workers: Cluster, out: Outside, figures: Figures, messages: int, number: int) -> None:
    """So many workers of a cluster."""

    def count() -> int:
        found = workers.query("SELECT count(*) FROM messages WHERE reply IS NOT NULL")
        return int(found[0][0]) if found else 0

    for worker in workers.workers[:number]:
        worker.start()
    await workers.ready(number, 90)
    workers.query("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
    await replied(count, out, messages)
    before, began = await costs_of(workers), trio.current_time()
    await trio.sleep(IDLE_S)
    idle_a_second = (await costs_of(workers)).since(before, trio.current_time() - began)
    pids = [
        running_worker.process.pid for running_worker in workers.workers[:number] if running_worker.process
    ]
    before, began = await costs_of(workers), trio.current_time()
    used, kept = seconds_of(pids), seconds_of(database_pids(workers.server))
    took_s = await replied(count, out, messages)
    worker_s, database_s = seconds_of(pids) - used, seconds_of(database_pids(workers.server)) - kept
    after = await costs_of(workers)
    idle = Costs(*(value * (trio.current_time() - began) for value in vars(idle_a_second).values()))
    figures.costs.append(after.since(before, messages, idle))
    figures.a_second.append(messages / took_s)
    figures.worker_ms.append(worker_s * 1000 / messages)
    figures.database_ms.append(database_s * 1000 / messages)


async def stops(workers: Cluster, out: Outside, messages: int) -> list[float]:
    """Seconds from `/stop` to its reply, in chats of workers that do not poll."""
    poller = workers.owner_of(partition_of(POLLER))
    chats = [
        number
        for number in range(1, messages + 1)
        if workers.owner_of(partition_of(f"tg{number}")) is not poller
    ][:STOPS]
    took = []
    for number in chats:
        person, chat = out.api.people[number], out.api.chats[number]
        out.api.say(person, "sleep", chat)
    open_turns = "SELECT count(*) FROM messages WHERE text = 'sleep' AND turn IS NOT NULL AND reply IS NULL"
    await until(lambda: workers.query(open_turns) == [(len(chats),)], "all run a command", 90)
    await trio.sleep(3)
    for number in chats:
        person, chat = out.api.people[number], out.api.chats[number]
        began = trio.current_time()
        out.api.say(person, "/stop", chat)
        await until(partial(was_sent, chat, "Stopped"), "it stops", 30, 0.005)
        took.append(trio.current_time() - began)
        await trio.sleep(0.1)
    return took


def was_sent(chat: Chat, words: str) -> bool:
    return any(words in message.text for message in chat.said)


async def takeover(workers: Cluster) -> float:
    """Kill a worker; return the seconds until the others serve all chats. It is started again."""
    victim = workers.workers[-1]
    await workers.ready(len(workers.workers), 90)
    victim.kill()
    began = trio.current_time()
    live = [worker.address for worker in workers.workers if worker is not victim]

    def served() -> bool:
        return sum(member.partitions for member in workers.members() if member.address in live) == 256

    await until(served, "all partitions are served", 60, 0.01)
    took_s = trio.current_time() - began
    victim.start()
    return took_s


def report(kinds: dict[str, Figures], stopped: list[float], taken: list[float]) -> None:
    base = kinds["SQLite alone"].a_second
    for name, figures in kinds.items():
        against = [mine / theirs for mine, theirs in zip(figures.a_second, base, strict=True)]
        row(f"{name}: replies a second", spread(figures.a_second), "")
        row("  beside SQLite in the same round", spread(against, "times"))
        row("  processor time of a message, workers", spread(figures.worker_ms, "ms"))
        if not figures.costs:
            continue
        row("  … and the database", spread(figures.database_ms, "ms"))
        for what in vars(Costs()):
            words = {"log_bytes": "bytes of the log"}.get(what, what)
            row(f"  {words} of a message", spread([getattr(cost, what) for cost in figures.costs]))
    row("/stop through another worker, p99", f"{percentile(stopped, 0.99) * 1000:.0f} ms of {len(stopped)}")
    row("  median", spread(stopped, "ms", 1000))
    row(f"kill -9 until all is served (lease {LEASE_S:.0f} s)", spread(taken, "s"))


async def main() -> int:
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else MESSAGES
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    kinds = {"SQLite alone": Figures(), **{f"{number} on PostgreSQL": Figures() for number in (1, 2, 3)}}
    stopped: list[float] = []
    taken: list[float] = []
    machine, users = house.Machine(), range(1, messages + 1)
    print(f"load of this machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors", flush=True)
    with server(*SETTINGS) as running:
        for turn in range(rounds):
            for name, figures in kinds.items():
                number = 0 if name == "SQLite alone" else int(name[0])
                async with house.outside(model, UNLIMITED) as out:
                    for user in users:
                        out.api.user(user)
                    if not number:
                        await alone(out, figures, messages)
                        continue
                    async with cluster(running, out, number, users) as workers:
                        await several(workers, out, figures, messages, number)
                        if number == 3:
                            stopped += await stops(workers, out, messages)
                            taken += [await takeover(workers) for _ in range(2)]
            print(f"round {turn + 1} of {rounds}", flush=True)
    report(kinds, stopped, taken)
    row("of this machine, other programs had", f"{machine.others():.0%}")
    return 0


if __name__ == "__main__":
    sys.exit(trio.run(main))
