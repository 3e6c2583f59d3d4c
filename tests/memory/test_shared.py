"""Two workers change one person's facts in one PostgreSQL database."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from actors import ChildSpec
from actors.testing import Tree, crash
from rumi.memory.actor import Memory, asking
from rumi.memory.messages import Fact, MemoryUnwritable, NewFact, TakenBack
from rumi.memory.rows import facts_of, forget_key, remember_fact, store_extracted, take_facts_back
from rumi.memory.schema import MEMORY
from rumi.memory.store import MemoryStore
from rumi.platform.threads import Threads
from rumi.store.backend import PostgresServer
from rumi.store.copying import tables_of
from rumi.store.journal.schema import STATE
from tests.memory.stores import facts
from tests.postgres import Server, free_port
from tests.store.journal.proxy import Proxy


@pytest.fixture
def url(postgres: Server, empty_database: str) -> Iterator[str]:
    made = postgres.copy_of(empty_database)
    yield made
    postgres.drop(made)


def test_the_tables_of_the_memory_and_of_the_journal_have_different_names() -> None:
    memory, state = ({table.name for table in tables_of(schema)} for schema in (MEMORY, STATE))
    assert memory
    assert not memory & state


def test_changes_of_one_persons_facts_follow_one_another(url: str) -> None:
    stores = [MemoryStore(PostgresServer(url)) for _ in range(2)]

    def change(database_at: int) -> list[tuple[Fact, ...]]:
        return [
            stores[database_at].do(
                remember_fact("local", NewFact("city", f"{database_at} {number}"), also=False)
            )
            for number in range(15)
        ]

    with ThreadPoolExecutor(2) as threads:
        replaced = [changed for found in threads.map(change, range(2)) for changed in found]
    last = facts(stores[0])
    assert len(last) == 1, "one value at a time"
    before = [fact.value for changed in replaced for fact in changed]
    assert len(before) == len(set(before)) == 29, "each value was replaced by exactly one other"
    for store in stores:
        store.close()


def test_a_commit_without_an_answer_is_looked_up_and_a_server_comes_back(url: str, postgres: Server) -> None:
    proxy = Proxy(postgres.port)
    try:
        store = MemoryStore(PostgresServer(url.replace(str(postgres.port), str(proxy.port))))
        learn = store_extracted("local", "cli", 1, 1, (NewFact("city", "Lima"), NewFact("dog", "Toby")))
        proxy.cut = "after"
        assert store.do(learn) == 2, "as it was committed; done twice it would be 0"
        proxy.cut = "after"
        assert store.do(forget_key("local", "dog", turn="t1")) == 1
        assert proxy.cuts == 2
        proxy.server = free_port()
        proxy.end_connections()
        with pytest.raises(MemoryUnwritable, match="does not answer"):
            store.do(remember_fact("local", NewFact("cat", "Misu")))
        proxy.server = postgres.port
        assert store.do(take_facts_back("t1")) == TakenBack(("dog",))
        assert {fact.key for fact in facts(store)} == {"city", "dog"}
        store.close()
    finally:
        proxy.close()


async def test_a_memory_that_is_restarted_while_the_database_is_away_waits_for_it(
    url: str, postgres: Server
) -> None:
    """As below a lease that was lost: a process that ended because of it would be started in vain."""
    proxy = Proxy(postgres.port)
    database = PostgresServer(url.replace(str(postgres.port), str(proxy.port)))
    tree = Tree()
    memory = tree.add(ChildSpec("memory", lambda: Memory(database, Threads(), time.time)))
    ask = asking(memory)
    try:
        async with tree.up(within_s=30):
            await ask(remember_fact("local", NewFact("dog", "Toby")))
            proxy.server = free_port()
            proxy.end_connections()
            crash(memory)
            for _ in range(3):
                with pytest.raises(MemoryUnwritable, match="does not answer"):
                    await ask(facts_of("local"))
            assert tree.node("memory").incarnation == 2
            proxy.server = postgres.port
            assert [fact.value for fact in await ask(facts_of("local"))] == ["Toby"]
    finally:
        proxy.close()


async def test_a_memory_says_at_the_start_that_the_database_is_away() -> None:
    database = PostgresServer(f"postgresql://127.0.0.1:{free_port()}/rumi")
    tree = Tree()
    tree.add(ChildSpec("memory", lambda: Memory(database, Threads(), time.time)))
    with pytest.raises(MemoryUnwritable, match="does not answer"):
        async with tree.up():
            raise AssertionError("it started")
