"""Time is virtual for all of these tests: they take none, and a hang fails at once."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

HERE = Path(__file__).parent


def run_in_virtual_time(fn: Callable[[], Awaitable[Any]], *, clock: object, instruments: Any) -> Any:
    """When all tasks wait for nothing but time, the next deadline is now; at last this one."""
    assert clock is None, "these tests have a clock already"

    async def bounded() -> Any:
        with trio.fail_after(1e8):
            return await fn()

    return trio.run(bounded, clock=trio.testing.MockClock(autojump_threshold=0), instruments=instruments)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.trio(run=run_in_virtual_time), append=False)
