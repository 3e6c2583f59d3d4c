"""The tools `calendar_read` and `calendar_free`: the events of a chat's calendars, and the time between."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import time
from typing import Final

from rumi.agent.tool import Question, Tool, ToolResult
from rumi.agent.tools.calendar_times import ChatClock, span
from rumi.errors import RumiError
from rumi.models.model import ToolSpec
from rumi.platform.unaccented import unaccented
from rumi.platform.untrusted_text import harmless, one_line, untrusted_block
from rumi.services.calendar.calendars import CalendarReading, Calendars, Shown
from rumi.services.calendar.events import TimeWindow
from rumi.services.calendar.free import MOST_SLOTS, free_times
from rumi.texts import Text

MOST_LINES: Final = 200
"""Maximum number of events that a result shows."""

MOST_CHARS: Final = 40_000
NOTES_CHARS: Final = 300
HOURS: Final = "08:00-20:00"
_HOURS: Final = re.compile(r"\s*([01]?\d|2[0-3]):([0-5]\d)\s*[-–]\s*([01]?\d|2[0-4]):([0-5]\d)\s*")
_WHEN: Final = {"type": "string", "description": "Date or local time, like 2026-12-01 or 2026-12-01T09:00"}

READ: Final = ToolSpec(
    name="calendar_read",
    description=(
        "List the events of the user's calendars from `from` to `to` (default: today) in the user's local "
        "time, with ids. To remind the user of one, call remind with a time before it."
    ),
    parameters={
        "type": "object",
        "properties": {
            "from": _WHEN,
            "to": {"type": "string", "description": "Included; default: the same day"},
            "search": {"type": "string", "description": "Only events with this text"},
            "calendar": {"type": "string", "description": "Only this calendar"},
        },
    },
)
FREE: Final = ToolSpec(
    name="calendar_free",
    description="List when the user is free from `from` to `to`, by all their calendars.",
    parameters={
        "type": "object",
        "properties": {
            "from": _WHEN,
            "to": {"type": "string"},
            "minutes": {"type": "integer", "description": "At least so long"},
            "hours": {"type": "string", "description": f"Of each day; default {HOURS}"},
        },
        "required": ["from", "to", "minutes"],
    },
)


@dataclass(frozen=True, slots=True)
class ChatCalendars:
    """The calendars that belong to a chat, by their configured names, and the clock of its owner."""

    all: Calendars
    names: tuple[str, ...]
    clock: ChatClock

    async def read(self, arguments: Mapping[str, object]) -> tuple[list[CalendarReading], TimeWindow]:
        """Read the calendars as the arguments of a call say.

        Raises:
            RumiError: An argument is wrong, or no calendar can be read.
        """
        start, end = self.clock.window(arguments.get("from"), arguments.get("to"))
        window = TimeWindow(start, end, self.clock.zone)
        only = arguments.get("calendar")
        found = await self.all.read(self.names, window, only if isinstance(only, str) else "")
        if not found:
            raise RumiError(
                "There is no calendar {name}. There are: {names}", name=only, names=", ".join(self.names)
            )
        return found, window


class _ReadsCalendars(Tool):
    """What both tools share."""

    concurrent = True
    only_reads = True
    looks_outside = True

    def __init__(self, calendars: ChatCalendars) -> None:
        self._calendars = calendars

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return None: the servers get a time and nothing else."""
        return None


