"""A month in virtual time: every fire once or told as missed; and the faults that this finds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from rumi.agent.permissions.parking import ParkedCalls
from rumi.store.journal import actor as journal_actor
from rumi.store.journal import schedules as journal_schedules
from rumi.store.journal.inbox import accept_messages
from rumi.store.journal.records import Fired, Firing, Parked
from rumi.store.journal.schedules import fire_schedules, move_schedules
from rumi.store.steps import Transaction
from rumi.tasks.schedules import clock, firing
from rumi.tasks.schedules.clock import ScheduleClock
from rumi.tasks.schedules.schedules import Schedules
from tests.tasks.schedules.month import play, play_answers, search

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.more) for seed in range(1, 4))]


@pytest.fixture(autouse=True)
def looks_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at the clock each half minute would be most of a month's work."""
    monkeypatch.setattr(clock, "LOOK_S", 900.0)
    monkeypatch.setattr(journal_actor, "WATCH_S", 86_400.0)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
async def test_in_a_month_each_instant_fires_once_or_is_told_as_missed(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, seed: int
) -> None:
    await play(tmp_path, seed)


def advances_after_dispatch(patch: pytest.MonkeyPatch) -> None:
    """The messages are stored first, and the schedules are advanced in another transaction."""

    async def do(self: Schedules, firings: tuple[Firing, ...]) -> tuple[Fired, ...]:
        messages = tuple(due.message for due in firings if due.message is not None)
        stored = await self.services.journal.ask(accept_messages(messages))
        assert isinstance(stored, tuple)
        for message in stored:
            assert message is not None
            self.services.wake(message)
        await trio.sleep(5)  # a process may die here
        done = await self.services.journal.ask(
            fire_schedules(tuple(replace(due, message=None, task=None) for due in firings))
        )
        self.changed()
        return done

    patch.setattr(Schedules, "do", do)


def catches_up_twice(patch: pytest.MonkeyPatch) -> None:
    """Behind a late fire the schedule keeps its instant, and fires again."""
    plan = firing.plan

    def twice(schedule: object, now: float, *more: object) -> object:
        planned = plan(schedule, now, *more)  # type: ignore[arg-type]
        late = isinstance(planned, Firing) and planned.message is not None and "Late" in planned.message.text
        if late and schedule.cron and schedule.failures == 0:  # type: ignore[attr-defined]
            return replace(planned, then=schedule.instant, of=0.0, number=0, failed=True)  # type: ignore[type-var, attr-defined]
        return planned

    def fired_before(transaction: object, *_: object) -> bool:
        return False

    patch.setattr(clock, "plan", twice)
    fire = journal_schedules._fire

    def forgets(due: Firing, transaction: object) -> Fired:
        transaction.db.execute("DELETE FROM fires WHERE schedule = ?", (due.schedule,))  # type: ignore[attr-defined]
        return fire(due, transaction)  # type: ignore[arg-type]

    patch.setattr(journal_schedules, "_fire", forgets)


def forgets_what_was_missed(patch: pytest.MonkeyPatch) -> None:
    """What was missed is not told at the next contact."""

    async def nothing(self: ScheduleClock) -> None:
        await trio.lowlevel.checkpoint()

    patch.setattr(ScheduleClock, "_watch_missed", nothing)


def notices_no_clock_that_goes_back(patch: pytest.MonkeyPatch) -> None:
    """A repeated instant fires again, because what has fired is not looked at."""

    move = move_schedules.do

    def moves(transaction: Transaction, changes: Any) -> None:
        for id, _, instant, _ in changes:
            transaction.db.execute("DELETE FROM fires WHERE schedule = ? AND instant >= ?", (id, instant))
        move(transaction, changes)

    patch.setattr(move_schedules, "do", moves)


@pytest.mark.long
@pytest.mark.parametrize(
    "plant",
    [advances_after_dispatch, catches_up_twice, forgets_what_was_missed, notices_no_clock_that_goes_back],
    ids=lambda plant: plant.__name__,
)
def test_the_month_finds_each_planted_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    plant(monkeypatch)
    search(play, tmp_path, range(60), RARE.get(plant, 0))


ANSWERS = [0, *(pytest.param(seed, marks=pytest.mark.more) for seed in range(1, 4))]


@pytest.mark.long
@pytest.mark.parametrize("seed", ANSWERS)
async def test_in_a_month_each_parked_call_is_asked_once_and_runs_only_after_a_yes(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, seed: int
) -> None:
    await play_answers(tmp_path, seed)


def forgets_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    """Replies ask only for calls that their own process has parked."""
    begin, to_ask = ParkedCalls.__init__, ParkedCalls.to_ask

    def remembers(self: ParkedCalls, parked: Sequence[Parked], keep: object) -> None:
        begin(self, parked, keep)  # type: ignore[arg-type]
        earlier[self] = {parked_call.number for parked_call in parked}

    earlier: dict[ParkedCalls, set[int]] = {}
    patch.setattr(ParkedCalls, "__init__", remembers)
    patch.setattr(
        ParkedCalls,
        "to_ask",
        lambda self: [question for question in to_ask(self) if question[0] not in earlier[self]],
    )


def a_yes_counts_twice(patch: pytest.MonkeyPatch) -> None:
    """A call that was allowed stays allowed in its turn."""

    async def allowed(self: ParkedCalls, call: str, question: object) -> bool:
        await trio.lowlevel.checkpoint()
        return any(parked_call.call == call and parked_call.state == "allowed" for parked_call in self.all)

    patch.setattr(ParkedCalls, "allowed", allowed)


def asks_with_every_reply(patch: pytest.MonkeyPatch) -> None:
    """A reply does not note what it has asked for."""
    patch.setattr(ParkedCalls, "note_asked", lambda self, numbers: None)


def any_number_counts(patch: pytest.MonkeyPatch) -> None:
    """An answer counts for calls that were asked after it."""
    hear = ParkedCalls.hear
    patch.setattr(ParkedCalls, "seen", frozenset(range(10_000)))
    patch.setattr(ParkedCalls, "hear", lambda self, said, seen=None: hear(self, said))


@pytest.mark.long
@pytest.mark.parametrize(
    "plant",
    [forgets_at_a_restart, a_yes_counts_twice, asks_with_every_reply, any_number_counts],
    ids=lambda plant: plant.__name__,
)
def test_the_month_of_answers_finds_each_planted_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    plant(monkeypatch)
    search(play_answers, tmp_path, range(60), RARE.get(plant, 0))


RARE: Mapping[Callable[[pytest.MonkeyPatch], None], int] = {
    any_number_counts: 15,
    forgets_at_a_restart: 2,
    notices_no_clock_that_goes_back: 2,
}
"""The seeds that show rare faults: the search begins there, which saves minutes."""
