"""Time zones by name, and their rules in the form that the variable `TZ` takes."""

import os
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from zoneinfo import ZoneInfo


@cache
def zone_names() -> Mapping[str, str]:
    """Return a dict from the casefolded names of all time zones to their canonical names."""
    names = (files("tzdata") / "zones").read_text("utf-8").split()
    return {name.casefold(): name for name in names}


@lru_cache(maxsize=256)
def zone_of(name: str) -> ZoneInfo:
    """Return the time zone with this name; UTC if the name no longer exists."""
    known = zone_names().get(name.casefold())
    return ZoneInfo(known or "UTC")


@lru_cache(maxsize=256)
def posix_rule(name: str) -> str:
    """Return a zone's rule for the present, such as `CET-1CEST,M3.5.0,M10.5.0/3`; `UTC0` for an unknown zone.

    A C library understands it as the value of `TZ` without a database of zones, which a sandbox may lack.
    """
    known = zone_names().get(name.casefold(), "UTC")
    data = (files("tzdata") / "zoneinfo" / known).read_bytes()
    # The last line of a file in format 2 or later (RFC 8536, 3.3).
    return data.rstrip(b"\n").rpartition(b"\n")[2].decode("ascii") or "UTC0"


def zone_of_machine(environ: Mapping[str, str] = os.environ) -> str:
    """Return the time zone from `TZ`, /etc/localtime or /etc/timezone; UTC if none of them names a zone."""
    guesses = [environ.get("TZ", "").lstrip(":")]
    try:
        guesses.append(str(Path("/etc/localtime").resolve()).partition("/zoneinfo/")[2])
        guesses.append(Path("/etc/timezone").read_text("ascii").strip())
    except (OSError, UnicodeError):
        pass
    return next((found for guess in guesses if (found := zone_names().get(guess.casefold()))), "UTC")
