"""The store that these tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rumi.journal.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "state.db")
    yield opened
    opened.close()
