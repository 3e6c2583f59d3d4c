"""The stored schedules of a home. They can be changed even while no daemon runs to fire them."""

import json
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from rumi.agent.permissions.standing import ToolVersion
from rumi.errors import RumiError, UsageError
from rumi.platform.chat_ids import LOCAL
from rumi.platform.config.schema import SchedulesSection
from rumi.platform.zones import same_clock, zone_of_machine
from rumi.store.journal.actor import AskJournal
from rumi.store.journal.records import STALE_S, ScheduleRecord, ScheduleState
from rumi.store.journal.schedules import (
    add_schedule,
    delete_schedule,
    forget_zone,
    list_schedules,
    load_schedule,
    pause_schedules,
    propose_zone,
    schedules_of_unreachable,
    set_schedule,
    set_zone,
    zone_of,
)
from rumi.store.journal.standing import language_of_chat
from rumi.tasks.schedules.approvals import Approvals
from rumi.tasks.schedules.firing import in_words
from rumi.tasks.schedules.times import NotATime, QuietHours, following, named_zone, quiet_hours
from rumi.tasks.schedules.watched import watches, watches_of
from rumi.tasks.schedules.when import After, Every, When, meant
from rumi.texts import Language

MOST_CHARS: Final = 4000
"""Maximum length of a schedule's text, in characters."""

OVER_S: Final = 60.0
"""A time that has passed less than so many seconds ago is not over: the message was under way meanwhile."""

FAR_S: Final = 5 * 366 * 86_400.0
"""Maximum time from now to the first firing of a schedule, in seconds."""


def bot_of(schedule: ScheduleRecord) -> str:
    """Return the name of the bot that a schedule starts; empty if it starts no bot."""
    return str(json.loads(schedule.options).get("bot", ""))


