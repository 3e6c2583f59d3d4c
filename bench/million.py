"""A store with a million chats, of which few say anything: what a worker needs to start, and to serve one.

    python -m bench.million

Environment: CHATS (1000000), MESSAGES (2000: how many are accepted and answered). Needs PostgreSQL's server.
Each chat has two messages with their replies, a session and four entries of history. Beside each figure
stands the same for a store of a thousand chats.
"""

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import psycopg

from bench.rounds import percentile, row, spread
from rumi.models.model import Message
from rumi.store.backend import PostgresServer
from rumi.store.journal.inbox import accept_messages, begin_turn, newest_open, open_chats
from rumi.store.journal.leases import claim_partitions, join_cluster, release_partitions, renew_lease
from rumi.store.journal.outbox import settle
from rumi.store.journal.records import FinalReply, HistoryEntry, Incoming
from rumi.store.journal.schema import ON_A_SERVER, STATE
from rumi.store.journal.store import Store
from rumi.store.ownership import Ownership
from tests.postgres import Server, server

CHATS = int(os.environ.get("CHATS", "1000000"))
MESSAGES = int(os.environ.get("MESSAGES", "2000"))
FEW = 1_000

_FILL = """
INSERT INTO outbox (chat, text, created, delivered)
    SELECT 'tg' || n, 'The answer is ' || n, 1e9 + n, 1e9 + n FROM generate_series(1, {chats}) AS n,
    generate_series(1, 2);
INSERT INTO messages (chat, text, received, session, turn, reason, reply, channel)
    SELECT chat, 'A question with some words in it', created, 1, 't' || id, 'complete', id, 'telegram'
    FROM outbox ORDER BY id;
INSERT INTO sessions (chat, number, started, due, ended)
    SELECT 'tg' || n, 1, 1e9 + n, 1e9 + n + 3600, 1e9 + n + 3600 FROM generate_series(1, {chats}) AS n;
INSERT INTO history (chat, session, turn, message, tainted, created)
    SELECT chat, 1, turn, '{{"role":"user","content":"' || repeat('words ', 20) || '","tool_calls":[],'
    '"tool_call_id":null}}', FALSE, received FROM messages, generate_series(1, 2);
ANALYZE
"""


def main() -> None:
    with server("synchronous_commit=on", "max_wal_size=4GB", "shared_buffers=512MB") as postgres:
        for chats in (FEW, CHATS):
            measured(postgres, chats)


def measured(postgres: Server, chats: int) -> None:
    url = postgres.new_database()
    backend = PostgresServer(url, ON_A_SERVER)
    backend.open("state", STATE).close()
    with timed() as filled, psycopg.connect(url, autocommit=True) as db:
        db.execute("SET synchronous_commit = off")
        for statement in _FILL.format(chats=chats).split(";\n"):
            db.execute(statement.encode())
        (size,) = db.execute("SELECT pg_database_size(current_database())").fetchone() or (0,)
    print(f"\n{chats:,} chats, {size / 1e6:,.0f} MB, filled in {filled[0]:.0f} s")
    row("a worker starts and serves all partitions", f"{started(url):.2f} s")
    ownership = Ownership("bench")
    store = Store(backend, ownership=ownership)
    store.run([join_cluster("bench", "1", "", 600.0)])
    with timed() as claimed:
        (parts,) = store.run([claim_partitions("bench", 256)])
    ownership.set({partition.number: partition.fence for partition in parts})  # type: ignore[attr-defined]
    row("claim of 256 partitions", f"{claimed[0] * 1000:.1f} ms")
    for what, request in (
        ("which chats wait, after a claim", open_chats()),
        ("what no notification has told", newest_open()),
        ("renewal of the lease", renew_lease("bench", 600.0)),
    ):
        row(what, spread([once(store, request) for _ in range(15)], "ms", 1000))
    accepted, answered = messages(store, chats)
    row("a message is accepted, p50", f"{statistics.median(accepted) * 1000:.2f} ms")
    row("a message is accepted, p99", f"{percentile(accepted, 0.99) * 1000:.2f} ms")
    row("a turn begins and is answered, p50", f"{statistics.median(answered) * 1000:.2f} ms")
    row("a turn begins and is answered, p99", f"{percentile(answered, 0.99) * 1000:.2f} ms")
    store.run([release_partitions("bench", tuple(ownership.numbers()))])
    store.close()
    postgres.drop(url)


def messages(store: Store, chats: int) -> tuple[list[float], list[float]]:
    """Accept and answer messages of chats by chance; return the seconds that each step took."""
    random, accepted, answered = Random(1), [], []
    for _ in range(MESSAGES):
        chat = f"tg{random.randint(1, chats)}"
        began = time.perf_counter()
        ((message,),) = store.run([accept_messages((Incoming(chat=chat, text="hello", channel="telegram"),))])  # type: ignore[misc]
        accepted.append(time.perf_counter() - began)
        began = time.perf_counter()
        entry = (HistoryEntry("t1", Message("user", "hello")),)
        store.run([begin_turn(chat, message.id, f"t{message.id}", 1, entry)])
        store.run([settle(chat, FinalReply((message.id,), "bye", "complete", 1, entry))])
        answered.append(time.perf_counter() - began)
    return accepted, answered


def once(store: Store, request: object) -> float:
    began = time.perf_counter()
    store.run([request])  # type: ignore[list-item]
    return time.perf_counter() - began


@contextmanager
def timed() -> Iterator[list[float]]:
    took, began = [0.0], time.perf_counter()
    yield took
    took[0] = time.perf_counter() - began


_WORKER = """
import resource, sys, time
began = time.perf_counter()
from rumi.store.backend import PostgresServer
from rumi.store.journal.inbox import open_chats
from rumi.store.journal.leases import claim_partitions, join_cluster, release_partitions
from rumi.store.journal.outbox import undelivered_chats
from rumi.store.journal.schedules import due_schedules
from rumi.store.journal.schema import ON_A_SERVER
from rumi.store.journal.spending import settle_left
from rumi.store.journal.store import Store
from rumi.store.journal.tasks import open_tasks
from rumi.store.ownership import Ownership
ownership = Ownership("starts")
store = Store(PostgresServer(sys.argv[1], ON_A_SERVER), ownership=ownership)
store.run([join_cluster("starts", "1", "", 600.0)])
(parts,) = store.run([claim_partitions("starts", 256)])
ownership.set({each.number: each.fence for each in parts})
left = settle_left(frozenset(ownership.numbers()))
store.run([left, open_chats(), undelivered_chats(), open_tasks(), due_schedules(time.time())])
store.run([release_partitions("starts", tuple(ownership.numbers()))])
print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def started(url: str) -> float:
    """Return how many seconds a process takes until it knows what waits in all partitions."""
    done = subprocess.run(
        [sys.executable, "-c", _WORKER, url], check=True, capture_output=True, text=True, timeout=600
    )
    seconds, kilobytes = done.stdout.split()
    row("its memory", f"{int(kilobytes) / 1000:.0f} MB")
    return float(seconds)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    main()
