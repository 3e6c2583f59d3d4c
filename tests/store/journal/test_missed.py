"""What schedules have missed, as `state.db` stores it: a chat is told exactly what its message says."""

from rumi.store.journal.inbox import open_messages
from rumi.store.journal.records import Firing, Incoming, ScheduleRecord
from rumi.store.journal.schedules import add_schedule, fire_schedules, missed_schedules, tell_missed
from rumi.store.journal.store import Store
from tests.store.journal.accepting import do

DAY_S = 86_400.0


def misses(store: Store, id: int, day: int) -> None:
    """Have a schedule miss the instant of this day."""
    do(
        store,
        fire_schedules((Firing(id, day * DAY_S, then=(day + 1) * DAY_S, missed=1, missed_at=day * DAY_S),)),
    )


def test_what_is_missed_while_a_chat_is_told_is_told_later(store: Store) -> None:
    for _ in range(2):
        do(store, add_schedule(ScheduleRecord("local", "a", "text", "x", cron="0 0 * * *", instant=DAY_S), 9))
    misses(store, 1, 1)
    told = tell_missed("a", Incoming(chat="a", text="1 missed", notice=True), ((1, 1),))
    misses(store, 2, 1)  # between the reading and the telling
    assert do(store, told) is not None
    assert [(schedule.id, schedule.missed) for schedule in do(store, missed_schedules("a"))] == [(2, 1)]  # type: ignore[attr-defined]
    misses(store, 1, 2)
    told = tell_missed("a", Incoming(chat="a", text="1 and 2 missed", notice=True), ((1, 1), (2, 1)))
    misses(store, 1, 3)
    assert do(store, told) is None, "it has missed more than the message says"
    assert [(schedule.id, schedule.missed) for schedule in do(store, missed_schedules("a"))] == [
        (1, 2),
        (2, 1),
    ]  # type: ignore[attr-defined]
    assert [message.text for message in do(store, open_messages("a", 0))] == ["1 missed"]  # type: ignore[attr-defined]
