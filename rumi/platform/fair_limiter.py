"""A fair limiter of simultaneous work. It has limits in total, per host, and per chat or owner."""

from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio


@dataclass(frozen=True, slots=True)
class LimiterBounds:
    """Limits on simultaneous work (in total, per chat and per host), and on the work that waits for a turn.

    `waiting_per_chat` is the maximum length of a chat's queue, `wait_s` the maximum wait in seconds.
    """

    at_once: int
    per_chat: int
    per_host: int
    waiting_per_chat: int
    wait_s: float


@dataclass(slots=True, eq=False)
class QueuedWork:
    """Work that waits for a turn (permission to run) or has one. `host` is the server it uses, or None."""

    chat: str
    host: str | None
    granted: trio.Event = field(default_factory=trio.Event)


class NoTurn(Exception):  # an expected answer, not an error: the caller writes the message for people
    """The work gets no turn: its chat's queue is full or, if `late` is true, the work waited too long."""

    def __init__(self, *, late: bool) -> None:
        super().__init__()
        self.late = late


class FairLimiter:
    """Grants turns (permissions to run) to work. The waiting chat with the fewest current turns is next.

    Chats with equally many turns alternate. So a chat with hundreds of requests delays only itself. The
    methods let other trio tasks run only while they wait for a turn, so these tasks never see inconsistent
    counts.
    """

    def __init__(self, bounds: LimiterBounds) -> None:
        self._bounds = bounds
        self._waiting: dict[str, deque[QueuedWork]] = {}
        self._of_chat: Counter[str] = Counter()
        self._of_host: Counter[str] = Counter()
        self.running = 0

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a turn, including those redirected to a busy host."""
        return sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def turn(self, chat: str, host: str | None = None) -> AsyncIterator[QueuedWork]:
        """Wait for a turn, and release it at the end of the block.

        Raises:
            NoTurn: The queue of this chat is full, or the wait was too long.
        """
        if len(self._waiting.get(chat, ())) >= self._bounds.waiting_per_chat:
            raise NoTurn(late=False)
        turn = QueuedWork(chat, host)
        with trio.move_on_after(self._bounds.wait_s):
            await self._wait(turn)
        if not turn.granted.is_set():
            raise NoTurn(late=True)
        try:
            yield turn
        finally:
            if turn.granted.is_set():
                self._give_back(turn)

    def leave_host(self, turn: QueuedWork) -> None:
        """Free the turn's slot at its host, but keep the turn. First close the connection to the host."""
        self._count(turn, -1)
        turn.host = None
        self._count(turn, 1)
        self._grant()

    async def move(self, turn: QueuedWork, host: str) -> None:
        """Move the turn to another host, and wait for a slot there.

        Close the connection to the old host before the call. On cancellation, the turn is released.
        """
        if host == turn.host:
            return
        self._give_back(turn)
        turn.host, turn.granted = host, trio.Event()
        await self._wait(turn, first=True)

    async def _wait(self, turn: QueuedWork, *, first: bool = False) -> None:
        queue = self._waiting.setdefault(turn.chat, deque())
        if first:  # it had a turn already, so it goes before the chat's other requests
            queue.appendleft(turn)
        else:
            queue.append(turn)
        self._grant()
        try:
            await turn.granted.wait()
        except trio.Cancelled:
            # The turn may be granted between the cancellation and this line.
            if turn.granted.is_set():
                self._give_back(turn)
                turn.granted = trio.Event()  # unset, so that `turn` does not return it once more
            else:
                self._leave_queue(turn)
            raise

    def _give_back(self, turn: QueuedWork) -> None:
        self._count(turn, -1)
        self._grant()

    def _count(self, turn: QueuedWork, change: int) -> None:
        self.running += change
        self._of_chat[turn.chat] += change
        if not self._of_chat[turn.chat]:
            del self._of_chat[turn.chat]
        if turn.host is not None:
            self._of_host[turn.host] += change
            if not self._of_host[turn.host]:
                del self._of_host[turn.host]

    def _grant(self) -> None:
        while self.running < self._bounds.at_once and (turn := self._next()) is not None:
            self._leave_queue(turn)
            self._count(turn, 1)
            turn.granted.set()

    def _next(self) -> QueuedWork | None:
        """Return the next work to run: work of the chat with the fewest turns, at a host with a free slot."""
        for chat in sorted(self._waiting, key=lambda chat: self._of_chat[chat]):
            if self._of_chat[chat] >= self._bounds.per_chat:
                return None  # the following chats have at least as many turns
            for turn in self._waiting[chat]:
                if turn.host is None or self._of_host[turn.host] < self._bounds.per_host:
                    return turn
        return None

    def _leave_queue(self, turn: QueuedWork) -> None:
        """Remove the turn from its chat's queue."""
        # Inserted again, the chat is the last one among chats with equally many turns: they alternate.
        queue = self._waiting.pop(turn.chat)
        queue.remove(turn)
        if queue:
            self._waiting[turn.chat] = queue
