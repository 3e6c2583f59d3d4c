"""What the journal is asked about the workers that share its database, and what it answers."""

from dataclasses import dataclass, field
from typing import TypeAlias

from actors import Request


@dataclass(frozen=True, slots=True)
class Join(Request[None]):
    """Begin a worker's lease of `lease_s` seconds. Its name was never used before."""

    worker: str
    version: str
    address: str
    lease_s: float


@dataclass(frozen=True, slots=True)
class Renew(Request[dict[int, int] | None]):
    """Let a lease end `lease_s` seconds from now. Returns the fences of the worker's partitions.

    None: the lease has ended, and stays ended. `status` is what other workers show of this one, as JSON.
    """

    worker: str
    lease_s: float
    status: str = "{}"


@dataclass(frozen=True, slots=True)
class Leave(Request[None]):
    """Note that a worker hands over what it serves: the others take its part. `ended`: it has."""

    worker: str
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Claimed:
    """A partition that a worker serves from now on.

    Messages up to the number `last` may have been seen by the earlier worker, and its sandboxes may be there
    until `wait_s` seconds from now.
    """

    number: int
    fence: int
    last: int
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Claim(Request[tuple[Claimed, ...]]):
    """Take up to `most` free partitions. Sandboxes of a lease that has ended are gone `after_s` later.

    The worker `has` these already. Others that are its own are taken as well: the answer to an earlier claim
    was lost.
    """

    worker: str
    most: int
    after_s: float = 0.0
    has: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Release(Request[None]):
    """Hand partitions over, of which nothing runs any more in this worker."""

    worker: str
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """A worker, as the others see it. `left_s` is how long its lease lasts, below zero if it has ended."""

    name: str
    version: str
    address: str
    started: float
    left_s: float
    leaving: bool
    partitions: int
    status: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Members(Request[tuple[Member, ...]]):
    """Return the workers, in the order of their names, and those whose lease ended a short while ago."""


@dataclass(frozen=True, slots=True)
class OwnerOf(Request[Member | None]):
    """Return the worker that serves a partition now."""

    number: int


@dataclass(frozen=True, slots=True)
class Owners(Request[dict[int, str]]):
    """Return the names of the workers by the partitions that they serve now."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What lies in the partitions of one worker: messages without a reply, and replies that nobody has."""

    queued: int = 0
    undelivered: int = 0


@dataclass(frozen=True, slots=True)
class Backlogs(Request[dict[str, Backlog]]):
    """Return what waits, by worker; under the empty name that of partitions which nobody serves."""


@dataclass(frozen=True, slots=True)
class Touch(Request[None]):
    """Change nothing, but in a transaction."""


LeaseMessage: TypeAlias = (
    Join | Renew | Leave | Claim | Release | Members | OwnerOf | Owners | Backlogs | Touch
)