class StoredSchedules:
    """Adds, lists, changes and deletes stored schedules.

    Each method takes the owner that makes the request, or None for the owner of the home, who sees all
    schedules. Another owner's schedules are reported as unknown.
    """

    def __init__(
        self,
        ask: AskJournal,
        limits: SchedulesSection | None = None,
        now: Callable[[], float] = time.time,
        has_bot: Callable[[str], bool] = lambda name: False,
        version_of: Callable[[str], ToolVersion | None] = lambda name: None,
    ) -> None:
        self._ask = ask
        self.approvals = Approvals(ask, self.show, now, version_of)
        self._has_bot = has_bot
        self._limits = limits or SchedulesSection()
        self._quiet = quiet_hours(self._limits.quiet)
        self._now = now

    def checked(self, new: ScheduleRecord) -> ScheduleRecord:
        """Return a schedule unchanged if it can start its work.

        Raises:
            UsageError: The schedule starts a bot that does not exist.
        """
        name = bot_of(new)
        if new.kind == "bot" and not self._has_bot(name):
            raise UsageError("Unknown bot {name}.", "Look at the list: rumi bot list", name=f"{name[:80]!r}")
        watches_of(json.loads(new.options))
        return new

    async def first_read(self, new: ScheduleRecord) -> ScheduleRecord:
        """Return a new schedule as it is: what it watches is read when a daemon runs."""
        return new

    async def add(self, new: ScheduleRecord, when: When, zone: str = "") -> ScheduleRecord:
        """Store a schedule; return it with its number. A message that is handled twice adds one schedule.

        A relative time counts from `new.asked_at`, so a message that waited means what its writer meant. A
        zone in `when` holds for its clock time, and `zone` if it names none, by default the owner's.

        Raises:
            UsageError: The time has passed or is too far ahead, the text is empty or too long, or the
                owner's time zone is unknown.
            RumiError: The owner has too many schedules.
        """
        check_text(new.text)
        schedule = await self.timed(new, when, zone)
        mine, users = self.most_of(schedule)
        most = self._limits.max_per_owner
        stored = await self._ask(add_schedule(schedule, most, mine, users))
        if stored is None:
            if mine == 0:
                raise RumiError("The role of this chat's person allows no schedules.", "Ask an admin.")
            most = most if mine is None else min(most, mine)
            raise RumiError(
                "There are {most} schedules already.", "Delete one first: /schedules lists them.", most=most
            )
        self.changed()
        return stored

    async def timed(self, new: ScheduleRecord, when: When, zone: str = "") -> ScheduleRecord:
        """Return a schedule with the times that `when` means, as `add` reads it. Nothing is stored.

        Raises:
            UsageError: The time has passed or is too far ahead, or the owner's time zone is unknown.
        """
        now, zone = self._now(), zone or await self.zone_of(new.owner)
        asked_at = min(new.asked_at or now, now)  # not in the future: the sender's clock may be wrong
        said = "" if isinstance(when, After) else when.zone
        if not zone and not said and not (isinstance(when, After) and not when.days):
            raise UsageError(
                "Your time zone is not known.", "Say it once, for example: /timezone Europe/Madrid"
            )
        zone = zone or said or "UTC"
        cron = when.cron if isinstance(when, Every) else ""
        if watches(new) and not cron:
            raise UsageError(
                "A schedule that watches something needs a recurrence.", 'For example "every 15 minutes".'
            )
        zone = said if cron and said else zone
        try:
            instant = following(cron, zone, now) if isinstance(when, Every) else meant(when, zone, asked_at)
        except (NotATime, OverflowError):
            instant = math.inf
        if instant <= now - OVER_S or instant <= asked_at:
            raise _over(instant, asked_at, now, zone, new.language)
        if instant - now > FAR_S:
            raise UsageError("This time is too far ahead.", "Give a time within five years.")
        quiet = self.quiet_of(new.chat)
        next_at = instant if quiet is None else quiet.until(instant, zone)
        return replace(new, cron=cron, zone=zone, instant=instant, next_at=next_at)

    def quiet_of(self, chat: str) -> QuietHours | None:
        """Return the hours in which no schedule of a chat fires; None if there are none."""
        return self._quiet

    def most_of(self, schedule: ScheduleRecord) -> tuple[int | None, tuple[int, ...]]:
        """Return the maximum number of schedules for a schedule's user, and the user's ids in their channel.

        The maximum is None if there is no limit.
        """
        return None, ()

    async def listed(
        self, owner: str | None, limit: int = 1000, chat: str = ""
    ) -> tuple[ScheduleRecord, ...]:
        """Return the schedules of an owner, or of all owners, with done schedules last.

        With a `chat`, only its schedules.
        """
        return await self._ask(list_schedules(owner, limit, chat))

    async def language_of(self, chat: str) -> str:
        """Return the language in which people last wrote in a chat; empty if nobody has written there."""
        return await self._ask(language_of_chat(chat))

    async def edit(
        self, id: int, owner: str | None, text: str, may: Callable[[ScheduleRecord], bool] = lambda one: True
    ) -> tuple[ScheduleRecord, bool]:
        """Replace a schedule's text; return the schedule, and True if a standing approval has ended.

        Raises:
            UsageError: The schedule is unknown or done, or the text is empty or too long.
            RumiError: `may` returns False: the schedule runs with the rights of another person.
        """
        check_text(text)
        if not may(await self.show(id, owner)):
            raise RumiError(
                "Schedule {id} is somebody else's.", "Only they or an admin can change it.", id=id
            )
        return await self.approvals.edit(id, owner, text)

    async def show(self, id: int, owner: str | None) -> ScheduleRecord:
        """Return a schedule.

        Raises:
            UsageError: The schedule does not exist, or belongs to another owner.
        """
        found = await self._ask(load_schedule(id))
        if found is None or owner not in (None, found.owner):
            raise UsageError("Unknown schedule {id}.", "Look at the list of schedules.", id=id)
        return found

    async def pause(self, id: int, owner: str | None) -> ScheduleRecord:
        """Pause a schedule until it is resumed.

        Raises:
            UsageError: The schedule is unknown or done.
        """
        return await self._set(await self.show(id, owner), paused=True)

    async def resume(self, id: int, owner: str | None) -> ScheduleRecord:
        """Resume a schedule at its next fire time; a one-time schedule that is overdue fires immediately.

        Raises:
            UsageError: The schedule is unknown or done.
        """
        return await self._set(await self.show(id, owner), paused=False)

    async def resume_all(self, owner: str, chat: str) -> list[ScheduleRecord]:
        """Resume all paused schedules of an owner, and return them.

        This includes schedules of other owners that send to the `chat`, if they are paused only because
        nothing could be delivered to it.
        """
        owned = [schedule for schedule in await self.listed(owner) if schedule.state == "paused"]
        waiting = await self._ask(schedules_of_unreachable(chat))
        paused = {schedule.id: schedule for schedule in (*owned, *waiting)}
        return [await self._set(paused[id], paused=False) for id in sorted(paused)]

    async def pause_all(self) -> int:
        """Pause all active schedules of all owners; return the number of paused schedules."""
        paused = await self._ask(pause_schedules())
        self.changed()
        return paused

    async def _set(self, schedule: ScheduleRecord, *, paused: bool) -> ScheduleRecord:
        instant = schedule.instant
        if not paused and schedule.cron:
            instant = following(schedule.cron, schedule.zone, self._now())
        state: ScheduleState = "paused" if paused else "active"
        if not await self._ask(set_schedule(schedule.id, state, 0.0 if paused else instant)):
            raise UsageError("Schedule {id} is done.", "Look at the list of schedules.", id=schedule.id)
        self.changed()
        return await self.show(schedule.id, None)

    async def run(self, id: int, owner: str | None, number: int = 0) -> ScheduleRecord:
        """Refuse to fire a schedule: without a daemon, no schedule fires.

        Raises:
            UsageError: The schedule is unknown.
            RumiError: No daemon runs.
        """
        await self.show(id, owner)
        raise RumiError("No Rumi runs, so no schedule can run now.", "Start one: rumi serve")

    async def delete(self, id: int, owner: str | None, turn: str = "") -> None:
        """Delete a schedule. Work that the schedule has already started continues.

        If the chat undoes the turn `turn`, the schedule is restored.

        Raises:
            UsageError: The schedule is unknown.
        """
        schedule = await self.show(id, owner)
        await self._ask(delete_schedule(schedule.id, turn, schedule.chat))
        self.changed()

    async def zone_of(self, owner: str) -> str:
        """Return an owner's time zone; empty if unknown.

        The local owner's default is the machine's time zone.
        """
        return await self._ask(zone_of(owner)) or (zone_of_machine() if owner == LOCAL else "")

    async def propose_zone(self, owner: str, zone: str) -> bool:
        """Set an owner's time zone, in its canonical name, if none is set; return True if it was set.

        The local owner's is not set to a zone with the same clock as the machine's, which is the default.
        """
        if owner == LOCAL and same_clock(zone, zone_of_machine()):
            return False
        return await self._ask(propose_zone(owner, zone))

    async def set_zone(self, owner: str, zone_name: str) -> str:
        """Set an owner's time zone; return its canonical name. Existing schedules keep their time zone.

        Raises:
            NotATime: The time zone does not exist.
        """
        zone = named_zone(zone_name)
        await self._ask(set_zone(owner, zone))
        return zone

    async def forget_zone(self, owner: str) -> None:
        """Delete an owner's time zone: it is unknown again. Existing schedules keep their time zone."""
        await self._ask(forget_zone(owner))

    def changed(self) -> None:
        """Do nothing. `Schedules` overrides this method to wake its clock when a schedule has changed."""


def check_text(text: str) -> None:
    """Check the text of a schedule.

    Raises:
        UsageError: The text is empty or too long.
    """
    if not text.strip():
        raise UsageError("The text is empty.", "Write what you want to be reminded of, or have done.")
    if len(text) > MOST_CHARS:
        raise UsageError(
            "The text is longer than {most_chars} characters.", "Write a shorter one.", most_chars=MOST_CHARS
        )


def _over(instant: float, asked_at: float, now: float, zone: str, language: Language) -> UsageError:
    """Return the error about a time that has passed. It says what the present time is."""
    at = in_words(now, zone, language)
    if now - asked_at <= STALE_S:
        return UsageError("This time is over.", "It is {now} now: give a time in the future.", now=at)
    return UsageError(
        "This time is over.",
        "Your message of {written} meant {then}, and it is {now} now. If you still want it, write it again "
        "with a new time.",
        written=in_words(asked_at, zone, language),
        then=in_words(instant, zone, language),
        now=at,
    )
