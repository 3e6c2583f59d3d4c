"""Budget periods in local time: their days, and the beginning of the next period."""

from datetime import date, datetime, timedelta, tzinfo
from typing import Final

from rumi.models.metering import Period

FIRST_DAY: Final = ""
LAST_DAY: Final = "9999-12-31"


def day_of(now: float, zone: tzinfo | None = None) -> date:
    """Return the date in `zone`, by default the local time zone, at the time `now`."""
    return _local(now, zone).date()


def days_of(period: Period, now: float, zone: tzinfo | None = None) -> tuple[str, str]:
    """Return the first and the last day of the current period, in ISO format."""
    if period == "ever":
        return FIRST_DAY, LAST_DAY
    today = day_of(now, zone)
    if period == "day":
        return today.isoformat(), today.isoformat()
    return today.replace(day=1).isoformat(), (_next_month(today) - timedelta(days=1)).isoformat()


def renewal(period: Period, now: float, zone: tzinfo | None = None) -> datetime | None:
    """Return the beginning of the next period: local midnight, even if the clock changes on that day.

    If the clock skips midnight, return the first moment after it. Return None for the period "ever", which
    never ends.
    """
    if period == "ever":
        return None
    today = day_of(now, zone)
    first = today + timedelta(days=1) if period == "day" else _next_month(today)
    midnight = datetime(first.year, first.month, first.day)
    seconds = midnight.astimezone(zone) if zone is None else midnight.replace(tzinfo=zone)
    return _local(seconds.timestamp(), zone)


def _local(now: float, zone: tzinfo | None) -> datetime:
    return datetime.fromtimestamp(now, zone) if zone is not None else datetime.fromtimestamp(now).astimezone()


def _next_month(day: date) -> date:
    # The 28th exists in every month, and four days later is always in the next month.
    return (day.replace(day=28) + timedelta(days=4)).replace(day=1)
