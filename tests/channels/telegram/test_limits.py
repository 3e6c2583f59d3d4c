"""How fast the bot may send."""

import pytest
import trio
from trio.testing import MockClock

from rumi.channels.telegram.sending.limits import (
    JITTER_S,
    NO_BURST_S,
    NOW_SHARE,
    SLOW_S,
    SPARE_SHARE,
    Rate,
    SendLimits,
)


async def sent(limits: SendLimits, number: int, times: int) -> list[float]:
    """When so many messages for a chat could go."""
    at = []
    for _ in range(times):
        await limits.turn(number)
        at.append(trio.current_time())
    return at


async def test_a_chat_has_a_burst_of_three_and_then_one_a_second(autojump_clock: MockClock) -> None:
    at = await sent(SendLimits(margin=1.0), 5, 7)
    assert at == pytest.approx([0, 0, 0, *(place + JITTER_S for place in (1, 2, 3, 4))])


@pytest.mark.parametrize("idle", [0.0, 0.5, 1.5, 2.0, 3.0, 60.0])
async def test_a_burst_grows_again_by_one_a_second(autojump_clock: MockClock, idle: float) -> None:
    limits = SendLimits(margin=1.0)
    await sent(limits, 5, 3)
    await trio.sleep(idle)
    at = await sent(limits, 5, 4)
    assert [when - idle for when in at].count(0) == min(3, int(idle))


@pytest.mark.parametrize("parts", [2, 3, 4, 10])
async def test_parts_behind_a_preview_wait_no_more_than_the_edits_took(
    autojump_clock: MockClock, parts: int
) -> None:
    limits = SendLimits(margin=1.0)
    for _ in range(10):
        assert limits.take(5), "a preview every second and a half"
        await trio.sleep(1.5)
    began = trio.current_time()
    at = await sent(limits, 5, parts)
    assert at[-1] - began == pytest.approx(0 if parts <= 3 else parts - 3 + JITTER_S)


@pytest.mark.parametrize("seconds", [1.0, 3.0, 35.0])
async def test_a_chat_where_telegram_asked_to_wait_has_no_bursts_for_a_while(
    autojump_clock: MockClock, seconds: float
) -> None:
    limits = SendLimits(margin=1.0)
    limits.pause(5, seconds)
    expected = [seconds + place * (1 + JITTER_S) for place in range(4)]
    assert await sent(limits, 5, 4) == pytest.approx(expected)
    assert len(set(await sent(limits, 6, 3))) == 1, "another chat keeps its burst"
    await trio.sleep(NO_BURST_S / 2)
    assert len(set(await sent(limits, 5, 3))) == 3
    await trio.sleep(NO_BURST_S / 2)
    assert len(set(await sent(limits, 5, 3))) == 1


async def test_a_group_has_twenty_a_minute(autojump_clock: MockClock) -> None:
    at = await sent(SendLimits(margin=1.0), -5, 41)
    assert at[19] < 60
    assert at[20] == 60
    assert all(later - earlier >= 60 for earlier, later in zip(at, at[20:], strict=False))


async def test_all_chats_together_have_thirty_a_second(autojump_clock: MockClock) -> None:
    limits = SendLimits(margin=1.0)
    at: list[float] = []

    async def one(number: int) -> None:
        at.extend(await sent(limits, number, 1))

    async with trio.open_nursery() as nursery:
        for number in range(1, 101):
            nursery.start_soon(one, number)
    assert at == sorted(at)
    assert [at.count(second) for second in (0, 1, 2, 3)] == [30, 30, 30, 10]


async def test_a_bot_that_was_asked_to_wait_at_another_worker_has_half_of_its_rate_for_a_while(
    autojump_clock: MockClock,
) -> None:
    limits = SendLimits(margin=1.0, part=lambda: 0.8)
    limits.slow_down()
    at: list[float] = []

    async def one(number: int) -> None:
        at.extend(await sent(limits, number, 1))

    async with trio.open_nursery() as nursery:
        for number in range(1, int(12 * SLOW_S) + 50):
            nursery.start_soon(one, number)
    assert {at.count(second) for second in range(int(SLOW_S))} == {12}
    assert at.count(SLOW_S) == 24


async def test_who_waits_longest_goes_first(autojump_clock: MockClock) -> None:
    limits = SendLimits(everywhere=[Rate(1, 1.0)], margin=1.0)
    order: list[int] = []

    async def one(number: int) -> None:
        await trio.sleep(number / 1000)
        await limits.turn(number)
        order.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(1, 21):
            nursery.start_soon(one, number)
    assert order == list(range(1, 21))


