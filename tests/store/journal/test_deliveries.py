"""The events of triggers in the journal, on SQLite and on PostgreSQL."""

from typing import Any

import pytest

from rumi.store.journal import deliveries
from rumi.store.journal.deliveries import (
    HOUR_S,
    KEPT_S,
    Received,
    Taken,
    accept_event,
    forget_deliveries,
    received_events,
    without_turn,
)
from rumi.store.journal.inbox import open_messages
from rumi.store.journal.records import Attachment, Incoming
from rumi.store.journal.store import Store
from tests.store.journal.accepting import do
from tests.store.journal.conftest import Opening

EVENT = Incoming(
    chat="cli", text="look", trigger="deploy", attachments=(Attachment("words", text="it failed"),)
)


class Clock:
    def __init__(self) -> None:
        self.now = 1_790_000_000.0

    def __call__(self) -> float:
        return self.now


def take(
    store: Store, delivery: str, most: int = 60, window_s: float = 0.0, event: Incoming = EVENT
) -> Taken:
    taken = do(store, accept_event(event, delivery, most, window_s))
    assert isinstance(taken, Taken)
    return taken


def test_a_delivery_is_one_message_also_for_the_next_process(opening: Opening) -> None:
    clock = Clock()
    store = opening(clock)
    first = take(store, "d1")
    assert first.message is not None
    assert (first.number, first.repeated) == (first.message.id, False)
    assert take(store, "d1") == Taken(number=first.number, repeated=True)
    assert take(store, "d1", event=Incoming(chat="cli", text="look", trigger="other")).message is not None
    clock.now += 29 * 24 * HOUR_S
    later = opening(clock)
    assert take(later, "d1") == Taken(number=first.number, repeated=True)
    found: Any = do(later, open_messages("cli", 0))
    assert [(one.trigger, one.text, one.away, one.by_hand) for one in found] == [
        ("deploy", "look", True, False),
        ("other", "look", True, False),
    ]
    assert found[0].attachments == EVENT.attachments


def test_an_id_made_of_the_body_counts_for_a_while(opening: Opening) -> None:
    clock = Clock()
    store = opening(clock)
    assert take(store, "body:1", window_s=60).message is not None
    clock.now += 59
    assert take(store, "body:1", window_s=60).repeated
    clock.now += 2
    again = take(store, "body:1", window_s=60)
    assert again.message is not None, "the same alert an hour later is news"
    clock.now -= 3600  # a clock that is set back is no reason to take it twice
    assert take(store, "body:1", window_s=60) == Taken(number=again.number, repeated=True)


def test_an_hour_has_room_for_so_many_events(opening: Opening) -> None:
    clock = Clock()
    store = opening(clock)
    for number in range(3):
        assert take(store, f"d{number}", 3).message is not None
        clock.now += 10
    full = take(store, "d3", 3)
    assert (full.message, full.number, full.again_s) == (None, 0, HOUR_S - 30)
    assert take(store, "d0", 3).repeated
    assert take(store, "ping", 3, event=without_turn(EVENT)) == Taken()
    assert do(store, received_events("deploy")) == Received("deploy", "ping", clock.now, 3)
    clock.now += HOUR_S - 30
    assert take(store, "d3", 3).message is not None
    assert take(store, "d4", 3).again_s == 10


def test_old_ids_are_deleted_in_slices(opening: Opening, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "SLICE", 20)
    clock = Clock()
    store = opening(clock)
    do(store, *(accept_event(without_turn(EVENT), f"d{number}", 60) for number in range(25)))
    clock.now += KEPT_S - 1
    take(store, "young")
    assert do(store, forget_deliveries()) is False
    assert take(store, "d0").repeated
    clock.now += 2
    assert [do(store, forget_deliveries()) for _ in range(3)] == [True, False, False]
    assert take(store, "young").repeated
    assert take(store, "d0").message is not None
