"""A connection on the control socket: JSON objects in both directions, each one WebSocket message."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress

import trio
from trio_websocket import ConnectionClosed, WebSocketConnection
from typing_extensions import override

MAX_MESSAGE_BYTES = 16_000_000
"""Maximum bytes in a message from a client: all text typed or piped into a client is one message."""

MAX_ANSWER_BYTES = 256_000_000
"""Maximum bytes in a message from the daemon, which clients trust; no reply or output is longer."""

PROTOCOL = "rumi-2"
"""The subprotocol of the handshake: a process that answers with it knows callers (`rumi.platform.caller`)."""

CHUNK_BYTES = 65_536
"""Number of bytes to read at once. With trio-websocket's default of 4 KiB, long messages are slow."""

CLOSE_S = 1.0
"""Maximum time for a peer to answer a close, in seconds. A suspended peer never answers."""


class WireClosed(Exception):
    """The peer has disconnected, or sent a message that is not a JSON object."""


class Wire(trio.abc.AsyncResource):
    """A WebSocket that carries JSON objects. Several tasks may send concurrently."""

    def __init__(self, connection: WebSocketConnection) -> None:
        self._connection = connection

    async def send(self, message: Mapping[str, object]) -> None:
        """Send an object; wait while the peer does not read. After a cancellation, the wire is unusable.

        Raises:
            WireClosed: the connection is closed. `receive` is the first to notice that the peer disconnected.
        """
        # ASCII, so that lone surrogates (in names of files, for example) arrive as they are.
        await self.send_text(json.dumps(message, separators=(",", ":")))

    async def send_text(self, text: str) -> None:
        """Send an object that is already encoded as JSON. Apart from that, this is like `send`."""
        try:
            await self._connection.send_message(text)
        except ConnectionClosed:
            raise WireClosed from None

    async def receive(self) -> Mapping[str, object]:
        """Return the next object. If cancelled, no message is lost.

        Raises:
            WireClosed: the peer has disconnected and all its messages were received, or it sent something
                other than a JSON object.
        """
        try:
            found = json.loads(await self._connection.get_message())
        except (ConnectionClosed, ValueError, RecursionError):  # RecursionError: deeply nested JSON
            raise WireClosed from None
        if not isinstance(found, dict):
            raise WireClosed
        return found

    async def aclose(self) -> None:
        """Close the connection. Wait at most `CLOSE_S` for the peer; if cancelled, do not wait."""
        with trio.move_on_after(CLOSE_S):
            await self._connection.aclose()


class LastWords(trio.abc.Stream):
    """A stream that stays readable until all received data has been read, even after a send has failed.

    After a failed send, trio-websocket would drop the messages that the peer had sent before it disconnected.
    `at_end` is called when all data has been read, because trio-websocket does not notice a peer that
    disconnects during the opening handshake.
    """

    def __init__(self, stream: trio.abc.Stream, at_end: Callable[[], None] = lambda: None) -> None:
        self._stream = stream
        self._at_end = at_end

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send the data; drop it if the peer has disconnected."""
        try:
            await self._stream.send_all(data)
        except trio.BrokenResourceError:
            await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Return received data; an empty result means that the stream has ended or the connection broke."""
        try:
            data = await self._stream.receive_some(max_bytes)
        except trio.BrokenResourceError:
            data = b""
        if not data:
            self._at_end()
        return data

    @override
    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    @override
    async def aclose(self) -> None:
        await self._stream.aclose()


async def when_closed(wire: Wire, then: Callable[[], object]) -> None:
    """Call `then` when the peer has disconnected; ignore messages that arrive before that."""
    with suppress(WireClosed):
        while True:
            await wire.receive()
    then()
