"""The values of an event in a calendar file, repaired where programs get them wrong."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, TypeAlias

from icalendar.error import BrokenCalendarProperty

Component: TypeAlias = Any
"""A component of a calendar: icalendar's type of a value is a union of thirty classes, which helps nobody."""

_DAY: Final = timedelta(days=1)
_SINGLE: Final = (
    "DTSTART",
    "DTEND",
    "DURATION",
    "UID",
    "SUMMARY",
    "LOCATION",
    "DESCRIPTION",
    "RECURRENCE-ID",
)
_END: Final = ("DTEND", "DURATION")
_FREE: Final = ("FREE", "WORKINGELSEWHERE")


def repair(event: Component) -> None:
    """Repair what programs get wrong in an event, if it is clear what was meant."""
    for name in _SINGLE:
        if isinstance(event.get(name), list):
            event[name] = event[name][0]
    start = time_of(event, "DTSTART")
    if str(event["DTSTART"].params.get("VALUE", "")).upper() == "DATE" and isinstance(start, datetime):
        start = start.date()
        _set(event, "DTSTART", start)
    if "DTEND" in event:
        event.pop("DURATION", None)
    for name in _END:
        try:
            value = None if name not in event else event[name].dt
        except BrokenCalendarProperty:
            del event[name]
            continue
        if isinstance(value, timedelta):
            if value < timedelta(0) or (value.total_seconds() % 86_400 and not isinstance(start, datetime)):
                del event[name]
        elif value is not None:
            _set_end(event, start, value)


def _set_end(event: Component, start: datetime | date, end: datetime | date) -> None:
    """Give the end of an event the type of its start; remove an end before the start."""
    if not isinstance(start, datetime):
        end = end.date() if isinstance(end, datetime) else end
    elif not isinstance(end, datetime):
        end = datetime(end.year, end.month, end.day, tzinfo=start.tzinfo)
    elif (start.tzinfo is None) != (end.tzinfo is None):
        end = end.replace(tzinfo=start.tzinfo)
    del event["DTEND"]
    if end > start:
        event.add("DTEND", end)


def _set(event: Component, name: str, value: datetime | date) -> None:
    del event[name]
    event.add(name, value)


def time_of(event: Component, name: str) -> datetime | date:
    """Return the time of a property.

    Raises:
        ValueError: There is none, or it is not a time.
    """
    if name not in event:
        raise ValueError(f"no {name}")
    value = event[name].dt
    if isinstance(value, datetime):
        # Some programs write 24:00:60 or seconds of other clocks; libraries have rounded them already.
        return value.replace(microsecond=0)
    if isinstance(value, date):
        return value
    raise ValueError(f"{name} is not a time")


def end_of(event: Component, start: datetime | date) -> datetime | date:
    """Return the end of an event: by RFC 5545, an event without one lasts the day, or no time."""
    if "DTEND" in event:
        end = time_of(event, "DTEND")
        return end if isinstance(start, datetime) or end > start else start + _DAY
    if "DURATION" in event and isinstance(duration := event["DURATION"].dt, timedelta):
        return after(start, duration)
    return start if isinstance(start, datetime) else start + _DAY


def after(start: datetime | date, length: timedelta) -> datetime | date:
    """Return the end of an event with a duration: its days are those of the calendar, its hours are exact."""
    rest = length % _DAY
    end = start + (length - rest)
    if not isinstance(end, datetime) or end.tzinfo is None:
        return end + rest
    return (end.astimezone(UTC) + rest).astimezone(end.tzinfo)


def listed(value: object) -> list[Any]:
    """Return the values of a property that an event may have several times."""
    return [] if value is None else value if isinstance(value, list) else [value]


def text_of(event: Component, name: str, most: int) -> str:
    """Return a text of at most `most` characters; empty if it is missing or broken."""
    try:
        return str(event.get(name, "")).strip()[:most]
    except BrokenCalendarProperty:
        return ""


def rule_of(event: Component) -> str:
    """Return the rules of a series as text; `RDATE` if it only has dates."""
    rules = [rule.to_ical().decode() for rule in listed(event.get("RRULE"))]
    return "; ".join(rules)[:200] or "RDATE"


def is_free(event: Component) -> bool:
    """Return True if an event takes no time of its owner."""
    transparent = str(event.get("TRANSP", "")).upper() == "TRANSPARENT"
    return transparent or str(event.get("X-MICROSOFT-CDO-BUSYSTATUS", "")).upper() in _FREE


def declines(attendee: Any, addresses: Sequence[str]) -> bool:
    """Return True if an attendee has one of the addresses and has declined."""
    params: Mapping[str, object] = getattr(attendee, "params", {})
    address = str(attendee).casefold().removeprefix("mailto:")
    return address in addresses and str(params.get("PARTSTAT", "")).upper() == "DECLINED"


def why_broken(error: Exception) -> str:
    """Return why an event cannot be read, in a few words."""
    return str(error).partition("\n")[0][:120] or type(error).__name__
