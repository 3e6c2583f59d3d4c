"""How a child is made and kept."""

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
    """What a supervisor needs to know about a child.

    `factory` makes a new actor for each incarnation. `restart`: "permanent" restarts after every end,
    "transient" after crashes only, "temporary" never. `capacity` counts queued messages; when they fill it,
    senders wait, or get `MailboxFull` with overflow="reject". `shutdown` (seconds) bounds, one after the
    other, the current message at a stop and the `stopped` hook. A keyed child
    without messages for `idle_s` seconds that is not busy stops.
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
