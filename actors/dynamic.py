"""A supervisor of children that come by key and go when they have nothing to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import trio

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
    """A cell with a key, a restart budget of its own, and what its starters wait for."""

    __slots__ = ("_forget", "intensity", "key", "look_at", "quiet_from", "settled")

    def __init__(self, spec: ChildSpec[M], key: str, forget: Callable[[KeyedCell[M]], None]) -> None:
        super().__init__(spec)
        self.key = key
        self.intensity: RestartIntensity | None = None
        self.settled: trio.Event | None = trio.Event()  # until its first start has come out
        self.look_at: float | None = None  # when the idle watch looks next
        self.quiet_from = 0.0  # when it was last seen with work in hand
        self._forget = forget

    def _finalise(self, reason: StopReason) -> None:
        super()._finalise(reason)
        self._forget(self)


class DynamicSupervisor(BaseSupervisor, Generic[M]):
    """One child for each key, made by `spec_for(key)` when it is first needed.

    Restarts are counted for each child by itself (`max_restarts` within `within` seconds), so that no
    crash of one touches another. A child that reaches its limit stops for good; then `on_limit(key, error)`
    is called, when the key is free already. It must not wait. A child that has stopped for good leaves no
    trace but counted dead letters.
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
        """Return the reference of a child that is up (or between two incarnations), otherwise None."""
        cell = self._cells.get(key)
        return cell.ref if cell is not None and cell.settled is None and not cell.over else None

    async def get_or_start(self, key: str) -> ActorRef[M]:
        """Return the child of this key, started if there is none. A checkpoint.

        No two are ever started for one key: all who come while it starts wait for the same start, and get
        the same error when that fails; who comes while it stops waits for its end first. A `tell` or `ask`
        right behind this reaches the child before it can go idle. Cancelled: the start goes on without you.

        Raises what the start raised, TooManyChildren, and ActorStopped when this supervisor has stopped.
        While the supervisor itself is not up yet, or restarts, this waits.
        """
        await trio.lowlevel.checkpoint()
        while True:
            if self.over:
                raise ActorStopped(self.path, "the supervisor has stopped")
            if self._nursery is None or self._ending:
                await self._until(lambda: (self._nursery is not None and not self._ending) or self.over)
                continue
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
        """Stop this key's child for good and wait for its end; nothing happens where there is none.

        Raises AskedItself when the child's own handler calls it: that is what `Actor.stop` is for.
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
        """Begin what was suspended, all at once; nobody waits for it."""
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
            never_up = cell.settled is not None
            cell._request_stop(final=final or never_up or cell.spec.restart == "temporary")
        await self._until(lambda: all(cell.down for cell in self._cells.values()))
        self._nursery.cancel_scope.cancel()

    def _count_restart(self, child: Node, now: float) -> bool:
        assert isinstance(child, KeyedCell)
        if child.intensity is None:
            child.intensity = RestartIntensity(self.max_restarts, self.within)
        return child.intensity.allow(now)

    def _limit_reached(self, child: Node, cause: BaseException | None) -> None:
        """That child is over, nobody else is."""
        assert isinstance(child, KeyedCell)
        error = RestartLimitExceeded(child.path, self.max_restarts, self.within, cause)
        child._finalise("crashed")
        self._emit(TreeEvent("limit_reached", child.path, child.incarnation, error))
        if self._on_limit is not None:
            try:
                self._on_limit(child.key, error)
            except Exception:  # noqa: BLE001  # one child's end must not become everybody's
                logger.exception("%s: on_limit(%r) raised", self.path, child.key)

    def _delay(self, child: Node, delay_s: float) -> float | None:
        return delay_s

    def _changed(self, child: Node) -> None:
        """Came up, or its task ended."""
        assert isinstance(child, KeyedCell)
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
            cell._request_stop(final=True)  # suspended ones; nobody begins them again
        super()._finalise(reason)

    def _forget(self, child: KeyedCell[M]) -> None:
        if self._cells.get(child.key) is child:
            del self._cells[child.key]
            self._dead_letters += child.mailbox.dead_letters

    def _look(self, key: str, at: float) -> float | None:
        """Close the child if it has been idle for `idle_s`; otherwise say when to look again."""
        cell = self._cells.get(key)
        if cell is None or cell.look_at != at or cell.spec.idle_s is None:
            return None
        if cell.stopping or cell.down:
            cell.look_at = None  # where that is a suspension, the next incarnation asks for a look of its own
            return None
        now = trio.current_time()
        idle_s = cell.spec.idle_s
        if not cell.is_idle():
            # Busy work ends without a message, so all that is known later is when it was seen last.
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
        """Return the keys that have a child, whatever its state."""
        return tuple(self._cells)

    def children(self) -> Iterable[Node]:
        """Return the nodes below, in the order in which their keys came."""
        return self._cells.values()

    def status(self) -> NodeStatus:
        """This node and all below it, now."""
        return self._status("dynamic_supervisor", self._dead_letters)
