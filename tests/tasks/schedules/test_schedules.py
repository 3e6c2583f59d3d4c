"""Schedules fire once, also around kills, jumps of the clock and restarts; they are one owner's alone."""

import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest
import trio
import trio.testing

from rumi.chats.events import Replied
from rumi.errors import RumiError, UsageError
from rumi.models.model import Emit, ModelError, ModelRequest, Reply
from rumi.platform.config.groups import Groups
from rumi.platform.config.schema import GroupSection, SchedulesSection
from rumi.store.journal.records import ScheduleRecord
from rumi.tasks.schedules.times import instant_of
from rumi.tasks.schedules.when import After, Every, On
from tests.chats.house import echo, house
from tests.tasks.kinds import Looking, looks

MADRID = "Europe/Madrid"
START = instant_of(datetime(2026, 11, 23, 10, 0), MADRID)
LIMITS = SchedulesSection()


class Wall:
    """A clock on the wall: it goes on with the virtual one, and can be set."""

    def __init__(self, at: float = START) -> None:
        self._ahead = at - trio.current_time()

    def __call__(self) -> float:
        return self._ahead + trio.current_time()

    def jump(self, seconds: float) -> None:
        self._ahead += seconds


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path / "state.db")) as db:
        return db.execute(query).fetchall()


def texts_of(path: Path) -> list[str]:
    return [str(text) for (text,) in rows(path, "SELECT text FROM outbox ORDER BY id")]


async def next_reply(events: object) -> str:
    with trio.fail_after(1e6):
        while True:
            what = (await events.receive()).what  # type: ignore[attr-defined]
            if isinstance(what, Replied):
                return what.text


def of(kind: str = "text", text: str = "tea", **more: object) -> ScheduleRecord:
    return ScheduleRecord("local", "cli", kind, text, **more)  # type: ignore[arg-type]


