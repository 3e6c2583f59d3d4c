"""What calendars contain, as plain data, which passes from the process that reads files to the tools."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from hashlib import sha256
from typing import Any, Final

from rumi.platform.zones import zone_of

MOST_EVENTS: Final = 1000
"""Maximum number of events that one reading of a calendar returns."""

MOST_TITLE_CHARS: Final = 300
MOST_PLACE_CHARS: Final = 300
MOST_NOTES_CHARS: Final = 2000


@dataclass(frozen=True, slots=True)
class Event:
    """An event that happens once, or one occurrence of an event that repeats.

    `start` and `end` are in seconds since 1970. Of an all-day event, they are the midnights in the reader's
    zone, and `first_day` and `last_day` are its dates, both included; they are empty for other events.
    `zone` is the event's own time zone; empty if it has none, or none that is known. `occurrence` tells which
    occurrence of a series this is: its original date, or its original start in UTC, both in ISO 8601; it is
    empty for an event that does not repeat. `rule` is the RRULE of the series. `busy` is False if the event
    was cancelled or declined, or if its owner stays free. `attended` means that it has attendees, whom its
    server may write to. `file` is the number of the file, of those that were read, with the event.
    """

    uid: str
    title: str
    start: float
    end: float
    first_day: str = ""
    last_day: str = ""
    zone: str = ""
    occurrence: str = ""
    rule: str = ""
    place: str = ""
    notes: str = ""
    busy: bool = True
    cancelled: bool = False
    attended: bool = False
    file: int = 0

    @property
    def all_day(self) -> bool:
        """Return True if the event lasts whole days."""
        return bool(self.first_day)

    def starts(self, zone: str) -> datetime:
        """Return the start in a zone."""
        return datetime.fromtimestamp(self.start, zone_of(zone))

    def ends(self, zone: str) -> datetime:
        """Return the end in a zone."""
        return datetime.fromtimestamp(self.end, zone_of(zone))

    def id(self, calendar: str) -> str:
        """Return a short id of the event, for models. `calendar` is the address of its calendar."""
        return sha256("\0".join((calendar, self.uid, self.occurrence, str(self.start))).encode()).hexdigest()[
            :12
        ]


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """The time that is read: `start` and `end` in seconds since 1970, and the reader's time zone.

    Times without a zone are times of this zone. `addresses` are the reader's mail addresses, in small
    letters: an event that one of them has declined does not make the reader busy.
    """

    start: float
    end: float
    zone: str
    addresses: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the window as a JSON object."""
        return {"start": self.start, "end": self.end, "zone": self.zone, "addresses": list(self.addresses)}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "TimeWindow":
        """Return the window of a JSON object."""
        addresses = tuple(map(str, found["addresses"]))
        return cls(float(found["start"]), float(found["end"]), str(found["zone"]), addresses)


@dataclass(frozen=True, slots=True)
class EventDraft:
    """The values of an event that is written; None leaves a value as it is.

    `start` and `end` are local times in `zone` or, with `all_day`, dates; the end is not included. `rule` is
    an RRULE; an empty one ends the repetition. `alarm` is in minutes before the start; -1 removes it.
    """

    title: str | None = None
    start: datetime | date | None = None
    end: datetime | date | None = None
    zone: str = ""
    place: str | None = None
    notes: str | None = None
    rule: str | None = None
    alarm: int | None = None

    def to_json(self) -> dict[str, object]:
        """Return the values as a JSON object."""
        times = {name: None if value is None else value.isoformat() for name, value in self._times}
        others = ("title", "zone", "place", "notes", "rule", "alarm")
        return {**{name: getattr(self, name) for name in others}, **times}

    @property
    def _times(self) -> tuple[tuple[str, datetime | date | None], ...]:
        return ("start", self.start), ("end", self.end)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "EventDraft":
        """Return the values of a JSON object."""
        times = {name: None if not found[name] else _time(found[name]) for name in ("start", "end")}
        return cls(**{**found, **times})


def _time(text: str) -> datetime | date:
    return datetime.fromisoformat(text) if "T" in text else date.fromisoformat(text)
