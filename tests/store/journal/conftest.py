"""The stores that these tests share: a SQLite file, and a PostgreSQL database of several workers."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import psycopg
import pytest

from rumi.store.backend import PostgresServer
from rumi.store.journal.leases import claim_partitions, join_cluster
from rumi.store.journal.schema import ON_A_SERVER
from rumi.store.journal.store import Store
from rumi.store.ownership import Ownership
from tests.postgres import Server

Opening: TypeAlias = Callable[[Callable[[], float]], Store]


@pytest.fixture(scope="module")
def database(postgres: Server, empty_database: str) -> Iterator[str]:
    url = postgres.copy_of(empty_database)
    yield url
    postgres.drop(url)


@pytest.fixture(params=["sqlite", "postgres"])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opening]:
    """Open a journal that is empty the first time, with a clock; the next time by another process."""
    opened: list[Store] = []
    url = "" if request.param == "sqlite" else request.getfixturevalue("database")
    if url:
        with psycopg.connect(url, autocommit=True) as db:
            sql = "SELECT string_agg(tablename, ', ') FROM pg_tables WHERE tablename != 'schema_versions'"
            names = db.execute(f"{sql} AND schemaname = 'public'").fetchone()
            db.execute(f"TRUNCATE {(names or [''])[0]} RESTART IDENTITY".encode())

    def open_(now: Callable[[], float]) -> Store:
        if not url:
            store = Store(tmp_path / "state.db", now)
        else:
            with psycopg.connect(url, autocommit=True) as db:
                db.execute("UPDATE workers SET until = 0")
            store = shared_store(url, f"w{len(opened)}", now)
        opened.append(store)
        return store

    yield open_
    for store in opened:
        store.close()


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "sqlite":
        opened = Store(tmp_path / "state.db")
        yield opened
        opened.close()
        return
    postgres: Server = request.getfixturevalue("postgres")
    url = postgres.copy_of(request.getfixturevalue("empty_database"))
    opened = shared_store(url)
    yield opened
    opened.close()
    postgres.drop(url)


def shared_store(url: str, worker: str = "w1", now: Callable[[], float] = time.time) -> Store:
    """Return the store of a worker that serves all chats that no other one serves."""
    ownership = Ownership(worker)
    opened = Store(PostgresServer(url, ON_A_SERVER), now, ownership)
    _, claimed = opened.run([join_cluster(worker, "1", "", 600.0), claim_partitions(worker, 256)])
    ownership.set({claimed_partition.number: claimed_partition.fence for claimed_partition in claimed})  # type: ignore[attr-defined]
    return opened
