"""How long `/stop` takes that comes in at another worker than the one that runs the turn.

    python -m bench.stop_cluster [CHATS]

Two workers share a PostgreSQL database, each a process of its own. The first serves CHATS chats that run
`sleep 600` in bubblewrap. Each `/stop` is given at the second worker: by a call on its control socket, which
passes it on over a connection, or, as a channel does, as a message that it stores, of which the database
notifies the first one. Measured from the request to the reply, which comes when no process of the turn is
left. Beside it: the same calls at the worker that runs the turns.
"""

import json
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from random import Random

import psycopg
import trio

from bench.rounds import percentile, row
from rumi.channels.attach.connection import connect
from rumi.platform.caller import TERMINAL
from rumi.sandbox.processes import descendants
from rumi.store.ownership import partition_of
from tests.postgres import server
from tests.store.cluster.homes import Database, Worker, workers

CHATS = 50
AT_ONCE = 8
AIM = "p99 under 300 ms"


def control(worker: Worker) -> Path:
    return worker.home / "run" / "control.sock"


async def begin_all(worker: Worker, chats: list[str], database: Database) -> None:
    """Start a turn in each chat, and return when all of them are in a command."""
    from rumi.channels.attach.client import OpenRequest, attach

    async def one(chat: str) -> None:
        async with attach(
            control(worker), TERMINAL, OpenRequest(chat, True, "en", single=True), "rumi serve"
        ) as client:
            await client.send("$ sleep 600")

    limit = trio.CapacityLimiter(AT_ONCE)

    async def in_turn(chat: str) -> None:
        async with limit:
            await one(chat)

    async with trio.open_nursery() as nursery:
        for chat in chats:
            nursery.start_soon(in_turn, chat)
    with trio.fail_after(300):
        while (running := _sleeping(worker)) < len(chats):
            print(f"\r{running} commands run", end="", file=sys.stderr)
            await trio.sleep(0.5)
    print(file=sys.stderr)


def _sleeping(worker: Worker) -> int:
    """Return how many commands of the worker run."""
    assert worker.process is not None
    found = 0
    for pid in descendants(worker.process.pid):
        with suppress(OSError):
            found += Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep\0")
    return found


async def stopped_by_call(worker: Worker, chats: list[str]) -> list[float]:
    times = []
    for chat in chats:
        began = time.perf_counter()
        async with connect(control(worker), TERMINAL) as client:
            said = await client.call("stop", chat=chat, language="en")
        times.append(time.perf_counter() - began)
        assert "Stopped" in said, said
    return times


async def stopped_by_message(worker: Worker, chats: list[str], url: str) -> list[float]:
    """Give each `/stop` as a channel of the worker does, and wait for the reply in the database."""
    from rumi.platform.config.schema import StoreSection
    from rumi.store.cluster.building import make_cluster
    from rumi.store.journal.inbox import accept_messages
    from rumi.store.journal.records import Incoming, NotStored
    from rumi.store.journal.store import Store

    backend = make_cluster(StoreSection(url=url)).backend
    from rumi.store.ownership import Ownership

    store = Store(backend, now=time.time, ownership=Ownership("bench"))
    times = []
    with psycopg.connect(url, autocommit=True) as db:
        for chat in chats:
            began = time.perf_counter()
            (stored,) = store.run([accept_messages((Incoming(chat=chat, text="/stop", language="en"),))])
            assert isinstance(stored, tuple)
            assert not isinstance(stored, NotStored)
            number = stored[0].id
            while db.execute("SELECT reply FROM messages WHERE id = %s", (number,)).fetchone() == (None,):
                await trio.sleep(0.002)
            times.append(time.perf_counter() - began)
    store.close()
    return times


def print_times(what: str, times: list[float]) -> None:
    row(f"{what}: median", f"{percentile(times, 0.5) * 1000:.0f} ms")
    row(f"{what}: p99", f"{percentile(times, 0.99) * 1000:.0f} ms", AIM)


async def measure(count: int, owner: Worker, other: Worker, database: Database, url: str) -> None:
    names = [
        name for number in range(20 * count) if database.address_of(name := f"stop-{number}") == owner.address
    ][:count]
    ways = (
        ("/stop at another worker, passed on", lambda: stopped_by_call(other, names)),
        ("/stop at another worker, by the database", lambda: stopped_by_message(other, names, url)),
        ("/stop at the worker that runs the turn", lambda: stopped_by_call(owner, names)),
    )
    for what, stop in ways:
        await begin_all(owner, names, database)
        Random(7).shuffle(names)
        print_times(f"{what}, {count} turns", await stop())
    members = json.loads((other.run("status", "--all", "--json")).stdout)["workers"]
    assert len(members) == 2, members
    assert len({partition_of(name) for name in names}) > 1


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else CHATS
    with tempfile.TemporaryDirectory() as folder, server() as running:
        url = running.new_database()
        with workers(Path(folder), url, 2, timeout_s=900) as ((owner, other), database):
            trio.run(measure, count, owner, other, database, url)


if __name__ == "__main__":
    main()
