"""What turns have made of facts: taken back once, kept by an upgrade, gone when a person forgets."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rumi.memory.messages import NewFact, TakenBack
from rumi.memory.rows import forget_key, remember_fact, take_facts_back
from rumi.memory.store import MemoryStore
from rumi.platform.chat_ids import LOCAL
from rumi.store.backend import Backend
from tests.memory.earlier import FIRST
from tests.memory.stores import Clock, facts, open_store


@pytest.fixture
def store(database_at: Path | Backend) -> Iterator[MemoryStore]:
    opened = open_store(database_at, Clock())
    yield opened
    opened.close()


def test_all_changes_of_a_turn_are_taken_back_once(store: MemoryStore) -> None:
    store.do(remember_fact(LOCAL, NewFact("city", "Rosario")))
    before = facts(store)
    store.do(forget_key(LOCAL, "City", turn="t5"))
    store.do(remember_fact(LOCAL, NewFact("city", "Lima"), turn="t5"))
    store.do(remember_fact(LOCAL, NewFact("dog", "Toby"), turn="t5"))
    assert store.do(take_facts_back("t5")) == TakenBack(("dog", "city"))
    assert facts(store) == before
    assert store.do(take_facts_back("t5")) == TakenBack()


def test_what_was_changed_since_stays(store: MemoryStore) -> None:
    store.do(remember_fact(LOCAL, NewFact("dog", "Toby"), turn="t5"))
    store.do(remember_fact(LOCAL, NewFact("dog", "Rex")))
    assert store.do(take_facts_back("t5")) == TakenBack((), ("dog",))
    assert {fact.value for fact in facts(store)} == {"Toby", "Rex"}


def test_a_person_who_forgets_a_fact_leaves_nothing_for_an_undo(tmp_path: Path, store: MemoryStore) -> None:
    store.do(remember_fact(LOCAL, NewFact("dog", "Tobyxyz"), turn="t5"))
    store.do(forget_key(LOCAL, "dog"))
    store.close()
    assert b"Tobyxyz" not in b"".join(path.read_bytes() for path in tmp_path.glob("memory.db*"))


def test_a_file_of_the_first_version_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(FIRST)
        db.execute(
            "INSERT INTO facts (owner, key, folded, value, source, chat, tainted, created, updated)"
            " VALUES ('local', 'city', 'city', 'Rosario', 'explicit', '', 0, 1.0, 1.0)"
        )
        db.commit()
    store = open_store(path, Clock())
    store.do(forget_key(LOCAL, "city", turn="t1"))
    assert store.do(take_facts_back("t1")) == TakenBack(("city",))
    assert [fact.value for fact in facts(store)] == ["Rosario"]
