"""Time zones by name, and their rules in the form that the variable `TZ` takes.

The name of a zone is one of the time zone database (`Europe/Madrid`), a fixed offset (`UTC+05:30`), or a rule
of POSIX with a clock change (`CET-1CEST,M3.5.0,M10.5.0/3`). All of Rumi stores and shows zones by such names.
"""

import os
import re
import struct
from collections.abc import Mapping
from datetime import datetime
from functools import cache, lru_cache
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from time import time
from typing import Final
from zoneinfo import ZoneInfo

_OFFSET: Final = re.compile(r"UTC([+-])(\d\d):(\d\d)")
_ABBREVIATION: Final = r"(?:[A-Za-z]{3,10}|<[A-Za-z0-9+-]{3,10}>)"
_CLOCK: Final = r"[+-]?\d{1,3}(?::\d\d){0,2}"
_CHANGE: Final = rf"(?:M\d{{1,2}}\.[1-5]\.[0-6]|J\d{{1,3}}|\d{{1,3}})(?:/{_CLOCK})?"
_POSIX: Final = re.compile(
    rf"{_ABBREVIATION}(?P<offset>{_CLOCK})(?P<other>{_ABBREVIATION}(?:{_CLOCK})?)?(?P<rule>,{_CHANGE},{_CHANGE})?"
)
_CHANGES: Final = ",M3.2.0,M11.1.0"
"""The clock changes of a rule that names none, as in the C libraries."""


@cache
def zone_names() -> Mapping[str, str]:
    """Return a dict from the casefolded names of all zones of the database to their canonical names."""
    names = (files("tzdata") / "zones").read_text("utf-8").split()
    return {name.casefold(): name for name in names}


@lru_cache(maxsize=256)
def zone_of(name: str) -> ZoneInfo:
    """Return the time zone with this name; UTC if the name no longer exists."""
    if known := zone_names().get(name.casefold()):
        return ZoneInfo(known)
    rule = posix_rule(name)
    return (_by_rule(rule) if rule != "UTC0" else None) or ZoneInfo("UTC")


@lru_cache(maxsize=256)
def posix_rule(name: str) -> str:
    """Return a zone's rule for the future, like `CET-1CEST,M3.5.0,M10.5.0/3`; `UTC0` for an unknown one."""
    if known := zone_names().get(name.casefold()):
        return _last_line((files("tzdata") / "zoneinfo" / known).read_bytes()) or "UTC0"
    if found := _OFFSET.fullmatch(name):
        sign, hours, minutes = found.groups()
        digits = f"{hours}{minutes}" if minutes != "00" else hours
        clock = f"{int(hours)}:{minutes}" if minutes != "00" else f"{int(hours)}"
        return f"<{sign}{digits}>{'-' if sign == '+' else ''}{clock}"  # POSIX counts the other way round
    return name if _POSIX.fullmatch(name) and _by_rule(name) is not None else "UTC0"


