"""Constructs the parts that a worker needs to share a PostgreSQL database with other workers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, cast

import trio

from rumi.platform.config.schema import StoreSection
from rumi.sandbox.lease import Leases, boottime, no_leases
from rumi.store.backend import PostgresServer
from rumi.store.cluster.files import SandboxLease
from rumi.store.cluster.lease import SPARE
from rumi.store.cluster.notifications import Notifications, PostgresNotifications
from rumi.store.cluster.partitions import WorkerDirectory
from rumi.store.journal.schema import ON_A_SERVER
from rumi.store.journal.store import JournalError, Store
from rumi.store.journal.transaction import JournalMessage
from rumi.store.ownership import Ownership
from rumi.store.steps import Run

R = TypeVar("R")


class StoreThread:
    """Executes requests about workers on its own connection.

    So lease renewals need not wait for other requests.
    """

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._store: Store | None = None
        self._one = trio.CapacityLimiter(1)

    async def __call__(self, request: Run[R], /) -> R:
        """Execute a request.

        On cancellation, the thread is abandoned, and the next call opens a new connection.
        """
        try:
            return cast(
                R, await trio.to_thread.run_sync(self._do, request, abandon_on_cancel=True, limiter=self._one)
            )
        except trio.Cancelled:
            store, self._store = self._store, None
            if store is not None:
                store.abandon()  # wakes the thread, which then closes the connection: see `_do`
            raise
        except JournalError:
            self.close()
            raise

    def _do(self, request: JournalMessage) -> object:
        store = self._store
        if store is None:
            store = self._store = Store(self._server, now=None)
        try:
            (reply,) = store.run([request])
            return reply
        finally:
            if self._store is not store:  # the caller was cancelled meanwhile
                store.close()

    def close(self) -> None:
        """Close the connection."""
        if self._store is not None:
            self._store.close()
            self._store = None


@dataclass(frozen=True, slots=True)
class Cluster:
    """A worker's access to the shared database: connection, ownership, notifications, worker directory.

    The workers authenticate each other with the shared `key`; without it, they do not connect to each other.
    """

    backend: PostgresServer
    ownership: Ownership
    settings: StoreSection
    ask: StoreThread
    notifications: Callable[[], Notifications]
    key: bytes | None = field(default=None, repr=False)
    directory: WorkerDirectory = field(default_factory=WorkerDirectory)

    def leases(self, chat: str) -> SandboxLease | None:
        """Return the lease that limits a sandbox's run time; None while the worker has no lease."""
        if not self.ownership.worker:
            return None
        return SandboxLease(self.ownership, self.settings.lease_s * (1 - SPARE))

    def close(self) -> None:
        """Close the connection. Blocks briefly."""
        self.ask.close()


def make_cluster(settings: StoreSection, key: bytes | None = None, password: str = "") -> Cluster:
    """Construct a worker's access to the shared database, without connecting yet.

    Raises:
        UsageError: `url` is not the URL of a PostgreSQL database, or the URL contains a password.
    """
    server = PostgresServer(settings.url, ON_A_SERVER, password)
    return Cluster(
        server,
        Ownership(now=trio.current_time, boottime=boottime),
        settings,
        StoreThread(server),
        lambda: PostgresNotifications(server),
        key,
    )


def leases_of(cluster: Cluster | None) -> Leases:
    """Return the function that provides the lease for sandboxes; without a cluster, it provides none."""
    return no_leases if cluster is None else cluster.leases
