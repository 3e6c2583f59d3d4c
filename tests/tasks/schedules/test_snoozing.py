"""`/snooze` puts off the last reminder of a chat, once, at the time that a person means."""

import json
import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest
import trio
import trio.testing

from rumi.platform.config.groups import Groups
from rumi.platform.config.schema import GroupSection, SchedulesSection
from rumi.store.journal.records import ScheduleRecord
from rumi.store.journal.reminders import FiredReminder
from rumi.tasks.schedules.snoozing import snooze_time
from rumi.tasks.schedules.times import instant_of
from rumi.tasks.schedules.when import After, Every, On, When, meant
from tests.chats.house import House, echo, house
from tests.chats.people.speaking import ANN, BOB, GROUP, GUS, people, say
from tests.tasks.schedules.test_schedules import LIMITS, MADRID, Wall, next_reply, rows
from tests.tasks.schedules.watching import URL, Site


async def fired(home: House, text: str = "tea", when: When | None = None, **more: object) -> None:
    """Let a reminder of the local chat fire."""
    await home.schedules.set_zone("local", MADRID)
    with home.services.hub.listening("cli") as events:
        new = ScheduleRecord("local", "cli", "text", text, **more)  # type: ignore[arg-type]
        await home.schedules.add(new, when or After(1))
        assert await next_reply(events) == f"⏰ {text}"


def snoozes(path: Path) -> list[tuple[object, ...]]:
    return rows(path, "SELECT text, owner, chat, tainted, language FROM schedules WHERE message < 0")


def local(day: int, hour: int, minute: int = 0) -> float:
    return instant_of(datetime(2026, 11, day, hour, minute), MADRID)


@pytest.mark.parametrize(
    ("said", "minutes"),
    [
        ("10 min", 10),
        ("10m", 10),
        ("1 h", 60),
        ("2 horas", 120),
        ("in 20 minutes", 20),
        ("en 3 horas", 180),
        ("2 hs", 120),
        ("1 d", 1440),
    ],
)
def test_a_time_span_counts_from_the_press(said: str, minutes: int) -> None:
    now = local(23, 12)
    when = snooze_time(said, FiredReminder(1, 1, local(23, 8)), MADRID, now)
    assert isinstance(when, After)
    assert meant(when, MADRID, now) == now + minutes * 60


@pytest.mark.parametrize("word", ["tomorrow", "mañana", "amanhã", "Tomorrow"])
@pytest.mark.parametrize(
    ("was_for", "pressed", "then"),
    [
        (local(23, 8), local(23, 8, 3), local(24, 8)),  # the reminder's own time of day
        (local(23, 8), local(23, 22, 30), local(24, 8)),  # also hours later
        (local(23, 8), local(24, 2), local(24, 8)),  # who is still awake means after the sleep
        (local(23, 22, 59), local(23, 23, 1), local(24, 22, 59)),
        (local(23, 23), local(23, 23, 1), local(24, 9)),  # at night: nine o'clock
        (local(23, 3), local(23, 3, 1), local(23, 9)),
        (local(23, 5, 59), local(23, 6), local(24, 9)),
    ],
)
def test_tomorrow_is_the_same_time_of_day_or_nine_after_a_night(
    word: str, was_for: float, pressed: float, then: float
) -> None:
    when = snooze_time(word, FiredReminder(1, 1, was_for), MADRID, pressed)
    assert isinstance(when, On)
    assert meant(when, MADRID, pressed) == then


@pytest.mark.parametrize("said", ["every monday 08:00", "soon", "0 9 * * 1", "-5 min", "10 parsecs", "0 min"])
def test_other_words_are_not_guessed_at(said: str) -> None:
    assert snooze_time(said, FiredReminder(1, 1, local(23, 8)), MADRID, local(23, 9)) is None


