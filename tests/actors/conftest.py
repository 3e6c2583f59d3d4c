"""Time is virtual for all of these tests: they take none, and a hang fails at once."""

import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from actors import testing

HERE = Path(__file__).parent


def run_in_virtual_time(fn: Callable[[], Awaitable[Any]], *, clock: object, instruments: Any) -> Any:
    """What pytest-trio calls for each test instead of `trio.run`."""
    assert clock is None, "these tests have a clock already"
    return testing.run(fn, instruments=instruments)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE) and inspect.iscoroutinefunction(getattr(item, "function", None)):
            item.add_marker(pytest.mark.trio(run=run_in_virtual_time), append=False)
