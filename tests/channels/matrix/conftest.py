"""A real homeserver for the tests of this folder, started once; each test has users and rooms of its own."""

from collections.abc import Iterator

import pytest

from tests.matrix_server import Homeserver, homeserver, missing


@pytest.fixture(scope="session")
def server() -> Iterator[Homeserver]:
    if why := missing():
        pytest.skip(why)
    with homeserver() as running:
        yield running
