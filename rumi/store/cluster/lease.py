"""The lease of a worker: it is renewed, and everything that depends on it ends before it does."""

import json
import logging
import secrets
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Never, Protocol, TypeVar

import trio

from actors import Actor, Request
from rumi.errors import RumiError
from rumi.sandbox.lease import boottime
from rumi.store.journal.leases import Join, Leave, Release, Renew
from rumi.store.journal.store import JournalError
from rumi.store.ownership import Ownership

logger = logging.getLogger(__name__)
R = TypeVar("R")

RENEWALS: Final = 5
"""How often a lease is renewed in its time."""

SPARE: Final = 1 / 3
"""The part of a lease that is left when a worker that cannot renew it ends what it does."""

AGAIN_S: Final = 0.25
"""The pause between attempts to reach the database."""

LEAVE_S: Final = 5.0
"""How long a worker that ends tries to say so."""


class LeaseLost(RumiError):
    """This worker's lease cannot be renewed: other workers serve its chats from now on."""


class AskStore(Protocol):
    """Asks the database for what concerns workers, by a connection of its own."""

    async def __call__(self, request: Request[R], /) -> R:
        """Return the answer. Cancelled, it leaves at once; the request may be done or not.

        Raises:
            JournalError: The database does not answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """`lease_s` is how long a worker serves its chats without hearing from the database.

    A worker that leaves lets turns go on for `drain_s`. `address` is where other workers reach it, and `key`
    what workers prove to each other; without one, none is reached.
    """

    version: str
    lease_s: float = 15.0
    drain_s: float = 60.0
    address: str = ""
    key: bytes | None = field(default=None, repr=False)


class WorkerLease(Actor[Never]):
    """Holds the worker's lease. It crashes with `LeaseLost`, and everything below it in the tree ends then.

    Each incarnation is a worker of its own, with a new name: a lease that has ended is never renewed.
    """

    def __init__(
        self,
        ask: AskStore,
        ownership: Ownership,
        settings: ClusterSettings,
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
        """Join the workers, as soon as the database answers."""
        ownership, settings = self._ownership, self._settings
        ownership.begin(self._new_name(), self._lose)
        while True:
            sent = trio.current_time(), boottime()
            try:
                await self._ask(Join(ownership.worker, settings.version, settings.address, settings.lease_s))
                break
            except JournalError as error:
                logger.warning("the worker cannot join: %s", error)
                await trio.sleep(AGAIN_S)
        self._extend(sent)
        self.start_soon(self._renew)

    def _extend(self, sent: tuple[float, float]) -> None:
        """The lease lasts from the moment in which its renewal was sent, by both clocks."""
        lasts_s = self._settings.lease_s * (1 - SPARE)
        self._ownership.valid_until, self._ownership.boottime_until = (clock + lasts_s for clock in sent)

    def _lose(self, numbers: frozenset[int]) -> None:
        """A write was refused. Called by the journal's thread."""
        self._ownership.set({})
        try:
            trio.from_thread.run_sync(self._refused.set)
        except RuntimeError:  # in place, in the loop's own thread
            self._refused.set()

    async def _renew(self) -> None:
        ownership = self._ownership
        pause = self._settings.lease_s / RENEWALS
        while True:
            with trio.move_on_after(pause):
                await self._refused.wait()
            if self._refused.is_set():
                raise LeaseLost("A write was refused: another worker serves its chat by now.")
            if not await self._renewed():
                ownership.set({})
                raise LeaseLost("The lease of this worker could not be renewed.", "Look at the database.")

    async def _renewed(self) -> bool:
        """Renew the lease, in as many attempts as its time allows; return False if it has ended."""
        ownership = self._ownership
        while not ownership.over:
            sent, had = (trio.current_time(), boottime()), dict(ownership.fences)
            with trio.move_on_at(ownership.valid_until):
                try:
                    status = json.dumps({"lease_s": self._settings.lease_s, **self._status()})
                    fences = await self._ask(Renew(ownership.worker, self._settings.lease_s, status))
                except JournalError as error:
                    logger.warning("the lease is not renewed: %s", error)
                    await trio.sleep(AGAIN_S)
                    continue
                if fences is None or any(fences.get(number) != fence for number, fence in had.items()):
                    return False
                self._extend(sent)
                return True
        return False

    async def stopped(self, reason: str) -> None:
        """Hand over what is left: nothing below runs any more."""
        numbers = tuple(self._ownership.numbers())
        self._ownership.set({})
        if reason == "crashed":
            return
        worker = self._ownership.worker
        with trio.move_on_after(LEAVE_S, shield=True):
            try:
                await self._ask(Release(worker, numbers))
                await self._ask(Leave(worker, ended=True))
            except JournalError as error:
                logger.warning("the worker could not hand over its chats: %s", error)

    def metrics(self) -> Mapping[str, object]:
        """Return the worker's name, how many partitions it serves, and how long its lease lasts."""
        left = self._ownership.valid_until - trio.current_time()
        return {
            "worker": self._ownership.worker,
            "partitions": len(self._ownership.fences),
            "lease_s": round(left, 3),
        }


def _new_name() -> str:
    return f"{socket.gethostname()}-{secrets.token_hex(4)}"
