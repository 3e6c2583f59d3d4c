"""The process's role: a `SingleProcess` on its home's own files, or a `ClusterWorker` on a shared database.

In the supervision tree, the actor of a worker's lease comes before all actors that serve chats, and the actor
of its partitions comes after them.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from actors import ActorRef, ChildSpec, Supervisor
from rumi.app.forwarding import Forwarding
from rumi.app.routing import partition_key_lookup
from rumi.channels.attach.peers import Peer, peer_of
from rumi.channels.control.server import ControlStream
from rumi.errors import RumiError
from rumi.platform.caller import WORKER, ControlCall
from rumi.store.backend import PostgresServer
from rumi.store.cluster.building import Cluster
from rumi.store.cluster.lease import WorkerLease
from rumi.store.cluster.partitions import Dependents, Drain, Partitions
from rumi.store.journal.actor import AskJournal
from rumi.store.ownership import Ownership
from rumi.texts import Language


class SingleProcess:
    """A process that serves all chats."""

    ownership: Ownership | None = None
    """The partitions (groups of chats) that this process serves; None means all of them."""

    peer: Peer | None = None
    """The address at which other workers reach this process; None means that they cannot reach it."""

    shown: Callable[[], Sequence[Mapping[str, object]]] | None = None
    """Returns the workers as objects for the status dump."""

    until_other: Callable[[str, str], Awaitable[None]] | None = None
    """Waits until a worker other than the named one serves the partition key."""

    stop_others: Callable[[Language], Awaitable[Mapping[str, str | RumiError]]] | None = None
    """Stops everything on the other workers; returns their replies or errors, by worker name."""

    @property
    def name(self) -> str | None:
        """The name of the worker; None for a process that shares no database."""
        return None

    def database_of(self, file: Path) -> Path | PostgresServer:
        """Return the database that contains the tables of this database file."""
        return file

    def part(self) -> float:
        """Return this process's share, from 0 to 1, of the limits that apply to all workers together."""
        return 1.0

    def serves(self, partition_key: str) -> bool:
        """Return True if this process serves the chat or owner with this partition key."""
        return True

    def add_lease(self, root: Supervisor, status: Callable[[], Mapping[str, Any]]) -> None:
        """Add the worker's lease, which publishes the `status`.

        Actors that are added after the lease end when it ends.
        """

    def add_partitions(self, root: Supervisor, ask: AskJournal, dependents: Dependents) -> None:
        """Add the actor that takes partitions over and hands them over, and notifies the `dependents`."""

    def start_forwarding(self, ask: AskJournal, accepts: Callable[[str], bool]) -> None:
        """Set up forwarding to other workers. `accepts` returns True for a chat that this process serves."""

    def forwarded_calls(self, calls: Mapping[str, ControlCall]) -> Mapping[str, ControlCall]:
        """Return the calls, each wrapped so that the worker responsible for the request answers it."""
        return calls

    def forwarded_streams(self, streams: Mapping[str, ControlStream]) -> Mapping[str, ControlStream]:
        """Return the streams, each wrapped so that the responsible worker serves it.

        The stream `events` is served by all workers together.
        """
        return streams

    async def drain(self) -> None:
        """Hand over all chats to other workers, if any run. Running turns may continue for a bounded time."""


class ClusterWorker(SingleProcess):
    """One of several processes that share a database. The worker gets a new name with each new lease."""

    ownership: Ownership

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._forwarding: Forwarding | None = None
        self._partitions: ActorRef[Drain] | None = None
        settings = cluster.settings
        self.ownership = cluster.ownership
        self.shown = cluster.directory.as_json
        self.until_other = cluster.directory.until_other
        self.stop_others = self._stop_others
        if settings.address and cluster.key is not None:
            self.peer = peer_of(settings.address, cluster.key)

    @property
    def name(self) -> str | None:
        """The name of the worker."""
        return self.ownership.worker

    def database_of(self, file: Path) -> Path | PostgresServer:
        """Return the shared database."""
        return self._cluster.backend

    def part(self) -> float:
        """Return this worker's share of the partitions, between 0 and 1."""
        return self.ownership.part()

    def serves(self, partition_key: str) -> bool:
        """Return True if this worker serves the partition of the key."""
        return self.ownership.serves(partition_key)

    def add_lease(self, root: Supervisor, status: Callable[[], Mapping[str, Any]]) -> None:
        """Add the lease."""
        cluster = self._cluster
        root.add(
            ChildSpec("lease", lambda: WorkerLease(cluster.ask, cluster.ownership, cluster.settings, status))
        )

    def add_partitions(self, root: Supervisor, ask: AskJournal, dependents: Dependents) -> None:
        """Add the partitions below their dependents in the tree, so that the partitions end first."""
        cluster = self._cluster

        def partitions() -> Partitions:
            return Partitions(
                cluster.ask,
                ask,
                cluster.ownership,
                cluster.settings,
                cluster.notifications(),
                dependents,
                cluster.directory,
            )

        self._partitions = root.add(ChildSpec("partitions", partitions))

    def start_forwarding(self, ask: AskJournal, accepts: Callable[[str], bool]) -> None:
        """Set up forwarding to other workers."""
        cluster = self._cluster
        self._forwarding = Forwarding(
            ask,
            cluster.ownership,
            cluster.directory,
            cluster.key,
            accepts,
            partition_key_lookup(ask),
        )

    def forwarded_calls(self, calls: Mapping[str, ControlCall]) -> Mapping[str, ControlCall]:
        """Return the calls, each wrapped so that the responsible worker answers it."""
        forwarding = self._require_forwarding()
        return {name: forwarding.forward_call(name, call) for name, call in calls.items()}

    def forwarded_streams(self, streams: Mapping[str, ControlStream]) -> Mapping[str, ControlStream]:
        """Return the streams, each wrapped so that the responsible worker serves it."""
        forwarding = self._require_forwarding()
        forwarded = {name: forwarding.forward_stream(name, stream) for name, stream in streams.items()}
        return {**forwarded, "events": forwarding.merge_streams("events", streams["events"])}

    async def drain(self) -> None:
        """Hand over all chats to other workers, if there are any."""
        if self._partitions is not None:
            await self._partitions.ask(Drain())

    def _require_forwarding(self) -> Forwarding:
        assert self._forwarding is not None, "start_forwarding comes first"
        return self._forwarding

    async def _stop_others(self, language: Language) -> dict[str, str | RumiError]:
        found = await self._require_forwarding().call_all_others(
            WORKER, "stop", {"all": True, "language": language}
        )
        return {name: outcome if isinstance(outcome, RumiError) else str(outcome) for name, outcome in found}
