"""The only way out of a sandbox: an HTTP proxy that reaches the allowed hosts and no others.

Rumi accepts the connections at listening sockets that were opened inside the sandbox's network namespace
(`rumi.sandbox.confined.namespaced`). So no process forwards them, and the way ends with Rumi. Programs that
know no proxies connect to the listener of an allowed host. Each request is judged by its own target.
"""

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import h11
import httpcore
import trio

from rumi.errors import RumiError
from rumi.platform.http import close
from rumi.platform.proxies import SetupError
from rumi.web.gateway.listeners import SandboxListener, names_of
from rumi.web.gateway.names import answer_to
from rumi.web.messages import FetchError, FetchRefused
from rumi.web.outbound import Host, Outbound, credentials, host_of, read_host
from rumi.web.url import parse_target

MOST_CONNECTIONS: Final = 64
"""Maximum number of simultaneous connections of one server; further ones wait in the kernel's queue."""

MOST_HEAD_BYTES: Final = 64 * 1024
"""Maximum size of the head of a request or an answer, in bytes."""

HEAD_S: Final = 30.0
"""Maximum time for the head of a request, and between two requests of a connection, in seconds."""

IDLE_S: Final = 3600.0
"""Maximum time in which no byte passes in either direction, in seconds. Web sockets may be quiet for long."""

_CHUNK: Final = 64 * 1024
_MOST_QUERY_BYTES: Final = 4096
_AGAIN_S: Final = 0.1
_HOP_BY_HOP: Final = frozenset(
    b"connection expect host keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    b"transfer-encoding upgrade".split()
)
"""Headers that belong to one connection (RFC 9110, section 7.6.1), or that the gateway sets itself."""

_Headers = list[tuple[bytes, bytes]]


class Gateway:
    """The way out of one sandbox: connections to its `listeners` go where `outbound` lets them go."""

    def __init__(self, listeners: Sequence[SandboxListener], outbound: Outbound) -> None:
        self.listeners = listeners
        self.outbound = outbound
        self._connections = trio.CapacityLimiter(MOST_CONNECTIONS)

    async def serve(self, parent: socket.socket) -> None:
        """Receive the listening sockets from the launcher, and serve them until cancelled.

        Returns if the launcher ends without sending them. Closes all sockets.
        """
        with parent:
            await trio.lowlevel.wait_readable(parent)
            positions, fds, _, _ = socket.recv_fds(parent, 256, len(self.listeners) + 1)
        sockets = [socket.socket(fileno=fd) for fd in fds]
        try:
            async with trio.open_nursery() as nursery:
                for position, one in zip(positions, sockets, strict=True):
                    one.setblocking(False)
                    if position == len(self.listeners):
                        nursery.start_soon(self._answer_names, trio.socket.from_stdlib_socket(one))
                        continue
                    listening = trio.SocketListener(trio.socket.from_stdlib_socket(one))
                    nursery.start_soon(self._accept, nursery, listening, self.listeners[position])
        finally:
            for one in sockets:
                one.close()

    async def _accept(
        self, nursery: trio.Nursery, listening: trio.SocketListener, listener: SandboxListener
    ) -> None:
        while True:
            try:
                stream = await listening.accept()
            except OSError:  # too many open files: the connection stays in the queue
                await trio.sleep(_AGAIN_S)
                continue
            # Taken after `accept`: a listener that nobody uses must not hold a slot.
            slot = object()
            try:
                await self._connections.acquire_on_behalf_of(slot)
            except BaseException:
                await trio.aclose_forcefully(stream)
                raise
            nursery.start_soon(self._handle, stream, listener, slot)

    async def _handle(self, stream: trio.SocketStream, listener: SandboxListener, slot: object) -> None:
        try:
            with _broken():
                if listener.host is None:
                    await _Proxy(stream, self).serve()
                else:
                    with suppress(RumiError):
                        await relay(stream, await self.outbound.connect(listener.host))
        finally:
            await trio.aclose_forcefully(stream)
            self._connections.release_on_behalf_of(slot)

    async def _answer_names(self, asking: trio.socket.SocketType) -> None:
        """Answer DNS queries."""
        names = names_of(self.listeners)
        while True:
            try:
                query, address = await asking.recvfrom(_MOST_QUERY_BYTES)
                answer = answer_to(query, names)
                if answer is None:
                    continue
                if answer.unknown:
                    self.outbound.note_unknown(answer.unknown)
                await asking.sendto(answer.message, address)
            except OSError:  # the program has closed its socket, or its queue is full
                await trio.lowlevel.checkpoint()

    async def opened(self, host: Host) -> tuple[httpcore.AsyncNetworkStream, _Headers | None]:
        """Open a connection for an unencrypted request.

        The second value is not None if the request must be sent as to a proxy, with these headers.

        Raises:
            FetchRefused: See `Outbound.connect`.
            FetchError: See `Outbound.connect`.
            SetupError: See `Outbound.connect`.
        """
        self.outbound.check(host)
        proxy = self.outbound.proxy_for(host, "http")
        if proxy is None or proxy.socks:
            return await self.outbound.connect(host, "http"), None
        more = [(name.encode(), value.encode()) for name, value in credentials(proxy)]
        return await self.outbound.to_proxy(proxy), more


