"""A node of the actor tree: the part of a child that survives when its actor is restarted."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from enum import Enum, auto
from typing import Final, Protocol

import trio

from actors.status import EventKind, NodeState, NodeStatus, Outcome, StopReason, TreeEvent, one_line

logger = logging.getLogger("actors")


class Phase(Enum):
    """Phase of a node's life: the one state that its supervisor, its references and its own task share.

    ```
    from                                    to              when
    NEW, UNSTARTED                          FIRST_START     its supervisor starts it
    SUSPENDED                               STARTING        its supervisor starts it again
    SUSPENDED                               UNSTARTED       its supervisor is restarted itself
    FIRST_START, STARTING                   RUNNING         the incarnation has started
    FIRST_START                             UNSTARTED       it failed to start: the caller gets the error
    STARTING, RUNNING                       STARTING        a restart is granted
    STARTING, RUNNING                       RESTING         a restart is granted after a backoff
    STARTING, RUNNING                       SUSPENDED       its supervisor restarts it later, or is failing
    RESTING                                 STARTING        the backoff is over
    FIRST_START, STARTING, RUNNING, RESTING SUSPENDING      its supervisor stops it for a while
    SUSPENDING                              SUSPENDED       its tasks have ended
    SUSPENDING                              UNSTARTED       its tasks have ended; it had never been up
    any but STOPPED                         ENDING          the end is final, and a task still runs
    ENDING                                  STOPPED         its tasks have ended
    NEW, UNSTARTED, SUSPENDED               STOPPED         it is stopped for good while no task runs
    STARTING, RUNNING                       STOPPED         a keyed child has used up its restarts
    FIRST_START, RUNNING                    STOPPED         a root has failed
    ```

    UNSTARTED and FIRST_START differ from SUSPENDED and STARTING in the handling of a failed start: the caller
    of the start gets the error, and the failure does not count as a restart.
    """

    NEW = auto()
    UNSTARTED = auto()
    FIRST_START = auto()
    STARTING = auto()
    RUNNING = auto()
    RESTING = auto()
    SUSPENDING = auto()
    SUSPENDED = auto()
    ENDING = auto()
    STOPPED = auto()


_SHOWN: Final[dict[Phase, NodeState]] = {
    Phase.NEW: "new",
    Phase.UNSTARTED: "suspended",
    Phase.FIRST_START: "starting",
    Phase.STARTING: "starting",
    Phase.RUNNING: "running",
    Phase.RESTING: "restarting",
    Phase.SUSPENDING: "stopping",
    Phase.SUSPENDED: "suspended",
    Phase.ENDING: "stopping",
    Phase.STOPPED: "stopped",
}

# Tuples, because `in` compares members by identity; a set would call Enum.__hash__, which is Python code.
_DOWN: Final = (Phase.NEW, Phase.UNSTARTED, Phase.SUSPENDED, Phase.STOPPED)
_STARTS: Final = (Phase.FIRST_START, Phase.STARTING)
_OVER: Final = (Phase.ENDING, Phase.STOPPED)
_STOPPING: Final = (Phase.SUSPENDING, *_OVER)


class Parent(Protocol):
    """The interface of a supervisor to its child nodes. No method waits."""

    @property
    def path(self) -> str:
        """Return the supervisor's path in the tree."""
        ...

    def _ended(self, child: Node, outcome: Outcome) -> float | None:
        """Handle the end of an incarnation.

        Return the seconds until the child's own task runs the next incarnation; None if that task has to end.
        """
        ...

    def _changed(self, child: Node) -> None:
        """Handle the successful start of the child, or the end of its task."""
        ...

    @property
    def _observed(self) -> bool:
        """Return True if the tree has an observer."""
        ...

    def _emit(self, event: TreeEvent) -> None:
        """Forward an event to the observer of the tree."""
        ...


