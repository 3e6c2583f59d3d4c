"""Opening stores and asking them, for tests."""

from pathlib import Path

from rumi.memory.messages import Fact, Facts, Forget, NewFact, Remember, StoreExtracted
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
    found = store.do(Facts(owner))
    assert isinstance(found, tuple)
    return found


def explicit(store: MemoryStore, key: str, value: str, owner: str = LOCAL) -> tuple[Fact, ...]:
    others = store.do(Remember(owner, NewFact(key, value)))
    assert isinstance(others, tuple)
    return others


def store_extracted(
    store: MemoryStore, *heard: tuple[str, str], upto: int = 1, began: float | None = None
) -> object:
    return store.do(StoreExtracted(LOCAL, "cli", 1, upto, tuple(NewFact(*fields) for fields in heard), began))


def forget(store: MemoryStore, key: str) -> object:
    return store.do(Forget(LOCAL, key))
