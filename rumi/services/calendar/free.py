"""Finds free time between the events of calendars."""

from collections.abc import Iterable, Iterator
from datetime import datetime, time, timedelta
from typing import Final, TypeAlias

from rumi.platform.zones import instant_at, local_at
from rumi.services.calendar.events import Event

MOST_SLOTS: Final = 60
"""Maximum number of free times that are listed."""

Slot: TypeAlias = tuple[float, float]
"""Begin and end of a free time, in seconds since 1970."""


def free_times(
    events: Iterable[Event], start: float, end: float, zone: str, minutes: int, hours: tuple[time, time]
) -> list[Slot]:
    """Return the times between `start` and `end` without a busy event, each of at least `minutes`.

    `hours` are the first and the last local time of each day that count; two equal times are the whole day.
    """
    busy = sorted((event.start, event.end) for event in events if event.busy and event.end > event.start)
    found: list[Slot] = []
    for begin, until in _days(start, end, zone, hours):
        for one, other in busy:
            if other <= begin or one >= until:
                continue
            if one - begin >= minutes * 60:
                found.append((begin, one))
            begin = max(begin, other)
        if until - begin >= minutes * 60:
            found.append((begin, until))
    return found


def _days(start: float, end: float, zone: str, hours: tuple[time, time]) -> Iterator[Slot]:
    """Yield the part of each day that counts."""
    day = local_at(start, zone).date()
    while (midnight := instant_at(datetime.combine(day, time()), zone)) < end:
        whole = hours[0] == hours[1]
        first = midnight if whole else instant_at(datetime.combine(day, hours[0]), zone)
        day += timedelta(days=1)
        night = (
            datetime.combine(day, time()) if whole else datetime.combine(day - timedelta(days=1), hours[1])
        )
        begin, until = max(start, first), min(end, instant_at(night, zone))
        if begin < until:
            yield begin, until
