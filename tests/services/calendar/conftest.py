"""What the tests of calendars share: one server for each module."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.radicale import Radicale, radicale


@pytest.fixture(scope="module")
def server() -> Iterator[Radicale]:
    folder = Path(tempfile.mkdtemp(prefix="rumi-radicale-"))
    with radicale(folder) as running:
        yield running
    shutil.rmtree(folder)
