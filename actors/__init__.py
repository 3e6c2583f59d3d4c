"""Actors on trio with supervision, restarts and structured asks.

Subclass `Actor`, describe a child with `ChildSpec`, and send messages through its `ActorRef`. A `Supervisor`
runs a fixed set of children, a `DynamicSupervisor` starts one child per key on demand. The package has no
distribution, proxies, become, stash, selective receive, routers or priority mailboxes. See actors/README.md
for the guarantees, actors/examples/ for runnable examples and actors/testing.py for test support.
"""

from actors.actor import Actor, answers
from actors.asks import PendingAsk, circles, pending_asks
from actors.backoff import Backoff
from actors.dynamic import DynamicSupervisor
from actors.errors import (
    ActorCrashed,
    ActorError,
    ActorStopped,
    AskedItself,
    MailboxFull,
    Refused,
    RestartLimitExceeded,
    TooManyChildren,
)
from actors.ref import ActorRef
from actors.request import Request
from actors.spec import ChildSpec, Overflow, Restart
from actors.status import (
    EventKind,
    MailboxStatistics,
    NodeKind,
    NodeState,
    NodeStatus,
    StopReason,
    TreeEvent,
)
from actors.supervisor import Strategy, Supervisor

__all__ = [
    "Actor",
    "ActorCrashed",
    "ActorError",
    "ActorRef",
    "ActorStopped",
    "AskedItself",
    "Backoff",
    "ChildSpec",
    "DynamicSupervisor",
    "EventKind",
    "MailboxFull",
    "MailboxStatistics",
    "NodeKind",
    "NodeState",
    "NodeStatus",
    "Overflow",
    "PendingAsk",
    "Refused",
    "Request",
    "Restart",
    "RestartLimitExceeded",
    "StopReason",
    "Strategy",
    "Supervisor",
    "TooManyChildren",
    "TreeEvent",
    "answers",
    "circles",
    "pending_asks",
]
