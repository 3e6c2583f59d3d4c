"""The control socket's client: calls and streams of the process that holds the home."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import trio
from trio_websocket import wrap_client_stream

from rumi.channels.attach.peers import NotProved, Peer, dial
from rumi.channels.attach.wire import CHUNK_BYTES, MAX_ANSWER_BYTES, PROTOCOL, LastWords, Wire, WireClosed
from rumi.errors import RumiError, error_of
from rumi.platform.caller import Caller

TIMEOUT_S = 65.0
"""Longer than the other side waits for a chat, because its own message is more exact than a timeout."""

OTHER_VERSION = ("The running Rumi has another version than this one.", "Restart it, then try again.")

HOST = "rumi"
"""A name for the handshake's Host header; there is no host behind a Unix socket."""

CONNECT_S = 10.0
"""The process greets a client at once, unless it is suspended."""


class NotRunning(RumiError):
    """No process answers on this home."""

    def __init__(self) -> None:
        super().__init__("No Rumi is running on this home.", "Start one with: rumi chat")


class NoAnswer(RumiError):
    """The process is there and does not answer, or it went away before it did."""

    def __init__(self) -> None:
        super().__init__("The running Rumi did not answer.", "Try again, or look at its log.")


class WentAway(NoAnswer):
    """The process went away before it answered: what was asked may be done, or not."""


class OtherVersion(RumiError):
    """The process is of a version that does not know what is asked. Nothing was asked."""

    def __init__(self) -> None:
        super().__init__(*OTHER_VERSION)


class ControlClient:
    """A `caller`'s open connection to the process at `place`: calls, one after the other, or one stream."""

    def __init__(self, wire: Wire, address: Path | Peer, caller: Caller) -> None:
        self.address = address
        self.caller = caller
        self._wire = wire

    async def call(self, name: str, timeout_s: float = TIMEOUT_S, /, **fields: object) -> Any:
        """Ask, and return the result. If cancelled or not answered, the connection is of no more use.

        Raises:
            RumiError: what the process answered, or that it did not.
        """
        try:
            with trio.fail_after(timeout_s):
                await self._wire.send({"call": name, "caller": self.caller.to_json(), **fields})
                answer = await self._wire.receive()
        except WireClosed:
            raise WentAway from None
        except trio.TooSlowError:
            raise NoAnswer from None
        if not answer["ok"]:
            raise error_of(answer)
        return answer["result"]

    async def stream(self, name: str, /, **fields: object) -> Wire:
        """Ask for a stream. The connection is the stream's from now on, until the block of `connect` ends.

        Raises:
            WireClosed: the process went away just then.
        """
        await self._wire.send({"stream": name, "caller": self.caller.to_json(), **fields})
        return self._wire


@asynccontextmanager
async def connect(address: Path | Peer, caller: Caller) -> AsyncIterator[ControlClient]:
    """Connect to the control socket at a path, or to a peer, for as long as the block lasts.

    Every call and stream of the connection is the `caller`'s. A process of an earlier version ignores the
    caller, so one that may not see everything is not connected to it.

    Raises:
        OtherVersion: the process would ignore the caller's limits.
        NotRunning: nothing listens there, or it stopped just then.
        NoAnswer: the process does not answer the handshake.
    """
    try:
        if isinstance(address, Peer):
            stream = await dial(address)
        else:
            stream = await trio.open_unix_socket(address)
    except (OSError, NotProved):
        raise NotRunning from None
    try:
        async with stream, trio.open_nursery() as nursery:
            with trio.move_on_after(CONNECT_S) as patience:
                lasting = cast(trio.SocketStream, LastWords(stream, at_end=patience.cancel))
                connection = await wrap_client_stream(
                    nursery, lasting, HOST, "/", subprotocols=[PROTOCOL],
                    max_message_size=MAX_ANSWER_BYTES, receive_buffer_size=CHUNK_BYTES,
                )  # fmt: skip
            if patience.cancelled_caught:
                raise NoAnswer if trio.current_time() >= patience.deadline else NotRunning
            async with Wire(connection) as wire:
                if caller.scope is not None and connection.subprotocol != PROTOCOL:
                    raise OtherVersion
                yield ControlClient(wire, address, caller)
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        only = group.exceptions[0]
        if len(group.exceptions) != 1 or not isinstance(only, Exception):
            raise  # a Ctrl-C among them: the command line ends without a word
        raise only from only.__cause__  # callers know the error by its name, not by the nursery around it
