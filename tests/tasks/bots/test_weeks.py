"""A bot over weeks in virtual time, and the faults that this finds."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from rumi.store.journal import actor as journal_actor
from rumi.store.journal.inbox import accept_messages
from rumi.store.journal.records import Incoming, Reason, TaskRecord
from rumi.store.journal.tasks import begin_task, end_iteration
from rumi.tasks import task, tasks
from rumi.tasks.kinds import NextIteration
from rumi.tasks.task import Task, WakeTask
from tests.tasks.bots.weeks import play
from tests.tasks.schedules.month import search

SEEDS = [*range(2), *(pytest.param(seed, marks=pytest.mark.more) for seed in range(2, 6))]


@pytest.fixture(autouse=True)
def looks_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at the clock and at the file each minute would be most of the work."""
    monkeypatch.setattr(task, "LOOK_S", 200.0)
    monkeypatch.setattr(tasks, "IDLE_S", 200.0)
    monkeypatch.setattr(journal_actor, "WATCH_S", 86_400.0)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
async def test_over_weeks_nothing_said_is_lost_and_nothing_is_done_twice(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, seed: int
) -> None:
    await play(tmp_path, seed)


def hears_before_it_is_kept(patch: pytest.MonkeyPatch) -> None:
    """What people have said is taken out of the file when an iteration begins, and not with its history."""
    begin = begin_task.do

    def clears(transaction: Any, id: int) -> None:
        begin(transaction, id)
        transaction.db.execute("UPDATE tasks SET said = '[]' WHERE id = ?", (id,))

    patch.setattr(begin_task, "do", clears)


def forgets_the_sleep(patch: pytest.MonkeyPatch) -> None:
    """The time of waking is not stored, some times. If it never were, weeks would take minutes to play."""
    end, left = end_iteration.do, iter(range(5))

    def at_once(transaction: Any, id: int, done: Any, wake_at: float, *args: Any) -> Incoming | None:
        forgotten = wake_at and next(left, None) is not None
        return end(transaction, id, done, 0.0 if forgotten else wake_at, *args)

    patch.setattr(end_iteration, "do", at_once)


def sends_the_question_apart(patch: pytest.MonkeyPatch) -> None:
    """The message of an iteration is stored in another transaction than its end."""
    end = Task._end_iteration

    async def apart(self: Task, record: TaskRecord, again: NextIteration, reason: Reason) -> TaskRecord:
        record = await end(self, record, replace(again, message=""), reason)
        await trio.sleep(5)  # a process may die here
        if again.message:
            (message,) = await self._services.journal.ask(
                accept_messages((Incoming(record.chat, again.message),))
            )
            assert message is not None
            self._services.wake(message)
        return record

    patch.setattr(Task, "_end_iteration", apart)


def wakes_nobody(patch: pytest.MonkeyPatch) -> None:
    """Who speaks to a sleeping bot is heard when its sleep is over."""
    receive = Task.receive

    async def deaf(self: Task, message: Any) -> None:
        if not isinstance(message, WakeTask):
            await receive(self, message)

    patch.setattr(Task, "receive", deaf)


def forgets_what_was_done(patch: pytest.MonkeyPatch) -> None:
    """A new process begins an iteration with no history."""
    started = Task.started

    async def blank(self: Task) -> None:
        await started(self)
        self._entries = []

    patch.setattr(Task, "started", blank)


@pytest.mark.long
@pytest.mark.parametrize(
    "plant",
    [
        hears_before_it_is_kept,
        forgets_the_sleep,
        sends_the_question_apart,
        wakes_nobody,
        forgets_what_was_done,
    ],
    ids=lambda plant: plant.__name__,
)
def test_the_weeks_find_each_planted_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None]
) -> None:
    plant(monkeypatch)
    search(play, tmp_path, range(40), RARE.get(plant, 0))


RARE: Mapping[Callable[[pytest.MonkeyPatch], None], int] = {hears_before_it_is_kept: 9}
"""Faults that no seed before this one shows: the search begins there, which saves minutes."""
