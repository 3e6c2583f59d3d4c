"""Telegram in memory: what a request object does when the network is slow or breaks, in virtual time."""

import copy

import pytest
import trio
from telegram import Bot, MessageEntity
from telegram.error import NetworkError, RetryAfter, TelegramError, TimedOut
from trio.testing import MockClock

from tests.fakes.bot_api import TOKEN, BotApi
from tests.fakes.bot_api_faults import (
    Broken,
    Doubled,
    Error,
    Flood,
    Late,
    Redelivered,
    Reset,
    Shuffled,
    Silent,
    Slow,
    Truncated,
)
from tests.fakes.bot_api_rates import UNLIMITED
from tests.fakes.telegram_exchange import until
from tests.fakes.telegram_request import InMemoryRequest


@pytest.fixture(autouse=True)
def timedeltas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it a `RetryAfter` cannot even be made without a deprecation warning."""
    monkeypatch.setenv("PTB_TIMEDELTA", "1")


@pytest.fixture
def api() -> BotApi:
    api = BotApi(trio.current_time, limits=UNLIMITED)
    api.user(1)
    return api


@pytest.fixture
def bot(api: BotApi) -> Bot:
    return Bot(TOKEN, request=InMemoryRequest(api), get_updates_request=InMemoryRequest(api, seed=1))


async def test_a_call_takes_its_time_and_the_same_seed_takes_the_same(
    autojump_clock: MockClock, api: BotApi
) -> None:
    def run(seed: int) -> Bot:
        request = InMemoryRequest(api, latency=(0.1, 0.3), seed=seed)
        return Bot(TOKEN, request=request, get_updates_request=request)

    times = []
    for bot in (run(5), run(5), run(6)):
        start = trio.current_time()
        for _ in range(3):
            await bot.get_me()
        times.append(round(trio.current_time() - start, 6))
    assert times[0] == times[1] != times[2]
    assert 0.3 <= times[0] <= 0.9


async def test_a_call_without_an_answer_times_out_and_may_have_been_done(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    for fault in (Silent(), Silent(after=True), Slow(6)):
        api.faults.next(fault, "sendMessage")
        start = trio.current_time()
        with pytest.raises(TimedOut):
            await bot.send_message(1, repr(fault))
        assert trio.current_time() - start == pytest.approx(5)
    assert api.chat(1).texts == ["Silent(after=True)", "Slow(seconds=6)"]
    await bot.send_message(1, "patient", read_timeout=None)
    assert bot.request.open == 0


async def test_a_late_call_is_done_after_the_ones_behind_it(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    sent = await bot.send_message(1, "one")
    api.faults.next(Late(10), "editMessageText")
    with pytest.raises(TimedOut):
        await bot.edit_message_text("preview", 1, sent.message_id)
    await bot.edit_message_text("final", 1, sent.message_id)
    assert api.chat(1).texts == ["final"]
    await trio.sleep(6)
    api.catch_up()
    assert api.chat(1).texts == ["preview"]


async def test_a_reset_is_a_network_error_before_or_after_the_effect(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    for after in (False, True):
        api.faults.next(Reset(after=after))
        with pytest.raises(NetworkError) as caught:
            await bot.send_message(1, f"after={after}")
        assert type(caught.value) is NetworkError
    assert api.chat(1).texts == ["after=True"]


async def test_errors_are_answers_and_nothing_is_done(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    api.faults.next(Flood(9), times=2)
    for _ in range(2):
        with pytest.raises(RetryAfter) as caught:
            await bot.send_message(1, "x")
        assert caught.value.retry_after.total_seconds() == 9
    api.faults.next(Broken(502))
    with pytest.raises(NetworkError, match="Bad Gateway"):
        await bot.send_message(1, "x")
    api.faults.next(Error(400, "Bad Request: whatever"))
    with pytest.raises(TelegramError, match="Whatever"):
        await bot.send_message(1, "x")
    api.faults.next(Truncated())
    with pytest.raises(TelegramError, match="Invalid server response"):
        await bot.send_message(1, "done")
    assert api.chat(1).texts == ["done"]


async def test_a_fault_may_be_a_matter_of_chance_and_of_one_chat(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    api.user(2)
    api.faults.often(0.5, Broken(), method="sendMessage", chat=2)
    failed = 0
    for number in range(100):
        await bot.send_message(1, str(number))
        try:
            await bot.send_message(2, str(number))
        except NetworkError:
            failed += 1
    assert 30 < failed < 70
    assert len(api.faults.injected) == failed
    assert len(api.chat(2).said) == 100 - failed
    api.faults.clear()
    await bot.send_message(2, "well")


async def test_updates_come_again_out_of_order_or_twice(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    numbers = [api.say(api.people[1], str(number)).update_id for number in range(6)]

    async def got(offset: int | None = None) -> list[int]:
        return [update.update_id for update in await bot.get_updates(offset=offset)]

    api.faults.next(Shuffled())
    shuffled = await got()
    assert sorted(shuffled) == numbers != shuffled
    api.faults.next(Doubled())
    assert await got() == [numbers[0], *numbers]
    assert await got(numbers[4]) == numbers[4:]
    api.faults.next(Redelivered(2))
    assert await got(numbers[4]) == numbers[2:]
    assert await got(numbers[5] + 1) == []


async def test_files_fail_too(autojump_clock: MockClock, api: BotApi, bot: Bot) -> None:
    sent = api.send_document(api.people[1], "a.txt", b"0123456789")
    file = await bot.get_file(sent.document.id)
    api.faults.next(Reset(), "download")
    with pytest.raises(NetworkError):
        await file.download_as_bytearray()
    api.faults.next(Truncated(), "download")
    assert bytes(await file.download_as_bytearray()) == b"01234"
    assert bytes(await file.download_as_bytearray()) == b"0123456789"


async def test_a_test_waits_until_something_holds(autojump_clock: MockClock, api: BotApi, bot: Bot) -> None:
    async with trio.open_nursery() as nursery:

        async def answer() -> None:
            await trio.sleep(3)
            await bot.send_message(1, "hi")

        nursery.start_soon(answer)
        await until(api, lambda: api.chat(1).texts == ["hi"])
        assert 3 < trio.current_time() < 3.3
    assert api.on_change == []


async def test_a_request_object_that_was_shut_down_does_nothing(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    await bot.request.shutdown()
    with pytest.raises(NetworkError, match="not initialized"):
        await bot.send_message(1, "x")
    await bot.request.initialize()
    await bot.send_message(1, "x")
    assert api.chat(1).texts == ["x"]


async def test_what_a_bot_does_with_an_answer_does_not_change_telegram(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    api.say(api.people[1], "/start @rumi_test_bot")
    before = copy.deepcopy(list(api.updates.pending))
    await bot.get_updates()
    assert list(api.updates.pending) == before
    sent = await bot.send_message(1, "bold", entities=[MessageEntity("bold", 0, 4)])
    assert (await bot.edit_message_text("bolder", 1, sent.message_id)).text == "bolder"
    assert api.chat(1).said[0].edits[0].entities == [{"type": "bold", "offset": 0, "length": 4}]
