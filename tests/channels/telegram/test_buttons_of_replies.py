"""Presses of buttons below replies: reminders are put off and lists are ticked, in the same message, once."""

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rumi.store.journal.records import ScheduleRecord
from rumi.tasks.schedules.when import After
from tests.channels.telegram.house import ANA, BEN, EVE, TelegramHouse, telegram_house
from tests.fakes.bot_api import BotApi
from tests.fakes.bot_api_chats import EPOCH
from tests.fakes.bot_api_faults import Broken, Doubled, Flood, Reset
from tests.fakes.bot_api_world import Chat, Message
from tests.tasks.schedules.test_schedules import rows


def clock() -> float:
    """The clock of this Telegram: it goes on with the virtual one."""
    return EPOCH + trio.current_time()


@pytest.fixture
def api() -> BotApi:
    api = BotApi(trio.current_time, drafts=False)
    for number, name in ((ANA, "Ana"), (BEN, "Ben"), (EVE, "Eve")):
        api.user(number, first_name=name)
    return api


@pytest.fixture
def group(api: BotApi) -> Chat:
    return api.group(-100777, members=[api.people[one] for one in (ANA, BEN, EVE)])


async def reminder(house: TelegramHouse, chat: Chat, text: str = "take the pills") -> Message:
    """Let a reminder fire in a chat; its message."""
    new = ScheduleRecord(f"tg{chat.id}", f"tg{chat.id}", "text", text)
    await house.schedules.add(new, After(1), "UTC")
    await house.until(lambda: f"⏰ {text}" in chat.texts, 200)
    return next(message for message in chat.said if message.text == f"⏰ {text}")


def snoozed(path: Path) -> int:
    ((count,),) = rows(path, "SELECT count(*) FROM schedules WHERE message < 0")
    return int(str(count))


def data_of(message: Message, word: str) -> str:
    return next(str(button["callback_data"]) for button in message.buttons if word in str(button["text"]))


async def test_a_press_puts_a_reminder_off_and_its_message_says_until_when(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api, now=clock) as house:
        chat = api.chat(ANA)
        message = await reminder(house, chat)
        assert [button["text"] for button in message.buttons] == ["💤 10 min", "💤 1 h", "💤 Tomorrow"]
        before = len(chat.said)
        api.press(api.people[ANA], message, data_of(message, "10 min"))
        await house.until(lambda: "💤 Again: " in message.text)
        assert message.text.startswith("⏰ take the pills\n\n💤 Again: ")
        assert not message.buttons
        assert len(chat.said) == before, "the message was edited, and none was added"
        await house.until(lambda: chat.texts[-1] == "⏰ take the pills" and len(chat.said) > before, 700)
        assert snoozed(tmp_path) == 1


async def test_presses_of_one_reminder_put_it_off_once_in_any_weather(
    tmp_path: Path, api: BotApi, group: Chat, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api, now=clock) as house:
        message = await reminder(house, group)
        ten, hour = data_of(message, "10 min"), data_of(message, "1 h")
        api.faults.next(Doubled(), "getUpdates", times=4)
        for fault in (Broken(502), Flood(3), Reset(after=True)):
            api.faults.next(fault, "editMessageText")
        for person, data in ((ANA, ten), (BEN, hour), (ANA, ten), (BEN, ten)):
            api.press(api.people[person], message, data)
        await house.until(lambda: "💤" in message.text, 100)
        await house.idle(200)
        assert snoozed(tmp_path) == 1
        assert sum("💤" in text for text in group.texts) == 1


async def test_a_stranger_cannot_put_a_reminder_off(
    tmp_path: Path, api: BotApi, group: Chat, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api, now=clock) as house:
        message = await reminder(house, group)
        query = api.press(api.people[EVE], message)
        await house.until(lambda: query.toast is not None)
        await house.idle()
        assert snoozed(tmp_path) == 0
        assert message.buttons


