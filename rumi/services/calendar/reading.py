"""Reads calendar files (RFC 5545): which events happen in a window of time.

This runs in a confined process (`rumi.services.calendar.process`), because the files are from others and may
be made to keep a reader busy. The libraries icalendar and recurring-ical-events are imported only there.
"""

import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Final

import icalendar
import recurring_ical_events
from icalendar.error import BrokenCalendarProperty
from icalendar.timezone import tzp

from rumi.platform.zones import known_zone, zone_of
from rumi.services.calendar.components import (
    Component,
    after,
    declines,
    end_of,
    is_free,
    listed,
    repair,
    rule_of,
    text_of,
    time_of,
    why_broken,
)
from rumi.services.calendar.events import (
    MOST_EVENTS,
    MOST_NOTES_CHARS,
    MOST_PLACE_CHARS,
    MOST_TITLE_CHARS,
    Event,
    TimeWindow,
)
from rumi.services.calendar.lines import split

MOST_LEFT_OUT: Final = 20
"""Maximum number of events that are named because they cannot be read."""


_DAY: Final = timedelta(days=1)


class TookTooLong(BaseException):
    """One event takes too much time to expand. Not an `Exception`, so that no library swallows it."""


Limited = Callable[[], AbstractContextManager[object]]
"""Bounds the time of the work on one event; the work ends with `TookTooLong`."""


@dataclass(slots=True)
class FoundEvents:
    """Events that were read, sorted by time. `left_out` names those that could not be read.

    `more` is the number of events beyond `MOST_EVENTS`, `unknown_zones` are zones that were taken as the
    reader's.
    """

    events: list[Event] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    unknown_zones: set[str] = field(default_factory=set)
    more: int = 0

    def end(self) -> None:
        """Sort the events, and cut the list."""
        self.events.sort(key=lambda event: (event.start, event.end, event.title))
        self.more = max(0, len(self.events) - MOST_EVENTS)
        del self.events[MOST_EVENTS:], self.left_out[MOST_LEFT_OUT:]


def read(
    texts: Iterable[str],
    window: TimeWindow,
    limited: Limited = nullcontext,
    out_of_time: Callable[[], bool] = bool,
) -> FoundEvents:
    """Return the events of calendar files in a window. Each text is a file.

    When `out_of_time` returns True, the remaining events are left out.
    """
    found, zones = FoundEvents(), dict[str, str]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of icalendar, about zones that it guesses
        for number, text in enumerate(texts):
            parts = split(text)
            for zone in parts.zones:
                _know_zone(zone, zones, limited)
            reader = _FileReader(found, window, number, parts.zone)
            for series in _series(map(reader.parsed, parts.events)):
                if out_of_time():
                    reader.leave_out(series[0], "no time was left")
                    continue
                reader.add(series, limited)
    found.end()
    return found


def _know_zone(text: str, known: dict[str, str], limited: Limited) -> None:
    """Let icalendar know a zone that a file defines itself. Files may define a name differently."""
    name = next((line.partition(":")[2] for line in text.split("\n") if line.upper().startswith("TZID")), "")
    if known.get(name, text) != text:
        tzp.use_default()  # forgets the zones of the files before
        known.clear()
    if name not in known:
        try:
            with limited():
                icalendar.Timezone.from_ical(text)
        except (Exception, TookTooLong):  # noqa: BLE001 - parsers raise what they like; the zone stays unknown
            pass
        known[name] = text


def _series(events: Iterable[Component]) -> Iterable[list[Component]]:
    """Group the events of a file by their UID. Different events with the same UID are separate groups."""
    groups: dict[str, list[Component]] = {}
    for number, event in enumerate(events):
        if not isinstance(event, str):
            groups.setdefault(str(event.get("UID", "")) or f"#{number}", []).append(event)
    for group in groups.values():
        starts: dict[object, Component] = {}
        changed = [event for event in group if "RECURRENCE-ID" in event]
        for event in group:
            if "RECURRENCE-ID" not in event:
                start = time_of(event, "DTSTART")
                older = starts.get(start)
                if older is None or _sequence(older) <= _sequence(event):
                    starts[start] = event
        masters = sorted(starts.values(), key=lambda event: "RRULE" in event or "RDATE" in event)
        yield from ([master] for master in masters[:-1])
        if masters or changed:
            yield [*masters[-1:], *changed]


def _sequence(event: Component) -> int:
    try:
        return int(event.get("SEQUENCE", 0))
    except (TypeError, ValueError, BrokenCalendarProperty):
        return 0


