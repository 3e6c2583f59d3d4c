"""Runs async code where time is virtual: waiting takes none, and a hang fails at once."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import trio
import trio.testing

T = TypeVar("T")

FOREVER_S = 1e9


def run(fn: Callable[[], Awaitable[T]], *, instruments: Sequence[trio.abc.Instrument] = ()) -> T:
    """`trio.run`, with a clock that jumps to the next deadline when every task waits.

    The last deadline is this function's own: then everything is cancelled, what is shielded too, and
    TooSlowError says so.
    """

    async def bounded() -> T:
        trio.lowlevel.spawn_system_task(break_shields_in_the_end)
        with trio.fail_after(FOREVER_S):
            return await fn()

    return trio.run(bounded, clock=trio.testing.MockClock(autojump_threshold=0), instruments=instruments)


async def break_shields_in_the_end() -> None:
    """A test may not hang, so the watchdog reaches into trio for what no program should do."""
    await trio.sleep(FOREVER_S * 2)
    tasks = [trio.lowlevel.current_root_task()]
    while tasks:
        task = tasks.pop()
        assert task is not None
        status = task._cancel_status
        while status is not None:
            status._scope.shield = False
            status = status.parent
        for nursery in task.child_nurseries:
            tasks.extend(nursery.child_tasks)
