"""Opening stores and asking them, for tests."""

from pathlib import Path

from rumi.memory.messages import Fact, NewFact
from rumi.memory.rows import facts_of, forget_key, remember_fact, store_extracted
from rumi.memory.store import MemoryStore
from rumi.platform.chat_ids import LOCAL
from rumi.store.backend import Backend

START = 1_800_000_000.0


class Clock:
    def __init__(self) -> None:
        self.start = self.now = START

    def __call__(self) -> float:
        return self.now


def open_store(database_at: Path | Backend, clock: Clock) -> MemoryStore:
    return MemoryStore(database_at, clock)


def facts(store: MemoryStore, owner: str = LOCAL) -> tuple[Fact, ...]:
    found = store.do(facts_of(owner))
    assert isinstance(found, tuple)
    return found


def explicit(store: MemoryStore, key: str, value: str, owner: str = LOCAL) -> tuple[Fact, ...]:
    others = store.do(remember_fact(owner, NewFact(key, value)))
    assert isinstance(others, tuple)
    return others


def extracted(
    store: MemoryStore, *heard: tuple[str, str], upto: int = 1, began: float | None = None
) -> object:
    return store.do(
        store_extracted(LOCAL, "cli", 1, upto, tuple(NewFact(*fields) for fields in heard), began)
    )


def forget(store: MemoryStore, key: str) -> object:
    return store.do(forget_key(LOCAL, key))
