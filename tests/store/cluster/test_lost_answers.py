"""Answers of the database that a worker never gets: what it had asked for is done once, or found again."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import trio

from bench.cluster_house import Proxy
from rumi.platform.config.schema import StoreSection
from rumi.store.backend import PostgresServer
from rumi.store.cluster.building import StoreThread
from rumi.store.cluster.partitions import Dependents, Partitions
from rumi.store.journal.inbox import accept_messages, begin_turn, load_chat
from rumi.store.journal.leases import (
    claim_partitions,
    cluster_members,
    join_cluster,
    release_partitions,
    renew_lease,
)
from rumi.store.journal.records import Incoming
from rumi.store.journal.schema import ON_A_SERVER, STATE
from rumi.store.journal.store import JournalError, NotOwner, Store, Unwritable
from rumi.store.ownership import PARTITIONS, Ownership
from rumi.store.steps import Run, Step
from tests.postgres import Server

SLOW_COMMIT = (
    "CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS"
    " $$ BEGIN PERFORM pg_sleep(0.4); RETURN NULL; END $$",
    "CREATE CONSTRAINT TRIGGER slowly AFTER INSERT ON messages DEFERRABLE INITIALLY DEFERRED"
    " FOR EACH ROW EXECUTE FUNCTION slowly()",
)
"""The server is at work on a commit for so long, also when its client has left."""

HELLO = accept_messages((Incoming(chat="a", text="hello"),))


@pytest.fixture
async def proxy(postgres: Server) -> AsyncIterator[Proxy]:
    async with trio.open_nursery() as nursery:
        proxy = Proxy(postgres.port)
        await nursery.start(proxy.serve)
        yield proxy
        nursery.cancel_scope.cancel()


@pytest.fixture
def name(postgres: Server) -> str:
    return postgres.new_database().rpartition("/")[2]


def through(proxy: Proxy, postgres: Server, name: str) -> PostgresServer:
    return PostgresServer(postgres.url(name, proxy.port), ON_A_SERVER)


def joined(backend: PostgresServer, ownership: Ownership, worker: str) -> list[frozenset[int]]:
    """Be a worker that serves all chats; return the list of the partitions of which a write was refused."""
    lost: list[frozenset[int]] = []
    ownership.begin(worker, lost.append)
    alone = Store(backend)
    alone.run([join_cluster(worker, "1", "", 60.0)])
    (claimed,) = alone.run([claim_partitions(worker, PARTITIONS)])
    alone.close()
    ownership.set({partition.number: partition.fence for partition in claimed})  # type: ignore[attr-defined]
    return lost


def cut_at(proxy: Proxy, words: bytes, after_s: float) -> None:
    """Lose the server's answers from the statement with these words on, and end the connections."""

    sent = trio.Event()

    def heard(data: bytes) -> None:
        if words in data:
            proxy.way = "deaf"
            sent.set()

    proxy.heard = heard

    async def cut() -> None:
        await sent.wait()
        await trio.sleep(after_s)
        proxy.heard = lambda data: None
        proxy.way = "pass"
        proxy.cut()

    trio.lowlevel.spawn_system_task(cut)


async def test_a_commit_that_goes_on_without_its_client_is_not_done_twice(
    proxy: Proxy, postgres: Server, name: str
) -> None:
    direct, ownership = PostgresServer(postgres.url(name), ON_A_SERVER), Ownership()
    joined(direct, ownership, "w1")
    backend = through(proxy, postgres, name)
    store = await trio.to_thread.run_sync(lambda: Store(backend, ownership=ownership))
    db = direct.open("state", STATE)
    for statement in SLOW_COMMIT:
        db.execute(statement)
    cut_at(proxy, b"COMMIT", 0.05)
    with pytest.raises(Unwritable):
        await trio.to_thread.run_sync(store.run, [HELLO])
    # The process is another worker by now, which has to find what the earlier one has written.
    joined(direct, ownership, "w2")
    (stored,) = await trio.to_thread.run_sync(store.run, [HELLO])
    assert stored[0].id == 1  # type: ignore[index]
    store.close()
    assert db.execute("SELECT count(*) FROM messages").fetchone() == (1,)
    db.close()


async def test_two_workers_that_load_a_new_chat_open_one_session(postgres: Server, name: str) -> None:
    direct = PostgresServer(postgres.url(name), ON_A_SERVER)
    stores = []
    for worker in ("w1", "w2"):
        ownership = Ownership()
        joined(direct, ownership, worker)
        stores.append(Store(direct, ownership=ownership))
    db = direct.open("state", STATE)
    for statement in SLOW_COMMIT:
        db.execute(statement.replace("ON messages", "ON sessions"))
    db.close()
    loaded: list[object] = []

    async def load(store: Store) -> None:
        loaded.extend(await trio.to_thread.run_sync(store.run, [load_chat("a", 10)]))
        store.close()

    async with trio.open_nursery() as nursery:
        for store in stores:
            nursery.start_soon(load, store)
    assert [entry.session for entry in loaded] == [1, 1]  # type: ignore[attr-defined]


