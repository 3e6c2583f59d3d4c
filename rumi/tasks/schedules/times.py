"""Conversion of local times to instants: time zones, recurrences, clock changes and quiet hours.

If a clock change skips a local time, the time means the end of the skipped interval. If a clock change
repeats a local time, the time means the first of the two. An hourly recurrence continues through both kinds
of clock change.
"""

import re
from bisect import bisect_left
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Final

from cronsim import CronSim, CronSimError

from rumi.platform.zone_finding import zone_said, zones_like
from rumi.platform.zones import zone_of

MOST_COUNTED: Final = 1000
"""Maximum number of missed fire times that are counted."""

LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC).timestamp()

_FIRST_DAY: Final = datetime(1, 1, 3)
_LAST_DAY: Final = datetime(9999, 12, 29)
"""A calendar has no days outside the years 1 to 9999, and a zone may be a day away from another one."""

_CRON: Final = re.compile(r"[0-9A-Za-z*/,#-]+(?: [0-9A-Za-z*/,#-]+){4}")
_QUIET: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)\s*-\s*([01]?\d|2[0-3]):([0-5]\d)")


class NotATime(ValueError):
    """The recurrence or the time zone does not exist."""


# Zones


def named_zone(name: str) -> str:
    """Return the canonical name of a time zone that a person has named.

    Raises:
        NotATime: No zone, or more than one, has this name. The error lists up to five similar zones.
    """
    if found := zone_said(name):
        return found
    raise NotATime(", ".join(zones_like(name)))


# Instants


def local_time(instant: float, zone: str) -> datetime:
    """Return the local time in a zone at an instant, which is given in seconds since 1970."""
    return datetime.fromtimestamp(instant, zone_of(zone))


def instant_of(local: datetime, zone: str) -> float:
    """Return, in seconds since 1970, the instant of a naive local time in a zone.

    A time within two days of the calendar's ends is moved away from them: each zone has a date for it.
    """
    where, local = zone_of(zone), min(max(local, _FIRST_DAY), _LAST_DAY)
    first = local.replace(tzinfo=where, fold=0)
    instant = first.timestamp()
    if datetime.fromtimestamp(instant, where).replace(tzinfo=None, fold=0) == local.replace(fold=0):
        return instant
    # A clock change skips this local time: read with both offsets, its instants lie around the change. Find
    # the first second with the new offset.
    before, after = int(local.replace(tzinfo=where, fold=1).timestamp()), int(instant)
    offset = datetime.fromtimestamp(before, where).utcoffset()
    skipped = range(before, after + 1)
    ends = bisect_left(skipped, True, key=lambda at: datetime.fromtimestamp(at, where).utcoffset() != offset)
    return float(skipped[ends]) if ends < len(skipped) else instant


def checked_cron(expression: str) -> str:
    """Check and normalize a cron expression: minute, hour, day of the month, month, day of the week.

    Raises:
        NotATime: The expression is invalid, or no day matches it. Six fields are refused: such a schedule
            could fire every second.
    """
    plain = " ".join(expression.upper().split())
    if _CRON.fullmatch(plain) is None:
        raise NotATime(expression)
    try:
        next(CronSim(plain, datetime(2026, 1, 1)))  # fails if no day matches, such as 30 February
    except (CronSimError, StopIteration, ValueError):
        raise NotATime(expression) from None
    return plain


def following(cron: str, zone: str, after: float) -> float:
    """Return, in seconds since 1970, the first instant of a recurrence that is later than `after`.

    Raises:
        NotATime: The recurrence has no later instant.
    """
    where = zone_of(zone)
    now = datetime.fromtimestamp(min(max(after, 0.0), LATEST), where)
    if cron.split()[1] == "*":  # in every hour: a clock change makes no difference
        return next(CronSim(cron, now)).timestamp()
    # Other recurrences are computed in naive local time: `instant_of` decides what a skipped or a repeated
    # hour means. A repeated hour may give instants up to `after`, which are passed over.
    for local in CronSim(cron, now.replace(tzinfo=None, fold=0)):
        instant = instant_of(local, zone)
        if instant > after:
            return instant
    raise NotATime(cron)


def latest(cron: str, zone: str, first: float, now: float) -> tuple[float, int]:
    """Return a recurrence's last instant up to `now`, and the number of earlier instants.

    The counted instants begin with `first`. The number is at most `MOST_COUNTED`.
    """
    before = 0
    while before < MOST_COUNTED and (then := following(cron, zone, first)) <= now:
        first, before = then, before + 1
    if before < MOST_COUNTED:
        return first, before
    # Counting each minute of years would block the event loop: search back from `now` in growing steps.
    reach = 60.0
    while (found := following(cron, zone, now - reach)) > now:
        reach *= 4
    while (then := following(cron, zone, found)) <= now:
        found = then
    return found, before


# Quiet hours


@dataclass(frozen=True, slots=True)
class QuietHours:
    """The daily interval in which no schedule fires, in local time.

    It includes the time `begins` and excludes the time `ends`.
    """

    begins: time
    ends: time

    def until(self, instant: float, zone: str) -> float:
        """Return the earliest time at which a schedule may fire: `instant`, or the end of the quiet hours."""
        local = local_time(instant, zone).replace(tzinfo=None, fold=0)
        at, day = local.time(), local.date()
        if self.begins <= self.ends:
            if not self.begins <= at < self.ends:
                return instant
        elif at >= self.begins:
            day += timedelta(days=1)
        elif at >= self.ends:
            return instant
        return max(instant, instant_of(datetime.combine(day, self.ends), zone))


def quiet_hours(text: str) -> QuietHours | None:
    """Parse quiet hours like `23:00-08:00`; return None for an empty text.

    Raises:
        ValueError: The text does not have this format, or the two times are equal.
    """
    if not text.strip():
        return None
    found = _QUIET.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    hours = [int(part) for part in found.groups()]
    quiet = QuietHours(time(hours[0], hours[1]), time(hours[2], hours[3]))
    if quiet.begins == quiet.ends:
        raise ValueError(text)
    return quiet