async def test_the_last_reminder_is_put_off_and_comes_again(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(tmp_path, echo, now=Wall(), schedule_limits=LIMITS) as home:
        await fired(home, "the first")
        await fired(home, "tea", Every("*/7 * * * *"))
        said = await home.ask("/snooze 1 h")
        assert said == (
            "⏰ tea\n\n💤 Again: Monday 23 November 2026, 11:07, Europe/Madrid. "
            "To cancel it: /schedules delete 3"
        )
        assert snoozes(tmp_path) == [("tea", "local", "cli", 0, "en")]
        assert await home.ask("/snooze tomorrow") == (
            "⏰ tea\n\n💤 Put off already: Monday 23 November 2026, 11:07, Europe/Madrid. "
            "For another time, first /schedules delete 3"
        )
        await home.ask("/schedules delete 3")
        assert "Tuesday 24 November 2026, 10:07" in await home.ask("/snooze tomorrow")
        await home.schedules.pause_all()
        assert len(snoozes(tmp_path)) == 1


async def test_a_reminder_that_came_again_is_put_off_by_its_new_message(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(tmp_path, echo, now=Wall(), schedule_limits=LIMITS) as home:
        await fired(home)
        ((first,),) = rows(tmp_path, "SELECT message FROM fires")
        await home.ask("/snooze 10 min")
        await trio.sleep(700)
        assert "has come again since" in await home.ask(f"/snooze 10 min #{first}")
        assert "💤 Again: " in await home.ask("/snooze 10 min")
        assert len(snoozes(tmp_path)) == 2


async def test_what_cannot_be_put_off_is_said(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    limits = SchedulesSection(max_per_owner=2)
    async with house(tmp_path, echo, now=Wall(), schedule_limits=limits) as home:
        nothing = "❌ There is no reminder here to put off. To set a new one: /remind in 20 minutes: TEXT"
        assert await home.ask("/snooze 10 min") == nothing
        assert (await home.ask("/snooze")).startswith("/snooze puts off the last reminder of this chat")
        await fired(home)
        assert await home.ask("/snooze 10 min", chat="tg7") == nothing
        ((number,),) = rows(tmp_path, "SELECT message FROM fires")
        assert await home.ask(f"/snooze 10 min #{number}", chat="tg7") == nothing, "another chat's"
        assert (await home.ask("/snooze whenever")).startswith("/snooze puts off")
        for text in ("one", "two"):
            await home.schedules.add(ScheduleRecord("local", "cli", "text", text), After(600))
        assert "There are 2 schedules already" in await home.ask("/snooze 10 min")
        assert not snoozes(tmp_path)


async def test_what_is_no_reminder_has_no_buttons_and_is_not_put_off(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(tmp_path, echo, now=Wall(), schedule_limits=LIMITS) as home:
        with home.services.hub.listening("cli") as events:
            await home.schedules.add(ScheduleRecord("local", "cli", "turn", "look"), After(1))
            await next_reply(events)
        assert "no reminder here to put off" in await home.ask("/snooze 10 min")
        assert rows(tmp_path, "SELECT count(*) FROM messages WHERE buttons != '[]'") == [(0,)]


async def test_a_tainted_reminder_stays_tainted_and_keeps_its_language(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(tmp_path, echo, now=Wall(), schedule_limits=LIMITS) as home:
        await fired(home, "té", tainted=True, language="es")
        assert "💤" in await home.ask("/snooze 10 min")
        assert snoozes(tmp_path) == [("té", "local", "cli", 1, "es")]
        ((buttons,),) = rows(tmp_path, "SELECT buttons FROM messages WHERE buttons != '[]'")
        assert "/snooze 10 min #" in str(buttons)


@pytest.mark.parametrize("asks", [False, True])
async def test_a_message_that_also_asks_something_keeps_its_text_and_its_buttons(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, asks: bool
) -> None:
    async with house(tmp_path, echo, now=Wall(), schedule_limits=LIMITS) as home:
        await fired(home)
        ((number,),) = rows(tmp_path, "SELECT message FROM fires")
        if asks:
            with closing(sqlite3.connect(tmp_path / "state.db")) as db, db:
                ((buttons,),) = db.execute("SELECT buttons FROM messages WHERE id = ?", (number,)).fetchall()
                more = [*json.loads(buttons), ["00112233445566aa", "Yes", "/yes 1"]]
                db.execute("UPDATE messages SET buttons = ? WHERE id = ?", (json.dumps(more), number))
        await home.ask(f"/snooze 10 min #{number}")
        placed = rows(tmp_path, "SELECT in_place FROM outbox WHERE text LIKE '%💤%'")
        assert placed == [(int(not asks),)]


async def test_quiet_hours_hold_a_snooze_as_any_reminder_and_the_reply_names_that_time(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    groups = Groups({"-100": GroupSection(quiet="11:00-15:00")})
    async with house(
        tmp_path, echo, now=Wall(), schedule_limits=LIMITS, group_of=lambda chat: groups.of(chat)
    ) as home:
        await home.schedules.set_zone("tg-100", MADRID)
        await home.schedules.add(ScheduleRecord("tg-100", "tg-100", "text", "tea"), After(50))
        await trio.sleep(3100)
        said = await home.ask("/snooze 30 min", chat="tg-100")
        assert "💤 Again: Monday 23 November 2026, 15:00, Europe/Madrid" in said


async def test_in_a_group_those_who_may_remind_put_off_and_guests_may_not(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(tmp_path, echo, now=Wall(), schedule_limits=LIMITS, people=people(tmp_path)) as home:
        await home.schedules.set_zone(GROUP, MADRID)
        await home.schedules.add(ScheduleRecord(GROUP, GROUP, "text", "tea", user=ANN), After(1))
        await trio.sleep(100)
        assert (await say(home, GUS, "/snooze 10 min")).startswith("🔒 Your role (guest) does not allow")
        assert "💤 Again: " in await say(home, BOB, "/snooze 10 min")
        assert rows(tmp_path, "SELECT owner, chat, user FROM schedules WHERE message < 0") == [
            (GROUP, GROUP, BOB)
        ]


async def test_a_reminder_that_shows_what_has_changed_keeps_its_message(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    site = Site()
    async with house(tmp_path, echo, now=Wall(), schedule_limits=LIMITS, sources=site.sources()) as home:
        await home.schedules.set_zone("local", MADRID)
        new = ScheduleRecord("local", "cli", "text", "look", options=json.dumps({"if_changed": [URL]}))
        await home.schedules.add(await home.schedules.first_read(new), Every("0 * * * *"))
        site.text += "\n\nFigs 3 €"
        with home.services.hub.listening("cli") as events:
            assert "+Figs 3 €" in await next_reply(events)
        ((number,),) = rows(tmp_path, "SELECT message FROM fires")
        assert "💤 Again: " in await home.ask(f"/snooze 10 min #{number}")
        assert rows(tmp_path, "SELECT in_place FROM outbox WHERE text LIKE '%💤%'") == [(0,)]
