"""Makes and changes calendar files: one event or one occurrence of a series, without attendees.

This runs in the confined process too, because the files that it changes come from a server.
"""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import icalendar
from icalendar.prop import vRecur

from rumi.platform.zones import known_zone, zone_of
from rumi.services.calendar.components import Component
from rumi.services.calendar.events import EventDraft

EFFECT: Final = "X-RUMI-EFFECT"
"""The property with the key of the last change by Rumi: after a restart it shows that the change was made."""

FREQUENCIES: Final = ("DAILY", "WEEKLY", "MONTHLY", "YEARLY")
_PRODUCT: Final = "-//Rumi//calendar//EN"
_RULED: Final = ("RRULE", "RDATE", "EXDATE", "EXRULE")
_DAYS: Final = {"BYDAY", "BYMONTHDAY", "BYMONTH", "BYYEARDAY", "BYWEEKNO", "BYSETPOS"}
_YEARS: Final = 10
"""Number of years for which a file has the clock changes of its zone; programs know the zone itself."""

_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)


class NotWritten(Exception):
    """The event cannot be written; the text says why, for models."""


def checked_rule(rule: str) -> vRecur:
    """Return an RRULE.

    Raises:
        NotWritten: It is not valid, or repeats more often than once a day.
    """
    try:
        found = vRecur.from_ical(rule.strip().removeprefix("RRULE:").rstrip(";").upper())
        fine = found["FREQ"][0] in FREQUENCIES and int(found.get("INTERVAL", [1])[0]) >= 1
    except (ValueError, KeyError, IndexError, TypeError):
        fine = False
    if not fine:
        raise NotWritten(f"`repeat` is an RRULE, such as FREQ=WEEKLY;BYDAY=MO, not {rule[:80]!r}")
    assert isinstance(found, vRecur)
    return found


def made(draft: EventDraft, uid: str, effect: str, now: datetime) -> str:
    """Return the file of a new event."""
    assert draft.title is not None
    assert draft.start is not None
    event = icalendar.Event()
    event.add("UID", uid)
    _apply(event, draft, new=True)
    return _written([event], (), effect, now, changed=event)


def changed(file: str, draft: EventDraft, occurrence: str, effect: str, now: datetime) -> str:
    """Return the file of an event with the values of a draft.

    With an `occurrence`, only this occurrence of a series is changed, otherwise the event with its series.

    Raises:
        NotWritten: The event has attendees, or it is not clear how to change it.
    """
    master, others, zones = _parts_of(file)
    if not occurrence:
        if draft.start is not None and _is_series(master):
            _shift(master, others, draft)
        _apply(master, draft)
        return _written([master, *others], zones, effect, now, changed=master)
    original = _original(master, occurrence)
    single = next((event for event in others if _same(_time(event, "RECURRENCE-ID"), original)), None)
    if single is None:
        single = deepcopy(master)
        for name in _RULED:
            single.pop(name, None)
        _set_times(single, original, original + _length(master))
        single.add("RECURRENCE-ID", original)
        others.append(single)
    if draft.rule is not None:
        raise NotWritten("`repeat` is a value of the whole series: use it with `all`")
    _apply(single, draft)
    return _written([master, *others], zones, effect, now, changed=single)


def without(file: str, occurrence: str, effect: str, now: datetime) -> str:
    """Return the file of a series without one of its occurrences.

    Raises:
        NotWritten: The event has attendees, or it is not a series.
    """
    master, others, zones = _parts_of(file)
    original = _original(master, occurrence)
    master.add("EXDATE", original)
    left = [event for event in others if not _same(_time(event, "RECURRENCE-ID"), original)]
    return _written([master, *left], zones, effect, now, changed=master)


def effect_in(file: str) -> str:
    """Return the key of the last change by Rumi in a file; empty if there is none."""
    calendar = icalendar.Calendar.from_ical(file)
    return next((str(event[EFFECT]) for event in calendar.walk("VEVENT") if EFFECT in event), "")


def _parts_of(file: str) -> tuple[Component, list[Component], Sequence[Component]]:
    """Return the event of a file, the changed occurrences of its series, and the zones of the file."""
    try:
        calendar = icalendar.Calendar.from_ical(file)
        events, zones = list(calendar.walk("VEVENT")), calendar.walk("VTIMEZONE")
    except (ValueError, KeyError) as error:
        raise NotWritten("the server's file of this event is broken") from error
    masters = [event for event in events if "RECURRENCE-ID" not in event]
    if len(masters) != 1 or "DTSTART" not in masters[0]:
        raise NotWritten("this is one date of a series that is not in this calendar")
    if any("ATTENDEE" in event for event in events):
        raise NotWritten("it has attendees, to whom the server would write: people change it themselves")
    return masters[0], [event for event in events if event is not masters[0]], zones


def _written(
    events: Iterable[Component],
    zones: Iterable[Component],
    effect: str,
    now: datetime,
    *,
    changed: Component,
) -> str:
    calendar = icalendar.Calendar()
    calendar.add("PRODID", _PRODUCT)
    calendar.add("VERSION", "2.0")
    for zone in zones:
        calendar.add_component(zone)
    for event in events:
        event.pop(EFFECT, None)
        event.add(EFFECT, effect)
        calendar.add_component(event)
    for name in ("DTSTAMP", "LAST-MODIFIED"):
        changed.pop(name, None)
        changed.add(name, now)
    changed["SEQUENCE"] = int(changed.get("SEQUENCE", -1)) + 1
    year = _time(changed, "DTSTART").year
    calendar.add_missing_timezones(date(year - 1, 1, 1), date(year + _YEARS, 1, 1))
    file: bytes = calendar.to_ical()
    return file.decode()


