"""Calls that wait for a yes: which answers count, and how often."""

import pytest
import trio

from rumi.bots.parking import MOST_WAITING, Parked, ParkedCalls, parked_in, parked_json

CALL = 'remember {"key": "boss"}'


class Kept:
    def __init__(self) -> None:
        self.times = 0

    async def __call__(self) -> None:
        await trio.lowlevel.checkpoint()
        self.times += 1


def parked(*states: str) -> list[Parked]:
    return [Parked(n, 1, f"call {n}", f"May I {n}?", state) for n, state in enumerate(states, 1)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "states"),
    [
        ("yes 1", ["allowed", "waits", "waits"]),
        ("Sí 1 3", ["allowed", "waits", "allowed"]),
        ("si 2, no 1,3", ["refused", "allowed", "refused"]),
        ("NO 1 2 3", ["refused", "refused", "refused"]),
        ("yes", ["waits", "waits", "waits"]),
        ("yes 4", ["waits", "waits", "waits"]),
        ("yes 1 please", ["waits", "waits", "waits"]),
        ("I said no 1", ["waits", "waits", "waits"]),
        ("yes1", ["waits", "waits", "waits"]),
        ("", ["waits", "waits", "waits"]),
    ],
)
async def test_an_answer_names_its_calls(said: str, states: list[str]) -> None:
    calls = ParkedCalls(parked("waits", "waits", "waits"), 2, Kept())
    await calls.hear((said,))
    assert [each.state for each in calls.parked] == states


async def test_a_yes_is_for_one_call_and_is_stored_before_it() -> None:
    keep = Kept()
    calls = ParkedCalls([], 1, keep)
    assert "not done yet" in await calls.park(CALL, "May I?")
    assert "not done yet" in await calls.park(CALL, "May I?")
    assert calls.asked() == [(1, "May I?")]
    assert not await calls.allowed(CALL)
    next_one = ParkedCalls(parked_in({"parked": parked_json(calls.parked)}), 2, keep)
    assert next_one.asked() == []
    assert next_one.waiting() == [(1, "May I?")]
    await next_one.hear(("yes 1",))
    assert CALL in next_one.in_words()
    times = keep.times
    assert await next_one.allowed(CALL)
    assert keep.times == times + 1
    assert not await next_one.allowed(CALL)
    assert not await next_one.allowed('remember {"key": "other"}')
    await next_one.park(CALL, "May I?")
    assert next_one.asked() == [(2, "May I?")]


async def test_a_no_stays_a_no_and_an_old_answer_is_for_nothing_new() -> None:
    calls = ParkedCalls([], 1, Kept())
    await calls.park(CALL, "May I?")
    await calls.hear(("no 1", "yes 2"))
    assert "said no" in await calls.park(CALL, "May I?")
    await calls.park("other {}", "May I?")
    assert calls.waiting() == [(2, "May I?")]


async def test_what_waits_is_bounded() -> None:
    calls = ParkedCalls([], 1, Kept())
    for number in range(MOST_WAITING + 5):
        said = await calls.park(f"call {number}", "May I?")
    assert "too much waits" in said
    assert "too much waits" in await ParkedCalls([], 1, Kept()).park("x" * 5_000, "May I?")
    assert len(calls.parked) == MOST_WAITING
