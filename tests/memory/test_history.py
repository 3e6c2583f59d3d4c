"""Facts that were replaced, where they are from, and files of the earlier schema."""

import sqlite3
from pathlib import Path

from rumi.memory.actor import open_memory
from rumi.memory.command import memory_command
from rumi.memory.memory_calls import MemoryCalls
from rumi.memory.messages import NewFact
from rumi.memory.rows import (
    MOST_PAST,
    facts_of,
    forget_key,
    forget_owner,
    past_facts,
    remember_fact,
    store_extracted,
)
from rumi.memory.schema import MEMORY
from rumi.memory.store import MemoryStore
from rumi.platform.caller import TERMINAL
from rumi.platform.calls import served
from rumi.platform.chat_ids import BUILT_IN
from rumi.store.backend import Backend
from tests.memory.earlier import FIRST


def values(store: MemoryStore, owner: str = "local") -> list[str]:
    return [fact.value for fact in store.do(facts_of(owner))]


def past(store: MemoryStore, key: str = "city", owner: str = "local") -> list[tuple[str, str, float]]:
    return [
        (past_fact.fact.value, past_fact.fact.turn, past_fact.ended)
        for past_fact in store.do(past_facts(owner, key))
    ]


def test_a_new_value_replaces_the_old_one_which_the_history_keeps(database_at: Path | Backend) -> None:
    now = 100.0
    store = MemoryStore(database_at, lambda: now)
    store.do(remember_fact("local", NewFact("city", "Rosario"), chat="cli", turn="t1", also=False))
    store.do(remember_fact("tg1", NewFact("city", "Salta")))
    now = 200.0
    (before,) = store.do(remember_fact("local", NewFact("City", "Lima"), chat="cli", turn="t9", also=False))
    assert before.value == "Rosario"
    assert values(store) == ["Lima"]
    assert past(store) == [("Rosario", "t1", 200.0)]
    assert (values(store, "tg1"), past(store, owner="tg1")) == (["Salta"], [])
    store.close()


def test_an_extracted_fact_that_replaces_another_one_keeps_it_too(database_at: Path | Backend) -> None:
    store = MemoryStore(database_at, lambda: 100.0)
    store.do(store_extracted("local", "cli", 3, 1, (NewFact("city", "Rosario"),)))
    store.do(store_extracted("local", "cli", 4, 9, (NewFact("home", "Lima", "city"),)))
    assert values(store) == ["Lima"]
    assert past(store) == [("Rosario", "session 3", 100.0)]
    store.close()


def test_what_is_forgotten_has_no_history_and_leaves_no_trace(tmp_path: Path) -> None:
    store = MemoryStore(tmp_path / "memory.db", lambda: 100.0)
    for value in ("Xanadu", "Zembla"):
        for key in ("city", "town"):
            store.do(remember_fact("local", NewFact(key, value), also=False))
    store.do(forget_key("local", "city"))
    assert (past(store), len(past(store, "town"))) == ([], 1)
    assert store.do(forget_owner("local")) == 1
    assert past(store, "town") == []
    store.close()
    assert b"Xanadu" not in (tmp_path / "memory.db").read_bytes()


def test_the_history_is_bounded(tmp_path: Path) -> None:
    store = MemoryStore(tmp_path / "memory.db", lambda: 100.0)
    store._db.execute("PRAGMA synchronous = OFF")
    for number in range(MOST_PAST + 20):
        store.do(remember_fact("local", NewFact("n", str(number)), also=False))
    kept = past(store, "n")
    assert (len(kept), kept[0][0]) == (MOST_PAST, "19")
    store.close()


def test_a_file_of_the_first_schema_becomes_what_a_new_one_is(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    db = sqlite3.connect(path)
    db.executescript(
        f"{FIRST}"
        "INSERT INTO facts VALUES (1, 'local', 'city', 'city', 'Rosario', 'explicit', 'cli', 0, 1.0, 2.0);"
    )
    db.close()
    store = MemoryStore(path)
    assert values(store) == ["Rosario"]
    store.do(remember_fact("local", NewFact("city", "Lima"), also=False))
    assert [row[0] for row in past(store)] == ["Rosario"]
    store.close()
    assert (tmp_path / f"memory.db.before-{MEMORY.version}").exists()


async def test_people_see_what_a_key_was_and_where_that_was_said(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "memory.db") as ask:
        for value, turn in (("Rosario", "t1"), ("Lima", "t2")):
            await ask(remember_fact("local", NewFact("city", value), chat="cli", turn=turn, also=False))
        shown = await memory_command(ask, "local", "en", "history city")
        assert "`Rosario` (cli t1)" in shown
        assert "`Lima` (cli t2)" in shown
        assert await memory_command(ask, "tg1", "en", "history city") == "I know nothing under `city`."
        found = await served(MemoryCalls(ask, BUILT_IN))["memory"](TERMINAL, {"do": "history", "key": "CITY"})
    assert isinstance(found, list)
    assert [(fact["value"], fact["turn"], fact["ended"] is None) for fact in found] == [
        ("Rosario", "t1", False),
        ("Lima", "t2", True),
    ]