class Node(ABC):
    """Base class of actors' cells and supervisors; runs incarnations in one task of the parent's nursery.

    The task can end in two ways: the node is suspended and waits until its supervisor starts it again, or it
    has stopped, and no incarnation ever runs there again.
    """

    __slots__ = (
        "_gone",
        "_parent",
        "_pause",
        "_start_error",
        "_stop_reason",
        "id",
        "incarnation",
        "last_error",
        "phase",
        "restarts",
        "since",
    )

    def __init__(self, id: str) -> None:
        self.id = id
        self.phase = Phase.NEW
        self.since: float | None = None  # when the phase began, on trio's clock
        self.incarnation = 0
        self.restarts = 0
        self.last_error: str | None = None
        self._parent: Parent | None = None
        self._start_error: BaseException | None = None  # the error of a failed first start
        self._stop_reason: StopReason = "stopped"  # the reason of the final stop
        self._pause: trio.CancelScope | None = None
        self._gone: trio.Event | None = None

    @property
    def path(self) -> str:
        """Return the node's path in the tree: "root/branch/leaf"."""
        return f"{self._parent.path}/{self.id}" if self._parent is not None else self.id

    @property
    def state(self) -> NodeState:
        """Return the phase as the status tree shows it."""
        return _SHOWN[self.phase]

    @property
    def down(self) -> bool:
        """Return True if no task runs the node."""
        return self.phase in _DOWN

    @property
    def over(self) -> bool:
        """Return True if the final stop has happened or is certain."""
        return self.phase in _OVER

    @property
    def stopping(self) -> bool:
        """Return True if a stop was requested, whether a suspension or the final stop."""
        return self.phase in _STOPPING

    @property
    def _above(self) -> Parent:
        assert self._parent is not None, "only a root has no parent, and a root is not run as a child"
        return self._parent

    def _renew(self) -> None:
        """Treat the next start as a first start, because the supervisor itself is being restarted."""
        if self.phase is Phase.SUSPENDED:
            self.phase = Phase.UNSTARTED

    def _begin(self, nursery: trio.Nursery) -> None:
        """Run the node in a task of `nursery`; store the error of a failed first start in `_start_error`."""
        first = self.phase is not Phase.SUSPENDED
        self._start_error = None
        self._enter(Phase.FIRST_START if first else Phase.STARTING)
        nursery.start_soon(self._run, first, name=self.id)

    async def _run(self, first: bool) -> None:
        outcome = Outcome("stopped", started=False)
        while not self.stopping:
            self.incarnation += 1
            self._enter(Phase.FIRST_START if first else Phase.STARTING)
            outcome = await self._live()
            if outcome.error is not None:
                self._note_crash(outcome.error)
            first = first and not outcome.started
            if first and outcome.reason == "crashed":
                # The caller that waits for this first start gets the error; it must not use up the restart
                # budget.
                self._start_error = outcome.error
                break
            delay_s = self._above._ended(self, outcome)
            if delay_s is None:
                break
            first = False
            if delay_s > 0:
                await self._rest(delay_s)
        if self.phase is Phase.ENDING:
            self._finalise(outcome.reason)
        elif self.phase is not Phase.STOPPED:
            self._enter(Phase.UNSTARTED if first else Phase.SUSPENDED)
        # Last: this wakes the supervisor, whose conditions read the phase that was entered above.
        self._above._changed(self)

    async def _rest(self, delay_s: float) -> None:
        self._enter(Phase.RESTING)
        with trio.CancelScope() as self._pause:
            await trio.sleep(delay_s)
        self._pause = None

    @abstractmethod
    def _live(self) -> Awaitable[Outcome]:
        """Run one incarnation from its start to its end and return how it ended."""

    def _up(self) -> None:
        """Record and publish that the incarnation has started."""
        if self.phase in _STARTS:
            self._enter(Phase.RUNNING)
        self._emit_event("started" if self.incarnation == 1 else "restarted")
        if self._parent is not None:
            self._parent._changed(self)

    def _tasks_ended(self, outcome: Outcome) -> None:  # noqa: B027  # nothing to do for a supervisor
        """Handle the end of an incarnation's tasks; the actor's `stopped` hook may not have run yet."""

    def _request_stop(self, *, final: bool) -> None:
        """Request a stop and return at once; a second, final request turns a suspension into a final stop."""
        if self.phase is Phase.STOPPED:
            return
        if self.down:
            if final:
                self._finalise("stopped")
            return
        # A final stop stays final: a later request to suspend must not make the node startable again.
        self._enter(Phase.ENDING if final or self.phase is Phase.ENDING else Phase.SUSPENDING)
        if self._pause is not None:
            self._pause.cancel()  # a stop does not wait for the end of a restart backoff
        self._stop_requested()

    @abstractmethod
    def _stop_requested(self) -> None:
        """Ask the current incarnation to end; the node's phase tells whether this is the final stop."""

    def _finalise(self, reason: StopReason) -> None:
        """Enter STOPPED, wake the waiters and publish the stop. A second call does nothing."""
        if self.phase is Phase.STOPPED:
            return
        self._stop_reason = reason
        self._enter(Phase.STOPPED)
        if self._gone is not None:
            self._gone.set()
        self._emit_event("stopped", reason=reason)

    async def wait_stopped(self) -> StopReason:
        """Wait for the final stop of this node and return its reason; restarts do not end the wait."""
        while self.phase is not Phase.STOPPED:
            if self._gone is None:
                self._gone = trio.Event()
            await self._gone.wait()
        return self._stop_reason

    def runs_this_task(self) -> bool:
        """Return True if a hook or handler of this node's actor runs in the current task or an ancestor."""
        return False

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        self.since = trio.current_time()

    def _note_crash(self, error: BaseException) -> None:
        self.last_error = one_line(error)
        logger.error("%s crashed: %s", self.path, self.last_error, exc_info=error)
        self._emit_event("crashed", error=error)

    def _emit_event(
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

    # The restart policy that the parent reads. By default, as for nested supervisors: permanent, no backoff.

    @property
    def _is_temporary(self) -> bool:
        return False

    def _restarts_after(self, outcome: Outcome) -> bool:
        return True

    def _grant_restart(self, now: float) -> float:
        """Count a restart and return the seconds to wait before it."""
        self.restarts += 1
        return 0.0

    @abstractmethod
    def status(self) -> NodeStatus:
        """Return the current status of this node and all nodes below it. Never waits."""
