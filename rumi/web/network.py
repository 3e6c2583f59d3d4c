"""The guarded network backend of the HTTP client. No other code opens sockets for untrusted URLs."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn, TypeAlias

import httpcore
import trio
from typing_extensions import override

from rumi.platform.http import close
from rumi.platform.network_state import is_offline
from rumi.web.addresses import Endpoint, read_address
from rumi.web.guard import AddressGuard
from rumi.web.messages import FetchError, FetchRefused

SocketOption: TypeAlias = (
    tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]
)

_HEAD_START_S: Final = 0.25  # time that an address is tried alone: RFC 8305, section 5
_MOST_ADDRESSES: Final = 8  # a name may have hundreds


class GuardedNetwork(httpcore.AsyncNetworkBackend):
    """Connects only to addresses that the guard allows, and checks the peer of each connection.

    `transport` makes the TCP connections. It only gets IP addresses, never names.
    """

    def __init__(self, guard: AddressGuard, transport: httpcore.AsyncNetworkBackend | None = None) -> None:
        self._guard = guard
        self._transport = transport or httpcore.TrioBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Resolve a name once, check all its addresses, and connect to the first address that answers.

        `timeout` is in seconds and includes the lookup. On cancellation, leaves no connection; an unanswered
        lookup ends later by itself (see `SystemResolver`).

        Raises:
            FetchRefused: The guard refuses an address, or the peer of the connection is not the expected one.
            FetchError: The name has no address, or no server answers.
        """
        options = None if socket_options is None else list(socket_options)
        limit_s = float("inf") if timeout is None else timeout
        with trio.move_on_after(limit_s):
            addresses = await self._guard.check(host, port)
            return await self._first(host, addresses[:_MOST_ADDRESSES], port, local_address, options)
        raise FetchError(
            "{host} did not answer within {limit_s} s.", "Try again later.", host=host, limit_s=f"{limit_s:g}"
        )

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[SocketOption] | None = None
    ) -> NoReturn:
        """Refuse the connection, because no web server uses a Unix socket.

        Raises:
            FetchRefused: Always.
        """
        raise FetchRefused("The web is not behind a Unix socket.")

    @override
    async def sleep(self, seconds: float) -> None:
        await trio.sleep(seconds)

    async def _first(
        self,
        host: str,
        addresses: Sequence[str],
        port: int,
        local_address: str | None,
        options: list[SocketOption] | None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the addresses with staggered starts, and return the first successful connection.

        Raises:
            FetchRefused: The peer of the connection is not the expected one.
            FetchError: No address answers.
        """
        arrived: list[tuple[httpcore.AsyncNetworkStream, Endpoint]] = []
        failed: list[Exception] = []

        async def attempt(endpoint: Endpoint, over: trio.Event) -> None:
            try:
                stream = await self._transport.connect_tcp(
                    str(endpoint[0]), port, local_address=local_address, socket_options=options
                )
            except (httpcore.NetworkError, httpcore.TimeoutException, OSError) as error:
                failed.append(error)
                over.set()
                return
            arrived.append((stream, endpoint))
            nursery.cancel_scope.cancel()

        chosen: httpcore.AsyncNetworkStream | None = None
        try:
            async with trio.open_nursery() as nursery:
                for address in addresses:
                    over = trio.Event()
                    nursery.start_soon(attempt, _only_an_address(address, port), over)
                    with trio.move_on_after(_HEAD_START_S):
                        await over.wait()
            if not arrived:
                why = failed[-1]
                if is_offline():
                    raise FetchError(
                        "{host} does not answer: this machine has no network.",
                        "Connect it and try again.",
                        host=host,
                    ) from why
                raise FetchError(
                    "{host} does not answer on port {port}.", "Try again later.", host=host, port=port
                ) from why
            stream, endpoint = arrived[0]
            _compare_peer(stream, endpoint)
            chosen = stream
        finally:
            # Two attempts may succeed before the cancellation reaches the second. This also closes the first
            # connection if its peer is wrong.
            for stream, _ in arrived:
                if stream is not chosen:
                    await close(stream.aclose)
        return chosen


def _only_an_address(text: str, port: int) -> Endpoint:
    """Check that a text is an IP address and return it, so that the transport never resolves a name.

    Raises:
        FetchRefused: The text is not an IP address.
    """
    address = read_address(text)
    if address is None:
        raise FetchRefused("{text} is not an address.", text=text)
    return address, port


def _compare_peer(stream: httpcore.AsyncNetworkStream, wanted: Endpoint) -> None:
    """Check that the peer of a connection has the expected address and port.

    Raises:
        FetchRefused: The peer is not the expected one.
        FetchError: The connection is closed already.
    """
    try:
        peer: Any = stream.get_extra_info("server_addr")
        ends_at = read_address(peer[0]), peer[1]
    except OSError:  # the server has closed the connection
        raise FetchError(
            "{wanted} closed the connection at once.", "Try again later.", wanted=wanted[0]
        ) from None
    if ends_at != wanted:
        raise FetchRefused(
            "The connection to {wanted} ended at {peer}, port {port}: it is not used.",
            wanted=wanted[0],
            peer=peer[0],
            port=peer[1],
        )
