"""A place in the tree: what stays while incarnations come and go."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import Protocol

import trio

from actors.status import EventKind, NodeState, NodeStatus, Outcome, StopReason, TreeEvent, one_line

logger = logging.getLogger("actors")


class Parent(Protocol):
    """What a place needs of the supervisor above it. None of this waits."""

    @property
    def path(self) -> str:
        """Where in the tree it is."""
        ...

    def _ended(self, child: Place, outcome: Outcome) -> float | None:
        """Judge the end of an incarnation: seconds until the next one, or None: not from here."""
        ...

    def _changed(self, child: Place) -> None:
        """The child came up, or its task ended."""
        ...

    @property
    def _observed(self) -> bool:
        """Whether anybody watches the tree."""
        ...

    def _emit(self, event: TreeEvent) -> None:
        """Pass an event on to whoever watches the tree."""
        ...


class Place(ABC):
    """Runs incarnation after incarnation in one task of the supervisor's nursery.

    Two kinds of end: suspended (the task has ended, the place waits to be begun again) and final (`_over`
    has the reason, nothing ever runs here again).
    """

    __slots__ = (
        "_down",
        "_final",
        "_gone",
        "_initial",
        "_over",
        "_parent",
        "_pause",
        "_start_error",
        "_stop",
        "id",
        "incarnation",
        "last_error",
        "restarts",
        "since",
        "state",
    )

    def __init__(self, id: str) -> None:
        self.id = id
        self.state: NodeState = "new"
        self.since: float | None = None
        self.incarnation = 0
        self.restarts = 0
        self.last_error: str | None = None
        self._parent: Parent | None = None
        self._down = True  # no task runs it
        self._initial = True  # not been up since it was begun by its supervisor's own start
        self._start_error: BaseException | None = None
        self._stop = False  # asked to stop
        self._final = False  # ... for good
        self._over: StopReason | None = None
        self._pause: trio.CancelScope | None = None
        self._gone: trio.Event | None = None

    @property
    def path(self) -> str:
        """Where in the tree it is: "root/branch/leaf"."""
        return f"{self._parent.path}/{self.id}" if self._parent is not None else self.id

    @property
    def _above(self) -> Parent:
        assert self._parent is not None, "only a root has no parent, and a root is not run as a child"
        return self._parent

    def _begin(self, nursery: trio.Nursery, *, initial: bool) -> None:
        """Run it in a task of `nursery`. With `initial`, a failure to start is left in `_start_error`."""
        self._stop = self._down = False
        self._initial = initial
        self._start_error = None
        self._enter("starting")
        nursery.start_soon(self._run, name=self.id)

    async def _run(self) -> None:
        outcome = Outcome("stopped", started=False)
        while not self._stop:
            self.incarnation += 1
            self._enter("starting")
            outcome = await self._live()
            if outcome.error is not None:
                self._note_crash(outcome.error)
            if self._initial and outcome.reason == "crashed" and not outcome.started:
                self._start_error = outcome.error
                break
            delay_s = self._above._ended(self, outcome)
            if delay_s is None:
                break
            self._initial = False
            if delay_s > 0:
                await self._rest(delay_s)
        self._down = True
        if self._final:
            self._finalise(outcome.reason)
        elif self._over is None:
            self._enter("suspended")
        self._above._changed(self)

    async def _rest(self, delay_s: float) -> None:
        self._enter("restarting")
        with trio.CancelScope() as self._pause:
            await trio.sleep(delay_s)
        self._pause = None

    @abstractmethod
    def _live(self) -> Awaitable[Outcome]:
        """One incarnation, from its start to its end."""

    def _up(self) -> None:
        """The incarnation has started."""
        self._initial = False
        if not self._stop:
            self._enter("running")
        self._tell("started" if self.incarnation == 1 else "restarted")
        if self._parent is not None:
            self._parent._changed(self)

    def _request_stop(self, *, final: bool) -> None:
        """Begin to stop, and return at once. Can be said again, to turn a suspension into a final stop."""
        if self._over is not None:
            return
        self._stop = True
        self._final = self._final or final
        if self._down:
            if final:
                self._finalise("stopped")
            return
        self._enter("stopping")
        if self._pause is not None:
            self._pause.cancel()
        self._stop_requested()

    @abstractmethod
    def _stop_requested(self) -> None:
        """Let the current incarnation end; `_final` says whether the place does too."""

    def _finalise(self, reason: StopReason) -> None:
        """The final stop: nothing runs here any more. Twice is once."""
        if self._over is not None:
            return
        self._final = self._stop = True
        self._over = reason
        self._enter("stopped")
        if self._gone is not None:
            self._gone.set()
        self._tell("stopped", reason=reason)

    async def wait_stopped(self) -> StopReason:
        """Wait for the final stop of this place and return its reason. A restart is no such stop."""
        while self._over is None:
            if self._gone is None:
                self._gone = trio.Event()
            await self._gone.wait()
        return self._over

    def _enter(self, state: NodeState) -> None:
        self.state = state
        self.since = trio.current_time()

    def _note_crash(self, error: BaseException) -> None:
        self.last_error = one_line(error)
        logger.error("%s crashed: %s", self.path, self.last_error, exc_info=error)
        self._tell("crashed", error=error)

    def _tell(
        self, kind: EventKind, *, error: BaseException | None = None, reason: StopReason | None = None
    ) -> None:
        if self._observed:
            self._emit(TreeEvent(kind, self.path, self.incarnation, error, reason))

    @property
    def _observed(self) -> bool:
        return self._parent is not None and self._parent._observed

    def _emit(self, event: TreeEvent) -> None:
        if self._parent is not None:
            self._parent._emit(event)

    # What a supervisor wants to know. A nested supervisor is a permanent child without backoff.

    @property
    def _is_temporary(self) -> bool:
        return False

    def _restarts_after(self, outcome: Outcome) -> bool:
        return True

    def _grant_restart(self, now: float) -> float:
        """Count a restart; returns the seconds to wait before it."""
        self.restarts += 1
        return 0.0

    @abstractmethod
    def status(self) -> NodeStatus:
        """This node and all below it, now. Never waits."""
