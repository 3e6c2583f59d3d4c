"""A proxy that stops forwarding at a byte of one direction, so that a process can be killed there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio


@dataclass
class CutLine:
    """Forwards connections to a port. After `upto` bytes in a `direction` it stops, and sets `reached`.

    `counted` are the bytes in both directions so far: `up` to the server, and `down` to the client.
    """

    port: int
    direction: str = ""
    upto: int = 0
    here: int = 0
    reached: trio.Event = field(default_factory=trio.Event)
    released: trio.Event = field(default_factory=trio.Event)
    counted: dict[str, int] = field(default_factory=lambda: {"up": 0, "down": 0})

    def stop_at(self, direction: str, upto: int) -> None:
        self.direction, self.upto = direction, upto
        self.released.set()
        self.reached, self.released = trio.Event(), trio.Event()
        self.counted = {"up": 0, "down": 0}

    async def serve(self, client: trio.SocketStream) -> None:
        async with client, await trio.open_tcp_stream("127.0.0.1", self.port) as server:
            async with trio.open_nursery() as nursery:

                async def forward(what: str, source: trio.SocketStream, sink: trio.SocketStream) -> None:
                    try:
                        async for piece in source:
                            before = self.counted[what]
                            self.counted[what] += len(piece)
                            if what == self.direction and before + len(piece) >= self.upto:
                                await sink.send_all(piece[: max(0, self.upto - before)])
                                self.reached.set()
                                await self.released.wait()
                                break
                            await sink.send_all(piece)
                    except (trio.BrokenResourceError, trio.ClosedResourceError):
                        pass
                    nursery.cancel_scope.cancel()

                nursery.start_soon(forward, "up", client, server)
                nursery.start_soon(forward, "down", server, client)


@asynccontextmanager
async def cut_line(port: int) -> AsyncIterator[CutLine]:
    line = CutLine(port)
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, line.serve, 0)
        line.here = listeners[0].socket.getsockname()[1]
        yield line
        nursery.cancel_scope.cancel()
