"""Facts that are shared with a group: a key at a time, as they are now, until they are unshared."""

import sqlite3
from pathlib import Path

import pytest

from rumi.memory.messages import FactRefused, NewFact
from rumi.memory.rows import MOST_SHARED, forget_key, remember_fact, share_key, shared_with, unshare_key
from rumi.memory.schema import MIGRATIONS
from rumi.memory.store import MemoryStore
from rumi.store.backend import Backend
from tests.memory.earlier import FIRST

ANN, BOB, GROUP = "tg11", "tg12", "tg-100"


def shown(store: MemoryStore, group: str = GROUP) -> list[tuple[str, str, str]]:
    return [(owner, fact.key, fact.value) for owner, fact in store.do(shared_with(group))]


def test_a_group_sees_a_shared_key_as_it_is_now_until_it_is_unshared_or_forgotten(
    database_at: Path | Backend,
) -> None:
    store = MemoryStore(database_at)
    for owner in (ANN, BOB):
        store.do(remember_fact(owner, NewFact("city", f"of {owner}"), tainted=owner == BOB))
    assert store.do(share_key(ANN, "shoes", GROUP)) == 0
    assert store.do(share_key(BOB, "CITY", GROUP)) == 1
    assert shown(store) == [(BOB, "city", "of tg12")]
    assert [fact.tainted for _, fact in store.do(shared_with(GROUP))] == [True], "taint comes along"
    assert shown(store, "tg-200") == []
    assert store.do(unshare_key(ANN, "city", GROUP)) == 0
    assert store.do(unshare_key(BOB, "city", GROUP)) == 1
    assert shown(store) == []
    store.do(share_key(BOB, "city", GROUP))
    store.do(forget_key(BOB, "city"))
    store.do(remember_fact(BOB, NewFact("city", "another")))
    assert shown(store) == [], "a forgotten fact is shared no more, also when it is known again"
    store.close()


def test_so_many_facts_can_be_shared_and_no_more(database_at: Path | Backend) -> None:
    store = MemoryStore(database_at)
    for number in range(MOST_SHARED + 1):
        store.do(remember_fact(ANN, NewFact(f"key {number}", "x")))
    for number in range(MOST_SHARED):
        store.do(share_key(ANN, f"key {number}", GROUP))
    with pytest.raises(FactRefused, match="shared with this group already"):
        store.do(share_key(ANN, f"key {MOST_SHARED}", GROUP))
    store.close()


def test_a_file_of_the_first_version_keeps_its_facts_and_can_share_them(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with sqlite3.connect(path) as db:
        db.executescript(FIRST)
        db.execute(
            "INSERT INTO facts VALUES (1, ?, 'city', 'city', 'Salta', 'explicit', '', 0, 1, 1)", (ANN,)
        )
    db.close()
    assert set(MIGRATIONS) >= {1}
    store = MemoryStore(path)
    assert store.do(share_key(ANN, "city", GROUP)) == 1
    assert shown(store) == [(ANN, "city", "Salta")]
    store.close()
