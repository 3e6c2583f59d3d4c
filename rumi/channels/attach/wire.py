"""A connection on the control socket: JSON objects both ways, each one message of a WebSocket."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress

import trio
from trio_websocket import ConnectionClosed, WebSocketConnection

MAX_MESSAGE_BYTES = 16_000_000
"""The longest message that a client may send: what somebody types or pipes into a window is one message."""

MAX_ANSWER_BYTES = 256_000_000
"""The longest message of the running Rumi, which is trusted: more than any reply or any output has."""

PROTOCOL = "rumi-2"
"""The subprotocol of the handshake: a process that answers with it knows callers (`rumi.platform.caller`)."""

CHUNK_BYTES = 65_536
"""How much is read at once. trio-websocket's own 4 KiB make a long message slow."""

CLOSE_S = 1.0
"""How long a peer may take to answer a close. A suspended one answers never."""


class WireClosed(Exception):
    """The peer is gone, or it sent what is not a JSON object."""


class Wire(trio.abc.AsyncResource):
    """A WebSocket that carries JSON objects. Several tasks may send at once."""

    def __init__(self, connection: WebSocketConnection) -> None:
        self._connection = connection

    async def send(self, message: Mapping[str, object]) -> None:
        """Send an object. This waits while the peer does not read; if cancelled, the wire is of no more use.

        Raises:
            WireClosed: the connection is closed. `receive` is the first to notice that the peer has left.
        """
        # ASCII, so that lone surrogates (in names of files, for example) arrive as they are.
        await self.send_text(json.dumps(message, separators=(",", ":")))

    async def send_text(self, text: str) -> None:
        """Send an object that is JSON already, like `send`."""
        try:
            await self._connection.send_message(text)
        except ConnectionClosed:
            raise WireClosed from None

    async def receive(self) -> Mapping[str, object]:
        """Return the next object. If cancelled, no message is lost.

        Raises:
            WireClosed: the peer is gone and everything that it sent was received; or it sent no object.
        """
        try:
            found = json.loads(await self._connection.get_message())
        except (ConnectionClosed, ValueError, RecursionError):
            raise WireClosed from None
        if not isinstance(found, dict):
            raise WireClosed
        return found

    async def aclose(self) -> None:
        """Close the connection. The peer may take `CLOSE_S` to answer; if cancelled, this does not wait."""
        with trio.move_on_after(CLOSE_S):
            await self._connection.aclose()


class LastWords(trio.abc.Stream):
    """A stream that is over when it has been read to its end, not when a send fails.

    After a failed send, trio-websocket drops what the peer had sent before it left. `at_end` is called at
    the end: trio-websocket does not notice a peer that leaves during the opening handshake.
    """

    def __init__(self, stream: trio.abc.Stream, at_end: Callable[[], None] = lambda: None) -> None:
        self._stream = stream
        self._at_end = at_end

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send the data, or nothing if the peer is gone."""
        try:
            await self._stream.send_all(data)
        except trio.BrokenResourceError:
            await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Return what has come; nothing at the end."""
        try:
            data = await self._stream.receive_some(max_bytes)
        except trio.BrokenResourceError:
            data = b""
        if not data:
            self._at_end()
        return data

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until a send might not block."""
        await self._stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()


async def when_closed(wire: Wire, then: Callable[[], object]) -> None:
    """Call `then` when the peer is gone; what it sends until then is ignored."""
    with suppress(WireClosed):
        while True:
            await wire.receive()
    then()
