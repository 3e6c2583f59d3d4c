"""Where the memory of these tests is: a SQLite file, and a PostgreSQL database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rumi.store.backend import Backend, PostgresServer
from tests.postgres import Server


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path | Backend]:
    if request.param == "sqlite":
        yield tmp_path / "memory.db"
        return
    postgres: Server = request.getfixturevalue("postgres")
    url = postgres.copy_of(request.getfixturevalue("empty_database"))
    yield PostgresServer(url)
    postgres.drop(url)
