"""Several workers on one PostgreSQL database: fences, locks, leases, and servers that fail."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rumi.models.model import Message
from rumi.store.backend import PostgresServer
from rumi.store.journal.history import append_history
from rumi.store.journal.inbox import accept_messages, knows_chat, open_messages
from rumi.store.journal.leases import claim_partitions, join_cluster, release_partitions, renew_lease
from rumi.store.journal.reading import read_history
from rumi.store.journal.records import HistoryEntry, Incoming, Update
from rumi.store.journal.schema import ON_A_SERVER, STATE
from rumi.store.journal.store import JournalError, NotOwner, Store, Unwritable
from rumi.store.ownership import Ownership, partition_of
from tests.conftest import ROOT
from tests.postgres import Server, free_port
from tests.store.journal.conftest import shared_store
from tests.store.journal.proxy import Proxy


@pytest.fixture
def url(postgres: Server, empty_database: str) -> Iterator[str]:
    made = postgres.copy_of(empty_database)
    yield made
    postgres.drop(made)


@pytest.fixture
def proxy(postgres: Server) -> Iterator[Proxy]:
    opened = Proxy(postgres.port)
    yield opened
    opened.close()


def through(proxy: Proxy, url: str) -> str:
    return f"postgresql://rumi@127.0.0.1:{proxy.port}/{url.rpartition('/')[2]}"


def said(text: str) -> HistoryEntry:
    return HistoryEntry("t1", Message("user", text))


def texts(store: Store, chat: str) -> list[str]:
    (entries,) = store.run([read_history(chat)])
    return [entry.entry.message.content for entry in entries]  # type: ignore[attr-defined]


def second(url: str, worker: str, now: Callable[[], float] | None = time.time) -> tuple[Store, Ownership]:
    """Return a worker that serves nothing yet."""
    ownership = Ownership(worker)
    store = Store(PostgresServer(url, ON_A_SERVER), now, ownership)
    store.run([join_cluster(worker, "1", "", 600.0)])
    return store, ownership


def test_a_write_with_a_stale_fence_is_refused_and_the_rest_of_the_batch_is_stored(url: str) -> None:
    first = shared_store(url, "w1")
    other, ownership = second(url, "w2")
    first.run([release_partitions("w1", (partition_of("cli"),))])
    (claimed,) = other.run([claim_partitions("w2", 256)])
    ownership.set({partition.number: partition.fence for partition in claimed})  # type: ignore[attr-defined]
    lost: list[frozenset[int]] = []
    assert first._ownership is not None
    first._ownership.lost = lambda worker, numbers: lost.append(numbers)  # type: ignore[method-assign]
    for_any = accept_messages((Incoming(chat="cli"),))
    stale, fine, free = first.run(
        [append_history("cli", 1, (said("stale"),)), append_history("a_b", 1, (said("fine"),)), for_any]
    )
    assert isinstance(stale, NotOwner)
    assert fine is None
    assert isinstance(free, tuple), "a message for a chat of another worker is stored"
    assert lost == [frozenset({partition_of("cli")})]
    assert (texts(other, "cli"), texts(other, "a_b")) == ([], ["fine"])
    assert other.run([append_history("cli", 1, (said("by its owner"),))]) == [None]
    assert texts(first, "cli") == ["by its owner"]
    first.close()
    other.close()


def test_an_update_that_two_workers_accept_at_once_is_stored_once(url: str) -> None:
    stores = [shared_store(url, "w1"), second(url, "w2")[0]]
    together = threading.Barrier(2)

    def accept(store: Store) -> list[object]:
        found = []
        for number in range(20):
            together.wait(30)
            found += store.run([accept_messages((Incoming(Update("telegram", number), "tg5", str(number)),))])
        return found

    with ThreadPoolExecutor(2) as threads:
        one, two = threads.map(accept, stores)
    for mine, theirs in zip(one, two, strict=True):
        assert (mine == (None,)) != (theirs == (None,)), "exactly one of them has stored it"
    (stored,) = stores[0].run([open_messages("tg5", 0)])
    assert [message.text for message in stored] == [str(number) for number in range(20)]  # type: ignore[attr-defined]
    for store in stores:
        store.close()


def test_numbers_of_a_chats_messages_ascend_in_the_order_of_their_commits(url: str) -> None:
    stores = [shared_store(url, "w0"), *(second(url, f"w{n}")[0] for n in (1, 2, 3))]
    done = threading.Event()
    late: list[object] = []

    def watch() -> None:
        highest, seen = 0, set[int]()
        with psycopg.connect(url, autocommit=True) as db:
            while not done.is_set():
                there = {id for (id,) in db.execute("SELECT id FROM messages WHERE chat = 'cli'")}
                late.extend(id for id in there - seen if id < highest)
                seen, highest = there, max(there, default=0)

    def accept(store: Store) -> None:
        for number in range(25):
            store.run([accept_messages((Incoming(chat="cli", text=str(number)),))])

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(accept, stores))
    finally:
        done.set()
        watcher.join()
    assert late == []
    (stored,) = stores[0].run([open_messages("cli", 0)])
    assert len(stored) == 100  # type: ignore[arg-type]
    for store in stores:
        store.close()


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_commit_without_an_answer_is_neither_lost_nor_done_twice(url: str, proxy: Proxy, cut: Any) -> None:
    store = shared_store(through(proxy, url))
    requests = [
        accept_messages((Incoming(chat="cli", text="once"),)),
        append_history("cli", 1, (said("once"),)),
    ]
    proxy.cut = cut
    with pytest.raises(Unwritable) as error:
        store.run(requests)
    assert error.value.trouble == "away"
    assert proxy.cuts == 1
    more = [append_history("cli", 1, (said("after it"),))]
    accepted, appended, _ = store.run([*requests, *more])
    assert accepted[0].text == "once"  # type: ignore[index]
    assert appended is None
    assert texts(store, "cli") == ["once", "after it"]
    (stored,) = store.run([open_messages("cli", 0)])
    assert stored == accepted
    store.close()


@pytest.mark.parametrize("second", ["before", "after"])
def test_two_commits_in_a_row_without_an_answer_are_done_once(url: str, proxy: Proxy, second: Any) -> None:
    """What the first has done is known, also when the commit of what came since has no answer either."""
    store = shared_store(through(proxy, url))
    requests: list[Any] = [append_history("cli", 1, (said("first"),))]
    proxy.cut = "after"
    with pytest.raises(Unwritable):
        store.run(requests)
    requests.append(append_history("cli", 1, (said("second"),)))
    proxy.cut = second
    with pytest.raises(Unwritable):
        store.run(requests)
    assert proxy.cuts == 2
    assert store.may_have(requests[0])
    requests.append(append_history("cli", 1, (said("third"),)))
    assert store.run(requests) == [None] * 3
    assert texts(store, "cli") == ["first", "second", "third"]
    assert not any(store.may_have(request) for request in requests)
    store.close()


def test_a_server_that_is_gone_and_comes_back_loses_nothing(url: str, proxy: Proxy) -> None:
    store = shared_store(through(proxy, url))
    there, proxy.server = proxy.server, free_port()
    proxy.end_connections()
    request = append_history("cli", 1, (said("kept"),))
    for _ in range(2):
        with pytest.raises(Unwritable) as error:
            store.run([request])
        assert error.value.trouble == "away"
    proxy.server = there
    store.run([request])
    assert texts(store, "cli") == ["kept"]
    store.close()


def test_a_deadlock_is_tried_again(url: str) -> None:
    store = shared_store(url)
    first, last = sorted(("cli", "a_b"), key=partition_of)
    with psycopg.connect(url) as other, ThreadPoolExecutor(1) as threads:
        other.execute("SET deadlock_timeout = '60s'")
        lock = "SELECT 1 FROM partitions WHERE number = %s FOR UPDATE"
        other.execute(lock, (partition_of(last),))
        running = threads.submit(
            store.run, [append_history(chat, 1, (said(chat),)) for chat in (first, last)]
        )
        with psycopg.connect(url, autocommit=True) as looking:
            sql = "SELECT count(*) FROM pg_locks WHERE NOT granted"
            while looking.execute(sql).fetchone() == (0,):
                time.sleep(0.01)
        other.execute(lock, (partition_of(first),))  # it gets it, since the worker's transaction is ended
        other.commit()
        assert running.result(20) == [None, None]
    assert (texts(store, first), texts(store, last)) == ([first], [last])
    store.close()


def test_a_lease_that_has_ended_is_never_renewed_and_its_chats_are_free(url: str) -> None:
    now = 1000.0
    store, _ = second(url, "w1", lambda: now)
    other, _ = second(url, "w2", lambda: now)
    store.run([claim_partitions("w1", 256), renew_lease("w1", 10.0)])
    now += 9.9
    (fences,) = store.run([renew_lease("w1", 10.0)])
    assert len(fences) == 256  # type: ignore[arg-type]
    (nothing,) = other.run([claim_partitions("w2", 256)])
    now += 10.0
    (claimed,) = other.run([claim_partitions("w2", 1)])
    assert (nothing, len(claimed)) == ((), 1)  # type: ignore[arg-type]
    assert store.run([renew_lease("w1", 10.0)]) == [None]
    now -= 5.0  # also where a clock has gone back
    assert store.run([renew_lease("w1", 10.0)]) == [None]
    store.close()
    other.close()


def test_claims_of_three_workers_at_once_never_overlap(url: str) -> None:
    stores = [second(url, f"w{number}")[0] for number in range(3)]
    together = threading.Barrier(3)

    def claim(index: int) -> list[int]:
        numbers: list[int] = []
        for _ in range(4):
            together.wait(30)
            (claimed,) = stores[index].run([claim_partitions(f"w{index}", 20, has=tuple(numbers))])
            numbers += [partition.number for partition in claimed]  # type: ignore[attr-defined]
        return numbers

    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(claim, range(3)))
    numbers = [number for taken_numbers in found for number in taken_numbers]
    assert len(numbers) == len(set(numbers))
    assert all(number for number in found)
    for store in stores:
        store.close()


MIGRATE = """
import sys
from rumi.store.journal.schema import ON_A_SERVER, STATE
from rumi.memory.schema import MEMORY
from rumi.store.backend import PostgresServer
for name, schema in (("state", STATE), ("memory", MEMORY)):
    PostgresServer(sys.argv[1], ON_A_SERVER).open(name, schema).close()
