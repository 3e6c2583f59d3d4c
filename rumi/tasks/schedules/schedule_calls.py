"""Control calls for schedules."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from rumi.agent.permissions.standing import DAYS, approval_in
from rumi.errors import UsageError
from rumi.platform.caller import Caller
from rumi.platform.calls import PartitionKey, call
from rumi.platform.chat_ids import DEFAULT_CHAT, ChatIds
from rumi.platform.texts.language import known_language
from rumi.platform.texts.schedules import recurrence
from rumi.platform.timestamps import utc
from rumi.platform.zone_finding import zone_said
from rumi.store.journal.records import ScheduleKind, ScheduleRecord
from rumi.tasks.schedules.approvals import WantedApproval, approval_words
from rumi.tasks.schedules.firing import in_words, last_in_words, next_in_words
from rumi.tasks.schedules.schedules import Schedules
from rumi.tasks.schedules.stored import StoredSchedules
from rumi.tasks.schedules.times import NotATime
from rumi.tasks.schedules.watched import watched_by
from rumi.tasks.schedules.when import After, When, read_when
from rumi.texts import Language

SCHEDULE: Final = PartitionKey("id", of="schedule")


@dataclass(frozen=True, slots=True)
class ScheduleCalls:
    """The control calls for schedules. A caller sees and changes only schedules of owners in its scope."""

    schedules: StoredSchedules
    ids: ChatIds

    @call("schedules.list")
    async def list(
        self, caller: Caller, *, owner: str = "", chat: str = "", language: Language = "en"
    ) -> object:
        """Return the schedules of one `owner`, or of all owners; with a `chat`, only its schedules."""
        listed = await self.schedules.listed(
            caller.scope_in(self.ids.owner(owner) if owner else None), chat=chat
        )
        return [schedule_as_json(schedule, language) for schedule in listed]

    @call("schedules.show")
    async def show(self, caller: Caller, *, id: int, language: Language = "en") -> object:
        """Return a schedule."""
        return self._shown(await self.schedules.show(id, caller.scope), language)

    @call("schedules.pause", key=SCHEDULE)
    async def pause(self, caller: Caller, *, id: int, language: Language = "en") -> object:
        """Pause a schedule, and return it."""
        return self._shown(await self.schedules.pause(id, caller.scope), language)

    @call("schedules.resume", key=SCHEDULE)
    async def resume(self, caller: Caller, *, id: int, language: Language = "en") -> object:
        """Resume a paused schedule, and return it."""
        return self._shown(await self.schedules.resume(id, caller.scope), language)

    @call("schedules.run", key=SCHEDULE)
    async def run(self, caller: Caller, *, id: int, language: Language = "en") -> object:
        """Run a schedule now, and return it. Its next run does not change."""
        return self._shown(await self.schedules.run(id, caller.scope), language)

    @call("schedules.edit", key=SCHEDULE)
    async def edit(self, caller: Caller, *, id: int, text: str, language: Language = "en") -> object:
        """Replace a schedule's text, and return the schedule. Its standing approval ends."""
        schedule, ended = await self.schedules.edit(id, caller.scope, text)
        return {**self._shown(schedule, language), "ended": ended}

    @call("schedules.approve", key=SCHEDULE)
    async def approve(
        self,
        caller: Caller,
        *,
        id: int,
        hosts: Sequence[str] = (),
        tools: Sequence[str] = (),
        to: Sequence[str] = (),
        per_run: int = 1,
        days: float = DAYS,
        language: Language = "en",
    ) -> object:
        """Allow a schedule exact servers and tools in all its runs, and return it."""
        caller.check_all()
        wanted = WantedApproval(hosts, tools, to, per_run, days)
        return self._shown(await self.schedules.approvals.approve(id, None, wanted), language)

    @call("schedules.revoke", key=SCHEDULE)
    async def revoke(self, caller: Caller, *, id: int, language: Language = "en") -> object:
        """Take back a schedule's standing approval, and return the schedule."""
        return self._shown(await self.schedules.approvals.revoke(id, caller.scope), language)

    @call("schedules.delete", key=SCHEDULE)
    async def delete(self, caller: Caller, *, id: int) -> None:
        """Delete a schedule."""
        await self.schedules.delete(id, caller.scope)

    @call("schedules.add", key=PartitionKey("chat", default=DEFAULT_CHAT))
    async def add(
        self,
        caller: Caller,
        *,
        text: str,
        when: str = "",
        kind: ScheduleKind = "text",
        options: Mapping[str, Any] | None = None,
        chat: str = "",
        zone: str = "",
        model: str = "",
        language: Language = "en",
    ) -> object:
        """Add a schedule for the owner of a chat, and return it. The `options` depend on the `kind`.

        Raises:
            UsageError: The time or the time zone is not understood, or the time zone of the chat's owner is
                not known.
        """
        read, zone = _read(when, zone)
        chat, schedules = caller.chat_in(chat or DEFAULT_CHAT, self.ids.owner_of), self.schedules
        owner = self.ids.owner_of(chat)
        if owner != caller.owner:
            language = known_language(await schedules.language_of(chat)) or language
            zone = zone or await schedules.zone_of(owner)
            if not zone and not (isinstance(read, After) and not read.days) and not _names_zone(read):
                raise UsageError(
                    "The time zone of this chat's owner is not known.", "Say it: --zone Europe/Madrid"
                )
        new = ScheduleRecord(
            owner,
            chat,
            kind,
            text,
            options=json.dumps(options or {}),
            language=language,
            model=model,
            user=self.ids.user_of(chat),
        )
        try:
            new = await schedules.first_read(schedules.checked(new))
            added = await schedules.add(new, read, zone)
        except NotATime:
            raise _never() from None
        return self._shown(added, language)

    @call("schedules.understand")
    async def understand(
        self, caller: Caller, *, when: str, zone: str = "", language: Language = "en"
    ) -> object:
        """Return what `schedules.add` understands by a time, such as `every monday 08:00`.

        Raises:
            UsageError: The time or the time zone is not understood, or the time has passed.
        """
        read, zone = _read(when, zone)
        new = ScheduleRecord(caller.owner, DEFAULT_CHAT, "turn", "", language=language)
        try:
            timed = await self.schedules.timed(new, read, zone)
        except NotATime:
            raise _never() from None
        return {
            "recurs": recurrence(language, timed.cron) if timed.cron else "",
            "zone": timed.zone,
            "next_at": utc(timed.next_at),
            "comes": in_words(timed.next_at, timed.zone, language),
        }

    def _shown(self, schedule: ScheduleRecord, language: Language) -> dict[str, object]:
        approval = self.schedules.approvals.valid(schedule)
        return {
            **schedule_as_json(schedule, language),
            "runs": isinstance(self.schedules, Schedules),
            "allowed": approval_words(language, schedule, approval) if approval is not None else "",
        }


