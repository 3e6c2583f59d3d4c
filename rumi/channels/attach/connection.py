"""The client of the control socket: calls and streams of the daemon."""

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
from rumi.texts import Text

TIMEOUT_S = 65.0
"""Maximum time for a call, in seconds; the daemon's shorter timeout gives a more exact error."""

OTHER_VERSION = (
    Text("The running Rumi has another version than this one."),
    Text("Restart it, then try again."),
)

HOST = "rumi"
"""The Host header of the handshake; a Unix socket has no host."""

CONNECT_S = 10.0
"""Maximum duration of the handshake, in seconds; only a suspended process takes longer."""


class NotRunning(RumiError):
    """No process listens on this home's control socket."""

    def __init__(self) -> None:
        super().__init__("No Rumi is running on this home.", "Start one with: rumi chat")


class NoAnswer(RumiError):
    """The process runs but does not answer, or it ended before it answered."""

    def __init__(self) -> None:
        super().__init__("The running Rumi did not answer.", "Try again, or look at its log.")


class WentAway(NoAnswer):
    """The process ended before it answered; the request may have had an effect."""


class OtherVersion(RumiError):
    """The process has a version that does not know the request. Nothing was requested."""

    def __init__(self) -> None:
        super().__init__(*OTHER_VERSION)


class ControlClient:
    """The caller's open connection to the process at `address`, for successive calls or for one stream."""

    def __init__(self, wire: Wire, address: Path | Peer, caller: Caller) -> None:
        self.address = address
        self.caller = caller
        self._wire = wire

    async def call(self, name: str, timeout_s: float = TIMEOUT_S, /, **fields: object) -> Any:
        """Make a call and return its result. If cancelled or timed out, the connection is no longer usable.

        Raises:
            RumiError: the process answered with an error.
            NoAnswer: the process did not answer in time, or ended.
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
        """Request a stream, which uses the connection from now on, until the block of `connect` ends.

        Raises:
            WireClosed: the process has just ended.
        """
        await self._wire.send({"stream": name, "caller": self.caller.to_json(), **fields})
        return self._wire


@asynccontextmanager
async def connect(address: Path | Peer, caller: Caller) -> AsyncIterator[ControlClient]:
    """Connect to the control socket at a path, or to a peer, for as long as the block lasts.

    Every call and stream of the connection is made for the `caller`. A process of an earlier version ignores
    the caller, so a caller with restricted rights is never connected to one.

    Raises:
        OtherVersion: the process is of an earlier version and would ignore the caller's restricted rights.
        NotRunning: no process listens at this address, or the process has just stopped.
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
                # trio-websocket would wait forever for a peer that disconnects during the handshake.
                lasting = cast(trio.SocketStream, LastWords(stream, at_end=patience.cancel))
                connection = await wrap_client_stream(
                    nursery, lasting, HOST, "/", subprotocols=[PROTOCOL],
                    max_message_size=MAX_ANSWER_BYTES, receive_buffer_size=CHUNK_BYTES,
                )  # fmt: skip
            if patience.cancelled_caught:  # by the deadline, or by `at_end` if the peer disconnected
                raise NoAnswer if trio.current_time() >= patience.deadline else NotRunning
            async with Wire(connection) as wire:
                if caller.scope is not None and connection.subprotocol != PROTOCOL:
                    raise OtherVersion
                yield ControlClient(wire, address, caller)
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        only = group.exceptions[0]
        if len(group.exceptions) != 1 or not isinstance(only, Exception):
            raise  # with a Ctrl-C in the group, the command line ends without a message
        raise only from only.__cause__  # callers catch the error itself, not the nursery's group around it