"""


@pytest.mark.long
def test_four_processes_that_start_at_once_make_the_tables_once(postgres: Server) -> None:
    url = postgres.new_database()
    started = [
        subprocess.Popen([sys.executable, "-c", MIGRATE, url], cwd=ROOT, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert [(process.communicate(timeout=60)[1], process.returncode) for process in started] == [("", 0)] * 4
    with psycopg.connect(url) as db:
        assert db.execute("SELECT name, version FROM schema_versions ORDER BY 1").fetchall() == [
            ("memory", 2),
            ("state", STATE.version),
        ]
        assert db.execute("SELECT count(*) FROM partitions").fetchone() == (257,)
    postgres.drop(url)


def test_a_newer_schema_is_refused(url: str) -> None:
    with psycopg.connect(url) as db:
        db.execute("UPDATE schema_versions SET version = version + 1 WHERE name = 'state'")
    with pytest.raises(JournalError, match="newer Rumi"):
        Store(PostgresServer(url, ON_A_SERVER))


def test_a_wrong_password_is_told_and_never_shown(url: str, postgres: Server) -> None:
    rules = postgres.data / "pg_hba.conf"
    if "careful" not in (before := rules.read_text()):
        postgres.execute("CREATE ROLE careful LOGIN SUPERUSER PASSWORD 'right'")
        rules.write_text(f"host all careful 127.0.0.1/32 scram-sha-256\n{before}")
        postgres.execute("SELECT pg_reload_conf()")
    careful = url.replace("rumi@", "careful@")
    for _ in range(100):  # until the rules are read
        with pytest.raises(Unwritable) as error:
            Store(PostgresServer(careful, ON_A_SERVER, "wr0ng"))
            time.sleep(0.05)
            continue
        break
    assert "password authentication failed" in str(error.value.message)
    assert "wr0ng" not in error.value.message + str(error.value.advice)
    Store(PostgresServer(careful, ON_A_SERVER, "right")).close()


def test_a_server_that_is_not_there_or_only_reads_is_away(url: str) -> None:
    with pytest.raises(Unwritable) as error:
        Store(PostgresServer(f"postgresql://rumi@127.0.0.1:{free_port()}/x", ON_A_SERVER))
    assert error.value.trouble == "away"
    store = shared_store(url)
    store._db.execute("SET default_transaction_read_only = on").close()
    request = append_history("cli", 1, (said("kept"),))
    with pytest.raises(Unwritable) as error:
        store.run([request])
    assert error.value.trouble == "away"
    store._db.execute("SET default_transaction_read_only = off").close()
    store.run([request])
    assert texts(store, "cli") == ["kept"]
    store.close()


def test_a_full_disk_of_the_server_is_told_and_nothing_is_lost(
    postgres: Server, empty_database: str, small_disk: Path
) -> None:
    folder = small_disk / "space"
    folder.mkdir()
    postgres.give(folder)
    postgres.execute(f"CREATE TABLESPACE small LOCATION '{folder}'")
    url = postgres.copy_of(empty_database)
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("ALTER TABLE history SET TABLESPACE small")
    store = shared_store(url)
    filler = small_disk / "filler"
    with suppress(OSError):
        filler.write_bytes(bytes(9_000_000))
    incompressible = random.Random(1).randbytes(1_000_000).hex()
    request = append_history("cli", 1, (said(incompressible),))
    with pytest.raises(Unwritable) as error:
        store.run([request, append_history("cli", 1, (said("small"),))])
    assert error.value.trouble == "full"
    assert texts(store, "cli") == [], "a batch is stored as a whole or not at all"
    filler.unlink()
    store.run([request])
    assert [len(text) for text in texts(store, "cli")] == [2_000_000]
    store.close()
    postgres.drop(url)
    postgres.execute("DROP TABLESPACE small")


HOLD = """
import sys
from rumi.store.postgres import Postgres, server_of
db = Postgres(server_of(sys.argv[1]))
db.execute("BEGIN")
db.execute("SELECT * FROM partitions ORDER BY number FOR UPDATE").fetchall()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.long
def test_a_worker_that_is_stopped_in_a_transaction_blocks_others_only_for_a_while(url: str) -> None:
    store = shared_store(url)
    stopped = subprocess.Popen(
        [sys.executable, "-c", HOLD, url], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert stopped.stdout is not None
        assert stopped.stdout.readline() == "ready\n"
        os.kill(stopped.pid, signal.SIGSTOP)
        request = append_history("cli", 1, (said("in the end"),))
        for _ in range(3):
            try:
                store.run([request])
                break
            except Unwritable:  # it waited for as long as a lock may be waited for
                continue
        assert texts(store, "cli") == ["in the end"]
    finally:
        stopped.kill()
        stopped.communicate()
    assert store.run([knows_chat("cli")]) == [False]
    store.close()
