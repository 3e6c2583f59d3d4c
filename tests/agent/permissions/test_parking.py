"""Calls that wait for a yes: which answers count, and how often."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import trio

from rumi.agent.permissions.parking import MOST_WAITING, ParkedCalls, always_in, answers_in
from rumi.agent.tool import Question
from rumi.store.journal.records import Parked

MAY_I = Question("remember", {"key": "boss"})
CALL = 'remember {"key": "boss"}'


class ParkedStore:
    def __init__(self) -> None:
        self.parked: dict[int, Parked] = {}

    async def __call__(self, parked: Sequence[Parked]) -> None:
        await trio.lowlevel.checkpoint()
        self.parked |= {parked_call.number: parked_call for parked_call in parked}

    def ask_all(self) -> list[Parked]:
        """A message that asks for all of them is stored."""
        self.parked = {
            number: replace(parked_call, asked=True) for number, parked_call in self.parked.items()
        }
        return list(self.parked.values())


def parked(*states: str) -> list[Parked]:
    return [Parked(n, f"call {n}", f"May I {n}?", state, asked=True) for n, state in enumerate(states, 1)]  # type: ignore[arg-type]


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
        ("yes 1 always", ["waits", "waits", "waits"]),
        ("I said no 1", ["waits", "waits", "waits"]),
        ("yes1", ["waits", "waits", "waits"]),
        ("", ["waits", "waits", "waits"]),
    ],
)
async def test_an_answer_names_its_calls(said: str, states: list[str]) -> None:
    calls = ParkedCalls(parked("waits", "waits", "waits"), ParkedStore())
    heard = await calls.hear((said,))
    assert [parked_call.state for parked_call in calls.all] == states
    assert [parked_call.number for parked_call in heard] == [
        n for n, state in enumerate(states, 1) if state != "waits"
    ]


async def test_a_yes_is_for_one_call_and_is_stored_before_it() -> None:
    keep = ParkedStore()
    calls = ParkedCalls([], keep)
    assert "not done yet" in await calls.park(CALL, "May I?")
    assert "not done yet" in await calls.park(CALL, "May I?")
    assert calls.to_ask() == [(1, "May I?")]
    assert not await calls.allowed(CALL, MAY_I)
    next_one = ParkedCalls(keep.ask_all(), keep)
    assert next_one.to_ask() == []
    assert next_one.waiting() == [(1, "May I?")]
    await next_one.hear(("yes 1",))
    assert CALL in next_one.in_words()
    assert await next_one.allowed(CALL, MAY_I)
    assert keep.parked[1].state == "used"
    assert not await next_one.allowed(CALL, MAY_I)
    assert not await next_one.allowed('remember {"key": "other"}', MAY_I)
    await next_one.park(CALL, "May I?")
    assert next_one.to_ask() == [(2, "May I?")]


async def test_a_call_that_nobody_has_seen_takes_no_yes_and_is_still_asked() -> None:
    keep = ParkedStore()
    calls = ParkedCalls([], keep)
    await calls.park(CALL, "May I?")
    assert await calls.hear(("yes 1",)) == ()
    assert not await calls.allowed(CALL, MAY_I)
    after_a_kill = ParkedCalls(list(keep.parked.values()), keep)
    assert after_a_kill.to_ask() == [(1, "May I?")]


@pytest.mark.parametrize(("done", "state"), [(True, "used"), (False, "waits")])
async def test_a_yes_that_was_not_used_holds_no_longer_than_its_turn(done: bool, state: str) -> None:
    keep = ParkedStore()
    calls = ParkedCalls(parked("waits", "waits", "refused"), keep)
    await calls.hear(("yes 1",))
    await calls.end_allowed(done=done)
    assert [parked_call.state for parked_call in calls.all] == [state, "waits", "refused"]
    assert keep.parked[1].state == state
    assert not await calls.allowed("call 1", MAY_I)


async def test_an_answer_is_for_calls_that_were_seen_when_it_came() -> None:
    calls = ParkedCalls(parked("waits", "waits"), ParkedStore())
    assert [parked_call.number for parked_call in await calls.hear(("yes 1 2",), {2})] == [2]


async def test_a_no_stays_a_no_and_an_old_answer_is_for_nothing_new() -> None:
    keep = ParkedStore()
    calls = ParkedCalls([], keep)
    await calls.park(CALL, "May I?")
    calls = ParkedCalls(keep.ask_all(), keep)
    await calls.hear(("no 1", "yes 2"))
    assert "said no" in await calls.park(CALL, "May I?")
    await calls.park("other {}", "May I?")
    assert calls.waiting() == [(2, "May I?")]


async def test_what_waits_is_bounded() -> None:
    calls = ParkedCalls([], ParkedStore())
    for number in range(MOST_WAITING + 5):
        said = await calls.park(f"call {number}", "May I?")
    assert "too much waits" in said
    assert "more than 12000 characters" in await ParkedCalls([], ParkedStore()).park("x" * 12_001, "May I?")
    assert len(calls.all) == MOST_WAITING


@pytest.mark.parametrize(
    ("said", "answers", "always"),
    [
        ("yes 1 always", {1: "allowed"}, (1,)),
        ("sí 1 2 siempre", {1: "allowed", 2: "allowed"}, (1, 2)),
        ("yes 1 sempre no 2", {1: "allowed", 2: "refused"}, (1,)),
        ("yes 1 yes 2 always", {1: "allowed", 2: "allowed"}, (2,)),
        ("YES 1 ALWAYS.", {1: "allowed"}, (1,)),
        ("yes 1 always no 1", {1: "refused"}, ()),
        ("no 1 always", {}, ()),
        ("yes always", {}, ()),
        ("yes 1 alwaysno 2", {}, ()),
        ("always", {}, ()),
    ],
)
def test_an_answer_says_which_calls_are_for_every_run(
    said: str, answers: dict[int, str], always: tuple[int, ...]
) -> None:
    assert answers_in(said) == answers
    assert always_in(said) == always
