"""The lease of a chat: while it is valid, this process may run the chat's sandbox, and no other process may.

A sandbox with a lease ends itself when the lease is over: the program in it that starts commands gets
heartbeats over the connection that it has anyway. A heartbeat says until when the lease is valid, as a time
of the clock that all processes of a machine share and that goes on while the machine sleeps. So a process
that was stopped and goes on sends nothing that prolongs anything, and the sandbox ends without its help.
"""

import time
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias, runtime_checkable

from rumi.sandbox.engine import Container, SandboxError

BEATS: Final = 10
"""How often during the length of a lease its heartbeat is sent, if the lease was renewed meanwhile."""

ENDED_S: Final = 1.0
"""No process of a sandbox is left so long after the end of its lease. Another process waits as long."""


class Lease(Protocol):
    """The right of this process to run a chat's sandbox, for a time, which its owner renews."""

    @property
    def length_s(self) -> float:
        """How long it is valid when it was just renewed."""
        ...

    def valid_until(self) -> float:
        """Return when it ends unless it is renewed, in seconds of `boottime`. Cheap, never waits.

        An owner that renews it counts from before its request, never from the answer.
        """
        ...


Leases: TypeAlias = Callable[[str], Lease | None]
"""Returns the lease of a chat; None: the chat needs none, as where one process has all chats."""


class LeaseLostError(SandboxError):
    """This process may not run the chat's sandbox any more. The sandbox has ended, with all in it."""

    def __init__(self) -> None:
        super().__init__(
            "The chat's sandbox has ended, because this process lost the lease of the chat.",
            "Send the request again: the process that has the lease now answers it.",
        )


@runtime_checkable
class Leased(Container, Protocol):
    """A container that ends with a lease."""

    @property
    def lease(self) -> Lease | None:
        """The lease; None: it lasts until it is removed."""
        ...

    async def beat(self) -> None:
        """Tell the container until when the lease is valid; nothing if it is lost or the container gone."""
        ...


def no_leases(chat_id: str) -> Lease | None:
    """Return None: the chat needs no lease."""
    return None


def boottime() -> float:
    """Return the time of the clock that leases use: it never jumps, and goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def is_lost(lease: Lease | None) -> bool:
    """Return True if there is a lease and its time is over."""
    return lease is not None and lease.valid_until() <= boottime()


def require(lease: Lease | None) -> None:
    """Raise `LeaseLostError` if there is a lease and its time is over."""
    if is_lost(lease):
        raise LeaseLostError


def heartbeat(lease: Lease) -> bytes:
    """Return the heartbeat for the programs that start commands: the end of the lease, in nanoseconds."""
    return b"beat %d" % nanoseconds(lease.valid_until())


def nanoseconds(seconds: float) -> int:
    """Return a time or a length in nanoseconds."""
    return int(seconds * 1_000_000_000)
