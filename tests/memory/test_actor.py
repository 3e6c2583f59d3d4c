"""The memory's actor: what becomes of its askers when the disk is full, when it crashes, when they leave."""

import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
import trio
from trio.testing import MockClock

from actors import ActorRef, ChildSpec, Supervisor
from rumi.memory.actor import Memory, asking, open_memory
from rumi.memory.messages import FactRefused, MemoryUnavailable, NewFact
from rumi.memory.rows import facts_of, forget_key, remember_fact, store_extracted
from rumi.memory.store import MemoryStore
from rumi.platform.chat_ids import LOCAL
from rumi.platform.threads import Threads
from rumi.store.steps import Run

T = TypeVar("T")


class InlineOffload:
    async def __call__(self, work: Callable[[], T]) -> T:
        await trio.lowlevel.checkpoint()
        return work()


@asynccontextmanager
async def memory_at(
    path: Path, offload: InlineOffload | Threads | None = None
) -> AsyncIterator[ActorRef[Run[Any]]]:
    root = Supervisor("root")
    memory = root.add(ChildSpec("memory", lambda: Memory(path, offload or Threads(), time.time)))
    async with root.running():
        yield memory


async def test_two_owners_that_ask_at_once_get_their_own(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with memory_at(path) as memory, trio.open_nursery() as nursery:
        ask = asking(memory)

        async def use(owner: str) -> None:
            for number in range(20):
                await ask(remember_fact(owner, NewFact("key", f"{owner} {number}")))
                assert {fact.value.split()[0] for fact in await ask(facts_of(owner))} == {owner}
            assert await ask(forget_key(owner, "KEY")) == 20

        for owner in (LOCAL, "tg1", "tg2", "tg-3"):
            nursery.start_soon(use, owner)


async def test_a_full_disk_is_told_and_is_no_crash(tmp_path: Path) -> None:
    made: list[Memory] = []

    def make() -> Memory:
        made.append(Memory(tmp_path / "memory.db", Threads(), time.time))
        return made[-1]

    root = Supervisor("root")
    memory = root.add(ChildSpec("memory", make))
    async with root.running():
        ask = asking(memory)
        await ask(remember_fact(LOCAL, NewFact("city", "Rosario")))
        assert made[0]._store is not None
        database = made[0]._store._db
        database.execute(f"PRAGMA max_page_count = {database.execute('PRAGMA page_count').fetchone()[0]}")
        heard = tuple(NewFact(f"key {number}", "v" * 900) for number in range(20))
        for _ in range(10):
            with pytest.raises(MemoryUnavailable, match="full"):
                await ask(store_extracted(LOCAL, "cli", 1, 1, heard))
        assert [fact.value for fact in await ask(facts_of(LOCAL))] == ["Rosario"]
        database.execute("PRAGMA max_page_count = 10000")
        assert await ask(store_extracted(LOCAL, "cli", 1, 1, heard)) == 20
    assert len(made) == 1


async def test_a_refusal_is_told_and_is_no_crash(tmp_path: Path) -> None:
    async with memory_at(tmp_path / "memory.db") as memory:
        for _ in range(10):
            with pytest.raises(FactRefused):
                await asking(memory)(remember_fact(LOCAL, NewFact("password", "hunter2")))


async def test_a_crash_is_told_and_the_next_request_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = MemoryStore.do

    def broken(self: MemoryStore, request: Run[Any]) -> object:
        if request.step is forget_key:
            raise KeyError("a fault of ours")
        return real(self, request)

    monkeypatch.setattr(MemoryStore, "do", broken)
    async with memory_at(tmp_path / "memory.db") as memory:
        ask = asking(memory)
        await ask(remember_fact(LOCAL, NewFact("city", "Rosario")))
        with pytest.raises(MemoryUnavailable, match="does not answer"):
            await ask(forget_key(LOCAL, "city"))
        assert [fact.value for fact in await ask(facts_of(LOCAL))] == ["Rosario"]


async def test_a_memory_that_has_stopped_is_told(tmp_path: Path) -> None:
    async with memory_at(tmp_path / "memory.db") as memory:
        pass
    with pytest.raises(MemoryUnavailable):
        await asking(memory)(facts_of(LOCAL))


async def test_a_file_of_a_newer_program_is_a_clear_failure_to_start(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    MemoryStore(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(MemoryUnavailable, match="newer Rumi"):
        async with memory_at(path):
            pass


async def test_who_leaves_has_stored_all_of_it_or_nothing(autojump_clock: MockClock, tmp_path: Path) -> None:
    heard = tuple(NewFact("key", str(number)) for number in range(5))
    async with memory_at(tmp_path / "memory.db", InlineOffload()) as memory:
        ask = asking(memory)
        for upto in range(8):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(ask, store_extracted(LOCAL, "cli", 1, upto, heard))
                    for _ in range(upto):
                        await trio.lowlevel.checkpoint()
                    scope.cancel()
            assert len(await ask(facts_of(LOCAL))) in (0, 5)
        assert len(await ask(facts_of(LOCAL))) == 5


async def test_without_a_tree_the_file_is_asked_and_closed(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "memory.db") as ask:
        await ask(remember_fact("tg1", NewFact("city", "Rosario")))
        with pytest.raises(FactRefused):
            await ask(remember_fact("tg1", NewFact("", "Rosario")))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["memory.db"]
