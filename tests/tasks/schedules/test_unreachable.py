"""Schedules of a chat to which nothing can be delivered are paused, and wait for their person."""

from pathlib import Path

import pytest
import trio
import trio.testing

from rumi.chats.events import ChatEvent, Replied
from rumi.store.journal.records import ScheduleRecord
from rumi.store.journal.unreachable import mark_unreachable, unreachable_chats
from rumi.tasks.schedules.when import Every
from tests.chats.house import House, echo, house
from tests.tasks.schedules.test_schedules import LIMITS, Wall, rows

BLOCKED = "Forbidden: bot was blocked by the user"
HOURLY = Every("0 * * * *")


async def remind(home: House, text: str, chat: str = "tg7", kind: str = "text") -> int:
    new = ScheduleRecord(chat.partition("_")[0], chat, kind, text)  # type: ignore[arg-type]
    return (await home.schedules.add(new, HOURLY, "UTC")).id


async def refuse(home: House, chat: str = "tg7", why: str = BLOCKED) -> None:
    """Telegram refuses a message for this chat."""
    await home.services.journal.ask(mark_unreachable(chat, why))
    home.schedules.changed()
    await trio.sleep(1)


def told(path: Path, chat: str) -> list[str]:
    return [str(text) for (text,) in rows(path, f"SELECT text FROM outbox WHERE chat = '{chat}' ORDER BY id")]


@pytest.mark.parametrize(
    ("chat", "why"),
    [
        ("tg7", BLOCKED),
        ("tg7", "Forbidden: user is deactivated"),
        ("tg-100", "Forbidden: bot was kicked from the supergroup chat"),
        ("tg-100_5", "Bad Request: not enough rights to send text messages to the chat"),
        ("tgwork-7", "Forbidden: bot can't initiate conversation with a user"),
    ],
)
async def test_reminders_of_a_lost_chat_fire_no_more_and_each_admin_is_told_once(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, chat: str, why: str
) -> None:
    async with house(tmp_path, echo, now=Wall(), schedule_limits=LIMITS) as home:
        for text in ("tea", "plants"):
            await remind(home, text, chat)
        await remind(home, "elsewhere", "tg8")
        await refuse(home, chat, why)
        await refuse(home, chat, why)
        await trio.sleep(10_900)
        assert told(tmp_path, chat) == []
        assert len(told(tmp_path, "tg8")) == 3
        for admin in ("tg1", "tg2"):
            assert told(tmp_path, admin) == [
                f"⏸ Nothing can be delivered to the chat {chat} ({why}): 2 schedules are paused. "
                "When somebody writes there again, the chat is told how to resume them."
            ]
        listed = await home.ask("/schedules", chat=chat)
        assert listed.count(f"paused, nothing could be delivered: {why}") == 2


async def test_an_admin_whose_own_chat_is_lost_is_not_told_there(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(tmp_path, echo, now=Wall(), schedule_limits=LIMITS) as home:
        await remind(home, "tea", "tg1")
        await refuse(home, "tg1")
        assert told(tmp_path, "tg1") == []
        assert len(told(tmp_path, "tg2")) == 1


async def test_a_chat_without_schedules_that_is_lost_is_nothing_to_tell(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(tmp_path, echo, now=Wall(), schedule_limits=LIMITS) as home:
        await refuse(home)
        await home.ask("hello", chat="tg7")
        await trio.sleep(60)
        assert told(tmp_path, "tg1") == []
        assert len(told(tmp_path, "tg7")) == 1
        assert rows(tmp_path, "SELECT count(*) FROM unreachable") == [(0,)]


@pytest.mark.parametrize("restarted", [False, True])
async def test_who_writes_again_is_told_what_waits_and_resumes_it_all(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, restarted: bool
) -> None:
    wall = Wall()
    async with house(tmp_path, echo, now=wall, schedule_limits=LIMITS) as home:
        await remind(home, "tea")
        await remind(home, "plants")
        await refuse(home)
        if not restarted:
            await comes_back(home, tmp_path)
    if restarted:
        async with house(tmp_path, echo, now=wall, schedule_limits=LIMITS) as home:
            await comes_back(home, tmp_path)


async def comes_back(home: House, path: Path) -> None:
    await trio.sleep(1)
    await home.ask("hello", chat="tg7")
    await trio.sleep(60)
    assert told(path, "tg7")[1:] == [
        "⏸ 2 schedules were paused, because I could not reach you here:\n- 1 “tea”\n- 2 “plants”\n"
        "/schedules resume all resumes all; /schedules resume N resumes one."
    ]
    ((buttons,),) = rows(path, "SELECT buttons FROM messages WHERE notice AND chat = 'tg7'")
    assert "/schedules resume all" in str(buttons)
    await home.ask("and again", chat="tg7")
    await trio.sleep(60)
    assert len(told(path, "tg7")) == 3, "it is said once"
    said = await home.ask("/schedules resume all", chat="tg7")
    assert said.count("is resumed") == 2
    assert await home.ask("/schedules resume all", chat="tg7") == "No schedule is paused."
    await trio.sleep(7300)
    assert told(path, "tg7").count("⏰ tea") == 2
    assert "nothing could be delivered" not in await home.ask("/schedules", chat="tg7")


async def test_a_turn_of_a_schedule_for_a_lost_chat_calls_no_model(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(tmp_path, echo, now=Wall(), schedule_limits=LIMITS) as home:
        await refuse(home)
        id = await remind(home, "sum up the news", kind="turn")  # added later, from a terminal
        await trio.sleep(10_900)
        assert rows(tmp_path, "SELECT count(*) FROM messages WHERE schedule = 1 AND NOT notice") == [(0,)]
        assert (await home.schedules.show(id, None)).reason == BLOCKED
        assert len(told(tmp_path, "tg1")) == 1


async def test_a_schedule_that_its_owner_resumes_is_tried_again(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(tmp_path, echo, now=Wall(), schedule_limits=LIMITS) as home:
        id = await remind(home, "tea")
        await remind(home, "plants")
        await refuse(home)
        await home.schedules.resume(id, None)
        await trio.sleep(3700)
        assert "⏰ tea" in told(tmp_path, "tg7")
        await refuse(home)
        await trio.sleep(10_900)
        assert told(tmp_path, "tg7").count("⏰ tea") == 1


async def test_a_task_that_ends_there_does_not_count_as_the_person(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(tmp_path, echo, now=Wall(), schedule_limits=LIMITS) as home:
        await remind(home, "tea")
        await refuse(home)
        event = ChatEvent("tg7", "", trio.current_time(), Replied(1, (1,), "the result"))
        home.services.hub.publish(event)
        await trio.sleep(60)
        assert told(tmp_path, "tg7") == []
        assert await home.services.journal.ask(unreachable_chats()) == (("tg7", BLOCKED),)
