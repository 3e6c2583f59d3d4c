"""What a tree looks like from outside: snapshots and events."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

StopReason = Literal["normal", "stopped", "crashed"]
NodeKind = Literal["actor", "supervisor", "dynamic_supervisor"]
NodeState = Literal["new", "starting", "running", "stopping", "restarting", "suspended", "stopped"]
EventKind = Literal["started", "crashed", "restarted", "stopped", "limit_reached"]


@dataclass(frozen=True, slots=True)
class MailboxStatistics:
    """A mailbox at one moment.

    `depth` of `capacity` messages are queued, `senders_waiting` tasks wait for room, `dead_letters` tells
    were taken but could not be handled before the final stop.
    """

    depth: int
    capacity: int
    senders_waiting: int
    dead_letters: int


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """A node of the tree at one moment, with all that is below it.

    `incarnation` counts from 1 (0: never started). `restarts` counts those that were granted. `activity` is
    what the actor says of itself, or the type of the message in hand; empty when it waits. `since` is the
    time on trio's clock at which the state, or the work on that message, began (None before the first
    start). `last_error` is one line. `dead_letters` of a dynamic supervisor are those of children that are
    gone. `depth` and `capacity` are 0 for supervisors. `metrics` is what the actor counts, by name.
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
    """Something that happened to the node at `path` ("root/branch/leaf").

    "started" is the first incarnation's start, "restarted" a later one's, "crashed" the end of an
    incarnation by an error (a failure to start included), "stopped" the final stop with its `reason`,
    "limit_reached" the refusal of one restart more, with a `RestartLimitExceeded` as `error`.
    """

    kind: EventKind
    path: str
    incarnation: int
    error: BaseException | None = None
    reason: StopReason | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an incarnation ended. `started` is False when it never came to its first message."""

    reason: StopReason
    error: BaseException | None = None
    started: bool = True


def one_line(error: BaseException) -> str:
    """Return an error's type and text on one line; a group of one error is that error."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
