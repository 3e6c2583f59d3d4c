"""The actor that fires schedules. It sleeps until the next fire time, and detects jumps of the clock."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from secrets import token_hex
from typing import Final, Never

import trio

from actors import Actor
from rumi.chats.events import Replied, TurnStarted
from rumi.platform.chat_ids import LOCAL
from rumi.platform.texts import schedules as schedule_texts
from rumi.platform.texts import tasks as task_texts
from rumi.platform.timestamps import utc
from rumi.store.journal.records import Button, Firing, Incoming, ScheduleFigures, ScheduleRecord
from rumi.store.journal.schedules import (
    FAILURES,
    ahead_schedules,
    count_schedules,
    due_schedules,
    failed_schedules,
    list_schedules,
    missed_schedules,
    move_schedules,
    pause_failed,
    schedules_of_unreachable,
    set_schedule,
    tell_admins,
    tell_missed,
    tell_return,
)
from rumi.store.journal.unreachable import unreachable_chats
from rumi.tasks.schedules.firing import Later, in_words, last_in_words, notice, plan
from rumi.tasks.schedules.schedules import Schedules
from rumi.tasks.schedules.times import following
from rumi.tasks.schedules.watched import watched_by, watches

logger = logging.getLogger(__name__)

LOOK_S: Final = 30.0
"""Maximum time between two comparisons of the clock with the next fire time, in seconds.

