"""A supervisor of keyed children, which it starts on demand and stops when they are idle."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import trio
from typing_extensions import override

from actors.base_supervisor import BaseSupervisor
from actors.cell import Cell
from actors.errors import ActorStopped, AskedItself, RestartLimitExceeded, TooManyChildren
from actors.idle import IdleWatch
from actors.intensity import RestartIntensity
from actors.node import Node, Phase, logger
from actors.ref import ActorRef
from actors.spec import ChildSpec
from actors.status import NodeStatus, StopReason, TreeEvent

M = TypeVar("M")


class KeyedCell(Cell[M]):
    """The node of a keyed child: its key, its restart budget, and the event that signals its start."""

    __slots__ = ("_forget", "intensity", "key", "look_at", "quiet_from", "settled")

    def __init__(self, spec: ChildSpec[M], key: str, forget: Callable[[KeyedCell[M]], None]) -> None:
        super().__init__(spec)
        self.key = key
        self.intensity: RestartIntensity | None = None
        self.settled: trio.Event | None = trio.Event()  # until its first start has succeeded or failed
        self.look_at: float | None = None  # time of the next idle check
        self.quiet_from = 0.0  # time of the last idle check that found it busy
        self._forget = forget

    def _finalise(self, reason: StopReason) -> None:
        super()._finalise(reason)
        self._forget(self)


class DynamicSupervisor(BaseSupervisor, Generic[M]):
    """Supervisor that runs one child per key, started from `spec_for(key)` when it is first needed.

    Each child has its own restart budget (`max_restarts` within `within` seconds), so that crashes of one
    child never affect another child. A child that exceeds its budget stops for good, which frees its key;
    then the supervisor calls `on_limit(key, error)`, which must not wait. When a child has stopped, the
    supervisor retains only the number of its dead letters.
    """

    def __init__(
        self,
        id: str,
        spec_for: Callable[[str], ChildSpec[M]],
        *,
        max_children: int | None = None,
        on_limit: Callable[[str, RestartLimitExceeded], object] | None = None,
        max_restarts: int = 3,
        within: float = 5.0,
        observe: Callable[[TreeEvent], None] | None = None,
    ) -> None:
        super().__init__(id, max_restarts=max_restarts, within=within, observe=observe)
        self.max_children = max_children
        self._spec_for = spec_for
        self._on_limit = on_limit
        self._cells: dict[str, KeyedCell[M]] = {}
        self._idle_watch = IdleWatch()
        self._dead_letters = 0

    def lookup(self, key: str) -> ActorRef[M] | None:
        """Return the reference of a child that is up or between two incarnations, otherwise None."""
        cell = self._cells.get(key)
        return cell.ref if cell is not None and cell.settled is None and not cell.over else None

    async def get_or_start(self, key: str) -> ActorRef[M]:
        """Return the reference of this key's child, and start the child if there is none.

        A key never has two children at once: callers that come while the child starts wait for the same
        start, and all get its error if it fails; callers that come while it stops wait for its end and then
        start a new one. A `tell` or `ask` directly after this call reaches the child before it can go idle.
        While the supervisor is not up yet, or restarts, the call waits. If the call is cancelled, the start
        continues. The call is always a checkpoint.

        Raises:
            TooManyChildren: The supervisor already has `max_children` children.
            ActorStopped: This supervisor has stopped.
            AskedItself: The child's own handler or hook calls this while that child starts or stops.
            Exception: The error of the failed start, unchanged.
        """
        await trio.lowlevel.checkpoint()
        while True:
            if self.over:
                raise ActorStopped(self.path, "the supervisor has stopped")
            if self._nursery is None or self._ending:
                await self._until(lambda: (self._nursery is not None and not self._ending) or self.over)
                continue
            # No checkpoint between this look-up and the reservation, or two callers would start two children.
            cell = self._cells.get(key)
            if cell is None:
                cell = self._reserve(key)
                cell._begin(self._nursery)
            elif cell.settled is None and not cell.over:
                return cell.ref
            if cell.runs_this_task():
                raise AskedItself(cell.path)
            if cell.settled is not None:
                await cell.settled.wait()
                if cell._start_error is not None:
                    raise cell._start_error
            else:
                await cell.wait_stopped()

    def _reserve(self, key: str) -> KeyedCell[M]:
        if self.max_children is not None and len(self._cells) >= self.max_children:
            raise TooManyChildren(self.path, self.max_children)
        cell = KeyedCell(self._spec_for(key), key, self._forget)
        cell._parent = self
        self._cells[key] = cell
        return cell

    async def stop(self, key: str) -> None:
        """Stop this key's child for good and wait for its end; do nothing if there is none.

        Raises:
            AskedItself: The child's own handler calls this; use `Actor.stop` there.
        """
        await trio.lowlevel.checkpoint()
        cell = self._cells.get(key)
        if cell is None:
            return
        if cell.runs_this_task():
            raise AskedItself(cell.path)
        cell._request_stop(final=True)
        await cell.wait_stopped()

    async def _bring_up(self) -> None:
        """Start all suspended children at once, without waiting for their starts."""
        assert self._nursery is not None
        self._nursery.start_soon(self._idle_watch.run, self._look, name=f"{self.id}: idle watch")
        for cell in list(self._cells.values()):
            cell._begin(self._nursery)

    async def _watch(self) -> None:
        await self._until(lambda: self._ending)

    async def _bring_down(self) -> None:
        assert self._nursery is not None
        final = self.over or self._parent is None
        for cell in list(self._cells.values()):
            # A child whose first start is interrupted stops for good: the callers of get_or_start that wait
            # for it then start a new one as soon as this supervisor is up again.
            never_up = cell.settled is not None
            cell._request_stop(final=final or never_up or cell.spec.restart == "temporary")
        await self._until(lambda: all(cell.down for cell in self._cells.values()))
        self._nursery.cancel_scope.cancel()  # ends the idle watch, the only task left

    def _count_restart(self, child: Node, now: float) -> bool:
        assert isinstance(child, KeyedCell)
        if child.intensity is None:
            child.intensity = RestartIntensity(self.max_restarts, self.within)
        return child.intensity.allow(now)

    def _limit_reached(self, child: Node, cause: BaseException | None) -> None:
        """Stop this child for good and call `on_limit`; the other children keep running."""
        assert isinstance(child, KeyedCell)
        error = RestartLimitExceeded(child.path, self.max_restarts, self.within, cause)
        child._finalise("crashed")  # before on_limit, which may start a successor for the freed key
        self._emit(TreeEvent("limit_reached", child.path, child.incarnation, error))
        if self._on_limit is not None:
            try:
                self._on_limit(child.key, error)
            except Exception:  # noqa: BLE001  # a faulty callback must not crash the supervisor and all children
                logger.exception("%s: on_limit(%r) raised", self.path, child.key)

    def _delay(self, child: Node, delay_s: float) -> float | None:
        return delay_s

    def _changed(self, child: Node) -> None:
        """Handle the start of a child, or the end of its task."""
        assert isinstance(child, KeyedCell)
        # Before the starters are woken: the key must be free, because they may try again at once.
        if child.down and child._start_error is not None:
            child._finalise("crashed")
        if child.phase is Phase.RUNNING and child.spec.idle_s is not None and child.look_at is None:
            child.look_at = trio.current_time() + child.spec.idle_s
            self._idle_watch.add(child.key, child.look_at)
        if child.settled is not None:
            child.settled.set()
            child.settled = None
        if self._ending:
            self._wake()

    def _finalise(self, reason: StopReason) -> None:
        for cell in list(self._cells.values()):
            cell._request_stop(final=True)  # suspended children too: nothing will start them again
        super()._finalise(reason)

    def _forget(self, child: KeyedCell[M]) -> None:
        # Compared by identity: the key may belong to a successor already.
        if self._cells.get(child.key) is child:
            del self._cells[child.key]
            self._dead_letters += child.mailbox.dead_letters

    def _look(self, key: str, at: float) -> float | None:
        """Stop the child if it has been idle for `idle_s`; otherwise return the time of the next check.

        Return None if no other check is needed: this check is outdated, or the child is being stopped.
        """
        cell = self._cells.get(key)
        if cell is None or cell.look_at != at or cell.spec.idle_s is None:
            return None
        if cell.stopping or cell.down:
            cell.look_at = None  # if it is only suspended, its next incarnation schedules a new check
            return None
        now = trio.current_time()
        idle_s = cell.spec.idle_s
        if not cell.is_idle():
            # busy() work can end without a message, so its end is only known from these checks. Four checks
            # per idle_s bound the error: going idle takes at most a quarter longer.
            cell.quiet_from = now
            cell.look_at = now + idle_s / 4
        else:
            due = max(cell.quiet_from, cell.idle_since) + idle_s
            if due <= now:
                cell._go_idle()
                return None
            cell.look_at = due
        return cell.look_at

    def keys(self) -> tuple[str, ...]:
        """Return the keys that have a child, in any state."""
        return tuple(self._cells)

    def children(self) -> Iterable[Node]:
        """Return the keyed children, in the order in which they were first started."""
        return self._cells.values()

    @override
    def status(self) -> NodeStatus:
        return self._status("dynamic_supervisor", self._dead_letters)
