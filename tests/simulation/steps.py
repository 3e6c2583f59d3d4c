"""trio's own steps at less cost: a history takes some thousand of them, and does little else.

Nothing changes in what happens, and in which order; each of these does exactly what it stands for.
"""

from collections.abc import Iterator, MutableSequence, Sequence
from contextlib import contextmanager
from itertools import count
from math import inf
from random import Random
from typing import Any
from unittest.mock import patch

import trio
from trio._core import _io_epoll, _run

LOOK_STEPS = 64


def seldom_asked() -> Any:
    """In place of trio's look at the kernel in each step: only the run's own end comes from there."""
    look = _io_epoll.EpollIOManager.get_events
    steps = count()

    def get_events(manager: Any, timeout: float) -> Sequence[object]:
        return look(manager, 0) if next(steps) % LOOK_STEPS == 0 else ()

    return get_events


class Order(Random):
    """Shuffles the tasks of a step. Most steps have one task, for which nothing is drawn."""

    def shuffle(self, x: MutableSequence[Any]) -> None:
        """Nothing to be done for one."""
        if len(x) > 1:
            super().shuffle(x)


class Uninstrumented(dict[str, Any]):
    """In place of the instruments, of which there are none: a `dict` is asked faster than a `UserDict`."""

    def __init__(self, incoming: Sequence[trio.abc.Instrument]) -> None:
        super().__init__()
        assert not incoming


class Deadline:
    """In place of the context manager in which a cancel scope's deadline may change, a generator."""

    __slots__ = ("_scope",)

    def __init__(self, scope: Any) -> None:
        self._scope = scope

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        scope = self._scope
        old = scope._registered_deadline
        new = inf if scope._cancel_status is None or scope._cancel_called else scope._deadline
        if old != new:
            scope._registered_deadline = new
            deadlines = _run.GLOBAL_RUN_CONTEXT.runner.deadlines
            if old != inf:
                deadlines.remove(old, scope)
            if new != inf:
                deadlines.add(new, scope)


@contextmanager
def cheap_steps(seed: int) -> Iterator[None]:
    """Tasks run in an order that the seed gives, the same ones at the same times whenever it is played."""
    with (
        patch.object(_run, "_ALLOW_DETERMINISTIC_SCHEDULING", True),
        patch.object(_run, "_r", Order(seed)),
        patch.object(_run, "Instruments", Uninstrumented),
        patch.object(_run.CancelScope, "_might_change_registered_deadline", lambda scope: Deadline(scope)),
        patch.object(_io_epoll.EpollIOManager, "get_events", seldom_asked()),
    ):
        yield
