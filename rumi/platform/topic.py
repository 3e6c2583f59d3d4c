"""Publish and subscribe: publishing never waits, and what a slow reader loses follows a stated rule."""

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

import trio

E = TypeVar("E")
K = TypeVar("K", bound=Hashable)

IN_A_ROW = 64
"""Events that a reader may take before other tasks run. With one at a time, a reader of a hundred busy
publishers would get one event in each round of all their tasks, and fall behind by seconds."""


@dataclass(frozen=True, slots=True)
class Backlog(Generic[E]):
    """The rule for slow readers: how far one may be behind, and what it loses beyond that.

    A reader may have `most` events waiting, which together weigh `most_weight`. Beyond either, it loses the
    oldest event that `keeps` does not name; what `keeps` names is never lost, so that is unbounded, and its
    publishers must bound it. `joins` may return one event in place of two neighbours, the older one still
    waiting: a joined event loses no other.
    """

    most: int = 1000
    most_weight: float = inf
    weight: Callable[[E], float] = lambda event: 0
    retains: Callable[[E], bool] = lambda event: False
    joins: Callable[[E, E], E | None] = lambda older, newer: None


class Subscription(Generic[E]):
    """One reader's queue. `lost` counts the events that it was too slow for, `wants` chooses before that."""

    __slots__ = ("_arrived", "_backlog", "_close", "_in_a_row", "_queue", "_wants", "_weight", "lost")

    def __init__(
        self,
        backlog: Backlog[E],
        wants: Callable[[E], bool] = lambda event: True,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self._backlog = backlog
        self._wants = wants
        self._close = close
        self._queue: deque[E] = deque()
        self._weight = 0.0
        self._arrived = trio.Event()
        self._in_a_row = 0
        self.lost = 0

    async def receive(self) -> E:
        """Return the next event. Cancelled, it loses nothing. A checkpoint if it waits, and now and then."""
        while not self._queue:
            self._in_a_row = 0
            await self._arrived.wait()
            self._arrived = trio.Event()
        self._in_a_row = (self._in_a_row + 1) % IN_A_ROW
        if self._in_a_row:
            await trio.lowlevel.checkpoint_if_cancelled()
        else:
            await trio.lowlevel.checkpoint()
        event = self._queue.popleft()
        self._weight -= self._backlog.weight(event)
        return event

    @property
    def behind(self) -> int:
        """Return how many events wait to be received."""
        return len(self._queue)

    def put(self, event: E) -> None:
        """Add an event for this reader alone, if it is wanted."""
        if not self._wants(event):
            return
        rule = self._backlog
        if self._queue and (joined := rule.joins(self._queue[-1], event)) is not None:
            self._weight += rule.weight(joined) - rule.weight(self._queue[-1])
            self._queue[-1] = joined
            return
        self._weight += rule.weight(event)
        self._queue.append(event)
        while (len(self._queue) > rule.most or self._weight > rule.most_weight) and self._lose_one():
            pass
        self._arrived.set()

    def _lose_one(self) -> bool:
        """Forget the oldest event that need not be kept, if there is one."""
        for node, event in enumerate(self._queue):
            if not self._backlog.retains(event):
                del self._queue[node]
                self._weight -= self._backlog.weight(event)
                self.lost += 1
                return True
        return False

    def close(self) -> None:
        """Stop listening. What waits can still be received."""
        self._close()


class Topic(Generic[K, E]):
    """Hands each event to the subscribers of its key, and to the subscribers of all keys."""

    def __init__(self, backlog: Backlog[E]) -> None:
        self._backlog = backlog
        self._subscriptions: dict[K | None, set[Subscription[E]]] = {}

    def publish(self, key: K, event: E) -> None:
        """Give an event to those who listen now. Never waits, and never fails because of a reader."""
        for topic_key in (key, None):
            for subscription in self._subscriptions.get(topic_key, ()):
                subscription.put(event)

    def subscribe(
        self, key: K | None = None, *, wants: Callable[[E], bool] = lambda event: True
    ) -> Subscription[E]:
        """Listen to one key, or to all, from now on, until the subscription is closed."""
        subscription = Subscription(self._backlog, wants, lambda: self._forget(key, subscription))
        self._subscriptions.setdefault(key, set()).add(subscription)
        return subscription

    @contextmanager
    def listening(
        self, key: K | None = None, *, wants: Callable[[E], bool] = lambda event: True
    ) -> Iterator[Subscription[E]]:
        """Listen within a block."""
        subscription = self.subscribe(key, wants=wants)
        try:
            yield subscription
        finally:
            subscription.close()

    def subscribed(self) -> tuple[K | None, ...]:
        """Return the keys that have subscribers; None stands for all keys."""
        return tuple(self._subscriptions)

    def _forget(self, key: K | None, subscription: Subscription[E]) -> None:
        listeners = self._subscriptions.get(key, set())
        listeners.discard(subscription)
        if not listeners:
            self._subscriptions.pop(key, None)