@dataclass(frozen=True, slots=True)
class _FileReader:
    """Reads the events of one file."""

    found: FoundEvents
    window: TimeWindow
    number: int
    zone: str

    def parsed(self, text: str) -> Component:
        """Return an event, repaired as far as possible; its text if it cannot be read."""
        try:
            event = icalendar.Event.from_ical(text)
            repair(event)
            time_of(event, "DTSTART")
        except Exception as error:  # noqa: BLE001 - parsers raise what they like
            title = next((line[8:] for line in text.split("\n") if line.upper().startswith("SUMMARY:")), "")
            self._name(title, why_broken(error))
            return text
        return event

    def leave_out(self, event: Component, why: str) -> None:
        """Note that an event was left out."""
        self._name(str(event.get("SUMMARY", "")), why)

    def _name(self, title: str, why: str) -> None:
        if len(self.found.left_out) <= MOST_LEFT_OUT:
            self.found.left_out.append(f"{title[:80] or 'without a title'}: {why}")

    def add(self, series: Sequence[Component], limited: Limited) -> None:
        """Add the occurrences of a series in the window: an event, with its changed occurrences."""
        try:
            with limited():
                self.found.events.extend(self._happening(series))
        except TookTooLong:
            self.leave_out(series[0], "it repeats too often")
        except MemoryError:
            self.leave_out(series[0], "it takes too much memory")
        except Exception as error:  # noqa: BLE001 - one odd event must not hide the others
            self.leave_out(series[0], why_broken(error))

    def _happening(self, series: Sequence[Component]) -> list[Event]:
        master = next((event for event in series if "RECURRENCE-ID" not in event), None)
        if master is None or not ("RRULE" in master or "RDATE" in master):
            # Occurrences of a series that the file lacks, which are shared alone, are events of their own.
            found = (self._event(event, event) for event in series)
            return [event for event in found if self._is_inside(event)]
        calendar = icalendar.Calendar()
        if self.zone:
            calendar.add("X-WR-TIMEZONE", self.zone)
        for event in series:
            calendar.add_component(event)
        start, end = (datetime.fromtimestamp(at, UTC) for at in (self.window.start, self.window.end))
        # A day more on both sides: times without a zone are compared as if they were in UTC.
        occurrences = recurring_ical_events.of(calendar).between(start - _DAY, end + _DAY)
        # The library adds a DURATION to the clock's time; its hours are exact (RFC 5545, 3.3.6).
        exact = "DURATION" in master
        found = (self._event(each, master, series=True, exact=exact) for each in occurrences)
        return [event for event in found if self._is_inside(event)]

    def _is_inside(self, event: Event) -> bool:
        if event.start >= self.window.end:
            return False
        return event.end > self.window.start or event.start == event.end >= self.window.start

    def _event(
        self, component: Component, master: Component, *, series: bool = False, exact: bool = False
    ) -> Event:
        start = time_of(component, "DTSTART")
        end = end_of(component, start)
        if exact and isinstance(start, datetime) and isinstance(end, datetime):
            end = after(start, end.replace(tzinfo=None) - start.replace(tzinfo=None))
        addresses, status = self.window.addresses, str(component.get("STATUS", "")).upper()
        attendees = listed(component.get("ATTENDEE"))
        cancelled = status == "CANCELLED"
        days = (start, max(end - _DAY, start)) if type(start) is date and type(end) is date else None
        return Event(
            uid=str(master.get("UID", ""))[:500],
            title=text_of(component, "SUMMARY", MOST_TITLE_CHARS),
            start=self._instant(start),
            end=self._instant(end),
            first_day=days[0].isoformat() if days else "",
            last_day=days[1].isoformat() if days else "",
            zone=self._zone(component, master, start),
            occurrence=self._occurrence(component) if series else "",
            rule=rule_of(master) if series else "",
            place=text_of(component, "LOCATION", MOST_PLACE_CHARS),
            notes=text_of(component, "DESCRIPTION", MOST_NOTES_CHARS),
            busy=not (
                cancelled or is_free(component) or any(declines(each, addresses) for each in attendees)
            ),
            cancelled=cancelled,
            attended=bool(attendees),
            file=self.number,
        )

    def _instant(self, time: datetime | date) -> float:
        if not isinstance(time, datetime):
            return datetime(time.year, time.month, time.day, tzinfo=zone_of(self.window.zone)).timestamp()
        if time.tzinfo is None:
            time = time.replace(tzinfo=zone_of(known_zone(self.zone) or self.window.zone))
        return time.timestamp()

    def _zone(self, component: Component, master: Component, start: datetime | date) -> str:
        if not isinstance(start, datetime):
            return ""
        if start.tzinfo is None:
            # A library that expands a series may drop the name of a zone that it does not know.
            params = (each["DTSTART"].params for each in (component, master) if "DTSTART" in each)
            named = next((str(each["TZID"]) for each in params if "TZID" in each), "")
            if named:
                self.found.unknown_zones.add(named[:80])
            return known_zone(self.zone)
        return str(getattr(start.tzinfo, "key", "") or "")

    def _occurrence(self, component: Component) -> str:
        original = time_of(component, "RECURRENCE-ID" if "RECURRENCE-ID" in component else "DTSTART")
        if not isinstance(original, datetime):
            return original.isoformat()
        return datetime.fromtimestamp(self._instant(original), UTC).isoformat()
