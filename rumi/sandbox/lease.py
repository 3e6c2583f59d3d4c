"""The lease of a chat: while it is valid, only this process may run the chat's sandbox.

A sandbox with a lease ends itself when the lease expires. The program that starts its commands gets
heartbeats over its existing connection. A heartbeat contains the expiry time of the lease, on the clock that
all processes of a machine share and that also runs while the machine sleeps. So a process that was suspended
and resumes cannot prolong the lease with a late heartbeat, and the sandbox ends without the help of that
process.
"""

import time
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias, runtime_checkable

from rumi.sandbox.engine import Container, SandboxError

BEATS: Final = 10
"""Number of heartbeats per length of a lease."""

ENDED_S: Final = 1.0
"""Maximum time from a lease's expiry until its sandbox has no process. The next owner waits that long."""


class Lease(Protocol):
    """The temporary right of this process to run a chat's sandbox; the owner renews it."""

    @property
    def length_s(self) -> float:
        """Return the seconds for which a lease is valid after a renewal."""
        ...

    def valid_until(self) -> float:
        """Return the time, in seconds of `boottime`, at which the lease expires unless it is renewed.

        This call is cheap and never waits. A renewal is valid from the time at which it was requested,
        because its answer may come late.
        """
        ...


Leases: TypeAlias = Callable[[str], Lease | None]
"""A function that returns a chat's lease; None if none is needed, because one process owns all chats."""


class LeaseLostError(SandboxError):
    """This process may no longer run the chat's sandbox. The sandbox has ended with all its processes."""

    def __init__(self) -> None:
        super().__init__(
            "The chat's sandbox has ended, because this process lost the lease of the chat.",
            "Send the request again: the process that has the lease now answers it.",
        )


@runtime_checkable
class Leased(Container, Protocol):
    """A container that ends when its lease expires."""

    @property
    def lease(self) -> Lease | None:
        """Return the lease; None if the container lasts until it is removed."""
        ...

    async def beat(self) -> None:
        """Send the container a heartbeat; do nothing if the lease is lost or the container is gone."""
        ...


def no_leases(chat_id: str) -> Lease | None:
    """Return None: no chat needs a lease."""
    return None


def boottime() -> float:
    """Return the time of the leases' clock, which never jumps and also runs while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def is_lost(lease: Lease | None) -> bool:
    """Return True if there is a lease and it has expired."""
    return lease is not None and lease.valid_until() <= boottime()


def require(lease: Lease | None) -> None:
    """Raise LeaseLostError if there is a lease and it has expired."""
    if is_lost(lease):
        raise LeaseLostError


def heartbeat(lease: Lease) -> bytes:
    """Return the heartbeat message for the programs that start commands: the expiry time in nanoseconds."""
    return b"beat %d" % nanoseconds(lease.valid_until())


def nanoseconds(seconds: float) -> int:
    """Convert seconds to whole nanoseconds."""
    return int(seconds * 1_000_000_000)
