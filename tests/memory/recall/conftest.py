"""A PostgreSQL database with empty tables, for one test."""

from collections.abc import Iterator

import pytest

from tests.postgres import Server


@pytest.fixture
def url(postgres: Server, request: pytest.FixtureRequest) -> Iterator[str]:
    url = postgres.copy_of(request.getfixturevalue("empty_database"))
    yield url
    postgres.drop(url)
