"""What a worker knows of the others, as it last read it: who they are, and which partitions they serve."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import trio

from rumi.store.journal.leases import Member
from rumi.store.ownership import partition_of


@dataclass(slots=True)
class WorkerDirectory:
    """The workers, and the names of the owners by partition. `read` is when, on trio's clock."""

    members: Sequence[Member] = ()
    owners: Mapping[int, str] = field(default_factory=dict)
    read: float = 0.0
    changed: trio.Event = field(default_factory=trio.Event)

    def update(self, members: Sequence[Member], owners: Mapping[int, str]) -> None:
        """Note what the database says now."""
        self.members, self.owners, self.read = members, owners, trio.current_time()
        self.changed.set()
        self.changed = trio.Event()

    def owner_of(self, partition_key: str) -> Member | None:
        """Return the worker that served a place when this was read, None if that is not known."""
        name = self.owners.get(partition_of(partition_key))
        return next((member for member in self.members if member.name == name), None)

    async def until_other(self, partition_key: str, worker: str) -> None:
        """Return when a place is served by another worker than this one."""
        number = partition_of(partition_key)
        while self.owners.get(number, worker) == worker:
            await self.changed.wait()

    def as_json(self) -> list[dict[str, object]]:
        """Return the workers for the status dump; times in seconds."""
        age = trio.current_time() - self.read
        return [
            {
                "name": member.name,
                "version": member.version,
                "address": member.address,
                "lease_left_s": round(member.left_s - age, 3),
                "leaving": member.leaving,
                "partitions": member.partitions,
                "turns": member.status.get("turns"),
            }
            for member in self.members
        ]
