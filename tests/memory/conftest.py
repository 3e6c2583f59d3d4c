"""Where the memory of these tests is: a SQLite file, and a PostgreSQL database."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from rumi.store.backend import Backend, PostgresServer
from tests.postgres import Server


@pytest.fixture(scope="module")
def database(postgres: Server, empty_database: str) -> Iterator[str]:
    url = postgres.copy_of(empty_database)
    yield url
    postgres.drop(url)


@pytest.fixture(params=["sqlite", "postgres"])
def database_at(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path | Backend]:
    if request.param == "sqlite":
        yield tmp_path / "memory.db"
        return
    url = request.getfixturevalue("database")
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("TRUNCATE facts, past, learned, forgotten, shared, changes RESTART IDENTITY")
    yield PostgresServer(url)
