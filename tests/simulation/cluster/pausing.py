"""Workers that are paused as a signal does it: nothing of one runs, and when it goes on, its timers are over.

Each task of a worker has the worker's gate in its context. What becomes ready to run while the gate is closed
waits at it, in order.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from unittest.mock import patch

import trio
from trio._core import _run

GATE: ContextVar["Gate | None"] = ContextVar("gate", default=None)


class Gate:
    """Where the tasks of a worker pass whenever they are to run."""

    def __init__(self) -> None:
        self.closed = False
        self.held: list[trio.lowlevel.Task] = []

    def close(self) -> None:
        """Let nothing pass."""
        self.closed = True

    def open(self) -> None:
        """Let pass what waits."""
        self.closed = False
        _run.GLOBAL_RUN_CONTEXT.runner.runq.extend(self.held)
        self.held.clear()


@contextmanager
def gates() -> Iterator[None]:
    """Have the scheduler look at the gates."""
    reschedule: Callable[..., None] = _run.Runner.reschedule

    def gated(runner: Any, task: trio.lowlevel.Task, *outcome: Any) -> None:
        reschedule(runner, task, *outcome)
        gate = task.context.get(GATE)
        if gate is not None and gate.closed:
            gate.held.append(runner.runq.pop())

    with patch.object(_run.Runner, "reschedule", gated):
        yield
