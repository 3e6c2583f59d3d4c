"""The actor that fires schedules: it sleeps until the next one, and notices jumps of the clock."""

import logging
from collections.abc import Mapping, Sequence
from typing import Final, Never

import trio

from actors import Actor
from rumi.chats.events import Replied, TurnStarted
from rumi.platform.chat_ids import LOCAL
from rumi.platform.texts import schedules as schedule_texts
from rumi.platform.texts import tasks as task_texts
from rumi.platform.timestamps import utc
from rumi.store.journal.records import Firing, Incoming, ScheduleFigures, ScheduleRecord
from rumi.store.journal.schedules import (
    FAILURES,
    AheadSchedules,
    CountSchedules,
    DueSchedules,
    FailedSchedules,
    ListSchedules,
    MissedSchedules,
    MoveSchedules,
    PauseFailed,
    SetSchedule,
    TellMissed,
)
from rumi.tasks.schedules.firing import Later, in_words, notice, plan
from rumi.tasks.schedules.schedules import Schedules
from rumi.tasks.schedules.times import following

logger = logging.getLogger(__name__)

LOOK_S: Final = 30.0
"""How often to compare the clock with the next fire: a jump or the end of a suspend is noticed by then."""

BACK_S: Final = 60.0
"""A clock that goes back by more than this has been set."""

AT_ONCE: Final = 25
"""How many fires one transaction stores: others wait for no more than that."""

WORK_S: Final = 7200.0
"""How long after a fire its work may still fail."""

SHOWN: Final = 50
"""How many schedules the status has."""