A jump of the clock, or the end of a suspend, is detected within this time.
"""

BACK_S: Final = 60.0
"""Minimum backward jump of the clock, in seconds, that counts as setting the clock back."""

AT_ONCE: Final = 25
"""Maximum number of firings in one transaction, so that other transactions need not wait long."""

WORK_S: Final = 7200.0
"""Time after a firing during which its turn or task may still fail, in seconds."""

SHOWN: Final = 50
"""Maximum number of schedules shown in the status."""


class ScheduleClock(Actor[Never]):
    """Fires due schedules, pauses schedules that fail, and reports missed fire times."""

    def __init__(self, schedules: Schedules) -> None:
        self._schedules = schedules
        self._services = schedules.services
        self._ask = schedules.services.journal.ask
        self._figures = ScheduleFigures(0, 0, float("inf"))
        self._shown: Sequence[ScheduleRecord] = ()
        self._work_until = self._services.now() + LOOK_S
        self._watched_chats: set[str] = set()
        self._lost_chats: set[str] = set()
        self._latest = 0.0

    async def started(self) -> None:
        """Start firing schedules."""
        self.start_soon(self._run)

    async def _run(self) -> None:
        await self._set_back()
        await self._watch_missed()
        while True:
            # Read before the work below: a change while it runs sets this event, and the loop starts again.
            changed = self._schedules.to_look
            if self._went_back() or self._schedules.taken_over:
                self._schedules.taken_over = False
                await self._set_back()
                await self._watch_missed()
            await self._fire_due()
            await self._pause_failing()
            await self._watch_unreachable()
            await self._look()
            while not changed.is_set() and not self._went_back():
                with trio.move_on_after(max(0.0, min(self._figures.next_at - self._now(), LOOK_S))):
                    await changed.wait()
                # Work of a recent fire may still fail: then look for failing schedules every `LOOK_S`.
                if (now := self._now()) >= self._figures.next_at or now < self._may_fail_until:
                    break

    @property
    def _may_fail_until(self) -> float:
        """The time until which work that a fire or a check has begun may still fail."""
        return max(self._work_until, self._schedules.changed_at + WORK_S)

    def _now(self) -> float:
        now = self._services.now()
        self._latest = max(self._latest, now)
        return now

    def _went_back(self) -> bool:
        """Return True if the clock was set back since its last reading."""
        return self._services.now() < self._latest - BACK_S

    async def _look(self) -> None:
        """Read the next fire time, and the schedules shown in the status.

        Both requests are sent at once, so that the journal answers both in one transaction.
        """

        async def show() -> None:
            self._shown = await self._ask(list_schedules(LOCAL, SHOWN))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(show)
            self._figures = await self._ask(count_schedules())
        self._schedules.next_at = self._figures.next_at
        self._schedules.fired.set()
        self._schedules.fired = trio.Event()

    async def _fire_due(self) -> None:
        """Fire the due schedules in batches."""
        while due := await self._ask(due_schedules(self._now())):
            for first in range(0, len(due), AT_ONCE):
                await self._fire(due[first : first + AT_ONCE])
                await trio.lowlevel.checkpoint()
            if len(due) < AT_ONCE:
                break

    async def _fire(self, due: Sequence[ScheduleRecord]) -> None:
        now, firings, moves = self._now(), [], []
        checks: list[ScheduleRecord] = []
        for schedule in due:
            try:
                quiet = self._schedules.quiet_of(schedule.chat)
                if watches(schedule) and (quiet is None or quiet.until(now, schedule.zone) <= now):
                    checks.append(schedule)
                    continue
                planned = plan(schedule, now, quiet, self._schedules.task_of)
            except Exception as error:  # one schedule's failure must not keep the others from firing
                logger.error("schedule %d cannot fire and is paused", schedule.id, exc_info=error)
                await self._ask(set_schedule(schedule.id, "paused"))
                continue
            if isinstance(planned, Later):
                moves.append((schedule.id, schedule.instant, schedule.instant, planned.until))
            else:
                firings.append(planned)
        if moves:
            await self._ask(move_schedules(tuple(moves)))
        if checks:
            await self._schedules.checks.begin(checks, self.start_soon)
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
        """Pause schedules that failed too often, and notify the chats of these schedules."""
        if self._services.now() >= self._may_fail_until:
            return
        for schedule in await self._ask(failed_schedules()):
            text = schedule_texts.schedule_paused(schedule.language, schedule.id, FAILURES, schedule.text)
            stored = await self._ask(pause_failed(schedule.id, notice(schedule, text)))
            if stored is not None:
                self._services.wake(stored)

    async def _set_back(self) -> None:
        """After the clock was set back, move recurring schedules to their next fire time by the new clock.

        While the clock was ahead, their fire times were advanced too far, into what is now the future.
        """
        self._latest = self._services.now()
        while ahead := await self._ask(ahead_schedules(self._services.now())):
            now, moves = self._services.now(), []
            for schedule in ahead:
                then = min(schedule.instant, following(schedule.cron, schedule.zone, now))
                moves.append((schedule.id, schedule.instant, then, then))
            await self._ask(move_schedules(tuple(moves)))

    # Missed fire times

    async def _watch_missed(self) -> None:
        """Start a listener for each chat that has missed fire times but no listener yet."""
        for chat in {schedule.chat for schedule in await self._ask(missed_schedules())} - self._watched_chats:
            self._watched_chats.add(chat)
            self.start_soon(self._report_missed, chat)

    async def _report_missed(self, chat: str) -> None:
        """Wait for the next reply or turn in a chat, then report the missed fire times to the chat."""
        with self._services.hub.listening(chat) as events:
            while not isinstance((await events.receive()).what, Replied | TurnStarted):
                pass
        while missed := await self._ask(missed_schedules(chat)):
            stored = await self._ask(tell_missed(chat, self._missed(missed), _counts(missed)))
            # None: more fire times were missed meanwhile, so the message would be incomplete.
            if stored is not None:
                self._services.wake(stored)
                break
        self._watched_chats.discard(chat)
        # `_watch_missed` skipped this chat while it was watched: catch fire times missed since the report.
        await self._watch_missed()

    # Chats to which nothing can be delivered

    async def _watch_unreachable(self) -> None:
        """Tell admins of chats whose schedules are paused now, and start a listener for each such chat."""
        for chat, why in await self._ask(unreachable_chats(noted=False)):
            paused = await self._ask(schedules_of_unreachable(chat))
            services = self._services
            text = schedule_texts.unreachable_chat(services.language, chat, why, len(paused))
            told = tuple(
                Incoming(
                    chat=admin, text=text, language=services.language, schedule=paused[0].id, notice=True
                )
                for admin in services.admins(chat)
                if admin != chat
            )
            logger.warning("nothing can be delivered to %s: %d schedules are paused", chat, len(paused))
            for stored in await self._ask(tell_admins(told, chat)):
                services.wake(stored)
        lost = {chat for chat, _ in await self._ask(unreachable_chats())}
        for chat in lost - self._lost_chats:
            self._lost_chats.add(chat)
            self.start_soon(self._report_paused, chat)

    async def _report_paused(self, chat: str) -> None:
        """Wait until a person writes in an unreachable chat, then tell them which schedules are paused."""
        with self._services.hub.listening(chat) as events:
            while True:
                event = await events.receive()
                if isinstance(event.what, Replied | TurnStarted):
                    paused = await self._ask(schedules_of_unreachable(chat))
                    if not paused:
                        break
                    # None: no person has written; this was the result of a task, for example.
                    stored = await self._ask(tell_return(chat, self._paused(paused)))
                    if stored is not None:
                        self._services.wake(stored)
                        break
        self._lost_chats.discard(chat)

    @staticmethod
    def _paused(paused: Sequence[ScheduleRecord]) -> Incoming:
        """Return the message that tells a chat which schedules are paused."""
        language = paused[0].language
        text = schedule_texts.schedules_waited(language, [(one.id, one.text) for one in paused])
        button = Button(token_hex(8), schedule_texts.resume_all(language), schedule_texts.RESUME_ALL)
        tainted = any(one.tainted for one in paused)
        return replace(notice(paused[0], text), buttons=(button,), tainted=tainted)

    @staticmethod
    def _missed(missed: Sequence[ScheduleRecord]) -> Incoming:
        """Return the message that reports missed fire times to a chat."""
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

    # Status

    def activity(self) -> str:
        """Return the number of active schedules and the next fire time."""
        if not self._figures.active:
            return ""
        return f"{self._figures.active} active, next {utc(self._figures.next_at)}"

    def metrics(self) -> Mapping[str, object]:
        """Return schedule counts by state, the next fire time, and the local owner's schedules.

        Texts are in the language of the schedule.
        `unreachable` lists the chats whose schedules are paused because nothing can be delivered to them.
        """
        next_at = self._figures.next_at
        return {
            "active": self._figures.active,
            "paused": self._figures.paused,
            "next": None if next_at == float("inf") else utc(next_at),
            "unreachable": sorted(self._lost_chats),
            "schedules": [
                {
                    "id": schedule.id,
                    "kind": schedule.kind,
                    "state": schedule.state,
                    "reason": schedule.reason,
                    "text": task_texts.shortly(schedule.text),
                    "when": schedule_texts.recurrence(schedule.language, schedule.cron)
                    if schedule.cron
                    else "",
                    "next": schedule.next_at if schedule.state == "active" else None,
                    "zone": schedule.zone,
                    "failures": schedule.failures,
                    "watched": [one.what for one in watched_by(schedule)],
                    "last": last_in_words(schedule, schedule.language, self._services.now()),
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
