"""Which chats a worker serves, where several share one database.

Chats belong to partitions, and a partition belongs to one worker at a time. Each change of owner gives the
partition a higher fence number, and every write of an owner is refused if its fence is not the present one.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

PARTITIONS: Final = 256

SHARED: Final = 256
"""The row that guards what all chats share, such as budgets. It belongs to no worker."""


def partition_of(partition_key: str) -> int:
    """Return the partition of a chat. Databases compute the same number (`partition_of` in SQL)."""
    return hashlib.md5(partition_key.encode("utf-8", "replace"), usedforsecurity=False).digest()[0]


@dataclass(frozen=True, slots=True)
class Served:
    """What a worker serves at one moment: the fence of each of its partitions."""

    worker: str = ""
    fences: Mapping[int, int] = field(default_factory=dict)


class Ownership:
    """The partitions that this worker serves, with their fences. Threads may read it.

    The worker serves nothing from `valid_until` on, by the clock `now`, whatever the database says. That is
    `boottime_until` by the clock that all processes of a machine share.
    """

    def __init__(
        self,
        worker: str = "",
        now: Callable[[], float] = lambda: 0.0,
        boottime: Callable[[], float] = lambda: -math.inf,
    ) -> None:
        """`boottime` is the clock that goes on while the machine sleeps."""
        self.valid_until = math.inf
        self.boottime_until = 0.0
        self._now = now
        self._boottime = boottime
        self._served = Served(worker)
        self._lost: Callable[[frozenset[int]], object] = lambda numbers: None

    def begin(self, worker: str, lost: Callable[[frozenset[int]], object]) -> None:
        """Be another worker, which serves nothing yet.

        `lost` gets the partitions of which a write was refused.
        """
        self._served = Served(worker)
        self._lost = lost

    @property
    def worker(self) -> str:
        """Return the worker's name."""
        return self._served.worker

    @property
    def served(self) -> Served:
        """Return what is served now; what changes later does not change it."""
        return self._served

    @property
    def fences(self) -> Mapping[int, int]:
        """Return the fence of each partition that is served."""
        return self._served.fences

    def set(self, fences: Mapping[int, int]) -> None:
        """Serve these partitions and no others."""
        self._served = Served(self.worker, dict(fences))

    def numbers(self) -> frozenset[int]:
        """Return the partitions that are served."""
        return frozenset(self.fences)

    def serves(self, chat: str) -> bool:
        """Return True if the chat's partition is one of them, and the lease lasts."""
        return partition_of(chat) in self.fences and not self.over

    @property
    def over(self) -> bool:
        """Return True if the lease has ended, as far as this process knows."""
        return self._now() >= self.valid_until or self._boottime() >= self.boottime_until

    def part(self) -> float:
        """Return the share of all partitions that is served; a worker without any has the smallest one."""
        return max(1, len(self.fences)) / PARTITIONS

    def lost(self, worker: str, numbers: frozenset[int]) -> None:
        """Another worker serves these partitions, which `worker` served; nothing if this is a later one."""
        if worker == self.worker:
            self._lost(numbers)


def channel_of(worker: str) -> str:
    """Return the name of the notifications for a worker: a name in SQL, of at most 63 bytes."""
    return f"rumi_{hashlib.sha256(worker.encode()).hexdigest()[:32]}"


def woken(payload: str) -> tuple[str, ...]:
    """Return the chats that a notification is about; none of a damaged one."""
    try:
        return tuple(map(str, json.loads(payload)))
    except (ValueError, TypeError):
        return ()
