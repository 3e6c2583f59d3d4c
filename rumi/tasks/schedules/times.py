"""Local times and instants: time zones, recurrences, hours that a clock change skips or repeats, quiet hours.

A local time that a clock change skips stands for the end of what is skipped; one that it repeats stands for
the first of the two. A recurrence in every hour goes on through both.
"""

import os
import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

MOST_COUNTED: Final = 1000
"""Missed instants are counted up to this number."""

LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC).timestamp()

_CRON: Final = re.compile(r"[0-9A-Za-z*/,#-]+(?: [0-9A-Za-z*/,#-]+){4}")
_QUIET: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)\s*-\s*([01]?\d|2[0-3]):([0-5]\d)")


class NotATime(ValueError):
    """A recurrence or a time zone that does not exist."""


# Zones


@cache
def zone_names() -> Mapping[str, str]:
    """Return the names of all time zones by their small letters."""
    names = (files("tzdata") / "zones").read_text("utf-8").split()
    return {name.casefold(): name for name in names}


@lru_cache(maxsize=256)
def zone_of(name: str) -> ZoneInfo:
    """Return a time zone. One that does not exist any more is UTC."""
    known = zone_names().get(name.casefold())
    return ZoneInfo(known or "UTC")


def named_zone(name: str) -> str:
    """Return the name of a time zone as it is written.

    Raises:
        NotATime: There is none of that name. The error names those that end so.
    """
    wanted = name.strip().casefold().replace(" ", "_")
    found = zone_names().get(wanted)
    if found is not None:
        return found
    like = [name for small, name in zone_names().items() if wanted and small.rpartition("/")[2] == wanted]
    raise NotATime(", ".join(sorted(like)[:5]))


def zone_of_machine(environ: Mapping[str, str] = os.environ) -> str:
    """Return the machine's time zone: that of `TZ`, of /etc/localtime or /etc/timezone, otherwise UTC."""
    guesses = [environ.get("TZ", "").lstrip(":")]
    try:
        guesses.append(str(Path("/etc/localtime").resolve()).partition("/zoneinfo/")[2])
        guesses.append(Path("/etc/timezone").read_text("ascii").strip())
    except (OSError, UnicodeError):
        pass
    return next((found for guess in guesses if (found := zone_names().get(guess.casefold()))), "UTC")


# Instants


def local_time(instant: float, zone: str) -> datetime:
    """Return an instant, in seconds since 1970, as the time in a zone."""
    return datetime.fromtimestamp(instant, zone_of(zone))


def instant_of(local: datetime, zone: str) -> float:
    """Return the instant of a local time, without a zone of its own, in seconds since 1970."""
    where = zone_of(zone)
    first = local.replace(tzinfo=where, fold=0)
    instant = first.timestamp()
    if datetime.fromtimestamp(instant, where).replace(tzinfo=None, fold=0) == local.replace(fold=0):
        return instant
    before, after = int(local.replace(tzinfo=where, fold=1).timestamp()), int(instant)
    offset = datetime.fromtimestamp(before, where).utcoffset()
    skipped = range(before, after + 1)
    ends = bisect_left(skipped, True, key=lambda at: datetime.fromtimestamp(at, where).utcoffset() != offset)
    return float(skipped[ends]) if ends < len(skipped) else instant


def checked_cron(expression: str) -> str:
    """Return a recurrence of five fields: minute, hour, day of the month, month, day of the week.

    Raises:
        NotATime: It is not one, or there is no such day. With a sixth field it could fire each second.
    """
    plain = " ".join(expression.upper().split())
    if _CRON.fullmatch(plain) is None:
        raise NotATime(expression)
    try:
        next(CronSim(plain, datetime(2026, 1, 1)))
    except (CronSimError, StopIteration, ValueError):
        raise NotATime(expression) from None
    return plain


def following(cron: str, zone: str, after: float) -> float:
    """Return the first instant of a recurrence behind `after`, in seconds since 1970."""
    where = zone_of(zone)
    now = datetime.fromtimestamp(min(max(after, 0.0), LATEST), where)
    if cron.split()[1] == "*":  # in every hour: a clock change makes no difference
        return next(CronSim(cron, now)).timestamp()
    for local in CronSim(cron, now.replace(tzinfo=None, fold=0)):
        instant = instant_of(local, zone)
        if instant > after:
            return instant
    raise NotATime(cron)


def latest(cron: str, zone: str, first: float, now: float) -> tuple[float, int]:
    """Return the last instant of a recurrence up to `now`, from its instant `first` on, and how many there
    are before it, up to `MOST_COUNTED`.
    """
    before = 0
    while before < MOST_COUNTED and (then := following(cron, zone, first)) <= now:
        first, before = then, before + 1
    if before < MOST_COUNTED:
        return first, before
    reach = 60.0
    while (found := following(cron, zone, now - reach)) > now:
        reach *= 4
    while (then := following(cron, zone, found)) <= now:
        found = then
    return found, before


# Quiet hours


@dataclass(frozen=True, slots=True)
class QuietHours:
    """The hours of each day in which nothing fires, in local time: from `begins` up to `ends`."""

    begins: time
    ends: time

    def until(self, instant: float, zone: str) -> float:
        """Return when a fire of that instant may happen: at once, or at the end of the quiet hours."""
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
    """Return the quiet hours that a text like `23:00-08:00` names; None for an empty one.

    Raises:
        ValueError: It has another form.
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