class CalendarRead(_ReadsCalendars):
    """The `calendar_read` tool, bound to one chat."""

    spec = READ

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Read the calendars, and return their events. Titles are words of others, so they taint the turn."""
        try:
            found, window = await self._calendars.read(arguments)
        except RumiError as error:
            return _failed(error)
        search = arguments.get("search")
        clock = self._calendars.clock
        rows = sorted(
            ((id, each) for one in found for id, each in one.shown.items() if _matches(each, search)),
            key=lambda row: (row[1].event.start, row[1].event.end),
        )
        several = len(found) > 1
        lines = [_line(id, each, window.zone, several) for id, each in rows[:MOST_LINES]]
        begin, until = clock.shown(window.start), clock.shown(window.end)
        said = [
            f"{len(rows)} events from {begin} to {until}, local times in {window.zone}:"
            if rows
            else f"no events from {begin} to {until}, local time in {window.zone}"
        ]
        failed = [one for one in found if one.error is not None]
        said += [f"calendar {one_line(one.label, 80)}: {one.error.for_model}" for one in failed if one.error]
        more = len(rows) - len(lines) + sum(one.reading.more for one in found)
        said += [f"{more} more are not shown: ask for less time, or search"] if more else []
        odd = _odd(found)
        tainted = bool(rows or odd or several or failed)
        if lines or odd:
            said.append(untrusted_block("calendar", "\n".join([*lines, *odd])[:MOST_CHARS]))
        ok = len(failed) < len(found)
        advice = failed[0].error.for_people if failed and failed[0].error else ""
        return ToolResult(ok, "\n".join(said), tainted=tainted, may_change=True, advice=advice)


class CalendarFree(_ReadsCalendars):
    """The `calendar_free` tool, bound to one chat. Its result has only times, so it taints nothing."""

    spec = FREE

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Read the calendars, and return the free times. A calendar that cannot be read is an error."""
        minutes, hours = arguments.get("minutes"), arguments.get("hours") or HOURS
        if not isinstance(minutes, int | float) or not 1 <= minutes <= 100_000:
            return ToolResult(False, Text("calendar_free needs `minutes`, a number of minutes"))
        day = _HOURS.fullmatch(hours) if isinstance(hours, str) else None
        if day is None:
            return ToolResult(False, Text("calendar_free takes `hours` like 09:00-17:00"))
        first = time(int(day[1]), int(day[2]))
        last = time() if day[3] == "24" else time(int(day[3]), int(day[4]))
        if first > last and last != time():
            return ToolResult(False, Text("calendar_free takes `hours` like 09:00-17:00"))
        try:
            # The whole calendar of each: a search would make busy time free.
            found, window = await self._calendars.read({**arguments, "calendar": ""})
        except RumiError as error:
            return _failed(error)
        if failed := next((one.error for one in found if one.error is not None), None):
            return _failed(failed)
        events = [event for one in found for event in one.reading.events]
        slots = free_times(events, window.start, window.end, window.zone, int(minutes), (first, last))
        clock = self._calendars.clock
        lines = [f"{clock.shown(begin)} to {clock.shown(end)}" for begin, end in slots[:MOST_SLOTS]]
        more = [f"{len(slots) - MOST_SLOTS} more"] if len(slots) > MOST_SLOTS else []
        lost = sum(len(one.reading.left_out) + one.reading.more for one in found)
        unread = [f"{lost} events could not be read, and may take time too"] if lost else []
        head = f"free for {int(minutes)} minutes or more between {hours}, local times in {window.zone}:"
        return ToolResult(True, "\n".join([head, *(lines or ["never"]), *more, *unread]), may_change=True)


def _failed(error: RumiError) -> ToolResult:
    # Names of calendars, which others may have given, can be in it.
    return ToolResult(False, str(error.for_model), tainted=True, advice=error.for_people, may_change=True)


def _matches(shown: Shown, search: object) -> bool:
    if not isinstance(search, str) or not search.strip():
        return True
    event = shown.event
    text = unaccented(f"{event.title}\n{event.place}\n{event.notes}")
    return all(word in text for word in unaccented(search).split())


def _line(id: str, shown: Shown, zone: str, several: bool) -> str:
    event = shown.event
    notes = " ".join(harmless(event.notes).split())
    parts = (
        span(event, zone),
        one_line(event.title, 200) or "(no title)",
        "cancelled" if event.cancelled else "",
        f"at {one_line(event.place, 120)}" if event.place else "",
        f"calendar {one_line(shown.label, 80)}" if several else "",
        f"repeats: {event.rule}" if event.rule else "",
        "" if event.busy or event.cancelled else "not busy",
        f"notes: {notes[:NOTES_CHARS]}{'…' if len(notes) > NOTES_CHARS else ''}" if notes else "",
    )
    return f"[{id}] {' · '.join(filter(None, parts))}"


def _odd(found: Sequence[CalendarReading]) -> list[str]:
    """Return lines about events that could not be read, and zones that are not known; words of others."""
    lines = []
    for one in found:
        label = one_line(one.label, 80)
        lines += [f"left out of {label}: {one_line(each, 200)}" for each in one.reading.left_out]
        lines += [
            f"{label} names an unknown time zone, taken as local: {one_line(zone, 80)}"
            for zone in one.reading.unknown_zones
        ]
    return lines
