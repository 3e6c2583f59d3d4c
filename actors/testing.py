"""Runs async code where time is virtual: waiting takes none, and a hang fails at once."""

import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import trio
import trio.testing
from trio._core._run import GLOBAL_RUN_CONTEXT

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

    return trio.run(bounded, clock=virtual_clock(), instruments=instruments)


def virtual_clock() -> trio.testing.MockClock:
    """A clock that jumps. It is asked some thousand times a second, so it only looks its time up."""
    clock = trio.testing.MockClock(autojump_threshold=0)
    clock.current_time = lambda: clock._virtual_base  # type: ignore[method-assign]
    clock._autojump = partial(_jump, clock)  # type: ignore[method-assign]
    return clock


def _jump(clock: trio.testing.MockClock) -> None:
    """To the next deadline, without the other figures that trio would gather for that."""
    seconds = GLOBAL_RUN_CONTEXT.runner.deadlines.next_deadline() - clock._virtual_base
    if 0 < seconds < math.inf:
        clock.jump(seconds)


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