def rule_at(name: str, instant: float) -> str:
    """Return a rule that a zone keeps at an instant in seconds since 1970, for the variable `TZ`.

    A C library understands it without a database of zones, which a sandbox may lack. A zone that will change
    its rule, as countries decide, has its present offset.
    """
    rule = posix_rule(name)
    now = datetime.fromtimestamp(instant, zone_of(name)).utcoffset()
    by_rule = _by_rule(rule)
    if by_rule is None or now is None or datetime.fromtimestamp(instant, by_rule).utcoffset() == now:
        return rule
    return posix_rule(offset_name(int(now.total_seconds() // 60)))


def same_clock(one: str, other: str) -> bool:
    """Return True if two zones have the same time at present, and go on with the same rule."""
    now = time()
    return rule_at(one, now) == rule_at(other, now) and posix_rule(one) == posix_rule(other)


def known_zone(name: str) -> str:
    """Return a name of a zone in its canonical spelling; empty if it is none.

    Unlike `zone_of_variable`, this takes no value of `TZ`, so that `UTC-03:00` is behind UTC.
    """
    if found := zone_names().get(name.casefold()):
        return found
    return name if len(name) < 100 and posix_rule(name) != "UTC0" else ""


def is_utc(name: str) -> bool:
    """Return True if a zone's clock is UTC all year. Machines and careful browsers often say so."""
    return posix_rule(name) in ("UTC0", "GMT0")


def local_at(instant: float, zone: str) -> datetime:
    """Return the local time in a zone at an instant in seconds since 1970; without a zone, this machine's."""
    return (
        datetime.fromtimestamp(instant, zone_of(zone))
        if zone
        else datetime.fromtimestamp(instant).astimezone()
    )


def instant_at(local: datetime, zone: str) -> float:
    """Return, in seconds since 1970, the instant of a local time without a zone, read as by `local_at`."""
    return (local.replace(tzinfo=zone_of(zone)) if zone else local.astimezone()).timestamp()


def offset_name(minutes: int) -> str:
    """Return the name of the zone that is always `minutes` ahead of UTC; `UTC` for 0."""
    hours, rest = divmod(abs(minutes), 60)
    return f"UTC{'+' if minutes > 0 else '-'}{hours:02}:{rest:02}" if minutes else "UTC"


def zone_of_variable(value: str) -> str:
    """Return the name of the zone that a value of the variable `TZ` means; empty if it means none.

    The value may be a name, a path of a file with a zone, or a rule of POSIX, where `UTC-3` is ahead of UTC.
    """
    value = value.strip()
    name = value.removeprefix(":")
    if not name:
        return "UTC" if value == ":" else ""
    if known := _in_database(name):
        return known
    if name.startswith("/"):
        return _of_file(Path(name))
    return _of_rule(name)


def zone_of_machine(environ: Mapping[str, str] = os.environ) -> str:
    """Return the time zone from `TZ`, /etc/localtime or /etc/timezone; UTC if none of them tells a zone."""
    variable = environ.get("TZ")
    if variable == "":
        return "UTC"  # as in the C libraries, whose clock the rest of the machine shows
    if found := zone_of_variable(variable or ""):
        return found
    if found := _of_file(Path("/etc/localtime")):
        return found
    try:
        return _in_database(Path("/etc/timezone").read_text("ascii").strip()) or "UTC"
    except (OSError, UnicodeError):
        return "UTC"


def _in_database(name: str) -> str:
    """Return the canonical name for a name or a path of the database's files; empty if there is none."""
    name = name.rpartition("/zoneinfo/")[2].casefold()
    for folder in ("posix/", "right/"):
        name = name.removeprefix(folder)
    return zone_names().get(name, "")


def _of_file(path: Path) -> str:
    """Return the name of the zone in a file: by the place of the file, or by the rule at its end."""
    try:
        if found := _in_database(str(path.resolve())):
            return found
        data = path.read_bytes() if path.stat().st_size < 1 << 20 and path.is_file() else b""
    except (OSError, RuntimeError, ValueError):
        return ""
    return _of_rule(_last_line(data)) if data.startswith(b"TZif") else ""


def _of_rule(rule: str) -> str:
    """Return the name of the zone that a rule of POSIX means; empty if it is not valid."""
    found = _POSIX.fullmatch(rule)
    if found is None:
        return ""
    if found["other"] and not found["rule"]:
        rule += _CHANGES
    if _by_rule(rule) is None:
        return ""
    if not found["other"]:
        hours, *rest = found["offset"].lstrip("+-").split(":")
        minutes = int(hours) * 60 + (int(rest[0]) if rest else 0)
        return offset_name(minutes if found["offset"].startswith("-") else -minutes)
    return rule


@lru_cache(maxsize=256)
def _by_rule(rule: str) -> ZoneInfo | None:
    """Return the zone with a rule of POSIX; None if the rule is not valid."""
    # A file of a zone without any clock change in the past, whose last line is the rule (RFC 8536).
    head = b"TZif2" + bytes(15) + struct.pack(">6l", 0, 0, 0, 0, 1, 4)
    block = struct.pack(">lbb", 0, 0, 0) + b"UTC\0"
    try:
        found = ZoneInfo.from_file(BytesIO((head + block) * 2 + f"\n{rule}\n".encode("ascii")), key=rule)
        for month in range(1, 13):  # an offset of a day or more is read, but no time can have it
            datetime(2026, month, 1, tzinfo=found).utcoffset()
        return found
    except (ValueError, UnicodeError, struct.error):
        return None


def _last_line(data: bytes) -> str:
    """Return the last line of a file in format 2 or later (RFC 8536, 3.3): the rule for the present."""
    return data.rstrip(b"\n").rpartition(b"\n")[2].decode("ascii", "replace")