async def relay(near: trio.SocketStream, far: httpcore.AsyncNetworkStream, first: bytes = b"") -> None:
    """Copy bytes in both directions until both sides have ended, or nothing has passed for `IDLE_S`.

    The end of one direction is passed on, and the other one continues. `first` was already read from `near`.
    Closes both connections.
    """
    try:
        with trio.CancelScope(deadline=trio.current_time() + IDLE_S) as idle:

            async def out() -> None:
                data: bytes = first or await near.receive_some(_CHUNK)
                while data:
                    idle.deadline = trio.current_time() + IDLE_S
                    await far.write(data)
                    data = await near.receive_some(_CHUNK)
                own = far.get_extra_info("socket")
                if own is not None:
                    with suppress(OSError):
                        own.shutdown(socket.SHUT_WR)

            async def back() -> None:
                while data := await far.read(_CHUNK):
                    idle.deadline = trio.current_time() + IDLE_S
                    await near.send_all(data)
                await near.send_eof()

            with _broken():
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(out)
                    nursery.start_soon(back)
    finally:
        await close(far.aclose)
        await trio.aclose_forcefully(near)


@contextmanager
def _broken() -> Iterator[None]:
    """End the block silently if one of its connections breaks, or what it sends is no HTTP."""
    try:
        yield
    except* (
        trio.BrokenResourceError,
        trio.ClosedResourceError,
        h11.ProtocolError,
        httpcore.NetworkError,
        httpcore.TimeoutException,
    ):
        pass


