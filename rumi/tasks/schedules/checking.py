"""Checks without a model: a schedule that watches something works only after a change of it.

Each check is a task of the clock's actor, so a slow source delays no other schedule. The next fire time is
stored before the check, and what it has read together with the work that a change begins.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Final, Protocol
from urllib.parse import urlsplit

import trio

from actors import ActorError, ActorRef
from rumi.errors import RumiError
from rumi.platform.fair_limiter import FairLimiter, LimiterBounds
from rumi.platform.texts import schedules as schedule_texts
from rumi.platform.texts.translation import error_text
from rumi.platform.untrusted_text import one_line
from rumi.store.journal.checks import StoredCheck, begin_checks, store_check
from rumi.store.journal.records import Attachment, Fired, FireOutcome, Firing, Incoming, ScheduleRecord
from rumi.store.journal.store import JournalError
from rumi.store.journal.transaction import JournalMessage
from rumi.tasks.schedules.firing import MakeTask, notice, work
from rumi.tasks.schedules.sources import WatchSources
from rumi.tasks.schedules.times import following
from rumi.tasks.schedules.watched import (
    Kept,
    SourceText,
    WatchItem,
    WatchState,
    as_stored,
    difference,
    kept,
    memory_of,
    watches_of,
)
from rumi.texts import Language

logger = logging.getLogger(__name__)

AT_ONCE: Final = LimiterBounds(at_once=12, per_chat=6, per_host=3, waiting_per_chat=10**9, wait_s=inf)
"""Limits on checks that run at the same time: in total, of one owner, and of one site.

Checks of slow sites delay only others of the same site, and many of them only those of the same owner.
"""

TOLD_AFTER: Final = 3
"""Number of failed checks in a row after which people are told. One failure is no news."""

TELL_AGAIN_S: Final = 86_400.0
"""Time after which people are told again of checks that still fail, in seconds."""

MOST_NOTICE_CHARS: Final = 1_500
"""Maximum length of the difference in a reminder, which people read."""

Start = Callable[[Callable[[], Awaitable[None]]], object]
"""Starts a task of the clock's actor."""


@dataclass(frozen=True, slots=True)
class _FoundChange:
    watch: WatchItem
    difference: str


class CheckServices(Protocol):
    """The services that checks use; see `ScheduleServices`."""

    @property
    def journal(self) -> ActorRef[JournalMessage]:
        """The journal."""
        ...

    @property
    def sources(self) -> WatchSources | None:
        """What reads pages, files and commands."""
        ...

    @property
    def now(self) -> Callable[[], float]:
        """The clock on the wall."""
        ...


