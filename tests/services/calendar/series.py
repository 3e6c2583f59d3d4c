"""Events that repeat, and when they happen by a computation of its own, which uses no calendar library."""

import calendar
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

ZONES = (
    "Europe/Madrid",
    "America/New_York",
    "America/Santiago",
    "Asia/Tokyo",
    "Australia/Sydney",
    "Asia/Kathmandu",
)
"""Zones with clock changes on both sides of the equator, without any, and with an odd offset."""

WINDOWS = (
    (datetime(2026, 10, 24, tzinfo=UTC), datetime(2026, 10, 27, tzinfo=UTC)),  # Europe's clocks go back
    (datetime(2026, 10, 31, 12, tzinfo=UTC), datetime(2026, 11, 2, 12, tzinfo=UTC)),  # those of New York
    (datetime(2027, 3, 13, tzinfo=UTC), datetime(2027, 3, 15, tzinfo=UTC)),  # and forward
    (datetime(2027, 3, 27, tzinfo=UTC), datetime(2027, 3, 29, 12, tzinfo=UTC)),
)
_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


@dataclass(frozen=True)
class Series:
    """An event that repeats: its first local start, its zone, its rule, exceptions and changed dates."""

    uid: str
    zone: str
    first: datetime
    minutes: int
    rule: str
    skipped: frozenset[date] = frozenset()
    moved: tuple[tuple[date, datetime], ...] = ()

    def file(self) -> str:
        """The calendar file of the series, without a definition of its zone."""
        at, zone = f"{self.first:%Y%m%dT%H%M%S}", self.zone
        clock = self.first.time()
        lines = [
            "BEGIN:VCALENDAR",
            "VERSION:2.0",
            "PRODID:-//tests//EN",
            "BEGIN:VEVENT",
            f"UID:{self.uid}",
            "DTSTAMP:20260101T000000Z",
            f"SUMMARY:{self.uid}",
            f"DTSTART;TZID={zone}:{at}",
            f"DURATION:PT{self.minutes}M",
            f"RRULE:{self.rule}",
        ]
        lines += [
            f"EXDATE;TZID={zone}:{datetime.combine(day, clock):%Y%m%dT%H%M%S}" for day in sorted(self.skipped)
        ]
        lines.append("END:VEVENT")
        for day, to in self.moved:
            lines += [
                "BEGIN:VEVENT",
                f"UID:{self.uid}",
                "DTSTAMP:20260101T000000Z",
                f"SUMMARY:{self.uid} moved",
                f"RECURRENCE-ID;TZID={zone}:{datetime.combine(day, clock):%Y%m%dT%H%M%S}",
                f"DTSTART;TZID={zone}:{to:%Y%m%dT%H%M%S}",
                f"DURATION:PT{self.minutes}M",
                "END:VEVENT",
            ]
        return "\r\n".join([*lines, "END:VCALENDAR", ""])

    def happens(self, start: datetime, end: datetime) -> list[tuple[str, float, float]]:
        """The title, the start and the end of each date between two instants."""
        zone, moved = ZoneInfo(self.zone), dict(self.moved)
        found = []
        for day in self._days(end.date() + timedelta(days=9)):
            if day in self.skipped:
                continue
            local = moved.get(day, datetime.combine(day, self.first.time()))
            title = f"{self.uid} moved" if day in moved else self.uid
            # A time that clocks skip is read with the offset before the change (RFC 5545, 3.3.5).
            at = local.replace(tzinfo=zone).astimezone(UTC)
            until = at + timedelta(minutes=self.minutes)
            if at < end and until > start:
                found.append((title, at.timestamp(), until.timestamp()))
        return found

    def _days(self, last: date) -> Iterator[date]:
        """The local dates of the rule up to a day."""
        parts = dict(part.split("=") for part in self.rule.split(";"))
        every, count = int(parts.get("INTERVAL", "1")), int(parts.get("COUNT", "100000"))
        day, first, passed = self.first.date(), self.first.date(), 0
        while day <= last and passed < count:
            if self._is_day(day, first, parts, every):
                passed += 1
                yield day
            day += timedelta(days=1)

    @staticmethod
    def _is_day(day: date, first: date, parts: dict[str, str], every: int) -> bool:
        match parts["FREQ"]:
            case "DAILY":
                return (day - first).days % every == 0
            case "WEEKLY":
                monday = first - timedelta(days=first.weekday())
                names = parts.get("BYDAY", _DAYS[first.weekday()]).split(",")
                return ((day - monday).days // 7) % every == 0 and _DAYS[day.weekday()] in names
            case "MONTHLY" if "BYDAY" in parts:  # the last such weekday, -1XX
                days = calendar.monthrange(day.year, day.month)[1]
                return _DAYS[day.weekday()] == parts["BYDAY"][2:] and day.day > days - 7
            case "MONTHLY":
                return day.day == first.day
            case _:
                return (day.month, day.day) == (first.month, first.day)


def many(count: int, *, endless: bool = True) -> list[Series]:
    """As many series, of all zones and rules; a third has exceptions, a third changed dates.

    Those that are not `endless` end after the autumn of 2026: Radicale counts through endless ones.
    """
    rules = (
        "FREQ=DAILY",
        "FREQ=DAILY;INTERVAL=3",
        "FREQ=WEEKLY;BYDAY=SU,MO",
        "FREQ=WEEKLY;INTERVAL=2",
        "FREQ=MONTHLY",
        "FREQ=MONTHLY;BYDAY=-1SU",
        "FREQ=YEARLY",
        "FREQ=DAILY;COUNT=40",
    )
    found = []
    for number in range(count):
        zone, rule = ZONES[number % len(ZONES)], rules[number // len(ZONES) % len(rules)]
        monthly = rule.startswith("FREQ=MONTHLY") or rule == "FREQ=YEARLY"
        day = date(2025, 10, 26) if monthly else date(2026, 10, 1) + timedelta(days=number % 20)
        if "BYDAY=SU" in rule:
            day = date(2026, 10, 4)
        # Also at the hours that clocks skip or repeat.
        first = datetime.combine(day, time(number % 24, (0, 30)[number % 2]))
        plain = Series(f"s{number}", zone, first, 15 + number % 90, rule)
        dates = [one for one in plain._days(date(2027, 3, 30)) if one > day]
        skipped = frozenset(dates[1::7]) if number % 3 == 1 else frozenset()
        chosen = dates[2::9] if number % 3 == 2 else []
        moved = tuple((one, datetime.combine(one, time(23 - number % 24, 45))) for one in chosen)
        rule = rule if endless or "COUNT" in rule else f"{rule};COUNT={60 if 'DAILY' in rule else 20}"
        found.append(Series(plain.uid, zone, first, plain.minutes, rule, skipped, moved))
    return found
