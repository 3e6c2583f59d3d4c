"""For tests of actors: virtual time, a tree in a test, crashes and cancellations at chosen moments.

`run` is `trio.run` where waiting takes no time and a hang fails at once. `Tree` is a supervisor that writes
down what happens in it. `crash` makes an actor crash as if its own code had raised. `cancelled_at` cancels
work before a chosen step: called with 0, 1, 2 and so on until the work comes to its end, it tries every
moment there is. `crashes_until_the_end` multiplies the restart limits of a tree.
"""

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import trio
import trio.testing
from trio._core._run import GLOBAL_RUN_CONTEXT, CancelStatus

from actors.cell import Cell
from actors.dynamic import DynamicSupervisor
from actors.ref import ActorRef
from actors.spec import ChildSpec
from actors.status import NodeStatus, TreeEvent
from actors.supervisor import Strategy, Supervisor

M = TypeVar("M")
T = TypeVar("T")

FOREVER_S = 1e9


def run(fn: Callable[[], Awaitable[T]], *, instruments: Sequence[trio.abc.Instrument] = ()) -> T:
    """Run as `trio.run` does, with a clock that jumps to the next deadline when every task waits.

    The last deadline is this function's own: then everything is cancelled, what is shielded too, and
    TooSlowError says so.
    """

    async def bounded() -> T:
        trio.lowlevel.spawn_system_task(_break_shields_in_the_end)
        with trio.fail_after(FOREVER_S):
            return await fn()

    return trio.run(bounded, clock=virtual_clock(), instruments=instruments)


def virtual_clock() -> trio.testing.MockClock:
    """Return a clock that jumps. It is asked some thousand times a second, so it only looks its time up."""
    clock = trio.testing.MockClock(autojump_threshold=0)
    clock.current_time = lambda: clock._virtual_base  # type: ignore[method-assign]
    clock._autojump = partial(_jump, clock)  # type: ignore[method-assign]
    return clock


def _jump(clock: trio.testing.MockClock) -> None:
    """To the next deadline, without the other figures that trio would gather for that."""
    seconds = GLOBAL_RUN_CONTEXT.runner.deadlines.next_deadline() - clock._virtual_base
    if 0 < seconds < math.inf:
        clock.jump(seconds)


async def _break_shields_in_the_end() -> None:
    """Remove all shields when the time is over, so that no test hangs. No program should do this."""
    await trio.sleep(FOREVER_S * 2)
    tasks = [trio.lowlevel.current_root_task()]
    while tasks:
        task = tasks.pop()
        assert task is not None
        status: CancelStatus | None = task._cancel_status
        while status is not None:
            status._scope.shield = False
            status = status.parent
        for nursery in task.child_nurseries:
            tasks.extend(nursery.child_tasks)


class Tree:
    """A tree of a test: what it holds, how it runs, and what has happened in it."""

    def __init__(
        self, *, strategy: Strategy = "one_for_one", max_restarts: int = 3, within: float = 5.0
    ) -> None:
        self.events: list[TreeEvent] = []
        """All events of the tree, in order."""
        self.root = Supervisor(
            "root",
            strategy=strategy,
            max_restarts=max_restarts,
            within=within,
            observe=self.events.append,
        )

    def add(self, spec: ChildSpec[M]) -> ActorRef[M]:
        """Add an actor below the root, before the tree runs."""
        return self.root.add(spec)

    @asynccontextmanager
    async def up(self, within_s: float = 1e6) -> AsyncGenerator[None, None]:
        """Run the tree as long as the block. One that hangs raises TooSlowError, at once in virtual time."""
        with trio.fail_after(within_s):
            async with self.root.running():
                yield

    def node(self, *path: str) -> NodeStatus:
        """Return a node's status, by ids below the root."""
        return node(self.root, *path)

    def paths_of(self, kind: str) -> list[str]:
        """Return the paths of the events of this kind, in order."""
        return [event.path for event in self.events if event.kind == kind]


def node(root: Supervisor | DynamicSupervisor[Any], *path: str) -> NodeStatus:
    """Return the status of a node below `root`, by ids. Raises LookupError if there is none."""
    found = root.status()
    for id in path:
        children = {child.id: child for child in found.children}
        if id not in children:
            raise LookupError(f"{found.id} has no child {id}")
        found = children[id]
    return found


def crashes_until_the_end(root: Supervisor) -> dict[str, int | None]:
    """Return how often each actor that is known beforehand may crash before `root` gives up, by its path.

    That is the product, over the supervisors above it, of one more than their `max_restarts`. None where it
    never comes to that, because the actor's backoff spreads its restarts over more time than is counted.
    Crashes of keyed children never reach the root.
    """
    found: dict[str, int | None] = {}
    for child in root.children():
        if isinstance(child, Supervisor):
            for path, crashes in crashes_until_the_end(child).items():
                found[path] = None if crashes is None else crashes * (root.max_restarts + 1)
        elif isinstance(child, Cell):
            backoff, most = child.spec.backoff, root.max_restarts
            spread = backoff is not None and sum(map(backoff.delay_s, range(most))) > root.within
            found[child.path] = None if spread else most + 1
    return found


class Injected(Exception):
    """What `crash` makes an actor crash with, unless told otherwise."""


def crash(ref: ActorRef[Any], error: Exception | None = None) -> None:
    """Make the actor crash now: the message in hand is dropped, its asker gets ActorCrashed with `error`.

    Returns at once; the actor's tasks end behind that. Raises RuntimeError where no incarnation is up.
    """
    node = ref._node
    if not isinstance(node, Cell) or not node.crash(error or Injected("a test's")):
        raise RuntimeError(f"{ref.path} is not up")


class _CancelAtStep(trio.abc.Instrument):
    """Cancels a scope right before the given step of a task."""

    def __init__(self, task: trio.lowlevel.Task, scope: trio.CancelScope, step: int) -> None:
        self._task, self._scope, self._left = task, scope, step

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self._left -= 1
            if self._left == 0:
                self._scope.cancel()


async def cancelled_at(step: int, work: Callable[[], Awaitable[object]]) -> bool:
    """Do the work, and cancel it after that many steps of its task; returns whether it came to its end."""
    done = False
    scope = trio.CancelScope()

    async def do() -> None:
        nonlocal done
        instrument = _CancelAtStep(trio.lowlevel.current_task(), scope, step)
        if step == 0:
            scope.cancel()
        trio.lowlevel.add_instrument(instrument)
        try:
            with scope:
                await work()
                done = True
        finally:
            trio.lowlevel.remove_instrument(instrument)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(do)
    return done