class _Proxy:
    """One connection to the proxy."""

    def __init__(self, stream: trio.SocketStream, gateway: Gateway) -> None:
        self._stream = stream
        self._gateway = gateway
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_HEAD_BYTES)

    async def serve(self) -> None:
        """Answer requests until the program closes the connection."""
        while True:
            try:
                with trio.fail_after(HEAD_S):
                    request = await _next(self._http, self._stream.receive_some)
            except trio.TooSlowError:
                return None
            except h11.RemoteProtocolError as error:
                await self._answer(error.error_status_hint, "This is not an HTTP request.")
                return None
            if not isinstance(request, h11.Request):
                return None
            try:
                if request.method == b"CONNECT":
                    return await self._connect(request)
                await self._forward(request)
            except FetchRefused as refused:
                await self._answer(403, refused.message, b"Not allowed by Rumi")
                return None
            except (FetchError, SetupError) as error:
                await self._answer(502, error.text)
                return None
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return None
            self._http.start_next_cycle()

    async def _connect(self, request: h11.Request) -> None:
        far = await self._gateway.outbound.connect(read_host(request.target.decode("latin-1")))
        try:
            while isinstance(self._http.next_event(), h11.Data | h11.EndOfMessage):
                pass
            answer = h11.Response(status_code=200, headers=[], reason=b"Connected")
            await self._stream.send_all(self._http.send(answer) or b"")
        except BaseException:
            await close(far.aclose)
            raise
        await relay(self._stream, far, self._http.trailing_data[0])

    async def _forward(self, request: h11.Request) -> None:
        """Send an unencrypted request to its host, and the answer back."""
        text = request.target.decode("latin-1")
        if not text.lower().startswith("http://"):
            raise FetchRefused(
                "This proxy takes CONNECT, and requests for an address that begins with http://."
            )
        target = parse_target(text)
        host = host_of(target.host, target.port, is_ip=target.is_ip)
        far, through = await self._gateway.opened(host)
        try:
            # The target decides, and not the header Host, which may say something else (RFC 9112, 3.2.2).
            headers = [(b"Host", target.authority.encode()), *_kept(request.headers)]
            if _is_chunked(request.headers):
                # A length beside it is wrong, and could end the request elsewhere (RFC 9112, 6.1).
                headers = [(name, value) for name, value in headers if name != b"content-length"]
                headers.append((b"Transfer-Encoding", b"chunked"))
            path = target.path_and_query if through is None else target.page
            asks = h11.Request(
                method=request.method,
                target=path.encode(),
                headers=[*headers, *(through or ()), (b"Connection", b"close")],
            )
            await self._exchange(far, asks)
        finally:
            await close(far.aclose)

    async def _exchange(self, far: httpcore.AsyncNetworkStream, asks: h11.Request) -> None:
        out = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_HEAD_BYTES)
        answered = False
        with trio.CancelScope(deadline=trio.current_time() + IDLE_S) as idle:

            async def read_far(size: int) -> bytes:
                data = await far.read(size)
                idle.deadline = trio.current_time() + IDLE_S
                return data

            async def send_body() -> None:
                await far.write(out.send(asks) or b"")
                while True:
                    if self._http.they_are_waiting_for_100_continue:
                        go_on = h11.InformationalResponse(status_code=100, headers=[])
                        await self._stream.send_all(self._http.send(go_on) or b"")
                    event = await _next(self._http, self._stream.receive_some)
                    idle.deadline = trio.current_time() + IDLE_S
                    if isinstance(event, h11.Data):
                        await far.write(out.send(h11.Data(data=event.data)) or b"")
                    else:
                        if isinstance(event, h11.EndOfMessage):
                            await far.write(out.send(h11.EndOfMessage()) or b"")
                        return

            with _broken():
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(send_body)
                    while True:
                        event = await _next(out, read_far)
                        if isinstance(event, h11.InformationalResponse):
                            continue
                        if isinstance(event, h11.Response):
                            answered = True
                            event = h11.Response(
                                status_code=event.status_code,
                                headers=_kept(event.headers),
                                reason=event.reason,
                            )
                        elif isinstance(event, h11.EndOfMessage):
                            event = h11.EndOfMessage()  # without trailers
                        elif not isinstance(event, h11.Data):
                            break
                        await self._stream.send_all(self._http.send(event) or b"")
                        if isinstance(event, h11.EndOfMessage):
                            break
                    nursery.cancel_scope.cancel()
        if not answered:
            raise FetchError("{host} did not answer the request.", host=asks.headers[0][1].decode())

    async def _answer(self, status: int, text: str, reason: bytes = b"") -> None:
        """Send a short text, and end the connection."""
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        body = f"{text}\n".encode()
        headers = [
            (b"Content-Type", b"text/plain; charset=utf-8"),
            (b"Content-Length", str(len(body)).encode()),
            (b"Connection", b"close"),
        ]
        events: list[Any] = [h11.Response(status_code=status, headers=headers, reason=reason)]
        events += [h11.Data(data=body), h11.EndOfMessage()]
        data = b"".join(self._http.send(event) or b"" for event in events)
        with trio.move_on_after(HEAD_S):
            await self._stream.send_all(data)
            await self._stream.send_eof()
            # Closing a socket with unread bytes would reset the connection, and the program lose the answer.
            while await self._stream.receive_some(_CHUNK):
                pass


async def _next(http: h11.Connection, read: Any) -> Any:
    """Return the next event of a connection; h11.PAUSED is returned too."""
    while True:
        event = http.next_event()
        if event is not h11.NEED_DATA:
            await trio.lowlevel.checkpoint()
            return event
        http.receive_data(await read(_CHUNK))


def _kept(headers: Any) -> _Headers:
    """Return the headers that are passed on: not those of the connection, nor those that it names."""
    named = {
        word.strip().lower() for name, value in headers if name == b"connection" for word in value.split(b",")
    }
    dropped = _HOP_BY_HOP | (named - {b"content-length"})  # that one says where the body ends
    return [(name, value) for name, value in headers if name not in dropped]


def _is_chunked(headers: Any) -> bool:
    return any(name == b"transfer-encoding" for name, _ in headers)
