"""A node in the tree: what stays while incarnations come and go."""

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
    """What a node is at: the one state that its supervisor, its references and its own task share.

    ```
    from                                    to              when
    NEW, UNSTARTED                          FIRST_START     its supervisor begins it
    SUSPENDED                               STARTING        its supervisor begins it again
    SUSPENDED                               UNSTARTED       its supervisor comes up again itself
    FIRST_START, STARTING                   RUNNING         the incarnation has started
    FIRST_START                             UNSTARTED       it failed to start: the starter gets the error
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

    UNSTARTED and FIRST_START differ from SUSPENDED and STARTING in who gets a failure to start: the one who
    started it, instead of the restart intensity.
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

# Tuples, which compare by identity; a set calls Python code for the hash of an enum's member.
_DOWN: Final = (Phase.NEW, Phase.UNSTARTED, Phase.SUSPENDED, Phase.STOPPED)
_STARTS: Final = (Phase.FIRST_START, Phase.STARTING)
_OVER: Final = (Phase.ENDING, Phase.STOPPED)
_STOPPING: Final = (Phase.SUSPENDING, *_OVER)


class Parent(Protocol):
    """What a node needs of the supervisor above it. None of this waits."""

    @property
    def path(self) -> str:
        """Return where in the tree it is."""
        ...

    def _ended(self, child: Node, outcome: Outcome) -> float | None:
        """Judge the end of an incarnation: seconds until the next one, or None: not from here."""
        ...

    def _changed(self, child: Node) -> None:
        """Note that the child came up, or that its task ended."""
        ...

    @property
    def _observed(self) -> bool:
        """Return True if anybody watches the tree."""
        ...

    def _emit(self, event: TreeEvent) -> None:
        """Pass an event on to the watcher of the tree."""
        ...


class Node(ABC):
    """Runs incarnation after incarnation in one task of the supervisor's nursery.

    Two kinds of end: suspended (the task has ended, the node waits to be begun again) and final (nothing
    ever runs here again).
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
        self._start_error: BaseException | None = None  # of a first start
        self._stop_reason: StopReason = "stopped"  # of the final stop
        self._pause: trio.CancelScope | None = None
        self._gone: trio.Event | None = None

    @property
    def path(self) -> str:
        """Return where in the tree it is: "root/branch/leaf"."""
        return f"{self._parent.path}/{self.id}" if self._parent is not None else self.id

    @property
    def state(self) -> NodeState:
        """Return the phase as the status tree shows it."""
        return _SHOWN[self.phase]

    @property
    def down(self) -> bool:
        """No task runs it."""
        return self.phase in _DOWN

    @property
    def over(self) -> bool:
        """Return True if the final stop has come, or is certain to come."""
        return self.phase in _OVER

    @property
    def stopping(self) -> bool:
        """It ends because it was told to, for a while or for good."""
        return self.phase in _STOPPING

    @property
    def _above(self) -> Parent:
        assert self._parent is not None, "only a root has no parent, and a root is not run as a child"
        return self._parent

    def _renew(self) -> None:
        """Prepare for a supervisor that comes up again: the next start counts as the first."""
        if self.phase is Phase.SUSPENDED:
            self.phase = Phase.UNSTARTED

    def _begin(self, nursery: trio.Nursery) -> None:
        """Run it in a task of `nursery`. A failure of a first start is left in `_start_error`."""
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
        self._above._changed(self)

    async def _rest(self, delay_s: float) -> None:
        self._enter(Phase.RESTING)
        with trio.CancelScope() as self._pause:
            await trio.sleep(delay_s)
        self._pause = None

    @abstractmethod
    def _live(self) -> Awaitable[Outcome]:
        """One incarnation, from its start to its end."""

    def _up(self) -> None:
        """Note that the incarnation has started."""
        if self.phase in _STARTS:
            self._enter(Phase.RUNNING)
        self._emit_event("started" if self.incarnation == 1 else "restarted")
        if self._parent is not None:
            self._parent._changed(self)

    def _tasks_ended(self, outcome: Outcome) -> None:  # noqa: B027  # nothing to do for a supervisor
        """Note that an incarnation's tasks have ended; its last hook may still run."""

    def _request_stop(self, *, final: bool) -> None:
        """Begin to stop, and return at once. Can be said again, to turn a suspension into a final stop."""
        if self.phase is Phase.STOPPED:
            return
        if self.down:
            if final:
                self._finalise("stopped")
            return
        self._enter(Phase.ENDING if final or self.phase is Phase.ENDING else Phase.SUSPENDING)
        if self._pause is not None:
            self._pause.cancel()
        self._stop_requested()

    @abstractmethod
    def _stop_requested(self) -> None:
        """Let the current incarnation end; the phase says whether the node does too."""

    def _finalise(self, reason: StopReason) -> None:
        """Make the stop final: nothing runs here any more. A second call does nothing."""
        if self.phase is Phase.STOPPED:
            return
        self._stop_reason = reason
        self._enter(Phase.STOPPED)
        if self._gone is not None:
            self._gone.set()
        self._emit_event("stopped", reason=reason)

    async def wait_stopped(self) -> StopReason:
        """Wait for the final stop of this node and return its reason. A restart does not count."""
        while self.phase is not Phase.STOPPED:
            if self._gone is None:
                self._gone = trio.Event()
            await self._gone.wait()
        return self._stop_reason

    def runs_this_task(self) -> bool:
        """Return True if the current task works for a hook or a handler of the actor that lives here."""
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
