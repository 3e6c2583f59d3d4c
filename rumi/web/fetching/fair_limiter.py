"""Whose turn it is: how many run at once in all, at one host, and for one chat."""

from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from rumi.web.types import FetchError


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many run at once, of one chat and at one host; how many of a chat wait, and for how long."""

    at_once: int
    per_chat: int
    per_host: int
    waiting_per_chat: int
    wait_s: float


@dataclass(slots=True, eq=False)
class Turn:
    """Work that runs or waits; `host` is where it is done, None where no host is concerned."""

    chat: str
    host: str | None
    granted: trio.Event = field(default_factory=trio.Event)


class FairLimiter:
    """Hands out turns. A free one goes to the chat that has the fewest; among those, to who came first.

    So a chat that asks for hundreds delays itself. Nothing here awaits but the wait for a turn: the counts
    are sound at every checkpoint.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._waiting: dict[str, deque[Turn]] = {}
        self._of_chat: Counter[str] = Counter()
        self._of_host: Counter[str] = Counter()
        self.running = 0

    @property
    def waiting(self) -> int:
        """Return how many wait, those included that wait to follow a redirect to a busy host."""
        return sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def turn(self, chat: str, host: str | None = None) -> AsyncIterator[Turn]:
        """Wait for a turn, and give it back at the end, however that comes.

        Raises:
            FetchError: too many of this chat wait already, or the wait was too long.
        """
        if len(self._waiting.get(chat, ())) >= self._bounds.waiting_per_chat:
            raise FetchError(
                "Too many requests of this chat already wait for the web.", "Ask for fewer pages at once."
            )
        turn = Turn(chat, host)
        with trio.move_on_after(self._bounds.wait_s):
            await self._wait(turn)
        if not turn.granted.is_set():
            raise FetchError("Too many requests wait for the web at the moment.", "Try again in a minute.")
        try:
            yield turn
        finally:
            if turn.granted.is_set():
                self._give_back(turn)

    def leave_host(self, turn: Turn) -> None:
        """Nothing is open there any more; the rest of the turn goes on."""
        self._count(turn, -1)
        turn.host = None
        self._count(turn, 1)
        self._grant()

    async def move(self, turn: Turn, host: str) -> None:
        """Go on to another host: its own bound holds there too. Nothing may be open at the old one.

        Cancelled, the turn is given back.
        """
        if host == turn.host:
            return
        self._give_back(turn)
        turn.host, turn.granted = host, trio.Event()
        await self._wait(turn, first=True)

    async def _wait(self, turn: Turn, *, first: bool = False) -> None:
        queue = self._waiting.setdefault(turn.chat, deque())
        if first:  # it had its turn already
            queue.appendleft(turn)
        else:
            queue.append(turn)
        self._grant()
        try:
            await turn.granted.wait()
        except trio.Cancelled:
            if turn.granted.is_set():
                self._give_back(turn)
                turn.granted = trio.Event()
            else:
                self._leave_queue(turn)
            raise

    def _give_back(self, turn: Turn) -> None:
        self._count(turn, -1)
        self._grant()

    def _count(self, turn: Turn, change: int) -> None:
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

    def _next(self) -> Turn | None:
        """The first waiting fetch whose host has room, of the chat with the fewest turns."""
        for chat in sorted(self._waiting, key=lambda chat: self._of_chat[chat]):
            if self._of_chat[chat] >= self._bounds.per_chat:
                return None
            for turn in self._waiting[chat]:
                if turn.host is None or self._of_host[turn.host] < self._bounds.per_host:
                    return turn
        return None

    def _leave_queue(self, turn: Turn) -> None:
        """The chat goes to the end of its equals."""
        queue = self._waiting.pop(turn.chat)
        queue.remove(turn)
        if queue:
            self._waiting[turn.chat] = queue