class Checks:
    """The running checks of a process, by schedule.

    `allowed` raises a `RumiError` if the person of a schedule may not have it any more. `done` gets the work
    and the message that were stored.
    """

    def __init__(
        self,
        services: "CheckServices",
        allowed: Callable[[ScheduleRecord], object],
        task_of: MakeTask,
        done: Callable[[Firing | None, Fired, Incoming | None], object],
    ) -> None:
        self._ask = services.journal.ask
        self._sources = services.sources
        self._now = services.now
        self._allowed = allowed
        self._task_of = task_of
        self._done = done
        self._running: dict[int, trio.CancelScope] = {}
        self._slots = FairLimiter(AT_ONCE)

    def cancel(self, id: int | None = None) -> None:
        """Cancel the check of a schedule, or all checks. A cancelled check has stored nothing."""
        for schedule, scope in self._running.items():
            if id in (None, schedule):
                scope.cancel()

    async def first_reading(self, schedule: ScheduleRecord) -> str:
        """Read everything that a new schedule watches; return what its row stores.

        Raises:
            RumiError: Something cannot be read.
        """
        read: dict[str, Kept] = {}
        for watch in watches_of(json.loads(schedule.options)):
            if self._sources is not None:
                read[watch.name] = kept(await self._sources.read(schedule.chat, watch))
        return as_stored(WatchState(read)) if read else ""

    async def begin(self, due: Sequence[ScheduleRecord], start: Start) -> None:
        """Set the next fire times of due schedules, and start their checks."""
        now = self._now()
        moves = tuple((one.id, one.instant, following(one.cron, one.zone, now)) for one in due)
        begun = await self._ask(begin_checks(moves))
        for schedule in due:
            # A check that still runs counts for this time as well.
            if schedule.id in begun and schedule.id not in self._running:
                self._running[schedule.id] = trio.CancelScope()
                start(partial(self._run, schedule))

    async def _run(self, schedule: ScheduleRecord) -> None:
        try:
            with self._running[schedule.id]:
                async with self._slots.turn(schedule.owner, _site_of(schedule)):
                    await self._check(schedule)
        except (ActorError, JournalError) as error:  # or another worker serves the chat: it finds the same
            logger.warning("the check of schedule %d was not stored: %r", schedule.id, error)
        finally:
            del self._running[schedule.id]

    async def _check(self, schedule: ScheduleRecord) -> None:
        memory, changes, failures = memory_of(schedule.checked), list[_FoundChange](), list[str]()
        read = dict(memory.read)
        try:
            self._allowed(schedule)
            watched = watches_of(json.loads(schedule.options))
        except RumiError as error:
            watched, failures = (), [error_text(schedule.language, error)]
        for watch in watched:
            try:
                one = kept(await self._read(schedule.chat, watch))
            except RumiError as error:
                failures.append(one_line(error_text(schedule.language, error), 300))
                continue
            except Exception as error:  # a fault of one source must not end the clock
                logger.exception("schedule %d: %s cannot be read", schedule.id, watch.name)
                failures.append(type(error).__name__)
                continue
            before = read.get(watch.name)
            if before is not None and before.hash != one.hash:
                changes.append(_FoundChange(watch, difference(before, one)))
            if before is None or before.hash != one.hash:
                read[watch.name] = one
        await self._store(schedule, memory, replace(memory, read=read), changes, failures)

    async def _read(self, chat: str, watch: WatchItem) -> SourceText:
        if self._sources is None:
            raise RumiError("Nothing can be watched here.")
        return await self._sources.read(chat, watch)

    async def _store(
        self,
        schedule: ScheduleRecord,
        before: WatchState,
        memory: WatchState,
        changes: Sequence[_FoundChange],
        failures: Sequence[str],
    ) -> None:
        now, language = self._now(), schedule.language
        told = None
        if failures:
            memory = replace(memory, failed=before.failed + 1)
            if memory.failed >= TOLD_AFTER and now - before.told >= TELL_AGAIN_S:
                memory = replace(memory, told=now)
                text = schedule_texts.check_fails(language, schedule.id, schedule.text, failures[0])
                told = replace(notice(schedule, text), tainted=True)
        elif before.failed:
            memory = replace(memory, failed=0, told=0.0)
            if before.told:
                told = notice(schedule, schedule_texts.check_works(language, schedule.id, schedule.text))
        outcome = FireOutcome("failed", failures[0]) if failures else FireOutcome("unchanged")
        firing = None
        if changes:
            firing = self._work(schedule, changes, now)
            outcome = FireOutcome("changed", one_line(changes[0].watch.name, 200))
        stored = as_stored(memory)
        checked = StoredCheck(schedule.id, schedule.checked, stored, outcome, firing, told)
        done = await self._ask(store_check(checked))
        if done is not None:
            # No await from here: what is stored is delivered, or found by the next process.
            self._done(firing, *done)

    def _work(self, schedule: ScheduleRecord, changes: Sequence[_FoundChange], now: float) -> Firing:
        """Return the firing of a change. Text from outside reaches people and chats, as such, and no task."""
        firing = Firing(schedule.id, schedule.instant, of=now)
        names = ", ".join(change.watch.name for change in changes)
        if schedule.kind in ("research", "bot"):
            changed = replace(schedule, text=schedule_texts.text_of_change(schedule.text, names))
            return work(changed, firing, "", self._task_of)
        fired = work(schedule, firing, "", self._task_of)
        if fired.message is None:
            return fired
        if schedule.kind == "text":
            text = f"{fired.message.text}\n\n{_shown(schedule.language, changes)}"
            return replace(fired, message=replace(fired.message, text=text, tainted=True))
        parts = tuple(
            Attachment(
                "words",
                source=f"what has changed in {change.watch.name}: lines with + are new, with - are gone",
                text=change.difference,
            )
            for change in changes
        )
        return replace(fired, message=replace(fired.message, attachments=parts))


def _site_of(schedule: ScheduleRecord) -> str | None:
    """Return the host of the first page that a schedule watches; None if it watches none."""
    with suppress(RumiError, ValueError):
        watched = watches_of(json.loads(schedule.options))
        return next((urlsplit(one.what).hostname for one in watched if one.kind == "page"), None)
    return None


def _shown(language: Language, changes: Sequence[_FoundChange]) -> str:
    """Return the changes as people read them: each difference is code, so that no mark in it counts."""
    found = []
    for change in changes:
        text = change.difference.replace("`", "'")
        if len(text) > MOST_NOTICE_CHARS:
            text = f"{text[:MOST_NOTICE_CHARS]}…"
        found.append(f"{schedule_texts.changed(language, change.watch.name)}\n```\n{text}\n```")
    return "\n\n".join(found)
