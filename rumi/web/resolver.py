"""Resolves names to addresses, by the system's resolver."""

import socket
from collections.abc import Sequence
from typing import Final, Protocol

import trio

from rumi.web.messages import FetchError

DEFAULT_LOOKUPS: Final = 64


class Resolver(Protocol):
    """Resolves names."""

    async def addresses(self, host: str) -> Sequence[str]:
        """Return all addresses of a name, of both families, without repetitions, in the order to try them.

        Raises:
            FetchError: There are none, or the name could not be resolved.
        """


class SystemResolver:
    """The system's own resolver, asked once per call, in a thread that can be abandoned.

    A lookup cannot be cancelled. A call that is cancelled, or has waited `timeout_s`, abandons its thread,
    which keeps its place in `limiter` until the system gives up (glibc: 10 s for each server). So there are
    at most `limiter.total_tokens` threads, abandoned ones included; a call without a place within `timeout_s`
    fails. Nothing else uses the limiter, so no other work waits for a lookup.
    """

    def __init__(self, limiter: trio.CapacityLimiter | None = None, timeout_s: float = 10) -> None:
        self._limiter = limiter or trio.CapacityLimiter(DEFAULT_LOOKUPS)
        self._timeout_s = timeout_s

    async def addresses(self, host: str) -> Sequence[str]:
        """Return the addresses of a name. Cancelled, it ends at once; the thread ends later by itself.

        Raises:
            FetchError: There are none, no answer came in time, or too many lookups are still unanswered.
        """
        began = []

        def ask() -> tuple[str, ...]:
            began.append(host)
            return _ask(host)

        with trio.move_on_after(self._timeout_s):
            return await trio.to_thread.run_sync(ask, abandon_on_cancel=True, limiter=self._limiter)
        if began:
            raise FetchError(
                f"The DNS server did not answer within {self._timeout_s:g} s.",
                "Check the name and the network.",
            )
        raise FetchError("Too many name lookups are without an answer.", "Try again in a minute.")


def _ask(host: str) -> tuple[str, ...]:
    try:
        # As bytes, or Python would read the name by IDNA's older rules once more. Without AI_ADDRCONFIG, or a
        # forbidden IPv6 address would stay unseen on a host that has none itself.
        found = socket.getaddrinfo(host.encode("ascii"), None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno == socket.EAI_AGAIN:
            raise FetchError("The name could not be looked up.", "Check the network and try again.") from None
        raise FetchError("The name has no address.", "Check its spelling.") from None
    except (OSError, UnicodeError):
        raise FetchError("The name could not be looked up.", "Check its spelling and the network.") from None
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))
