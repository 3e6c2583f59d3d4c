"""What a process is to others: `Alone` with the files of its home, or a `Worker` on a shared database.

A worker's lease stands in the tree above everything that serves chats, its partitions stand below that.
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
from rumi.platform.texts.language import Language
from rumi.store.backend import PostgresServer
from rumi.store.cluster.building import Cluster
from rumi.store.cluster.lease import WorkerLease
from rumi.store.cluster.partitions import Dependents, Drain, Partitions
from rumi.store.journal.actor import AskJournal
from rumi.store.ownership import Ownership


class SingleProcess:
    """A process that serves all chats."""

    ownership: Ownership | None = None
    """What this process serves; None: everything."""

    peer: Peer | None = None
    """Where other workers reach this one; None: nowhere."""

    shown: Callable[[], Sequence[Mapping[str, object]]] | None = None
    """Returns the workers, as the status shows them."""

    until_other: Callable[[str, str], Awaitable[None]] | None = None
    """Waits until a place is served by another worker than the one of that name."""

    stop_others: Callable[[Language], Awaitable[Mapping[str, str | RumiError]]] | None = None
    """Stops everything on the other workers; returns what they say, by their names."""

    @property
    def name(self) -> str | None:
        """The name of the worker, None for a process that is none."""
        return None

    def database_of(self, file: Path) -> Path | PostgresServer:
        """Return where the tables are that a home has in a file."""
        return file

    def part(self) -> float:
        """Return the part of what workers share that this one may use."""
        return 1.0

    def serves(self, partition_key: str) -> bool:
        """Return True if this process serves a chat or an owner."""
        return True

    def add_lease(self, root: Supervisor, status: Callable[[], Mapping[str, Any]]) -> None:
        """Add the lease, which carries the `status`. What is added after it ends when the lease does."""

    def add_partitions(self, root: Supervisor, ask: AskJournal, dependents: Dependents) -> None:
        """Add what takes partitions over, and hands them over."""

    def start_forwarding(self, ask: AskJournal, accepts: Callable[[str], bool]) -> None:
        """Have calls and streams reach the others. `takes` tells of a chat if this process serves it."""

    def forwarded_calls(self, calls: Mapping[str, ControlCall]) -> Mapping[str, ControlCall]:
        """Return the calls, each answered by the worker that it concerns."""
        return calls

    def forwarded_streams(self, streams: Mapping[str, ControlStream]) -> Mapping[str, ControlStream]:
        """Return the streams, each served by the worker that it concerns, `events` by all of them."""
        return streams

    async def drain(self) -> None:
        """Hand over all chats, if there are others. Turns go on for a bounded time."""


class ClusterWorker(SingleProcess):
    """One of several processes on a database. Each incarnation of its lease has another name."""

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
        if settings.address and settings.key is not None:
            self.peer = peer_of(settings.address, settings.key)

    @property
    def name(self) -> str | None:
        """Its name."""
        return self.ownership.worker

    def database_of(self, file: Path) -> Path | PostgresServer:
        """Return the database."""
        return self._cluster.backend

    def part(self) -> float:
        """Return its part of the partitions."""
        return self.ownership.part()

    def serves(self, partition_key: str) -> bool:
        """Return True if it has the partition of the place."""
        return self.ownership.serves(partition_key)

    def add_lease(self, root: Supervisor, status: Callable[[], Mapping[str, Any]]) -> None:
        """Add the lease."""
        cluster = self._cluster
        root.add(
            ChildSpec("lease", lambda: WorkerLease(cluster.ask, cluster.ownership, cluster.settings, status))
        )

    def add_partitions(self, root: Supervisor, ask: AskJournal, dependents: Dependents) -> None:
        """Add the partitions. They are below their dependents, so that they end first."""
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
        """Have calls and streams reach the others."""
        cluster = self._cluster
        self._forwarding = Forwarding(
            ask,
            cluster.ownership,
            cluster.directory,
            cluster.settings.key,
            accepts,
            partition_key_lookup(ask),
        )

    def forwarded_calls(self, calls: Mapping[str, ControlCall]) -> Mapping[str, ControlCall]:
        """Return the calls, each passed on to the worker that it concerns."""
        forwarding = self._require_forwarding()
        return {name: forwarding.forward_call(name, call) for name, call in calls.items()}

    def forwarded_streams(self, streams: Mapping[str, ControlStream]) -> Mapping[str, ControlStream]:
        """Return the streams, each passed on to the worker that it concerns."""
        forwarding = self._require_forwarding()
        forwarded = {name: forwarding.forward_stream(name, stream) for name, stream in streams.items()}
        return {**forwarded, "events": forwarding.merge_streams("events", streams["events"])}

    async def drain(self) -> None:
        """Hand over all chats to other workers, if there are any."""
        if self._partitions is not None:
            await self._partitions.ask(Drain())

    def _require_forwarding(self) -> Forwarding:
        assert self._forwarding is not None, "reach_others comes first"
        return self._forwarding

    async def _stop_others(self, language: Language) -> dict[str, str | RumiError]:
        found = await self._require_forwarding().call_all_others(
            WORKER, "stop", {"all": True, "language": language}
        )
        return {name: outcome if isinstance(outcome, RumiError) else str(outcome) for name, outcome in found}
