"""A supervisor of a fixed set of children, added before it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, TypeVar

import trio
from typing_extensions import override

from actors.base_supervisor import BaseSupervisor
from actors.cell import Cell
from actors.errors import RestartLimitExceeded
from actors.intensity import RestartIntensity
from actors.node import Node, Phase
from actors.ref import ActorRef
from actors.spec import ChildSpec
from actors.status import NodeStatus, StopReason, TreeEvent

M = TypeVar("M")
B = TypeVar("B", bound=BaseSupervisor)

Strategy = Literal["one_for_one", "rest_for_one", "one_for_all"]


class Supervisor(BaseSupervisor):
    """Supervisor that starts its children in the order they were added and stops them in reverse order.

    When a child ends and has to be restarted, "one_for_one" restarts that child alone; "rest_for_one" stops
    the children after it in reverse order and restarts all of them in order; "one_for_all" does this with all
    children. Temporary children that are stopped this way are not started again. If one more restart would
    exceed `max_restarts` within `within` seconds, the supervisor stops all its children and fails with
    RestartLimitExceeded: its parent handles that as a crash of this supervisor, and a root raises the error
    from `running()`.

    If `isolates` is set, which needs "one_for_one", each child has a restart budget of its own. A child that
    would exceed it, or that cannot start, stops for good, and the others run on. So code that may not be
    trusted to work, such as a plugin's, can never end the tree by its crashes.

    The root calls `observe` with every event of the tree; `observe` must be quick and must not wait.
    """

    def __init__(
        self,
        id: str,
        *,
        strategy: Strategy = "one_for_one",
        max_restarts: int = 3,
        within: float = 5.0,
        observe: Callable[[TreeEvent], None] | None = None,
        isolates: bool = False,
    ) -> None:
        super().__init__(id, max_restarts=max_restarts, within=within, observe=observe)
        if isolates and strategy != "one_for_one":
            raise ValueError(f'{id}: only a supervisor with strategy "one_for_one" isolates its children')
        self.strategy = strategy
        self.isolates = isolates
        self._children: list[Node] = []
        self._intensity = RestartIntensity(max_restarts, within)
        self._budgets: dict[Node, RestartIntensity] = {}  # of each child, if this supervisor isolates them
        self._due: dict[Node, float] = {}  # ended children that require a group restart, with their delays

    def add(self, spec: ChildSpec[M]) -> ActorRef[M]:
        """Add an actor before the tree runs; return the actor's reference, which accepts messages at once.

        Messages are queued until the actor starts.

        Raises:
            ValueError: The id is already used, or the spec has `idle_s`.
            RuntimeError: The tree already runs.
        """
        if spec.idle_s is not None:
            raise ValueError(f"{spec.id}: idle_s is for keyed children; nobody would start this one again")
        cell = Cell(spec)
        self._adopt(cell)
        return cell.ref

    def add_supervisor(self, supervisor: B) -> B:
        """Add a nested supervisor before the tree runs; it is restarted like a permanent child.

        Raises:
            ValueError: The supervisor already has a parent, is this one, or its id is already used.
            RuntimeError: The tree already runs.
        """
        if supervisor._parent is not None or supervisor is self:
            raise ValueError(f"{supervisor.id} has a place in a tree already")
        self._adopt(supervisor)
        return supervisor

    def _adopt(self, child: Node) -> None:
        if self.phase is not Phase.NEW:
            raise RuntimeError(f"{self.path} runs already; children that come later are keyed children")
        if any(other.id == child.id for other in self._children):
            raise ValueError(f"{self.path} has a child {child.id} already")
        child._parent = self
        self._children.append(child)

    async def _bring_up(self) -> None:
        # A restarted supervisor starts with an unused budget: its parent has counted the restart already, and
        # restarts of the previous incarnation must not make the new one fail at its first crash.
        self._due.clear()
        self._budgets.clear()
        self._intensity = RestartIntensity(self.max_restarts, self.within)
        for child in self._children:
            child._renew()
        await self._start_missing()
        if self._due and not self._ending:
            await self._restart_groups()

    async def _start_missing(self) -> None:
        """Start the children that are down, in order; return early if one fails to start or a restart is due.

        Each child is up before the next one starts, so that later children can use the earlier children.
        """
        assert self._nursery is not None
        for child in self._children:
            if not child.down or child.over:
                continue
            child._begin(self._nursery)
            await self._until(lambda: child.state != "starting" or self._ending or bool(self._due))  # noqa: B023
            if child._start_error is not None:
                self._start_failed(child, child._start_error)
            if self._ending or self._due:
                return

    def _start_failed(self, child: Node, error: BaseException) -> None:
        if self.isolates and isinstance(error, Exception):
            child._finalise("crashed")
        else:
            self._fail(error)

    async def _watch(self) -> None:
        while not self._ending:
            if self._due:
                await self._restart_groups()
            else:
                await self._until(lambda: bool(self._due) or self._ending)

    async def _restart_groups(self) -> None:
        """Stop the children that depend on the children in `_due`, then start all children that are down.

        An incarnation that ends while this runs is added to `_due` and causes another round.
        """
        while self._due and not self._ending:
            first = 0
            if self.strategy == "rest_for_one":
                first = min(self._children.index(child) for child in self._due)
            delay_s = max(self._due.values())
            # Cleared before the first wait: everything that ends from here on belongs to the next round.
            self._due.clear()
            await self._stop_in_reverse(self._children[first:], final=False)
            if delay_s > 0 and not self._due and not self._ending:
                with trio.move_on_after(delay_s):
                    await self._until(lambda: bool(self._due) or self._ending)
            if not self._due and not self._ending:
                await self._start_missing()

    async def _stop_in_reverse(self, children: list[Node], *, final: bool) -> None:
        for child in reversed(children):
            child._request_stop(final=final or child._is_temporary)
            await self._until(lambda: child.down)  # noqa: B023

    async def _bring_down(self) -> None:
        await self._stop_in_reverse(self._children, final=self.over or self._parent is None)

    def _count_restart(self, child: Node, now: float) -> bool:
        if not self.isolates:
            return self._intensity.allow(now)
        if child not in self._budgets:
            self._budgets[child] = RestartIntensity(self.max_restarts, self.within)
        return self._budgets[child].allow(now)

    def _limit_reached(self, child: Node, cause: BaseException | None) -> None:
        """Fail this supervisor, which escalates the error, or stop an isolated child for good."""
        if self.isolates:
            limit = RestartLimitExceeded(child.path, self.max_restarts, self.within, cause)
            child._finalise("crashed")
            self._emit(TreeEvent("limit_reached", child.path, child.incarnation, limit))
            self._wake()
            return
        error = RestartLimitExceeded(self.path, self.max_restarts, self.within, cause)
        self._emit_event("limit_reached", error=error)
        self._fail(error)

    def _delay(self, child: Node, delay_s: float) -> float | None:
        if self.strategy == "one_for_one":
            return delay_s
        # A group is restarted by the supervisor's own task, one child after the other; the child's task ends.
        self._due[child] = delay_s
        self._wake()
        return None

    def _finalise(self, reason: StopReason) -> None:
        # The children are down by now, but suspended ones still have open mailboxes, which this closes.
        for child in reversed(self._children):
            child._request_stop(final=True)
        super()._finalise(reason)

    def children(self) -> Iterable[Node]:
        """Return the child nodes, in the order in which they start."""
        return self._children

    @override
    def status(self) -> NodeStatus:
        return self._status("supervisor", 0)
