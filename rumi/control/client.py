"""The control socket's client: ask the process that holds the home."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from trio_websocket import ConnectionClosed, HandshakeError, WebSocketConnection, wrap_client_stream

from rumi.control.streams import NotRunning
from rumi.errors import RumiError, error_of

TIMEOUT_S = 65.0
"""Longer than the other side waits for a chat: what it has to say about that is better than our guess."""
HOST = "rumi"
"""A name for the handshake's Host header; there is no host behind a Unix socket."""


CONNECT_S = 10.0
"""The process greets a client at once, unless it is suspended."""


class NoAnswer(RumiError):
    """It is there, and says nothing, or went away."""

    def __init__(self) -> None:
        super().__init__("The running Rumi did not answer.", "Try again, or look at its log.")


class ControlClient:
    """An open connection to the process that holds the home, by the socket at `path`."""

    def __init__(self, connection: WebSocketConnection, path: Path) -> None:
        self.path = path
        self._connection = connection

    async def call(self, name: str, timeout_s: float = TIMEOUT_S, /, **fields: object) -> object:
        """Ask, and return the result.

        Raises:
            RumiError: what the process answered, or that it went away.
        """
        try:
            with trio.fail_after(timeout_s):
                await self._connection.send_message(json.dumps({"call": name, **fields}))
                answer = json.loads(await self._connection.get_message())
        except (ConnectionClosed, trio.TooSlowError):
            raise NoAnswer from None
        if not answer["ok"]:
            raise error_of(answer)
        return answer["result"]


@asynccontextmanager
async def connect(path: Path) -> AsyncIterator[ControlClient]:
    """Connect to the control socket.

    Raises:
        NotRunning: nothing listens there.
        NoAnswer: who listens there does not greet back.
    """
    try:
        stream = await trio.open_unix_socket(path)
    except OSError:
        raise NotRunning from None
    try:
        async with stream, trio.open_nursery() as nursery:
            try:
                with trio.fail_after(CONNECT_S):
                    connection = await wrap_client_stream(nursery, stream, HOST, "/")
            except (trio.TooSlowError, HandshakeError):
                raise NoAnswer from None
            try:
                yield ControlClient(connection, path)
            finally:
                with trio.move_on_after(1, shield=True):
                    await connection.aclose()
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1 and isinstance(only := group.exceptions[0], RumiError):
            raise only from None  # callers know it by its name, not by the nursery around it
        raise
