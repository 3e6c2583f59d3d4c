"""The output of a command, of which only the beginning and the end are kept."""

from rumi.sandbox.types import Output


class HeadTail:
    """Keeps the first and the last half of `limit` bytes of a stream, in flat memory however much comes."""

    def __init__(self, limit: int) -> None:
        self._half = max(limit // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, data: bytes) -> None:
        """Take what came next."""
        self._total += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if len(data) >= self._half:
            self._tail = bytearray(data[-self._half :])
            return
        self._tail += data
        # Cut at twice the length, so that many small pieces do not each move the whole tail.
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    def output(self) -> Output:
        """What is kept, so far."""
        return Output(bytes(self._head), bytes(self._tail[-self._half :]), self._total)
