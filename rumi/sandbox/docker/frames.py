"""The streams of a Docker exec: frames of an eight-byte header and a payload, read at a bounded rate."""

import trio

from rumi.sandbox.docker.api import Duplex
from rumi.sandbox.engine import Sink
from rumi.sandbox.pipes import ReadPace

HEAD = 8
_START_FAILED = b"OCI runtime exec failed"
"""Start of the message that the daemon sends as standard output if it could not start a program."""


class Demultiplexer:
    """Forwards each payload to the sink of its stream; buffers only a header or the daemon's message."""

    def __init__(self, stdout: Sink, stderr: Sink) -> None:
        self._sinks = {1: stdout, 2: stderr}
        self._head = bytearray()
        self._left = 0
        self._sink = stdout
        self._first = True
        self._pending = bytearray()

    def feed(self, data: bytes) -> None:
        """Forward the payloads in the socket's next bytes, which may be split at any point."""
        view = memoryview(data)
        while view:
            if self._left == 0:
                missing = HEAD - len(self._head)
                self._head += view[:missing]
                view = view[missing:]
                if len(self._head) == HEAD:
                    self._left = int.from_bytes(self._head[4:], "big")
                    self._sink = self._sinks.get(self._head[0], self._sinks[2])
                    self._head.clear()
                continue
            payload = bytes(view[: self._left])
            view = view[len(payload) :]
            self._left -= len(payload)
            self._hand_on(payload)

    def finish(self, started: bool) -> str:
        """Return the daemon's message if the program was not started; otherwise forward the buffered text."""
        rest, self._pending = bytes(self._pending), bytearray()
        if not rest:
            return ""
        if started:
            self._sinks[1](rest)
            return ""
        return rest.decode("utf-8", "replace").strip()

    def _hand_on(self, payload: bytes) -> None:
        if (self._first or self._pending) and self._sink is self._sinks[1]:
            self._first = False
            if payload.startswith(_START_FAILED) or (self._pending and len(self._pending) < 4096):
                self._pending += payload
                return
            if self._pending:
                payload = bytes(self._pending) + payload
                self._pending.clear()
        self._sink(payload)


async def listen(connection: Duplex, stdin: bytes, streams: Demultiplexer) -> None:
    """Send the input, if any, and read the output to its end."""
    pace = ReadPace()
    async with trio.open_nursery() as nursery:
        if stdin:
            nursery.start_soon(connection.write, stdin)
        while data := await connection.read():
            streams.feed(data)
            await pace.read(len(data))
        nursery.cancel_scope.cancel()


def not_started(program: str, code: int, words: str) -> tuple[int, str]:
    """Return the exit code and the message that a shell would give for a program that could not be started.

    `words` is the message of the daemon or the kernel.
    """
    said = words.lower()
    if "not found" in said or "no such file" in said:
        return 127, f"{program}: not found in the sandbox\n"
    if "permission denied" in said:
        return 126, f"{program}: cannot be executed\n"
    if "is a directory" in said:
        return 126, f"{program}: is a directory\n"
    if "resource temporarily unavailable" in said:
        return 126, f"{program}: the sandbox has no room for another process\n"
    return code, f"{program}: could not be started: {words}\n"