def _read(when: str, zone: str) -> tuple[When, str]:
    """Return the time and the canonical name of the time zone that a request names; no zone is empty.

    Raises:
        UsageError: One of them is not understood.
    """
    read = read_when(when)
    if read is None:
        raise UsageError(
            "This time is not understood.",
            'Write it like "in 20 minutes", "tomorrow 09:00", "2026-12-01 18:30", "every monday '
            '08:00" or "0 9 * * 1".',
        )
    if zone and not zone_said(zone):
        raise UsageError("Unknown time zone {zone}.", "Names are like Europe/Madrid.", zone=zone)
    return read, zone_said(zone)


def _never() -> UsageError:
    return UsageError("This time never comes.", "Give another one.")


def _names_zone(when: When) -> bool:
    return not isinstance(when, After) and bool(when.zone)


def outcome_of(schedule: ScheduleRecord) -> dict[str, object] | None:
    """Return how the work of a schedule's last fire ended, as JSON; None if that is not known."""
    try:
        outcome = json.loads(schedule.outcome or "{}")
        return {"at": utc(outcome["at"]), "how": outcome["how"], "why": outcome["why"]}
    except (ValueError, KeyError, TypeError, OverflowError):
        return None


def _approval_as_json(stored: str) -> dict[str, object] | None:
    if (approval := approval_in(stored)) is None:
        return None
    fields = json.loads(stored)
    ended = fields.pop("ended", "")
    return {**fields, "until": utc(approval.until), "why_ended": ended or None}


def schedule_as_json(schedule: ScheduleRecord, language: Language = "en") -> dict[str, object]:
    """Return a schedule as JSON.

    Times are in RFC 3339; the time of an event that has not happened is None.
    """
    active = schedule.state == "active"
    stored = asdict(schedule)
    del stored["asked_at"], stored["checked"]  # what a check has read may be long
    return {
        **stored,
        "options": json.loads(schedule.options),
        "watched": [asdict(one) for one in watched_by(schedule)],
        "outcome": outcome_of(schedule),
        "last": last_in_words(schedule, language, time.time()),
        "approval": _approval_as_json(schedule.approval),
        "message": schedule.message or None,
        "instant": utc(schedule.instant) if active else None,
        "next_at": utc(schedule.next_at) if active else None,
        "missed_at": utc(schedule.missed_at) if schedule.missed else None,
        "created": utc(schedule.created),
        "fired": utc(schedule.fired) if schedule.fired else None,
        "when": next_in_words(schedule, language),
        "recurs": recurrence(language, schedule.cron) if schedule.cron else "",
        "comes": in_words(schedule.next_at, schedule.zone, language) if active else None,
    }
