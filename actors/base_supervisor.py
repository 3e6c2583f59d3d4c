"""The base class of both kinds of supervisors: a node with children, and the root of a tree."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager

import trio

from actors.intensity import check_intensity
from actors.node import Node, Phase, logger
from actors.status import NodeKind, NodeStatus, Outcome, StopReason, TreeEvent, one_line


class BaseSupervisor(Node):
    """A node with children. Each incarnation starts the children, watches them, and stops them.

    While a nested supervisor is suspended, it keeps its children's nodes and mailboxes.
    """

    def __init__(
        self,
        id: str,
        *,
        max_restarts: int,
        within: float,
        observe: Callable[[TreeEvent], None] | None,
    ) -> None:
        super().__init__(id)
        check_intensity(max_restarts, within)
        self.max_restarts = max_restarts
        self.within = within
        self._observe = observe
        self._nursery: trio.Nursery | None = None
        self._failure: BaseException | None = None  # why this incarnation must end
        self._body: trio.CancelScope | None = None  # of a root: the scope of the body of running()
        self._news = trio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Run the tree while the body runs. Only for a root, and only once.

        On entry, the children start in order; if one fails to start, the children that are up are stopped and
        its error is raised unchanged. On exit, also after an error or a cancellation, the children stop in
        reverse order: shielded from cancellation, each bounded by its `shutdown`.

        Raises:
            RestartLimitExceeded: The limit was exceeded; the body was cancelled and the children stopped.
            RuntimeError: This supervisor has a parent, or has run already.
            Exception: The body's error, unchanged and not in a group.
        """
        if self._parent is not None:
            raise RuntimeError(f"{self.path} is not a root: its parent runs it")
        if self.incarnation:
            raise RuntimeError(f"{self.id} has been run already")
        self.incarnation = 1
        body_error: BaseException | None = None
        async with trio.open_nursery() as outer:
            self._body = outer.cancel_scope
            outer.start_soon(self._run_root, name=self.id)
            try:
                await self._until(lambda: self.phase in (Phase.RUNNING, Phase.STOPPED))
                if self.phase is not Phase.STOPPED:
                    yield
            except trio.Cancelled:
                raise  # the nursery and the scopes above must see a cancellation, also one in a group
            except BaseException as error:
                if isinstance(error, BaseExceptionGroup) and error.split(trio.Cancelled)[0] is not None:
                    raise
                body_error = error  # must not reach the nursery, which would wrap it in a group
            finally:
                # In any case, or the nursery would wait for the tree forever.
                self._request_stop(final=True)
        if self._failure is not None:
            if body_error is not None:
                self._failure.add_note(f"Meanwhile the body had raised {one_line(body_error)}")
            raise self._failure
        if body_error is not None:
            raise body_error

    async def _run_root(self) -> None:
        # The shield preserves the stop order when an outer scope is cancelled: the cancellation reaches only
        # the body, and when the body leaves, running() stops the tree child by child.
        with trio.CancelScope(shield=True):
            if self.phase is Phase.NEW:
                self._enter(Phase.FIRST_START)
                outcome = await self._live()
                self._finalise(outcome.reason)

    async def _live(self) -> Outcome:
        self._failure = None
        started = False
        async with trio.open_nursery() as self._nursery:
            await self._bring_up()
            if not self._ending:
                started = True
                self._up()
                await self._watch()
            # Inside the nursery, in which the children's tasks run: its exit waits for them, but stops none.
            await self._bring_down()
        self._nursery = None
        return self._outcome(started)

    def _outcome(self, started: bool) -> Outcome:
        if self._failure is not None:
            return Outcome("crashed", self._failure, started)
        return Outcome("stopped", None, started)

    @abstractmethod
    async def _bring_up(self) -> None:
        """Start the children; store the error of a failed start in `_failure`."""

    @abstractmethod
    async def _watch(self) -> None:
        """Supervise the children until `_ending` is true."""

    @abstractmethod
    async def _bring_down(self) -> None:
        """Stop the children and return when their tasks have ended."""

    @property
    def _ending(self) -> bool:
        return self.stopping or self._failure is not None

    def _stop_requested(self) -> None:
        self._wake()

    def _fail(self, error: BaseException) -> None:
        """End this incarnation because of `error`; a later error is ignored."""
        if self._failure is None:
            self._failure = error
            if self._body is not None:
                self._body.cancel()
            self._wake()

    def _wake(self) -> None:
        # One event per change: a trio.Event cannot be reset, and every waiter checks its condition again.
        self._news.set()
        self._news = trio.Event()

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` is true; evaluate it again after every change of a child or this node."""
        while not condition():
            await self._news.wait()

    def _up(self) -> None:
        super()._up()
        self._wake()

    def _changed(self, child: Node) -> None:
        self._wake()

    @property
    def _observed(self) -> bool:
        return self._observe is not None or super()._observed

    def _emit(self, event: TreeEvent) -> None:
        if self._parent is not None:
            self._parent._emit(event)
        elif self._observe is not None:
            try:
                self._observe(event)
            except Exception:  # noqa: BLE001  # a faulty observer must not crash the tree
                logger.exception("%s: observe() raised", self.path)

    def _ended(self, child: Node, outcome: Outcome) -> float | None:
        """Decide what follows the end of a child's incarnation.

        Return the seconds until the child's own task runs the next incarnation; None if that task has to end.
        """
        if outcome.error is not None and not isinstance(outcome.error, Exception):
            self._fail(outcome.error)  # such as KeyboardInterrupt, which ends the tree
            return None
        if child.stopping or self._ending:
            return None
        if not child._restarts_after(outcome):
            child._enter(Phase.ENDING)
            return None
        now = trio.current_time()
        if not self._count_restart(child, now):
            self._limit_reached(child, outcome.error)
            return None
        return self._delay(child, child._grant_restart(now))

    @abstractmethod
    def _count_restart(self, child: Node, now: float) -> bool:
        """Count one more restart and return True, or return False if it would exceed the limit."""

    @abstractmethod
    def _limit_reached(self, child: Node, cause: BaseException | None) -> None:
        """Handle the refusal of one more restart; `cause` is the last crash."""

    @abstractmethod
    def _delay(self, child: Node, delay_s: float) -> float | None:
        """Return the seconds until the child's own task restarts it; None if the supervisor restarts it."""

    def _finalise(self, reason: StopReason) -> None:
        super()._finalise(reason)
        self._wake()

    @abstractmethod
    def children(self) -> Iterable[Node]:
        """Return the child nodes, in order."""

    def _status(self, kind: NodeKind, dead_letters: int) -> NodeStatus:
        return NodeStatus(
            id=self.id,
            kind=kind,
            state=self.state,
            incarnation=self.incarnation,
            restarts=self.restarts,
            depth=0,
            capacity=0,
            activity="",
            since=self.since,
            last_error=self.last_error,
            dead_letters=dead_letters,
            children=tuple(child.status() for child in self.children()),
        )
