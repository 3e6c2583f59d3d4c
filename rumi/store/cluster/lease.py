"""The actor that renews a worker's lease. All work that depends on the lease stops before the lease ends.

A lease is the period in which a worker may serve its partitions, which are groups of chats.
"""

import json
import logging
import secrets
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final, Never, Protocol, TypeVar

import trio

from actors import Actor
from rumi import __version__
from rumi.errors import RumiError
from rumi.platform.config.schema import StoreSection
from rumi.sandbox.lease import boottime
from rumi.store.journal.leases import join_cluster, leave_cluster, release_partitions, renew_lease
from rumi.store.journal.store import JournalError
from rumi.store.ownership import Ownership
from rumi.store.steps import Run

logger = logging.getLogger(__name__)
R = TypeVar("R")

RENEWALS: Final = 5
"""Number of renewals in the duration of one lease."""

SPARE: Final = 1 / 3
"""Fraction of a lease that is left when a worker that cannot renew it stops its work. The work must stop
before other workers claim the partitions."""

AGAIN_S: Final = 0.25
"""Pause between attempts to reach the database, in seconds."""

LEAVE_S: Final = 5.0
"""Maximum time that a stopping worker tries to report this to the database, in seconds."""


class LeaseLost(RumiError):
    """This worker's lease cannot be renewed; other workers take over its chats."""


class AskStore(Protocol):
    """Sends requests about workers to the database, on a connection that is used for nothing else."""

    async def __call__(self, request: Run[R], /) -> R:
        """Send a request; return the reply.

        On cancellation, return at once: the request may or may not have been executed.

        Raises:
            JournalError: The database does not answer.
        """
        ...


class WorkerLease(Actor[Never]):
    """Holds the worker's lease. If the lease is lost, this actor crashes, and its child actors end with it.

    The cause of the crash is `LeaseLost`. Each time this actor starts, it registers as a new worker with a
    new name, because a lease that has ended is never renewed.
    """

    def __init__(
        self,
        ask: AskStore,
        ownership: Ownership,
        settings: StoreSection,
        status: Callable[[], Mapping[str, Any]] = dict,
        new_name: Callable[[], str] | None = None,
    ) -> None:
        self._ask = ask
        self._ownership = ownership
        self._settings = settings
        self._status = status
        self._new_name = new_name or _new_name
        self._refused = trio.Event()

    async def started(self) -> None:
        """Register as a worker; retry until the database answers."""
        ownership, settings = self._ownership, self._settings
        ownership.begin(self._new_name(), self._lose)
        while True:
            # Before the request: the database counts the lease from a later moment, so ours ends first.
            sent = trio.current_time(), boottime()
            try:
                await self._ask(
                    join_cluster(ownership.worker, __version__, settings.address, settings.lease_s)
                )
                break
            except JournalError as error:
                logger.warning("the worker cannot join: %s", error)
                await trio.sleep(AGAIN_S)
        self._extend(sent)
        self.start_soon(self._renew)

    def _extend(self, sent: tuple[float, float]) -> None:
        """Set the end of the lease on both clocks, counted from the moment at which the renewal was sent."""
        lasts_s = self._settings.lease_s * (1 - SPARE)
        self._ownership.valid_until, self._ownership.boottime_until = (clock + lasts_s for clock in sent)

    def _lose(self, numbers: frozenset[int]) -> None:
        """Stop serving all chats after a refused write. Called by the journal's thread."""
        self._ownership.set({})
        try:
            trio.from_thread.run_sync(self._refused.set)
        except RuntimeError:  # no trio thread: in a simulation the journal runs in the event loop's thread
            self._refused.set()

    async def _renew(self) -> None:
        ownership = self._ownership
        pause = self._settings.lease_s / RENEWALS
        while True:
            # A refused write proves that the lease is lost: react at once, not at the next renewal.
            with trio.move_on_after(pause):
                await self._refused.wait()
            if self._refused.is_set():
                raise LeaseLost("A write was refused: another worker serves its chat by now.")
            if not await self._renewed():
                ownership.set({})
                raise LeaseLost("The lease of this worker could not be renewed.", "Look at the database.")

    async def _renewed(self) -> bool:
        """Renew the lease, retrying until it ends. Return False if it has ended or a partition is lost."""
        ownership = self._ownership
        while not ownership.over:
            sent, had = (trio.current_time(), boottime()), dict(ownership.fences)
            with trio.move_on_at(ownership.valid_until):
                try:
                    status = json.dumps({"lease_s": self._settings.lease_s, **self._status()})
                    fences = await self._ask(renew_lease(ownership.worker, self._settings.lease_s, status))
                except JournalError as error:
                    logger.warning("the lease is not renewed: %s", error)
                    await trio.sleep(AGAIN_S)
                    continue
                # `had` is from before the request: partitions claimed meanwhile may be missing in the answer.
                if fences is None or any(fences.get(number) != fence for number, fence in had.items()):
                    return False
                self._extend(sent)
                return True
        return False

    async def stopped(self, reason: str) -> None:
        """Release the remaining partitions and end the lease. The child actors have already stopped."""
        numbers = tuple(self._ownership.numbers())
        self._ownership.set({})
        # After a crash the lease is lost or in doubt: its partitions become free when it ends.
        if reason == "crashed":
            return
        worker = self._ownership.worker
        # Shielded, so that others can take over at once; bounded, because the database may be unreachable.
        with trio.move_on_after(LEAVE_S, shield=True):
            try:
                await self._ask(release_partitions(worker, numbers))
                await self._ask(leave_cluster(worker, ended=True))
            except JournalError as error:
                logger.warning("the worker could not hand over its chats: %s", error)

    def metrics(self) -> Mapping[str, object]:
        """Return the worker's name, the number of its partitions, and the seconds until its lease ends."""
        left = self._ownership.valid_until - trio.current_time()
        return {
            "worker": self._ownership.worker,
            "partitions": len(self._ownership.fences),
            "lease_s": round(left, 3),
        }


def _new_name() -> str:
    return f"{socket.gethostname()}-{secrets.token_hex(4)}"