async def test_a_chat_that_waits_holds_up_no_other(autojump_clock: MockClock) -> None:
    limits = SendLimits(margin=1.0)
    limits.pause(5, 600)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(limits.turn, 5)
        await trio.sleep(1)
        assert await sent(limits, 6, 3) == [1, 1, 1]
        assert limits.closed_until(5) == 600
    assert trio.current_time() == 600


async def test_a_pause_that_becomes_longer_is_kept(autojump_clock: MockClock) -> None:
    limits = SendLimits()
    limits.pause(5, 10)
    limits.pause(5, 4)  # an older answer that comes late takes nothing back
    async with trio.open_nursery() as nursery:
        nursery.start_soon(limits.turn, 5)
        await trio.sleep(5)
        limits.pause(5, 20)
    assert trio.current_time() == 25


async def test_a_message_counts_when_it_goes_not_when_it_begins_to_wait(autojump_clock: MockClock) -> None:
    limits = SendLimits(everywhere=[Rate(1, 10.0)], chat=[Rate(1, 15.0)], margin=1.0)
    await limits.turn(1)
    await limits.turn(2)  # at 10, though nothing but the other chat held it up
    assert await sent(limits, 2, 1) == [25]


async def test_what_is_less_important_goes_at_once_or_not_at_all(autojump_clock: MockClock) -> None:
    limits = SendLimits(margin=1.0)
    assert [limits.take(5, NOW_SHARE) for _ in range(4)] == [True, True, False, False]
    assert not limits.take(5, SPARE_SHARE)
    with trio.fail_after(0.1):
        await limits.turn(5)  # there is one left for a final reply


async def test_nothing_is_taken_where_a_final_reply_waits(autojump_clock: MockClock) -> None:
    limits = SendLimits(everywhere=[Rate(1, 10.0)], margin=1.0)
    await limits.turn(1)
    for number in range(1, 21):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(limits.turn, 3)
            await trio.sleep_until(number * 10 - 1)
            assert not limits.take(4)
            await trio.sleep(1)  # now there is room, for who wakes up first
            assert not limits.take(4)
        assert trio.current_time() == number * 10


async def test_a_cancelled_wait_has_counted_nothing(autojump_clock: MockClock) -> None:
    limits = SendLimits(chat=[Rate(1, 10.0)], margin=1.0)
    await limits.turn(5)
    with trio.move_on_after(5):
        await limits.turn(5)
    assert await sent(limits, 5, 1) == [10]


async def test_what_is_kept_of_idle_chats_is_dropped(autojump_clock: MockClock) -> None:
    limits = SendLimits()
    limits.pause(9_999, 3600)
    for number in range(1, 1001):
        await limits.turn(number)
    await trio.sleep(120)
    assert limits.take(-1)
    assert len(limits) == 2
    assert limits.closed_until(9_999) > trio.current_time()


@pytest.mark.parametrize("margin", [1.0, 1.05])
async def test_a_forgotten_chat_can_do_no_more_than_a_known_one(
    autojump_clock: MockClock, margin: float
) -> None:
    limits = SendLimits(margin=margin)
    at: list[float] = []
    for pause in (0, 0, 0, 1, 2, 61, 0, 0, 0):
        await trio.sleep(pause)
        at += await sent(limits, 5, 1)
        limits.take(6)
    # A bucket of three that refills by one a second never runs out.
    for first in range(len(at)):
        assert all(count + 1 <= 3 + when - at[first] + 1e-9 for count, when in enumerate(at[first:]))


async def test_a_message_that_waits_for_the_bots_limit_heeds_a_pause_of_its_chat(
    autojump_clock: MockClock,
) -> None:
    limits = SendLimits(everywhere=(Rate(1, 2.0),), margin=1.0)
    await limits.turn(1)
    async with trio.open_nursery() as nursery:
        at: dict[int, float] = {}

        async def send(number: int) -> None:
            await limits.turn(number)
            at[number] = trio.current_time()

        nursery.start_soon(send, 5)
        await trio.sleep(1)
        limits.pause(5, 10)
        nursery.start_soon(send, 6)
    assert at == {6: pytest.approx(2), 5: pytest.approx(11)}, "and the others do not wait behind it"
