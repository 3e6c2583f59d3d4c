"""Times of events in calls and results: local times of the chat's owner, in ISO 8601."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from rumi.errors import RumiError
from rumi.platform.zones import instant_at, local_at, zone_of, zone_of_machine
from rumi.services.calendar.events import Event

MOST_DAYS: Final = 400
"""Maximum length of the time that is read at once, in days."""


class WrongTime(RumiError):
    """An argument is not a time; the text is for models."""


@dataclass(frozen=True, slots=True)
class ChatClock:
    """The present time and the time zone of a chat's owner; this machine's zone if it is unknown."""

    now: Callable[[], float]
    zone_of_owner: Callable[[], str]

    @property
    def zone(self) -> str:
        """The name of the zone."""
        return self.zone_of_owner() or zone_of_machine()

    def read(self, name: str, value: object) -> datetime | date:
        """Return the local time, or the date, that an argument means.

        Raises:
            WrongTime: It is neither.
        """
        text = str(value).strip()
        try:
            if "T" not in text.upper() and " " not in text:
                return date.fromisoformat(text)
            found = datetime.fromisoformat(text.upper()).replace(second=0, microsecond=0)
        except ValueError:
            raise WrongTime(
                "`{name}` is a local time like 2026-12-01T09:00 or a date, not {text}",
                name=name,
                text=repr(text[:60]),
            ) from None
        if found.tzinfo is not None:
            found = found.astimezone(zone_of(self.zone)).replace(tzinfo=None)
        return found

    def window(self, start: object, end: object) -> tuple[float, float]:
        """Return the instants that `from` and `to` mean: a date is a whole day, nothing is today.

        Raises:
            WrongTime: They are not times, in the wrong order, or too far apart.
        """
        today = local_at(self.now(), self.zone).date()
        first = today if start in (None, "") else self.read("from", start)
        last = _day(first) if end in (None, "") else self.read("to", end)
        begin = self.instant(first)
        until = self.instant(last if isinstance(last, datetime) else last + timedelta(days=1))
        if until <= begin:
            raise WrongTime("`to` is before `from`")
        if until - begin > MOST_DAYS * 86_400:
            raise WrongTime("at most {days} days can be read at once", days=MOST_DAYS)
        return begin, until

    def instant(self, at: datetime | date) -> float:
        """Return the instant of a local time, or of the beginning of a day."""
        return instant_at(at if isinstance(at, datetime) else datetime.combine(at, time()), self.zone)

    def skipped(self, at: datetime | date) -> bool:
        """Return True for a local time that does not exist, because clocks are put forward."""
        if not isinstance(at, datetime):
            return False
        zone = zone_of(self.zone)
        return at.replace(tzinfo=zone).astimezone(UTC).astimezone(zone).replace(tzinfo=None) != at

    def shown(self, at: float) -> str:
        """Return a local time for a model: `2026-12-01 (Tue) 09:00`."""
        return f"{local_at(at, self.zone):%Y-%m-%d (%a) %H:%M}"


def _day(at: datetime | date) -> date:
    return at.date() if isinstance(at, datetime) else at


def span(event: Event, zone: str) -> str:
    """Return when an event happens, in local time; with its own clock if it differs."""
    return _span(event, zone, "%Y-%m-%d (%a)", " to ", " all day", " in ")


def span_in_numbers(event: Event, zone: str) -> str:
    """Return when an event happens, without words: for questions, which are asked in any language."""
    return _span(event, zone, "%Y-%m-%d", " – ", "", " ")


def _span(event: Event, zone: str, day: str, to: str, all_day: str, within: str) -> str:
    """Return when an event happens; `day` is the format of a day, and the others are the words between."""
    if event.all_day:
        first, last = date.fromisoformat(event.first_day), date.fromisoformat(event.last_day)
        days = f"{first:{day}}" if first == last else f"{first:{day}}{to}{last:{day}}"
        return f"{days}{all_day}"
    start, end = local_at(event.start, zone), local_at(event.end, zone)
    shown = f"{start:{day} %H:%M}"
    if end.date() != start.date():
        shown += f"{to}{end:{day} %H:%M}"
    elif end != start:
        shown += f"–{end:%H:%M}"
    if event.zone and event.zone != "UTC":
        theirs = event.starts(event.zone)
        if theirs.utcoffset() != start.utcoffset():
            shown += f" ({theirs:%H:%M}{within}{event.zone})"
    return shown
