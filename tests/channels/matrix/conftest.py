"""A real homeserver for the tests of this folder, started once; each test has users and rooms of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.conftest import REQUIRED
from tests.matrix_server import Homeserver, homeserver, missing


@pytest.fixture(scope="session")
def server() -> Iterator[Homeserver]:
    if why := missing():
        assert "matrix" not in REQUIRED, why
        pytest.skip(why)
    with homeserver() as running:
        yield running


@pytest.fixture
def bubblewrap(tmp_path: Path) -> Iterator[Program]:
    program = Program(tmp_path / "home", {"RUMI_SANDBOX__BACKEND": "bubblewrap"})
    yield program
    program.end()
