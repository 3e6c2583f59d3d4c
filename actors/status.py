"""Status snapshots and events of an actor tree."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

StopReason = Literal["normal", "stopped", "crashed"]
NodeKind = Literal["actor", "supervisor", "dynamic_supervisor"]
NodeState = Literal["new", "starting", "running", "stopping", "restarting", "suspended", "stopped"]
EventKind = Literal["started", "crashed", "restarted", "stopped", "limit_reached"]


@dataclass(frozen=True, slots=True)
class MailboxStatistics:
    """Snapshot of a mailbox.

    `depth` messages of at most `capacity` are queued, `senders_waiting` tasks wait for a free slot, and
    `dead_letters` messages sent with `tell` were accepted but not handled before the final stop.
    """

    depth: int
    capacity: int
    senders_waiting: int
    dead_letters: int


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """Snapshot of a node and all nodes below it.

    `incarnation` counts from 1 (0: never started). `restarts` counts the granted restarts. `activity` is the
    text of `Actor.activity`, otherwise the type of the current message; it is empty while the actor waits.
    `since` is the time on trio's clock at which the state, or the work on the current message, began (None
    before the first start). `last_error` is one line. For a dynamic supervisor, `dead_letters` counts the
    dead letters of its former children. For supervisors, `depth` and `capacity` of the mailbox are 0.
    `metrics` holds the actor's counters by name.
    """

    id: str
    kind: NodeKind
    state: NodeState
    incarnation: int
    restarts: int
    depth: int
    capacity: int
    activity: str
    since: float | None
    last_error: str | None
    dead_letters: int = 0
    children: tuple["NodeStatus", ...] = ()
    metrics: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TreeEvent:
    """An event of the node at `path` ("root/branch/leaf").

    "started" is the start of the first incarnation, "restarted" is the start of a later one. "crashed" is the
    end of an incarnation because of an error, or a failed start. "stopped" is the final stop, with its
    `reason`. "limit_reached" means that another restart was refused; its `error` is a `RestartLimitExceeded`.
    """

    kind: EventKind
    path: str
    incarnation: int
    error: BaseException | None = None
    reason: StopReason | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an incarnation ended. `started` is False if it ended before it was ready for messages."""

    reason: StopReason
    error: BaseException | None = None
    started: bool = True


def one_line(error: BaseException) -> str:
    """Return an error's type and text on one line; unwrap groups that hold a single error."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
