"""Ownership of partitions: the chats that a worker serves if several workers share one database.

Chats belong to partitions, and a partition belongs to one worker at a time. Each change of owner gives the
partition a higher fence number, and every write of an owner is refused if its fence is not the current one.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

PARTITIONS: Final = 256
"""Number of partitions: one for each value of the first byte of an MD5 hash."""

SHARED: Final = 256
"""Number of the row that transactions lock for data of all chats, such as budgets. No worker owns it."""


def partition_of(partition_key: str) -> int:
    """Return the number of the partition of a chat.

    The SQL function `partition_of` of both databases computes the same number.
    """
    return hashlib.md5(partition_key.encode("utf-8", "replace"), usedforsecurity=False).digest()[0]


@dataclass(frozen=True, slots=True)
class Served:
    """The partitions of a worker at one moment, each with its fence. Immutable."""

    worker: str = ""
    fences: Mapping[int, int] = field(default_factory=dict)


class Ownership:
    """The partitions that this worker serves, with their fences. Threads may read them.

    The worker serves nothing from `valid_until` on (clock `now`) or from `boottime_until` on (clock
    `boottime`, which all processes of a machine share), whatever the database says.
    """

    def __init__(
        self,
        worker: str = "",
        now: Callable[[], float] = lambda: 0.0,
        boottime: Callable[[], float] = lambda: -math.inf,
    ) -> None:
        """`boottime` is a clock that continues while the machine is suspended."""
        self.valid_until = math.inf
        self.boottime_until = 0.0
        self._now = now
        self._boottime = boottime
        self._served = Served(worker)
        self._lost: Callable[[frozenset[int]], object] = lambda numbers: None

    def begin(self, worker: str, lost: Callable[[frozenset[int]], object]) -> None:
        """Start as a new worker, which serves nothing yet.

        `lost` is called with the partitions in which a write was refused.
        """
        self._served = Served(worker)
        self._lost = lost

    @property
    def worker(self) -> str:
        """Return the worker's name."""
        return self._served.worker

    @property
    def served(self) -> Served:
        """Return an immutable snapshot of the served partitions."""
        return self._served

    @property
    def fences(self) -> Mapping[int, int]:
        """Return the fences of the served partitions, by partition number."""
        return self._served.fences

    def set(self, fences: Mapping[int, int]) -> None:
        """Serve these partitions and no others."""
        # One assignment replaces the whole value: a thread reads the old or the new set, never a mixture.
        self._served = Served(self.worker, dict(fences))

    def numbers(self) -> frozenset[int]:
        """Return the numbers of the served partitions."""
        return frozenset(self.fences)

    def serves(self, chat: str) -> bool:
        """Return True if this worker serves the chat's partition and its lease has not ended."""
        return partition_of(chat) in self.fences and not self.over

    @property
    def over(self) -> bool:
        """Return True if the lease has ended, as far as this process knows."""
        # `now` may stand still while the machine is suspended, and the other workers' clocks do not.
        return self._now() >= self.valid_until or self._boottime() >= self.boottime_until

    def part(self) -> float:
        """Return the served share of all partitions; at least that of one partition, even without any."""
        return max(1, len(self.fences)) / PARTITIONS

    def lost(self, worker: str, numbers: frozenset[int]) -> None:
        """Report that another worker serves partitions which `worker` served.

        Do nothing if this process has started as a new worker since.
        """
        if worker == self.worker:
            self._lost(numbers)


def channel_of(worker: str) -> str:
    """Return the notification channel of a worker: a valid SQL name of at most 63 bytes."""
    return f"rumi_{hashlib.sha256(worker.encode()).hexdigest()[:32]}"


def woken(payload: str) -> tuple[str, ...]:
    """Return the chat ids in the payload of a notification; none if the payload is damaged."""
    try:
        return tuple(map(str, json.loads(payload)))
    except (ValueError, TypeError):
        return ()
