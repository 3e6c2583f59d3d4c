"""The specification of a child actor: its factory, restart policy, mailbox and time limits."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from actors.actor import Actor
from actors.backoff import Backoff

M_contra = TypeVar("M_contra", contravariant=True)

Restart = Literal["permanent", "transient", "temporary"]
Overflow = Literal["wait", "reject"]


@dataclass(frozen=True, slots=True)
class ChildSpec(Generic[M_contra]):
    """Everything a supervisor needs to run one child.

    `factory` creates a new actor for each incarnation. `restart`: "permanent" restarts after every end,
    "transient" after crashes only, "temporary" never. `capacity` is the maximum number of queued messages;
    when the mailbox is full, senders wait, or get `MailboxFull` with overflow="reject". `shutdown` is a limit
    in seconds: at a stop, the current message may take this long, and afterwards the `stopped` hook may take
    this long. A keyed child stops after `idle_s` seconds without a message and without being busy.
    """

    id: str
    factory: Callable[[], Actor[M_contra]]
    restart: Restart = "permanent"
    capacity: int = 64
    overflow: Overflow = "wait"
    shutdown: float = 5.0
    backoff: Backoff | None = None
    idle_s: float | None = None

    def __post_init__(self) -> None:
        if not self.id:
            raise ValueError("a child needs an id")
        if self.capacity < 1:
            raise ValueError(f"{self.id}: capacity must be 1 or more")
        if math.isnan(self.shutdown) or self.shutdown < 0:
            raise ValueError(f"{self.id}: shutdown must be 0 seconds or more")
        if self.idle_s is not None and not self.idle_s > 0:
            raise ValueError(f"{self.id}: idle_s must be more than 0 seconds")
