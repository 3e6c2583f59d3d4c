"""Ownership of partitions: decides which chats a worker serves if several workers share one database.

Each chat belongs to a partition, and each partition belongs to one worker at a time. When a partition gets a
new owner, its fence number increases. A write is refused if the writer's fence is not the current one.
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
"""Number of the row that transactions lock for data shared by all chats, such as budgets. No worker owns
it."""


def partition_of(partition_key: str) -> int:
    """Return the number of the partition of a chat.

    The SQL function `partition_of` of both databases computes the same number.
    """
    return hashlib.md5(partition_key.encode("utf-8", "replace"), usedforsecurity=False).digest()[0]


@dataclass(frozen=True, slots=True)
class Served:
    """Immutable snapshot of the partitions that a worker serves, with the fence of each."""

    worker: str = ""
    fences: Mapping[int, int] = field(default_factory=dict)


class Ownership:
    """The partitions that this worker serves, with their fences. Threads may read them.

    The worker stops serving at `valid_until` (on the clock `now`) or at `boottime_until` (on the clock
    `boottime`, which all processes of a machine share), whichever comes first, even if the database still
    names the worker as the owner.
    """

    def __init__(
        self,
        worker: str = "",
        now: Callable[[], float] = lambda: 0.0,
        boottime: Callable[[], float] = lambda: -math.inf,
    ) -> None:
        """Start without partitions. `boottime` is a clock that continues while the machine is suspended."""
        self.valid_until = math.inf
        self.boottime_until = 0.0
        self._now = now
        self._boottime = boottime
        self._served = Served(worker)
        self._lost: Callable[[frozenset[int]], object] = lambda numbers: None

    def begin(self, worker: str, lost: Callable[[frozenset[int]], object]) -> None:
        """Start as a new worker that serves no partition yet.

        If writes are refused, `lost` is called with the partitions of these writes.
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
        """Return True if the lease has ended, according to the clocks of this process."""
        # `now` may stand still while the machine is suspended, and the other workers' clocks do not.
        return self._now() >= self.valid_until or self._boottime() >= self.boottime_until

    def part(self) -> float:
        """Return the fraction of all partitions that this worker serves, counting at least one."""
        return max(1, len(self.fences)) / PARTITIONS

    def lost(self, worker: str, numbers: frozenset[int]) -> None:
        """Report that another worker now serves partitions that `worker` served before.

        Do nothing if this process has become a new worker in the meantime.
        """
        if worker == self.worker:
            self._lost(numbers)


def channel_of(worker: str) -> str:
    """Return the name of a worker's notification channel: a valid SQL name of at most 63 bytes."""
    return f"rumi_{hashlib.sha256(worker.encode()).hexdigest()[:32]}"


def woken(payload: str) -> tuple[str, ...]:
    """Parse the payload of a notification into chat ids; return none if the payload is damaged."""
    try:
        return tuple(map(str, json.loads(payload)))
    except (ValueError, TypeError):
        return ()
