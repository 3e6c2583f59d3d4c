"""Publish and subscribe in memory. Publishing never waits; `Backlog` says which events slow readers lose."""

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
"""Number of events that a reader takes before it lets other tasks run. If a reader of a hundred busy
publishers took only one event per round of the scheduler, it would fall behind by seconds."""


@dataclass(frozen=True, slots=True)
class Backlog(Generic[E]):
    """The limits of a reader's queue, and the rule for dropping events when a limit is exceeded.

    A queue has at most `most` events with a total weight of at most `most_weight`. Beyond either limit, the
    queue drops the oldest event for which `retains` is false. Events for which `retains` is true are never
    dropped, so publishers must limit the number of such events. `joins` may merge a new event with the last
    queued event; then the queue does not grow, and no event is dropped.
    """

    most: int = 1000
    most_weight: float = inf
    weight: Callable[[E], float] = lambda event: 0
    retains: Callable[[E], bool] = lambda event: False
    joins: Callable[[E, E], E | None] = lambda older, newer: None


class Subscription(Generic[E]):
    """The queue of one reader. `wants` filters its events; `lost` counts wanted events that were dropped."""

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
        """Return the next event. A cancellation loses no event.

        This method lets other tasks run only if the queue is empty, and after every `IN_A_ROW` events.
        """
        while not self._queue:
            self._in_a_row = 0
            await self._arrived.wait()
            self._arrived = trio.Event()
        self._in_a_row = (self._in_a_row + 1) % IN_A_ROW
        # Before an event is taken: a cancellation here leaves it in the queue.
        if self._in_a_row:
            await trio.lowlevel.checkpoint_if_cancelled()
        else:
            await trio.lowlevel.checkpoint()
        event = self._queue.popleft()
        self._weight -= self._backlog.weight(event)
        return event

    @property
    def behind(self) -> int:
        """Return the number of queued events."""
        return len(self._queue)

    def put(self, event: E) -> None:
        """Add an event to this reader's queue if `wants` accepts the event. Never waits."""
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
        """Drop the oldest event for which `retains` is false. Return False if all events are retained."""
        for node, event in enumerate(self._queue):
            if not self._backlog.retains(event):
                del self._queue[node]
                self._weight -= self._backlog.weight(event)
                self.lost += 1
                return True
        return False

    def close(self) -> None:
        """End the subscription. Queued events can still be received."""
        self._close()


class Topic(Generic[K, E]):
    """Publishes each event to the subscribers of its key, and to the subscribers of all keys."""

    def __init__(self, backlog: Backlog[E]) -> None:
        self._backlog = backlog
        self._subscriptions: dict[K | None, set[Subscription[E]]] = {}

    def publish(self, key: K, event: E) -> None:
        """Publish an event to the current subscribers. Never waits, and never fails because of a reader."""
        for topic_key in (key, None):
            for subscription in self._subscriptions.get(topic_key, ()):
                subscription.put(event)

    def subscribe(
        self, key: K | None = None, *, wants: Callable[[E], bool] = lambda event: True
    ) -> Subscription[E]:
        """Subscribe to one key, or to all keys (None), until the subscription is closed."""
        subscription = Subscription(self._backlog, wants, lambda: self._forget(key, subscription))
        self._subscriptions.setdefault(key, set()).add(subscription)
        return subscription

    @contextmanager
    def listening(
        self, key: K | None = None, *, wants: Callable[[E], bool] = lambda event: True
    ) -> Iterator[Subscription[E]]:
        """Subscribe to one key, or to all keys (None), for the duration of a block."""
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