def _apply(event: Component, draft: EventDraft, *, new: bool = False) -> None:
    for name, value in (("SUMMARY", draft.title), ("LOCATION", draft.place), ("DESCRIPTION", draft.notes)):
        if value is not None:
            event.pop(name, None)
            if value:
                event.add(name, value)
    if draft.rule is not None:
        event.pop("RRULE", None)
        if draft.rule:
            event.add("RRULE", checked_rule(draft.rule))
        else:
            event.pop("RDATE", None)
            event.pop("EXDATE", None)
    if draft.start is not None or draft.end is not None:
        start = _in_zone(draft.start, draft) if draft.start is not None else _time(event, "DTSTART")
        length = _length(event) if not new else _DAY if not isinstance(start, datetime) else _HOUR
        if draft.end is not None:
            end = _in_zone(draft.end, draft)
        else:
            same = new or isinstance(start, datetime) == isinstance(_time(event, "DTSTART"), datetime)
            end = start + (length if same else _HOUR if isinstance(start, datetime) else _DAY)
        if isinstance(start, datetime) != isinstance(end, datetime) or end < start:
            raise NotWritten("`end` is after `start`; both are dates, or both are times")
        _set_times(event, start, end)
    if draft.alarm is not None:
        event.subcomponents = [each for each in event.subcomponents if each.name != "VALARM"]
        if draft.alarm >= 0:
            alarm = icalendar.Alarm()
            alarm.add("ACTION", "DISPLAY")
            alarm.add("DESCRIPTION", str(event.get("SUMMARY", "")))
            alarm.add("TRIGGER", -timedelta(minutes=draft.alarm))
            event.add_component(alarm)


def _in_zone(at: datetime | date, draft: EventDraft) -> datetime | date:
    """Return a local time with its zone; in UTC if other programs would not know the zone."""
    if not isinstance(at, datetime):
        return at
    zone = zone_of(draft.zone)
    local = at.replace(tzinfo=zone)
    return local if "/" in (known_zone(draft.zone) or "") else local.astimezone(UTC)


def _set_times(event: Component, start: datetime | date, end: datetime | date) -> None:
    for name in ("DTSTART", "DTEND", "DURATION"):
        event.pop(name, None)
    event.add("DTSTART", start)
    if end != start:  # some events have no end
        event.add("DTEND", end)


def _time(event: Component, name: str) -> datetime | date:
    try:
        value = event[name].dt
    except (KeyError, AttributeError, ValueError):
        raise NotWritten("the server's file of this event is broken") from None
    assert isinstance(value, date)
    return value


def _length(event: Component) -> timedelta:
    start = _time(event, "DTSTART")
    if "DTEND" in event:
        end: Any = event["DTEND"].dt
        return max(end - start, timedelta(0)) if type(end) is type(start) else timedelta(0)
    if "DURATION" in event:
        length: timedelta = event["DURATION"].dt
        return length
    return timedelta(0) if isinstance(start, datetime) else _DAY


def _is_series(event: Component) -> bool:
    return "RRULE" in event or "RDATE" in event


def _original(master: Component, occurrence: str) -> datetime | date:
    """Return the time of an occurrence in the form of the series' start."""
    if not _is_series(master):
        raise NotWritten("this event does not repeat any more: read the calendar again")
    start = _time(master, "DTSTART")
    if not isinstance(start, datetime):
        return date.fromisoformat(occurrence[:10])
    if "T" not in occurrence:
        raise NotWritten("this event has changed: read the calendar again")
    at = datetime.fromisoformat(occurrence)
    # A start without a zone keeps its local time, which the reader took as a time of the reader's zone.
    return (
        at.astimezone(start.tzinfo) if start.tzinfo is not None else datetime.combine(at.date(), start.time())
    )


def _same(one: datetime | date, other: datetime | date) -> bool:
    if isinstance(one, datetime) and isinstance(other, datetime) and one.tzinfo and other.tzinfo:
        return one.astimezone(UTC) == other.astimezone(UTC)
    return one == other


def _shift(master: Component, others: list[Component], draft: EventDraft) -> None:
    """Move what belongs to the dates of a series along with its start: the exceptions.

    Raises:
        NotWritten: The new day may contradict the rule of the series.
    """
    assert draft.start is not None
    before, after = _time(master, "DTSTART"), draft.start
    if isinstance(before, datetime) != isinstance(after, datetime):
        if others or "EXDATE" in master:
            raise NotWritten("a series with exceptions cannot become all-day, or the reverse: add a new one")
        return
    rules = master["RRULE"] if isinstance(master.get("RRULE"), list) else [master.get("RRULE") or {}]
    days = (at.date() if isinstance(at, datetime) else at for at in (before, after))
    if len(set(days)) > 1 and draft.rule is None and any(_DAYS & set(rule) for rule in rules):
        raise NotWritten("the rule of this series names its days: give `repeat` too")
    if not isinstance(before, datetime) or not isinstance(after, datetime):
        moved: timedelta = after - before
    else:
        moved = after - before.replace(tzinfo=None)
    exceptions = [each.dt + moved for one in _as_list(master.get("EXDATE")) for each in one.dts]
    master.pop("EXDATE", None)
    for exception in exceptions:
        master.add("EXDATE", exception)
    for other in others:
        original = _time(other, "RECURRENCE-ID") + moved
        del other["RECURRENCE-ID"]
        other.add("RECURRENCE-ID", original)


def _as_list(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def moved_by_clock(local: datetime, zone: str) -> bool:
    """Return True if a local time does not exist in its zone, because clocks are put forward."""
    rules = zone_of(zone)
    return local.replace(tzinfo=rules).astimezone(UTC).astimezone(rules).time() != local.time()
