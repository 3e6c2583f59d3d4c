"""Forwards calls and attached clients to the worker that serves the chat or owner of the request.

A forwarded client gets `{"moved": true}` when another worker takes over its chat, or when the connection to
its worker ends. Then the client attaches again, and is forwarded to the new worker. Requests for a worker
without an address are not forwarded: the client stays here, and gets its replies from the database.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

import trio

from actors import ActorError
from rumi.channels.attach.connection import NotRunning, connect
from rumi.channels.attach.peers import Peer, peer_of
from rumi.channels.attach.wire import Wire, WireClosed
from rumi.channels.control.server import ControlStream
from rumi.errors import ConfigError, NotServed, RumiError, answer_of
from rumi.platform.caller import Caller, ControlCall
from rumi.store.cluster.partitions import WorkerDirectory
from rumi.store.journal.actor import AskJournal
from rumi.store.journal.leases import Member, cluster_members, owner_of_partition
from rumi.store.ownership import Ownership, partition_of
from rumi.texts import Text

logger = logging.getLogger(__name__)

OWNER_TIMEOUT_S: Final = 5.0
"""Maximum wait in seconds until a worker serves a chat. Handing a chat over to a worker takes less."""

RETRY_S: Final = 0.1

MEMBERS_TIMEOUT_S: Final = 1.0
"""Maximum time for the database to return the workers, in seconds."""

ATTACH_TIMEOUT_S: Final = 20.0
"""Maximum time for another worker to attach a client, in seconds."""

DONE_THROUGH_DATABASE: Final = frozenset({"stop", "reset", "undo"})
"""Calls that also work for a chat whose worker is unreachable: they are stored as messages to the chat."""

PartitionKeyOf: TypeAlias = Callable[[str, Mapping[str, object]], Awaitable[str | None]]
"""Returns the chat or the owner that a request concerns; None for requests that every worker handles itself.
"""


class Forwarding:
    """Finds the other workers, and forwards calls and streams to them.

    `accepts` returns True for a chat that this worker serves.
    """

    def __init__(
        self,
        ask: AskJournal,
        ownership: Ownership,
        directory: WorkerDirectory,
        key: bytes | None,
        accepts: Callable[[str], bool],
        partition_key_of: PartitionKeyOf,
    ) -> None:
        self._ask = ask
        self._ownership = ownership
        self._directory = directory
        self._key = key
        self._accepts = accepts
        self._partition_key_of = partition_key_of

    async def owner_of(self, partition_key: str, *, fresh: bool = True) -> Member | None:
        """Return the worker that serves a chat; None if this worker serves it.

        The worker is looked up in the database. If `fresh` is False, a result of an earlier lookup is used
        instead.

        Raises:
            NotServed: No worker serves the chat, and none took it over within `OWNER_TIMEOUT_S`.
        """
        with trio.move_on_after(OWNER_TIMEOUT_S):
            while not self._accepts(partition_key):
                known = None if fresh else self._directory.owner_of(partition_key)
                if known is not None and known.name != self._ownership.worker:
                    return known
                owner = await self._ask(owner_of_partition(partition_of(partition_key)))
                if owner is not None and owner.name != self._ownership.worker:
                    return owner
                await trio.sleep(RETRY_S)
            return None
        raise NotServed("No worker serves this chat at the moment.", "Try again in a moment.")

    def peer(self, member: Member) -> Peer | None:
        """Return the network address and key of a worker; None if the worker is unreachable from here."""
        with suppress(ConfigError):
            return peer_of(member.address, self._key) if member.address and self._key is not None else None
        return None

    def _others(self, members: Sequence[Member]) -> Sequence[Member]:
        """Return all other workers whose lease has not expired."""
        return [member for member in members if member.left_s > 0 and member.name != self._ownership.worker]

    # Calls

    def forward_call(self, name: str, call: ControlCall) -> ControlCall:
        """Return the call, wrapped so that the worker responsible for the request answers it."""

        async def forwarding(caller: Caller, request: Mapping[str, object]) -> object:
            partition_key = await self._partition_key_of(name, request)
            if partition_key is None:
                return await call(caller, request)
            if request.get("passed"):
                self._require_owned(partition_key)
                return await call(caller, request)
            fresh, deadline = False, trio.current_time() + OWNER_TIMEOUT_S
            while (owner := await self.owner_of(partition_key, fresh=fresh)) is not None:
                try:
                    return await self.call_worker(owner, caller, name, request)
                except NotServed:  # it has just handed it over
                    if trio.current_time() > deadline:
                        raise
                    await trio.sleep(RETRY_S)
                except NotRunning:
                    if fresh and name not in DONE_THROUGH_DATABASE:
                        raise RumiError(*unreachable(owner.name)) from None
                    if fresh:
                        break
                fresh = True
            return await call(caller, request)

        return forwarding

    async def call_worker(
        self, member: Member, caller: Caller, name: str, request: Mapping[str, object]
    ) -> object:
        """Make a call to another worker for the caller; return the result.

        Raises:
            NotRunning: The worker is unreachable.
            RumiError: The worker answered with this error.
        """
        peer = self.peer(member)
        if peer is None:
            raise NotRunning
        fields = {key: value for key, value in request.items() if key not in ("call", "passed")}
        async with connect(peer, caller) as client:
            return await client.call(name, **fields)

    def _require_owned(self, partition_key: str) -> None:
        if not self._accepts(partition_key):
            raise NotServed("This worker does not serve the chat any more.", "Try again in a moment.")

    # Streams

    def forward_stream(self, name: str, stream: ControlStream) -> ControlStream:
        """Return the stream, wrapped so that the worker responsible for the request serves it."""

        async def forwarding(caller: Caller, request: Mapping[str, object], wire: Wire) -> None:
            try:
                partition_key = await self._partition_key_of(name, request)
                if partition_key is None:
                    return await stream(caller, request, wire)
                if request.get("passed"):
                    self._require_owned(partition_key)
                    return await stream(caller, request, wire)
                await self._forward(name, stream, partition_key, caller, request, wire)
            except RumiError as error:
                with suppress(WireClosed):
                    await wire.send({**answer_of(error), "later": isinstance(error, NotServed)})

        return forwarding

    async def _forward(
        self,
        name: str,
        stream: ControlStream,
        partition_key: str,
        caller: Caller,
        request: Mapping[str, object],
        wire: Wire,
    ) -> None:
        fresh, deadline = False, trio.current_time() + OWNER_TIMEOUT_S
        while (owner := await self.owner_of(partition_key, fresh=fresh)) is not None:
            peer = self.peer(owner)
            try:
                if peer is None:
                    raise NotRunning
                if await self._relay(name, partition_key, owner.name, peer, caller, request, wire):
                    return None
            except NotRunning:
                if fresh and name != "window":
                    raise RumiError(*unreachable(owner.name)) from None
                if fresh:
                    return await stream(caller, {**request, "away": owner.name}, wire)
                fresh = True
                continue
            fresh = True
            if trio.current_time() > deadline:
                raise NotServed("No worker serves this chat at the moment.", "Try again in a moment.")
            await trio.sleep(RETRY_S)
        await stream(caller, request, wire)
        return None

    async def _relay(
        self,
        name: str,
        partition_key: str,
        worker: str,
        peer: Peer,
        caller: Caller,
        request: Mapping[str, object],
        wire: Wire,
    ) -> bool:
        """Relay messages between the client and another worker, until either side disconnects.

        Return False, without having sent anything to the client, if that worker no longer serves the chat.
        """
        fields = {key: value for key, value in request.items() if key not in ("stream", "passed")}
        async with connect(peer, caller) as client:
            try:
                theirs = await client.stream(name, **fields)
                if name == "window":
                    with trio.fail_after(ATTACH_TIMEOUT_S):
                        first = await theirs.receive()
                    if first.get("later"):
                        return False
                    await wire.send(first)
            except (WireClosed, trio.TooSlowError):
                raise NotRunning from None
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_relay_requests, wire, theirs, nursery.cancel_scope)
                if name == "window":
                    nursery.start_soon(self._close_when_moved, partition_key, worker, theirs)
                await _relay_answers(theirs, wire, moved=name == "window")
                nursery.cancel_scope.cancel()
            return True

    async def _close_when_moved(self, partition_key: str, worker: str, theirs: Wire) -> None:
        """Close the connection to a worker when another worker takes over the chat.

        A worker that has lost its network cannot close the connection itself.
        """
        await self._directory.until_other(partition_key, worker)
        await theirs.aclose()

    def merge_streams(self, name: str, stream: ControlStream) -> ControlStream:
        """Return the stream, wrapped so that it also sends the messages of all other reachable workers."""

        async def merged(caller: Caller, request: Mapping[str, object], wire: Wire) -> None:
            if request.get("passed"):
                return await stream(caller, request, wire)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._merge_others, name, caller, request, wire)
                await stream(caller, request, wire)
                nursery.cancel_scope.cancel()
            return None

        return merged

    async def _merge_others(
        self, name: str, caller: Caller, request: Mapping[str, object], wire: Wire
    ) -> None:
        joined: set[str] = set()
        fields = {key: value for key, value in request.items() if key not in ("stream", "passed")}

        async def one(member: Member, peer: Peer) -> None:
            with suppress(NotRunning, WireClosed):
                async with connect(peer, caller) as client:
                    theirs = await client.stream(name, **fields)
                    await theirs.receive()  # its greeting
                    await _relay_answers(theirs, wire, moved=False)
            await trio.sleep(OWNER_TIMEOUT_S)
            joined.discard(member.name)

        async with trio.open_nursery() as nursery:
            while True:
                for member in self._others(self._directory.members):
                    if member.name not in joined and (peer := self.peer(member)) is not None:
                        joined.add(member.name)
                        nursery.start_soon(one, member, peer)
                await self._directory.changed.wait()

    async def call_all_others(
        self, caller: Caller, name: str, request: Mapping[str, object]
    ) -> list[tuple[str, object]]:
        """Call all other workers for the caller; return the result or error of each worker, with its name."""
        found: list[tuple[str, object]] = []

        async def one(member: Member) -> None:
            try:
                found.append((member.name, await self.call_worker(member, caller, name, request)))
            except NotRunning:
                found.append((member.name, RumiError(*unreachable(member.name))))
            except RumiError as error:
                found.append((member.name, error))

        async with trio.open_nursery() as nursery:
            for member in self._others(await self._members()):
                nursery.start_soon(one, member)
        return sorted(found, key=lambda answer: answer[0])

    async def _members(self) -> Sequence[Member]:
        """Return the current workers, or the last known ones if the database does not answer in time."""
        with trio.move_on_after(MEMBERS_TIMEOUT_S), suppress(ActorError):
            return await self._ask(cluster_members())
        return self._directory.members


def unreachable(worker: str) -> tuple[str, str]:
    """Return message and advice for an error: the worker that has to serve the request is unreachable."""
    return (
        Text("The worker {worker} serves this, and cannot be reached from here.", worker=worker),
        Text("Give all workers a [store] address and the same STORE_TOKEN."),
    )


async def _relay_requests(wire: Wire, theirs: Wire, scope: trio.CancelScope) -> None:
    """Forward the client's messages to the worker; when the client has disconnected, cancel `scope`."""
    while True:
        try:
            message = await wire.receive()
        except WireClosed:
            return scope.cancel()
        try:
            await theirs.send(message)
        except WireClosed:
            return None


async def _relay_answers(theirs: Wire, wire: Wire, *, moved: bool) -> None:
    """Forward the worker's messages to the client until the worker disconnects.

    If `moved` is True, then tell the client that its chat has moved to another worker.
    """
    with suppress(WireClosed):
        while True:
            try:
                message = await theirs.receive()
            except WireClosed:
                if moved:
                    await wire.send({"moved": True})
                return
            await wire.send(message)
