"""The actor that balances partitions: claims the worker's share, hands over the surplus, wakes chats.

A partition is a group of chats. One worker at a time serves a partition.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import trio

from actors import Actor, Request, answers
from rumi.platform.config.schema import StoreSection
from rumi.store.cluster.lease import AGAIN_S, RENEWALS, AskStore
from rumi.store.cluster.notifications import Notifications
from rumi.store.journal.actor import AskJournal
from rumi.store.journal.leases import (
    Claimed,
    Member,
    claim_partitions,
    cluster_members,
    leave_cluster,
    partition_owners,
    release_partitions,
    touch,
)
from rumi.store.journal.spending import settle_left
from rumi.store.journal.store import JournalError
from rumi.store.ownership import PARTITIONS, Ownership, partition_of

logger = logging.getLogger(__name__)

AFTER_S: Final = 1.0
"""Time after the end of a lease by which the sandboxes of its worker have certainly ended, in seconds."""

LOOK_S: Final = 5.0
"""Interval between two searches of the database for chats whose notification was missed, in seconds."""


class Partitioned(Protocol):
    """A part of the actor tree that serves the chats in this worker's partitions."""

    async def take_over(self, numbers: frozenset[int]) -> None:
        """Start to serve partitions: continue the work that earlier workers left unfinished in them."""
        ...

    async def hand_over(self, numbers: frozenset[int], patience_s: float) -> None:
        """Stop serving partitions: start no new work in them, and return when their running work has ended.

        Running work may continue for `patience_s` seconds; then it is interrupted.
        """
        ...


@dataclass(frozen=True, slots=True)
class Dependents:
    """The parts of a process that depend on its partitions.

    `parts` are in the order in which they take partitions over. `look` reads the database and wakes those of
    the given chats that have new entries; None stands for all chats. `busy` returns the partitions with
    running work; partitions without running work are handed over first. `slow_down` is called with a channel
    account when the channel's service has asked any worker to send less.
    """

    parts: Sequence[Partitioned]
    look: Callable[[Collection[str] | None], Awaitable[None]]
    busy: Callable[[], frozenset[int]] = frozenset
    slow_down: Callable[[str], None] = lambda account: None


@dataclass(frozen=True, slots=True)
class Drain(Request[None]):
    """Hand over all partitions, because this worker shuts down. The reply means that none is left."""