async def test_what_an_earlier_worker_had_asked_for_ends_no_later_lease(postgres: Server, name: str) -> None:
    backend, ownership = PostgresServer(postgres.url(name), ON_A_SERVER), Ownership()
    joined(backend, ownership, "w1")
    store = Store(backend, ownership=ownership)
    store.run([HELLO])
    asked = ownership.served
    db = backend.open("state", STATE)
    db.execute("UPDATE workers SET until = 0")
    db.close()
    lost = joined(backend, ownership, "w2")
    (refused,) = store.run([begin_turn("a", 1, "t1", 1)], [asked])
    assert isinstance(refused, NotOwner)
    assert lost == []
    store.close()


async def test_a_worker_joins_although_the_answer_is_lost(proxy: Proxy, postgres: Server, name: str) -> None:
    ask = StoreThread(through(proxy, postgres, name))
    await ask(cluster_members())
    cut_at(proxy, b"COMMIT", 0.1)
    with pytest.raises(JournalError):
        await ask(join_cluster("w1", "1", "", 60.0))
    await ask(join_cluster("w1", "1", "", 60.0))
    assert [member.name for member in await ask(cluster_members())] == ["w1"]
    ask.close()


class _Losing:
    """Asks the database, and loses the next answers of a step, which are done."""

    def __init__(self, ask: StoreThread, step: Step[Any, ..., Any], times: int) -> None:
        self._ask = ask
        self._step = step
        self._times = times

    async def __call__(self, request: Run[Any], /) -> Any:
        reply = await self._ask(request)
        if request.step is self._step and self._times:
            self._times -= 1
            raise JournalError("The answer is lost.")
        return reply


async def test_partitions_whose_claim_had_no_answer_are_served(postgres: Server, name: str) -> None:
    ask, ownership = StoreThread(PostgresServer(postgres.url(name), ON_A_SERVER)), Ownership()
    await ask(join_cluster("w1", "1", "", 60.0))
    ownership.begin("w1", lambda numbers: None)
    partitions = _partitions(_Losing(ask, claim_partitions, 1), ownership)
    with pytest.raises(JournalError):
        await _look(partitions)
    assert not ownership.numbers()
    await _look(partitions)
    assert len(ownership.numbers()) == PARTITIONS
    ask.close()


async def test_partitions_whose_release_had_no_answer_are_free(postgres: Server, name: str) -> None:
    ask, ownership = StoreThread(PostgresServer(postgres.url(name), ON_A_SERVER)), Ownership()
    await ask(join_cluster("w1", "1", "", 60.0))
    ownership.begin("w1", lambda numbers: None)
    partitions = _partitions(_Losing(ask, release_partitions, 1), ownership)
    await _look(partitions)
    await ask(join_cluster("w2", "1", "", 60.0))
    await _look(partitions)
    assert len(ownership.numbers()) == PARTITIONS // 2
    assert len(await ask(claim_partitions("w2", PARTITIONS))) == PARTITIONS // 2
    ask.close()


async def test_an_account_that_one_worker_was_asked_to_slow_down_is_slower_on_all(
    postgres: Server, name: str
) -> None:
    ask, ownership, slowed = StoreThread(PostgresServer(postgres.url(name), ON_A_SERVER)), Ownership(), []
    for worker in ("w1", "w2"):
        await ask(join_cluster(worker, "1", "", 60.0))
    ownership.begin("w1", lambda numbers: None)
    partitions = _partitions(ask, ownership, slowed.append)

    async def look(limited: object) -> list[str]:
        slowed.clear()
        await ask(renew_lease("w2", 60.0, json.dumps({"limited": limited})))
        await _look(partitions)
        return sorted(slowed)

    assert await look({"telegram": 3, "telegram.work": 0}) == []
    assert await look({"telegram": 3, "telegram.work": 0}) == []
    assert await look({"telegram": 4, "telegram.work": 0}) == ["telegram"]
    assert await look({"telegram": 4, "telegram.work": 2}) == ["telegram.work"]
    assert await look({"telegram": 5, "telegram.work": 3}) == ["telegram", "telegram.work"]
    assert await look(7) == []
    ask.close()


async def _look(partitions: Partitions) -> None:
    await partitions._read()
    await partitions._step()


def _partitions(
    ask: Any, ownership: Ownership, slow_down: Callable[[str], None] = lambda account: None
) -> Partitions:
    async def nothing(request: object) -> None:
        """Answer the journal's requests, and look at no chat."""

    journal: Any = nothing
    return Partitions(
        ask,
        journal,
        ownership,
        StoreSection(lease_s=60.0),
        _Silence(),
        Dependents((), nothing, slow_down=slow_down),
    )


class _Silence:
    async def receive(self, worker: str) -> tuple[str, ...]:
        await trio.sleep_forever()
        raise AssertionError

    def close(self) -> None:
        return None
