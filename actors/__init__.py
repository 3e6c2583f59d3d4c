"""Actors on trio: supervised, restarted, and asked by structured calls.

`Actor` is what you write, `ChildSpec` how it is kept, `ActorRef` how it is spoken to. `Supervisor` holds
children known beforehand, `DynamicSupervisor` children by key. It has no distribution, no proxies, no
become, no stash, no selective receive, no routers and no priority
mailboxes. The guarantees are in actors/README.md,
runnable examples in actors/examples/, what tests need in actors/testing.py.
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