class Partitions(Actor[Drain]):
    """Serves a fair share of the partitions.

    The parts of the process that depend on partitions are above this actor in the actor tree, so this actor
    stops before them.
    """

    def __init__(
        self,
        ask: AskStore,
        journal: AskJournal,
        ownership: Ownership,
        settings: StoreSection,
        notifications: Notifications,
        dependents: Dependents,
        directory: "WorkerDirectory | None" = None,
    ) -> None:
        self._ask = ask
        self._journal = journal
        self._ownership = ownership
        self._settings = settings
        self._notifications = notifications
        self._dependents = dependents
        self._limited: dict[tuple[str, str], object] = {}
        self._directory = directory or WorkerDirectory()
        self._changing = trio.Lock()
        self._leaving = False

    async def started(self) -> None:
        """Start balancing and listening; take over the partitions that were claimed before a restart."""
        # After a crash of this actor alone the lease is still valid, and so are its partitions.
        if self._ownership.fences:
            async with self._changing:
                for part in self._dependents.parts:
                    await part.take_over(self._ownership.numbers())
        self.start_soon(self._balance)
        self.start_soon(self._read_directory)
        self.start_soon(self._listen)
        self.start_soon(self._look_again)

    async def _read_directory(self) -> None:
        """Read the directory of workers regularly, even during a handover, which may take minutes."""
        while True:
            try:
                await self._read()
            except JournalError as error:
                logger.warning("the other workers are not known: %s", error)
            await trio.sleep(self._settings.lease_s / RENEWALS / 2)

    async def _read(self) -> None:
        self._directory.update(await self._ask(cluster_members()), await self._ask(partition_owners()))

    async def _balance(self) -> None:
        """Claim or hand over partitions after each read of the directory, because workers join and leave."""
        done = -1.0
        while True:
            while self._directory.read == done:
                await self._directory.changed.wait()
            done = self._directory.read
            try:
                await self._step()
            except JournalError as error:
                logger.warning("partitions stay as they are: %s", error)

    async def _step(self) -> None:
        members = self._directory.members
        limited = {(member.name, account): n for member in members for account, n in _limited(member).items()}
        for account in {key[1] for key, n in limited.items() if self._limited.get(key, n) != n}:
            self._dependents.slow_down(account)
        self._limited = limited
        # `drain` holds the same lock: a step must not claim partitions while the worker hands them all over.
        async with self._changing:
            if not self._leaving:
                await self._come_to_share()

    async def _come_to_share(self) -> None:
        worker, had = self._ownership.worker, self._ownership.numbers()
        members = self._directory.members
        share = share_of(worker, members)
        recorded = next((member.partitions for member in members if member.name == worker), 0)
        # The database has more of ours than we know if the answer to a claim was lost: a claim returns them.
        if len(had) < share or recorded > len(had):
            most = max(0, share - len(had))
            claimed = await self._ask(claim_partitions(worker, most, AFTER_S, tuple(sorted(had))))
            if claimed:
                await self._take_over(claimed)
        elif len(had) > share:
            # Busy partitions stay for now: a later step hands them over, or other ones that are idle then.
            idle = sorted(had - self._dependents.busy())[: len(had) - share]
            if idle:
                await self._hand_over(frozenset(idle), self._settings.drain_s)

    async def _take_over(self, claimed: Sequence[Claimed]) -> None:
        """Wait until no sandbox of an earlier worker can run in these partitions, then serve them."""
        await trio.sleep(max(partition.wait_s for partition in claimed))
        self._ownership.set(
            {**self._ownership.fences, **{partition.number: partition.fence for partition in claimed}}
        )
        numbers = frozenset(partition.number for partition in claimed)
        # Reservations of the earlier worker first: afterwards ours could not be told apart from them.
        await self._journal(settle_left(numbers))
        for part in self._dependents.parts:
            await part.take_over(numbers)
        logger.info("this worker serves %d more partitions", len(claimed))

    async def _hand_over(self, numbers: frozenset[int], patience_s: float) -> None:
        """Stop serving partitions, and release them to other workers."""
        # In reverse order: each part may depend on those before it.
        for part in reversed(self._dependents.parts):
            await part.hand_over(numbers, patience_s)
        fences = self._ownership.fences
        self._ownership.set({number: fence for number, fence in fences.items() if number not in numbers})
        # The journal commits in order: when it answers, all earlier writes of these partitions are committed.
        await self._journal(touch())
        await self._release(tuple(sorted(numbers)))
        logger.info("this worker has handed over %d partitions", len(numbers))

    async def _release(self, numbers: tuple[int, ...]) -> None:
        """Release partitions; retry until the database answers or the lease ends."""
        while True:
            try:
                return await self._ask(release_partitions(self._ownership.worker, numbers))
            except JournalError as error:
                logger.warning("partitions are not released: %s", error)
                await trio.sleep(AGAIN_S)

    async def _listen(self) -> None:
        while True:
            chats = await self._notifications.receive(self._ownership.worker)
            await self._wake(chats)

    async def _look_again(self) -> None:
        """Search all chats for new entries regularly, because notifications may be lost."""
        while True:
            await trio.sleep(LOOK_S)
            await self._wake(None)

    async def _wake(self, chats: Collection[str] | None) -> None:
        try:
            await self._dependents.look(chats)
        except JournalError as error:
            logger.warning("chats are not woken: %s", error)

    @answers(Drain)
    async def drain(self, message: Drain) -> None:
        """Hand over all partitions: idle ones at once, the others when their turns have ended."""
        self._leaving = True
        await self._ask(leave_cluster(self._ownership.worker))
        async with self._changing:
            idle = self._ownership.numbers() - self._dependents.busy()
            await self._hand_over(idle, 0.0)
            await self._hand_over(self._ownership.numbers(), self._settings.drain_s)

    async def stopped(self, reason: str) -> None:
        """Close the connection that receives notifications."""
        self._notifications.close()

    def metrics(self) -> Mapping[str, object]:
        """Return the number of live workers, and the number of partitions that this worker should serve."""
        members = self._directory.members
        live = [member for member in members if member.left_s > 0]
        return {"workers": len(live), "share": share_of(self._ownership.worker, members)}


def share_of(worker: str, members: Iterable[Member]) -> int:
    """Return the number of partitions that a worker should serve.

    All workers get the same number of partitions. If the partitions cannot be divided evenly, the first
    workers by name get one more.
    """
    names = sorted(member.name for member in members if member.left_s > 0 and not member.leaving)
    if worker not in names:
        return 0
    least, more = divmod(PARTITIONS, len(names))
    return least + (names.index(worker) < more)


def _limited(member: Member) -> Mapping[str, object]:
    """Return how often services have asked the worker to send less: one count for each channel account."""
    counts = member.status.get("limited")
    return counts if isinstance(counts, Mapping) else {}


@dataclass(slots=True)
class WorkerDirectory:
    """The known workers, and the name of the worker that owns each partition.

    `read` is the time of the last update, on trio's clock.
    """

    members: Sequence[Member] = ()
    owners: Mapping[int, str] = field(default_factory=dict)
    read: float = 0.0
    changed: trio.Event = field(default_factory=trio.Event)

    def update(self, members: Sequence[Member], owners: Mapping[int, str]) -> None:
        """Store the members and owners just read from the database; wake the tasks that wait for a change."""
        self.members, self.owners, self.read = members, owners, trio.current_time()
        self.changed.set()
        self.changed = trio.Event()

    def owner_of(self, partition_key: str) -> Member | None:
        """Return the worker that served the key's partition at the last update; None if unknown."""
        name = self.owners.get(partition_of(partition_key))
        return next((member for member in self.members if member.name == name), None)

    async def until_other(self, partition_key: str, worker: str) -> None:
        """Wait until a worker other than `worker` serves the key's partition."""
        number = partition_of(partition_key)
        while self.owners.get(number, worker) == worker:
            await self.changed.wait()

    def as_json(self) -> list[dict[str, object]]:
        """Return the workers as JSON for the status; times are in seconds."""
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
