"""A reply whose confirmation was lost is sent again with a mark, and only then."""

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.channels.telegram.sending import post_office
from tests.fakes.bot_api import BotApi
from tests.fakes.bot_api_faults import Broken, Error, Flood, Late, Reset, Silent, Slow, Truncated

MARK = "🔁 Sent again: Telegram did not confirm that it had arrived."


@pytest.fixture
def api(autojump_clock: MockClock) -> BotApi:
    api = BotApi(trio.current_time)
    api.user(1)
    api.user(2)
    return api


@pytest.mark.parametrize("fault", [Silent(after=True), Reset(after=True), Truncated(), Late(60), Slow(30)])
async def test_a_reply_that_arrived_without_an_answer_is_marked_when_it_is_sent_again(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock, fault: Any
) -> None:
    api.faults.next(fault, "sendMessage")
    async with post_office(tmp_path, api) as office:
        await office.reply("tg1", "the **answer**")
        await office.reply("tg1", "the next one")
        await office.all_sent()
        await trio.sleep(100)
        api.catch_up()
    assert sorted(api.chats[1].texts) == sorted(["the answer", f"{MARK}\n\nthe answer", "the next one"])
    (again,) = [said for said in api.chats[1].said if said.text.startswith(MARK)]
    (bold,) = again.entities
    assert again.text.encode("utf-16-le")[bold["offset"] * 2 :][: bold["length"] * 2].decode("utf-16-le") == (
        "answer"
    )


@pytest.mark.parametrize("fault", [Silent(), Reset()])
async def test_a_reply_that_may_have_arrived_is_marked_too(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock, fault: Any
) -> None:
    api.faults.next(fault, "sendMessage", times=3)
    async with post_office(tmp_path, api) as office:
        await office.reply("tg1", "the answer")
        await office.all_sent()
    assert api.chats[1].texts == [f"{MARK}\n\nthe answer"], "once, however often it was tried"


@pytest.mark.parametrize("fault", [Broken(502), Error(500), Error(401), Flood(5), Error(400, "too strange")])
async def test_a_reply_that_was_refused_for_now_has_no_mark(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock, fault: Any
) -> None:
    api.faults.next(fault, "sendMessage", times=2)
    async with post_office(tmp_path, api) as office:
        await office.reply("tg1", "the **answer** " + "word " * 200)
        await office.all_sent()
    assert MARK not in "".join(api.chats[1].texts)


@pytest.mark.parametrize("place", [0, 1])
async def test_only_the_part_that_may_be_there_twice_is_marked(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock, place: int
) -> None:
    text = "\n".join(f"{number:05}" for number in range(1500))
    async with post_office(tmp_path, api) as office:
        await office.reply("tg1", text)
        while len(api.chats[1].texts) < place:  # noqa: ASYNC110
            await trio.sleep(0.001)
        api.faults.next(Silent(after=True), "sendMessage")
        await office.all_sent()
    parts = api.chats[1].texts
    assert parts.count(MARK) == 1, "these parts have no room for it"
    again = parts.index(MARK) + 1
    assert parts[again] == parts[again - 2] == parts[place]
    assert " ".join(parts[: again - 1] + parts[again + 1 :]).split() == text.split()


@pytest.mark.parametrize("seconds", [0.001, 0.02, 0.05, 0.1])
async def test_a_reply_whose_sender_was_killed_while_it_went_is_marked_by_the_next_one(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock, seconds: float
) -> None:
    api.faults.next(Silent(after=True), "sendMessage")
    async with post_office(tmp_path, api) as office:
        await office.reply("tg1", "the answer")
        while not api.chats[1].texts:  # noqa: ASYNC110
            await trio.sleep(0.01)
        await trio.sleep(seconds)
    async with post_office(tmp_path, api) as office:
        await office.all_sent()
    assert api.chats[1].texts == ["the answer", f"{MARK}\n\nthe answer"]


async def test_a_reply_that_waited_for_telegram_when_its_sender_ended_has_no_mark(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    api.faults.next(Flood(600), "sendMessage")
    async with post_office(tmp_path, api) as office:
        await office.reply("tg1", "the answer")
        await trio.sleep(5)
    async with post_office(tmp_path, api) as office:
        await office.all_sent()
    assert api.chats[1].texts == ["the answer"]


async def test_a_full_part_has_its_mark_in_a_message_of_its_own(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    api.faults.next(Reset(after=True), "sendMessage")
    async with post_office(tmp_path, api) as office:
        await office.reply("tg1", "x" * 4096)
        await office.all_sent()
    assert api.chats[1].texts == ["x" * 4096, MARK, "x" * 4096]


async def test_a_reply_in_its_preview_is_edited_again_without_a_mark(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    api = BotApi(trio.current_time, drafts=False)
    api.user(1)
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        await trio.sleep(1.5)
        turn.says("growing")
        await trio.sleep(3)
        api.faults.next(Reset(after=True), "editMessageText")
        await turn.ends("the answer")
        await office.all_sent()
    assert api.chats[1].texts == ["the answer"]
