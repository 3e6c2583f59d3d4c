"""Time zones as people name them, and the zone of a place."""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Final

from rumi.platform.unaccented import unaccented
from rumi.platform.zones import offset_name, same_clock, zone_names, zone_of_variable

MOST_ALIKE: Final = 5
LEAST_ALIKE: Final = 0.72
"""Least likeness of a name that is proposed for an unknown one, from 0 to 1."""

_OFFSET: Final = re.compile(r"(?:utc|gmt|z)?\s*([+\u2212-])\s*(\d{1,2})(?::?([0-5]\d))?")
_MOST_MINUTES: Final = 14 * 60
_LEAST_MINUTES: Final = -12 * 60

_ABBREVIATIONS: Final = {
    "pst pdt pt pacific": "America/Los_Angeles",
    "mdt mt mountain": "America/Denver",
    "cdt central": "America/Chicago",
    "edt et eastern": "America/New_York",
    "bst": "Europe/London",
    "cest": "Europe/Berlin Europe/Madrid Europe/Paris",
    "eest": "Europe/Athens Europe/Helsinki",
    "ist": "Asia/Kolkata Europe/Dublin Asia/Jerusalem",
    "aest aedt": "Australia/Sydney Australia/Brisbane",
    "nzst nzdt": "Pacific/Auckland",
    "jst": "Asia/Tokyo",
    "kst": "Asia/Seoul",
    "sgt": "Asia/Singapore",
    "hkt": "Asia/Hong_Kong",
    "msk": "Europe/Moscow",
    "brt": "America/Sao_Paulo",
    "art": "America/Argentina/Buenos_Aires",
    "cst": "America/Chicago Asia/Shanghai America/Havana",
    "ast": "America/Halifax Asia/Riyadh",
}
"""Zones that are proposed for abbreviations, which name no zone: several zones share most of them."""


def zone_said(text: str) -> str:
    """Return the name of the zone that a person means; empty if none is clear.

    A name is read without regard to case and accents, with spaces or underscores. Its last part suffices, as
    in `new york`, if all zones of this name have the same clock. An offset is ahead of UTC if it has a plus,
    as people write it: `UTC+2`, `GMT-3`, `+05:30`.
    """
    wanted = _plain(text)
    if known := zone_names().get("utc" if wanted == "z" else wanted):
        return known
    if found := _OFFSET.fullmatch(unaccented(text).strip()):
        sign, hours, minutes = found.groups()
        ahead = (1 if sign == "+" else -1) * (60 * int(hours) + int(minutes or 0))
        return offset_name(ahead) if _LEAST_MINUTES <= ahead <= _MOST_MINUTES else ""
    if wanted.startswith((":", "/", "<")) or "," in wanted:
        return zone_of_variable(text)
    cities = list(_of_city(wanted))
    return cities[0] if cities and all(same_clock(cities[0], name) for name in cities) else ""


def zones_like(text: str) -> tuple[str, ...]:
    """Return the zones that a person may mean by a text that names none, the most likely first."""
    wanted = _plain(text)
    found = [*_of_city(wanted)]
    words = (
        names.split() for abbreviations, names in _ABBREVIATIONS.items() if wanted in abbreviations.split()
    )
    found += [name for names in words for name in names]
    for candidates in ({small.rpartition("/")[2]: name for small, name in _places()}, dict(_places())):
        alike = get_close_matches(wanted, candidates, MOST_ALIKE, LEAST_ALIKE)
        found += [candidates[name] for name in alike]
    last = wanted.rpartition("/")[2]
    if len(last) > 3:
        found += [name for small, name in _places() if last in small]
    return tuple(dict.fromkeys(found))[:MOST_ALIKE]


def zone_at(latitude: float, longitude: float) -> str:
    """Return the zone of a place on land, by its coordinates in degrees; empty for the high seas."""
    if not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
        return ""
    try:
        from tzfpy import get_tz  # its map takes 35 MB, which most processes never need
    except ImportError:  # it has no build for every machine
        return ""
    name = zone_names().get(get_tz(longitude, latitude).casefold(), "")
    return "" if name.startswith("Etc/") else name


def _of_city(wanted: str) -> Iterator[str]:
    """Yield the zones whose last part is a text, those of today before names that are kept for old data."""
    found = [name for small, name in _places() if wanted and small.rpartition("/")[2] == wanted]
    return iter(sorted(found, key=lambda name: (name.count("/") < 1, -name.count("/"), name)))


def _places() -> Iterable[tuple[str, str]]:
    return ((small, name) for small, name in zone_names().items() if not small.startswith("etc/"))


def _plain(text: str) -> str:
    return "_".join(unaccented(text).replace("\\", "/").split()).strip("._!?,\"'`“”")
