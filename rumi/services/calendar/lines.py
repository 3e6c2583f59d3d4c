"""Cuts the text of a calendar file into its events, however it is broken.

Files of other programs break the rules of RFC 5545 in many ways: other line ends, long lines whose rest
begins without a space, lines before the calendar, events that never end. An event is cut out as it stands, so
that a broken one does not harm the others.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

_FOLD: Final = re.compile(r"\n[ \t]")
_PROPERTY: Final = re.compile(r"[A-Za-z0-9-]+[;:]")
_HEAD: Final = re.compile(r"\s*BEGIN:VCALENDAR", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CalendarText:
    """The parts of one calendar: the text of each event and of each time zone, and the calendar's own zone.

    Alarms and other parts of events are left out.
    """

    events: list[str] = field(default_factory=list)
    zones: list[str] = field(default_factory=list)
    zone: str = ""


def is_calendar(text: str) -> bool:
    """Return True if the text is a calendar, and not a web page or something else."""
    return _HEAD.search(text) is not None


def split(text: str) -> CalendarText:
    """Return the parts of a calendar's text."""
    found, zone = CalendarText(), ""
    outer, lines, inner = "", list[str](), list[str]()

    def end() -> None:
        if outer:
            (found.events if outer == "VEVENT" else found.zones).append("\n".join([*lines, f"END:{outer}"]))

    for line in _lines(text):
        name, _, value = line.partition(":")
        name, value = name.upper(), value.strip().upper()
        if name == "BEGIN" and value in ("VEVENT", "VTIMEZONE"):
            end()  # the one before never ended
            outer, lines, inner = value, [f"BEGIN:{value}"], []
        elif name == "END" and value in (outer, "VCALENDAR") and outer:
            end()
            outer, inner = "", []
        elif outer == "VEVENT" and name == "BEGIN":
            inner.append(value)
        elif outer == "VEVENT" and name == "END":
            inner = inner[: inner.index(value)] if value in inner else inner
        elif outer and not inner:
            lines.append(line)
        elif name == "X-WR-TIMEZONE":
            zone = line.partition(":")[2].strip()
    end()
    return CalendarText(found.events, found.zones, zone)


def _lines(text: str) -> Iterator[str]:
    """Yield the unfolded lines."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    held = ""
    for line in _FOLD.sub("", text).split("\n"):
        if _PROPERTY.match(line):
            if held:
                yield held
            held = line
        elif held and line.strip() and not held.upper().startswith(("BEGIN:", "END:")):
            held += line  # the rest of a line that was folded without a space
    if held:
        yield held