@pytest.mark.parametrize("killed", [False, True])
async def test_a_press_is_handled_once_around_a_restart(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock, killed: bool
) -> None:
    async with telegram_house(tmp_path, api, now=clock) as house:
        message = await reminder(house, api.chat(ANA))
        data = data_of(message, "1 h")
        if killed:  # the press is stored, and the process ends before its chat has seen it
            api.press(api.people[ANA], message, data)
            api.faults.often(1.0, Reset(), "editMessageText")
            await house.until(lambda: snoozed(tmp_path) == 1)
    api.faults.clear()
    async with telegram_house(tmp_path, api, now=clock) as house:
        api.press(api.people[ANA], message, data)
        await house.until(lambda: "💤" in message.text, 100)
        await house.idle()
        assert snoozed(tmp_path) == 1


async def test_a_message_that_cannot_be_edited_is_answered_by_a_new_one(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api, now=clock) as house:
        chat = api.chat(ANA)
        message = await reminder(house, chat)
        data = data_of(message, "1 h")
        message.deleted = True
        api.press(api.people[ANA], message, data)
        await house.until(lambda: any("💤 Again: " in text for text in chat.texts))
        assert snoozed(tmp_path) == 1


async def asks(house: TelegramHouse, chat: Chat, text: str, person: int = ANA) -> Message:
    """Somebody sends a command; the reply."""
    before = len(house.api.chat(chat).said)
    house.api.say(house.api.people[person], text, chat)
    await house.until(lambda: len(house.api.chat(chat).said) >= before + 1)
    await house.idle()
    return house.api.chat(chat).said[-1]


async def test_two_people_tick_at_once_and_no_tick_is_lost(
    tmp_path: Path, api: BotApi, group: Chat, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api, now=clock) as house:
        await asks(house, group, "/list@rumi_test_bot shopping", BEN)  # Ben's name is known then
        message = await asks(house, group, "/list@rumi_test_bot shopping milk, bread, eggs, tea")
        assert [button["text"] for button in message.buttons] == ["☐ milk", "☐ bread", "☐ eggs", "☐ tea"]
        data = [str(button["callback_data"]) for button in message.buttons]
        for at, id in enumerate(data):
            api.press(api.people[ANA if at % 2 else BEN], message, id)
        api.press(api.people[ANA], message, data[0])  # at once with Ben: it stays ticked, and his
        await house.until(lambda: "0 open of 4" in message.text)
        await house.idle()
        assert message.text == (
            "shopping · 0 open of 4\n\n☑ 1. milk — Ben\n☑ 2. bread — Ana\n☑ 3. eggs — Ben\n☑ 4. tea — Ana"
        )
        api.press(api.people[BEN], message, data_of(message, "eggs"))
        await house.until(lambda: "☐ 3. eggs" in message.text)
        assert len(group.said) == 2, "one reply to each command: every press has edited the list"


async def test_a_burst_of_ticks_costs_few_edits(
    tmp_path: Path, api: BotApi, group: Chat, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api, now=clock) as house:
        items = ", ".join(f"item {number}" for number in range(30))
        message = await asks(house, group, f"/list@rumi_test_bot big {items}")
        for button in list(message.buttons):
            api.press(api.people[ANA], message, str(button["callback_data"]))
        await house.until(lambda: "0 open of 30" in message.text, 100)
        await house.idle(100)
        edits = sum(call.method == "editMessageText" for call in api.calls)
        assert edits <= 20


async def test_a_long_list_has_pages_and_stays_one_message(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api, now=clock) as house:
        chat = api.chat(ANA)
        for tens in range(10):
            items = [f"{tens}{ones} {'x' * 150}" for ones in range(10)]
            message = await asks(house, chat, f"/list@rumi_test_bot big {', '.join(items)}")
        assert "Items 91 to 100 of 100" in message.text
        assert len(message.buttons) == 10 + 3
        before = len(chat.said)
        api.press(api.people[ANA], message, data_of(message, "📄 1–30"))
        await house.until(lambda: "Items 1 to 30 of 100" in message.text)
        api.press(api.people[ANA], message, str(message.buttons[29]["callback_data"]))
        await house.until(lambda: "☑ 30. " in message.text)
        assert len(chat.said) == before
