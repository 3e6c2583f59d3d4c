"""Test support for actors: virtual time, a test tree, and crashes and cancellations at chosen moments.

`run` is `trio.run` in virtual time: waiting takes no real time, and a test that hangs fails at once. `Tree`
is a supervisor that records its events. `crash` makes an actor crash as if its own code had raised.
`cancelled_at` cancels work at a chosen step: call it with 0, 1, 2 and so on until the work completes, to try
a cancellation at every step. `crashes_until_the_end` computes from a tree's restart limits how many crashes
of an actor end the tree.
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
    """Run as `trio.run` does, with a clock that jumps to the next deadline when all tasks wait.

    If `fn` still runs after `FOREVER_S` of virtual time, it is cancelled; after twice that time, its shielded
    scopes are cancelled too.

    Raises:
        TooSlowError: `fn` hangs.
    """

    async def bounded() -> T:
        trio.lowlevel.spawn_system_task(_break_shields_in_the_end)
        with trio.fail_after(FOREVER_S):
            return await fn()

    return trio.run(bounded, clock=virtual_clock(), instruments=instruments)


def virtual_clock() -> trio.testing.MockClock:
    """Return a clock that jumps to the next deadline; reading it is fast, because trio does so very often."""
    clock = trio.testing.MockClock(autojump_threshold=0)
    clock.current_time = lambda: clock._virtual_base  # type: ignore[method-assign]
    clock._autojump = partial(_jump, clock)  # type: ignore[method-assign]
    return clock


def _jump(clock: trio.testing.MockClock) -> None:
    """Jump to the next deadline. MockClock's own method is slower: it gathers all of trio's statistics."""
    seconds = GLOBAL_RUN_CONTEXT.runner.deadlines.next_deadline() - clock._virtual_base
    if 0 < seconds < math.inf:
        clock.jump(seconds)


async def _break_shields_in_the_end() -> None:
    """Remove all shields after twice the limit, so that no test hangs. Never do this in a program."""
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
    """A supervisor for tests that records all events of its tree."""

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
        """Run the tree while the block runs; raise TooSlowError if it takes longer than `within_s`."""
        with trio.fail_after(within_s):
            async with self.root.running():
                yield

    def node(self, *path: str) -> NodeStatus:
        """Return the status of a node; `path` holds the ids below the root."""
        return node(self.root, *path)

    def paths_of(self, kind: str) -> list[str]:
        """Return the node paths of the recorded events of this kind, in order."""
        return [event.path for event in self.events if event.kind == kind]


def node(root: Supervisor | DynamicSupervisor[Any], *path: str) -> NodeStatus:
    """Return the status of the node whose ids below `root` are `path`. Raise LookupError if there is none."""
    found = root.status()
    for id in path:
        children = {child.id: child for child in found.children}
        if id not in children:
            raise LookupError(f"{found.id} has no child {id}")
        found = children[id]
    return found


def crashes_until_the_end(root: Supervisor) -> dict[str, int | None]:
    """Return, by path, the number of crashes of each static actor after which `root` gives up.

    The number is the product of (`max_restarts` + 1) of all supervisors above the actor. It is None if the
    root never gives up, because the actor's backoff spreads the restarts over more than `within` seconds.
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
    """The default error of `crash`."""


def crash(ref: ActorRef[Any], error: Exception | None = None) -> None:
    """Make the actor crash now: the current message is dropped, and its asker gets ActorCrashed with `error`.

    Return at once; the actor's tasks end later.

    Raises:
        RuntimeError: No incarnation of the actor is up.
    """
    node = ref._node
    if not isinstance(node, Cell) or not node.crash(error or Injected("a test's")):
        raise RuntimeError(f"{ref.path} is not up")


class _CancelAtStep(trio.abc.Instrument):
    """Trio instrument that cancels a scope directly before the given step of a task."""

    def __init__(self, task: trio.lowlevel.Task, scope: trio.CancelScope, step: int) -> None:
        self._task, self._scope, self._left = task, scope, step

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self._left -= 1
            if self._left == 0:
                self._scope.cancel()


async def cancelled_at(step: int, work: Callable[[], Awaitable[object]]) -> bool:
    """Run the work and cancel it after `step` steps of its task; return True if it completed."""
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
