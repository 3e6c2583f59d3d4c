"""Resolution of host names to IP addresses by the system's resolver."""

import socket
from collections.abc import Sequence
from typing import Final, Protocol

import trio

from rumi.platform.network_state import is_offline
from rumi.web.messages import FetchError

DEFAULT_LOOKUPS: Final = 64


class Resolver(Protocol):
    """Resolves host names to IP addresses."""

    async def addresses(self, host: str) -> Sequence[str]:
        """Return all IPv4 and IPv6 addresses of a name, without duplicates, in the order to try them.

        Raises:
            FetchError: The name has no address, or could not be resolved.
        """


class SystemResolver:
    """The system's resolver. Each request calls it once, in a thread that can be abandoned.

    A lookup cannot be cancelled. If a call is cancelled, or has waited for `timeout_s`, it abandons its
    thread. The thread keeps its token of `limiter` until the system gives up (glibc: 10 s for each server).
    So there are at most `limiter.total_tokens` threads, including abandoned ones. A call that gets no token
    within `timeout_s` fails. Nothing else uses the limiter, so no other work waits for a lookup.
    """

    def __init__(self, limiter: trio.CapacityLimiter | None = None, timeout_s: float = 10) -> None:
        self._limiter = limiter or trio.CapacityLimiter(DEFAULT_LOOKUPS)
        self._timeout_s = timeout_s

    async def addresses(self, host: str) -> Sequence[str]:
        """Return a name's addresses. On cancellation, ends immediately; the thread ends later by itself.

        Raises:
            FetchError: The name has no address, no answer came in time, or too many lookups are unanswered.
        """
        # Stays empty if the call never gets a token: this distinguishes a silent DNS server from too many
        # unanswered lookups.
        began = []

        def ask() -> tuple[str, ...]:
            began.append(host)
            return _ask(host)

        with trio.move_on_after(self._timeout_s):
            return await trio.to_thread.run_sync(ask, abandon_on_cancel=True, limiter=self._limiter)
        if began:
            raise FetchError(
                "The DNS server did not answer within {timeout_s} s.",
                "Check the name and the network.",
                timeout_s=f"{self._timeout_s:g}",
            )
        raise FetchError("Too many name lookups are without an answer.", "Try again in a minute.")


def _ask(host: str) -> tuple[str, ...]:
    try:
        # As bytes: for text, Python would convert the name again, by the older IDNA rules. Without
        # AI_ADDRCONFIG: with it, a machine without IPv6 would not see a forbidden IPv6 address.
        found = socket.getaddrinfo(host.encode("ascii"), None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if is_offline():
            raise FetchError(
                "The name has no address: this machine has no network.", "Connect it and try again."
            ) from None
        if error.errno == socket.EAI_AGAIN:
            raise FetchError("The name could not be looked up.", "Check the network and try again.") from None
        raise FetchError("The name has no address.", "Check its spelling.") from None
    except (OSError, UnicodeError):
        raise FetchError("The name could not be looked up.", "Check its spelling and the network.") from None
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))