async def test_a_reminder_says_what_it_understood_and_comes_once_on_time(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    wall = Wall()
    async with house(tmp_path, echo, now=wall, schedule_limits=LIMITS) as home:
        assert await home.ask("/timezone europe/madrid") == (
            "🕰 Your time zone is Europe/Madrid. Existing schedules keep theirs."
        )
        assert await home.ask("/remind tomorrow 09:00: call the dentist") == (
            "⏰ Reminder 1: Tuesday 24 November 2026, 09:00, Europe/Madrid\n"
            "   “call the dentist”\n"
            "To change the text: /schedules edit 1 TEXT. To cancel it: /schedules delete 1"
        )
        with home.services.hub.listening("cli") as events:
            assert await next_reply(events) == "⏰ call the dentist"
            assert 0 <= wall() - START - 23 * 3600 < 0.25
        fired = "fired on Tuesday 24 November 2026, 09:00, Europe/Madrid"
        assert f"1 · reminder · done · {fired} · call the dentist" in await home.ask("/schedules")
        assert await home.open_chats() == ()
        await trio.sleep(80_000)
    assert rows(tmp_path, "SELECT count(*) FROM outbox WHERE text LIKE '⏰ call%'") == [(1,)]
    assert rows(tmp_path, "SELECT tainted FROM history WHERE message LIKE '%⏰ call%'") == [(0,)]


async def test_the_reply_to_a_reminder_is_in_the_language_of_its_owner(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(tmp_path, echo, now=Wall(), schedule_limits=LIMITS) as home:
        with home.services.hub.listening("cli") as events:
            await home.inbox.accept("cli", "/timezone Europe/Madrid", "es")
            await next_reply(events)
            await home.inbox.accept("cli", "/remind todos los lunes 09:00: regar", "es")
            said = await next_reply(events)
            assert said.startswith(
                "⏰ Recordatorio 1: cada lunes, 09:00 → "
                "lunes, 30 de noviembre de 2026, 09:00, Europe/Madrid\n"
            )
            await home.inbox.accept("cli", "/remind mañana temprano: regar", "es")
            assert (await next_reply(events)).startswith("No entendí cuándo.")


async def test_who_has_no_time_zone_is_asked_for_it_when_it_matters(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(tmp_path, echo, now=Wall(), schedule_limits=LIMITS) as home:
        asked = await home.ask("/remind tomorrow 09:00: tea", chat="tg7")
        assert asked == "❌ Your time zone is not known. Say it once, for example: /timezone Europe/Madrid"
        assert "Reminder 1" in await home.ask("/remind in 20 minutes: tea", chat="tg7")
        assert "Perhaps: Europe/Madrid, " in await home.ask("/timezone Madird", chat="tg7")
        await home.ask("/timezone Europe/Madrid", chat="tg7")
        assert "Europe/Madrid" in await home.ask("/remind tomorrow 09:00: tea", chat="tg7")


async def test_an_offset_is_ahead_with_a_plus_and_the_reply_shows_the_clock(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(tmp_path, echo, now=Wall(), schedule_limits=LIMITS) as home:  # 09:00 in UTC
        for said, shown in {
            "UTC+2": "11:00, UTC+02:00",
            "gmt-3": "06:00, UTC-03:00",
            "+05:45": "14:45, UTC+05:45",
        }.items():
            assert f"There it is Monday 23 November 2026, {shown} now." in await home.ask(f"/timezone {said}")
            assert shown in await home.ask("/timezone")
        assert "❌ Unknown zone UTC+15." in await home.ask("/timezone UTC+15")
        assert "UTC+05:45" in await home.ask("/timezone"), "a wrong name changes nothing"


async def test_another_owners_schedules_are_unknown(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(tmp_path, echo, now=Wall(), schedule_limits=LIMITS) as home:
        await home.ask("/remind in 20 minutes: tea", chat="tg7")
        for do in ("pause", "resume", "run", "delete"):
            unknown = "❌ Unknown schedule 1. Look at the list of schedules."
            assert await home.ask(f"/schedules {do} 1", chat="tg8") == unknown
        assert await home.ask("/schedules", chat="tg8") == "There are no reminders or schedules."
        assert "paused" in await home.ask("/schedules pause 1", chat="tg7")
        assert "is resumed" in await home.ask("/schedules resume #1", chat="tg7")
        assert "deleted" in await home.ask("/schedules delete 1", chat="tg7")


async def test_a_schedule_keeps_its_local_time_over_a_clock_change(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    wall = Wall(instant_of(datetime(2026, 10, 24, 12, 0), MADRID))
    async with house(tmp_path, echo, now=wall, schedule_limits=LIMITS) as home:
        await home.schedules.set_zone("local", MADRID)
        await home.schedules.add(of(), Every("30 2 * * *"))
        with home.services.hub.listening("cli") as events:
            for day in (25, 26):
                await next_reply(events)
                assert abs(wall() - instant_of(datetime(2026, 10, day, 2, 30), MADRID)) < 1


async def test_a_turn_runs_behind_the_one_of_its_user_and_asks_nobody(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async def slowly(request: ModelRequest, emit: Emit) -> Reply:
        await trio.sleep(60)
        said = next(m.content for m in reversed(request.messages) if m.role == "user")
        return Reply(f"did: {said}")

    async with house(tmp_path, slowly, now=Wall(), schedule_limits=LIMITS) as home:
        with home.services.hub.listening("cli") as events:
            await home.schedules.add(of("turn", "/stop the press?"), After(1))
            await trio.sleep(30)
            await home.inbox.accept("cli", "hello")
            assert await next_reply(events) == "did: hello"
            assert await next_reply(events) == (
                "did: [The schedule 1 asks this now. Its user may be away: nobody answers questions. "
                "What needs a yes is asked when this turn has ended.]\n"
                "/stop the press?"
            )


async def test_a_research_begins_with_its_fire_and_its_result_comes(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(
        tmp_path, looks(1), now=Wall(), kinds={"web": Looking()}, schedule_limits=LIMITS
    ) as home:
        with home.services.hub.listening("cli") as events:
            await home.schedules.add(of("research", "what is it?"), After(5))
            assert "Task 1 (succeeded): what is it?" in await next_reply(events)
        with pytest.raises(UsageError, match="Unknown bot"):
            home.schedules.checked(of("bot"))
    assert rows(tmp_path, "SELECT schedule, state FROM tasks") == [(1, "succeeded")]
    assert rows(tmp_path, "SELECT task FROM fires") == [(1,)]


@pytest.mark.parametrize(
    ("when", "down_s", "told"),
    [
        (
            After(5),
            40 * 86_400,
            "⏰ tea\n\n(Late: it was for Monday 23 November 2026, 10:05, Europe/Madrid.)",
        ),
        (Every("0 11 * * *"), 2.9 * 3600, "⏰ tea\n\n(Late: it was for Monday 23 November 2026, 11:00"),
        (Every("0 11 * * *"), 49.5 * 3600, "⏰ tea\n\n(Late: it was for Wednesday 25 November 2026, 11:00"),
        (Every("0 11 * * *"), 3.1 * 3600, None),
        (Every("*/10 * * * *"), 10 * 60 + 290, "⏰ tea\n\n(Late: it was for Monday 23 November 2026, 10:10"),
        (Every("*/10 * * * *"), 10 * 60 + 310, None),
        (Every("* * * * *"), 60 + 59 + 59, "⏰ tea\n\n(Late: it was for Monday 23 November 2026, 10:02"),
    ],
)
async def test_what_was_missed_while_down_comes_late_once_or_is_told(
    tmp_path: Path,
    autojump_clock: trio.testing.MockClock,
    when: After | Every,
    down_s: float,
    told: str | None,
) -> None:
    wall = Wall(START)
    async with house(tmp_path, echo, now=wall, schedule_limits=None) as home:
        await home.schedules.set_zone("local", MADRID)
        await home.schedules.add(of(), when)
    wall.jump(START + down_s - wall())
    async with house(tmp_path, echo, now=wall, schedule_limits=LIMITS) as home:
        await trio.sleep(1)
        if told is not None:
            (said,) = texts_of(tmp_path)
            assert said.startswith(told)
            return
        assert texts_of(tmp_path) == []
        with home.services.hub.listening("cli") as events:
            await home.inbox.accept("cli", "I am back")
            assert (await next_reply(events)) == "you said I am back"
            assert (await next_reply(events)).startswith("⏰ Missed, because Rumi was not running")
            await home.inbox.accept("cli", "and again")
            assert (await next_reply(events)) == "you said and again"
            await trio.sleep(5)
        assert sum("Missed" in text for text in texts_of(tmp_path)) == 1


async def test_a_fire_in_quiet_hours_waits_for_their_end_and_comes_once(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    wall = Wall(instant_of(datetime(2026, 11, 23, 22, 50), MADRID))
    limits = SchedulesSection(quiet="23:00-08:00")
    async with house(tmp_path, echo, now=wall, schedule_limits=limits) as home:
        await home.ask("/timezone Europe/Madrid")
        assert "In quiet hours: it comes Tuesday 24" in await home.ask("/remind in 30 minutes: sleep")
        await home.schedules.add(of(text="often"), Every("*/20 * * * *"))
        with home.services.hub.listening("cli") as events:
            assert {await next_reply(events), await next_reply(events)} == {"⏰ sleep", "⏰ often"}
            assert abs(wall() - instant_of(datetime(2026, 11, 24, 8, 0), MADRID)) < 1
            assert await next_reply(events) == "⏰ often"
            assert abs(wall() - instant_of(datetime(2026, 11, 24, 8, 20), MADRID)) < 1


async def test_a_group_has_quiet_hours_of_its_own_and_what_waited_comes_in_order(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    wall = Wall(instant_of(datetime(2026, 11, 23, 22, 50), MADRID))
    groups = Groups({"-100": GroupSection(quiet="23:00-06:00")})
    more = {"schedule_limits": SchedulesSection(quiet="23:00-08:00"), "group_of": groups.of}
    async with house(tmp_path, echo, now=wall, **more) as home:
        for chat in ("tg-100", "tg-100_5", "tg-200"):
            await home.ask("/timezone Europe/Madrid", chat=chat)
        later = [await home.ask(f"/remind in {hours} hours: {hours}", chat="tg-100") for hours in (3, 2, 1)]
        assert all("In quiet hours: it comes Tuesday 24 November 2026, 06:00" in text for text in later)
        assert "06:00" in await home.ask("/remind in 30 minutes: topic", chat="tg-100_5")
        assert "08:00" in await home.ask("/remind in 30 minutes: other", chat="tg-200")
        with home.services.hub.listening() as events:
            said = [await next_reply(events) for _ in range(4)]
            assert abs(wall() - instant_of(datetime(2026, 11, 24, 6, 0), MADRID)) < 1
            assert [text for text in said if text != "⏰ topic"] == ["⏰ 1", "⏰ 2", "⏰ 3"]
            assert await next_reply(events) == "⏰ other"
            assert abs(wall() - instant_of(datetime(2026, 11, 24, 8, 0), MADRID)) < 1


async def test_a_clock_that_goes_back_repeats_no_instant_and_silences_nothing(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    wall = Wall()
    async with house(tmp_path, echo, now=wall, schedule_limits=LIMITS) as home:
        await home.schedules.add(of(), Every("*/10 * * * *"))
        with home.services.hub.listening("cli") as events:
            for _ in range(3):  # 10:10, 10:20, 10:30
                assert await next_reply(events) == "⏰ tea"
            wall.jump(-3600)  # 9:30
            assert await next_reply(events) == "⏰ tea"
            assert abs(wall() - START + 1200) < 31  # 9:40
            for _ in range(3):  # 9:50, 10:00, and then 10:40: the others have fired
                assert await next_reply(events) == "⏰ tea"
            assert abs(wall() - START - 2400) < 31
            wall.jump(365 * 86_400)  # and ahead by a year
            await next_reply(events)
            wall.jump(-365 * 86_400)
            began = trio.current_time()
            await next_reply(events)
            assert trio.current_time() - began < 700
    fired = [instant for (instant,) in rows(tmp_path, "SELECT instant FROM fires")]
    assert len(fired) == len(set(fired))


async def test_a_schedule_whose_work_fails_three_times_pauses_and_says_so(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async def fails(request: ModelRequest, emit: Emit) -> Reply:
        await trio.lowlevel.checkpoint()
        raise ModelError("refused", "no")

    async with house(tmp_path, fails, now=Wall(), schedule_limits=LIMITS) as home:
        await home.schedules.add(of("turn", "work"), Every("*/30 * * * *"))
        with home.services.hub.listening("cli") as events:
            for _ in range(3):
                assert "model did not answer" in await next_reply(events)
            assert await next_reply(events) == (
                "⏸ Schedule 1 (“work”) failed 3 times in a row and is paused. /schedules resume 1 resumes it."
            )
        assert (await home.schedules.show(1, None)).state == "paused"
        await home.schedules.resume(1, None)
        assert (await home.schedules.show(1, None)).failures == 0


async def test_a_schedule_never_works_twice_at_a_time(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    running = most = 0

    async def long(request: ModelRequest, emit: Emit) -> Reply:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.sleep(150)
        running -= 1
        return Reply("done")

    async with house(tmp_path, long, now=Wall(), schedule_limits=LIMITS) as home:
        await home.schedules.add(of("turn", "work"), Every("* * * * *"))
        await trio.sleep(900)
    assert most == 1
    told = [text for text in texts_of(tmp_path) if "Missed" in text]
    assert told
    assert texts_of(tmp_path).count("done") in (4, 5)


async def test_a_schedule_run_by_a_command_keeps_its_next_time_and_runs_once(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(tmp_path, echo, now=Wall(), schedule_limits=LIMITS) as home:
        added = await home.schedules.add(of(), Every("0 9 * * *"))
        with home.services.hub.listening("cli") as events:
            number = await home.inbox.accept("cli", "/schedules run 1")
            said = {await next_reply(events), await next_reply(events)}
            assert said == {"⏰ tea", "⏰ Schedule 1 runs now."}
        await home.schedules.run(1, "local", number)  # the same message again
        await trio.sleep(5)
        assert (await home.schedules.show(1, None)).instant == added.instant
    assert texts_of(tmp_path).count("⏰ tea") == 1


async def test_the_limits_of_an_owner_and_of_times_hold(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    limits = SchedulesSection(max_per_owner=3)
    async with house(tmp_path, echo, now=Wall(), schedule_limits=limits) as home:
        for _ in range(3):
            await home.schedules.add(of(), After(5))
        with pytest.raises(RumiError, match="There are 3 schedules already"):
            await home.schedules.add(of(), After(5))
        other = ScheduleRecord("tg7", "tg7", "text", "tea", message=5)
        first = await home.schedules.add(other, After(5))
        assert (await home.schedules.add(other, After(5))).id == first.id  # the same command
        await trio.sleep(400)
        await home.schedules.add(of(), After(5))  # those that are done do not count
        for wrong in (of(text=" "), of(text="x" * 4001)):
            with pytest.raises(UsageError):
                await home.schedules.add(wrong, After(5))
        with pytest.raises(UsageError, match="too far"):
            await home.schedules.add(of(), After(60 * 24 * 366 * 6))
        with pytest.raises(UsageError, match="is over"):
            await home.schedules.add(of(), On(datetime(2020, 1, 1, 9).time(), datetime(2020, 1, 1).date()))


async def test_what_a_tainted_chat_scheduled_taints_the_turn_that_it_begins(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(tmp_path, echo, now=Wall(), schedule_limits=LIMITS) as home:
        await home.schedules.add(of("turn", "do it", tainted=True), After(1))
        with home.services.hub.listening("cli") as events:
            await next_reply(events)
    found = rows(tmp_path, "SELECT min(tainted), count(*) FROM history WHERE message LIKE '%do it%'")
    assert found == [(1, 2)]


async def test_a_deleted_chat_takes_its_schedules_along(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(tmp_path, echo, now=Wall(), schedule_limits=LIMITS) as home:
        await home.schedules.add(of(), Every("* * * * *"))
        await trio.sleep(130)
        await home.inbox.chats.delete("cli")
    assert rows(tmp_path, "SELECT (SELECT count(*) FROM schedules), (SELECT count(*) FROM fires)") == [(0, 0)]


async def test_all_schedules_are_paused_together_and_each_goes_on_when_it_is_resumed(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(tmp_path, echo, now=Wall(), schedule_limits=LIMITS) as home:
        await home.schedules.add(of(), Every("* * * * *"))
        await home.schedules.add(of(), After(2))
        assert await home.schedules.pause_all() == 2
        await trio.sleep(600)
        assert texts_of(tmp_path) == []
        await home.schedules.resume(1, None)
        await home.schedules.resume(2, None)
        await trio.sleep(61)
        assert sorted(texts_of(tmp_path))[0] == "⏰ tea"
        assert any("Late: " in text for text in texts_of(tmp_path))


async def test_a_process_for_windows_stays_for_what_fires_soon(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(tmp_path, echo, now=Wall(), schedule_limits=LIMITS) as home:
        await trio.sleep(1)
        assert not home.schedules.soon
        await home.schedules.add(of(), After(20))
        await trio.sleep(1)
        assert not home.schedules.soon
        await home.schedules.add(of(), After(4))
        await trio.sleep(1)
        assert home.schedules.soon
        with trio.fail_after(300):
            await home.schedules.none_soon()