class ScheduleClock(Actor[Never]):
    """Fires what is due, pauses what fails, and tells what was missed."""

    def __init__(self, schedules: Schedules) -> None:
        self._schedules = schedules
        self._services = schedules.services
        self._ask = schedules.services.journal.ask
        self._figures = ScheduleFigures(0, 0, float("inf"))
        self._shown: Sequence[ScheduleRecord] = ()
        self._work_until = self._services.now() + LOOK_S
        self._watched_chats: set[str] = set()
        self._latest = 0.0

    async def started(self) -> None:
        """Begin to fire."""
        self.start_soon(self._run)

    async def _run(self) -> None:
        await self._set_back()
        await self._watch_missed()
        while True:
            changed = self._schedules.to_look
            if self._went_back() or self._schedules.taken_over:
                self._schedules.taken_over = False
                await self._set_back()
                await self._watch_missed()
            await self._fire_due()
            await self._pause_failing()
            await self._look()
            while not changed.is_set() and not self._went_back():
                with trio.move_on_after(max(0.0, min(self._figures.next_at - self._now(), LOOK_S))):
                    await changed.wait()
                if (now := self._now()) >= self._figures.next_at or now < self._work_until:
                    break

    def _now(self) -> float:
        now = self._services.now()
        self._latest = max(self._latest, now)
        return now

    def _went_back(self) -> bool:
        """Return True if the clock was set back since its latest time was read."""
        return self._services.now() < self._latest - BACK_S

    async def _look(self) -> None:
        """Read when the next one fires; both requests go into one transaction."""

        async def show() -> None:
            self._shown = await self._ask(ListSchedules(LOCAL, SHOWN))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(show)
            self._figures = await self._ask(CountSchedules())
        self._schedules.next_at = self._figures.next_at
        self._schedules.fired.set()
        self._schedules.fired = trio.Event()

    async def _fire_due(self) -> None:
        """Fire what is due, some at a time."""
        while due := await self._ask(DueSchedules(self._now())):
            for first in range(0, len(due), AT_ONCE):
                await self._fire(due[first : first + AT_ONCE])
                await trio.lowlevel.checkpoint()
            if len(due) < AT_ONCE:
                break

    async def _fire(self, due: Sequence[ScheduleRecord]) -> None:
        now, firings, moves = self._now(), [], []
        for schedule in due:
            try:
                planned = plan(schedule, now, self._services.limits.quiet, self._schedules.task_of)
            except Exception as error:  # one schedule's fault must not keep the others from firing
                logger.error("schedule %d cannot fire and is paused", schedule.id, exc_info=error)
                await self._ask(SetSchedule(schedule.id, "paused"))
                continue
            if isinstance(planned, Later):
                moves.append((schedule.id, schedule.instant, schedule.instant, planned.until))
            else:
                firings.append(planned)
        if moves:
            await self._ask(MoveSchedules(tuple(moves)))
        if firings:
            await self._schedules.do(tuple(firings))
            self._note(firings)
            if any(firing.missed for firing in firings) or self._may_overlap(due):
                await self._watch_missed()

    def _note(self, firings: Sequence[Firing]) -> None:
        if any(_works(firing) for firing in firings):
            self._work_until = self._services.now() + WORK_S

    @staticmethod
    def _may_overlap(due: Sequence[ScheduleRecord]) -> bool:
        return any(schedule.cron and schedule.kind != "text" for schedule in due)

    async def _pause_failing(self) -> None:
        """Pause what failed too often, and say so."""
        if self._services.now() >= self._work_until:
            return
        for schedule in await self._ask(FailedSchedules()):
            text = schedule_texts.schedule_paused(schedule.language, schedule.id, FAILURES, schedule.text)
            stored = await self._ask(PauseFailed(schedule.id, notice(schedule, text)))
            if stored is not None:
                self._services.wake(stored)

    async def _set_back(self) -> None:
        """Have recurring schedules fire at their next instant from now on, which a clock ahead had passed."""
        self._latest = self._services.now()
        while ahead := await self._ask(AheadSchedules(self._services.now())):
            now, moves = self._services.now(), []
            for schedule in ahead:
                then = min(schedule.instant, following(schedule.cron, schedule.zone, now))
                moves.append((schedule.id, schedule.instant, then, then))
            await self._ask(MoveSchedules(tuple(moves)))

    # What was missed

    async def _watch_missed(self) -> None:
        """Wait for the next contact of chats whose schedules have missed something."""
        for chat in {schedule.chat for schedule in await self._ask(MissedSchedules())} - self._watched_chats:
            self._watched_chats.add(chat)
            self.start_soon(self._report_missed, chat)

    async def _report_missed(self, chat: str) -> None:
        """Tell a chat what was missed, as soon as something happens in it."""
        with self._services.hub.listening(chat) as events:
            while not isinstance((await events.receive()).what, Replied | TurnStarted):
                pass
        while missed := await self._ask(MissedSchedules(chat)):
            stored = await self._ask(TellMissed(chat, self._missed(missed), _counts(missed)))
            if stored is not None:  # otherwise more was missed meanwhile
                self._services.wake(stored)
                break
        self._watched_chats.discard(chat)
        await self._watch_missed()  # what was missed while the message was stored

    @staticmethod
    def _missed(missed: Sequence[ScheduleRecord]) -> Incoming:
        """Return the message that tells a chat what was missed."""
        language = missed[0].language
        rows = [
            (
                schedule.id,
                schedule.text,
                schedule.missed,
                in_words(schedule.missed_at, schedule.zone, language),
            )
            for schedule in missed
        ]
        return Incoming(
            chat=missed[0].chat,
            text=schedule_texts.schedules_missed(language, rows),
            language=language,
            schedule=missed[0].id,
            notice=True,
            tainted=any(schedule.tainted for schedule in missed),
        )

    # What it is at

    def activity(self) -> str:
        """Return how many schedules are active, and when the next one fires."""
        if not self._figures.active:
            return ""
        return f"{self._figures.active} active, next {utc(self._figures.next_at)}"

    def metrics(self) -> Mapping[str, object]:
        """Return how many there are, when the next one fires, and those of this machine's owner."""
        next_at = self._figures.next_at
        return {
            "active": self._figures.active,
            "paused": self._figures.paused,
            "next": None if next_at == float("inf") else utc(next_at),
            "schedules": [
                {
                    "id": schedule.id,
                    "kind": schedule.kind,
                    "state": schedule.state,
                    "text": task_texts.shortly(schedule.text),
                    "when": schedule_texts.recurrence("en", schedule.cron) if schedule.cron else "",
                    "next": schedule.next_at if schedule.state == "active" else None,
                    "zone": schedule.zone,
                    "failures": schedule.failures,
                }
                for schedule in self._shown
            ],
        }


def _counts(missed: Sequence[ScheduleRecord]) -> tuple[tuple[int, int], ...]:
    return tuple((schedule.id, schedule.missed) for schedule in missed)


def _works(firing: Firing) -> bool:
    return (
        firing.task is not None or firing.failed or (firing.message is not None and not firing.message.notice)
    )
