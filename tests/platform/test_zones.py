"""Names of time zones: what `TZ` may contain, what people write, and what a C library is told."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rumi.platform.zone_finding import zone_at, zone_said, zones_like
from rumi.platform.zones import (
    instant_at,
    is_utc,
    known_zone,
    local_at,
    posix_rule,
    rule_at,
    zone_names,
    zone_of,
    zone_of_machine,
    zone_of_variable,
)

JANUARY, JULY = (datetime(2026, month, 1, 12, tzinfo=UTC).timestamp() for month in (1, 7))


NOW = 1795773600  # 2026-11-27T10:00Z


def hours(zone: str, instant: float = JANUARY) -> float:
    """Return how many hours a zone is ahead of UTC."""
    offset = local_at(instant, zone).utcoffset()
    assert offset is not None
    return offset.total_seconds() / 3600


@pytest.mark.parametrize(
    ("value", "name", "winter", "summer"),
    [
        ("Europe/Madrid", "Europe/Madrid", 1, 2),
        (":Europe/Madrid", "Europe/Madrid", 1, 2),
        ("/usr/share/zoneinfo/Europe/Madrid", "Europe/Madrid", 1, 2),
        (":/usr/share/zoneinfo/posix/Asia/Tokyo", "Asia/Tokyo", 9, 9),
        ("/usr/share/zoneinfo/right/Asia/Tokyo", "Asia/Tokyo", 9, 9),
        ("/usr/lib/zoneinfo/US/Pacific", "US/Pacific", -8, -7),
        ("EST5EDT", "EST5EDT", -5, -4),
        ("<+0330>-3:30", "UTC+03:30", 3.5, 3.5),
        ("UTC-3", "UTC+03:00", 3, 3),  # POSIX counts the other way round
        ("GMT+5:45", "UTC-05:45", -5.75, -5.75),
        ("UTC0", "UTC", 0, 0),
        ("<-03>3", "UTC-03:00", -3, -3),
        ("JST-9", "UTC+09:00", 9, 9),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "CET-1CEST,M3.5.0,M10.5.0/3", 1, 2),
        ("CET-1CEST", "CET-1CEST,M3.2.0,M11.1.0", 1, 2),
        ("IST-1GMT0,M10.5.0,M3.5.0/1", "IST-1GMT0,M10.5.0,M3.5.0/1", 0, 1),
        ("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", 11, 10.5),
    ],
)
def test_a_variable_is_a_name_a_path_or_a_rule(value: str, name: str, winter: float, summer: float) -> None:
    found = zone_of_variable(value)
    assert (found, hours(found), hours(found, JULY)) == (name, winter, summer)
    assert known_zone(found) == found, "what is stored is read again"


@pytest.mark.parametrize(
    "value",
    [
        "",
        "nonsense",
        "UTC-25",
        "AAA99",
        "/etc/passwd",
        "../../etc/passwd",
        "/gone",
        "XX",
        "XXX-24:59",  # a time may be less than a day away from UTC
        "XXX24",
        "XXX-23:30YYY,M3.2.0,M11.1.0",
        "XXX-12YYY-24,M3.2.0,M11.1.0",
        "EST5EDT,M13.1.0,M4.1.0",
        "é",
    ],
)
def test_a_variable_that_means_no_zone_has_no_name(value: str) -> None:
    assert zone_of_variable(value) == ""
    assert known_zone(value) == ""


def test_the_machines_zone_is_the_variables_then_the_files(tmp_path: Path) -> None:
    assert zone_of_machine({"TZ": ":America/Lima"}) == "America/Lima"
    assert zone_of_machine({"TZ": "<+0330>-3:30"}) == "UTC+03:30"
    assert zone_of_machine({"TZ": ""}) == "UTC", "as the machine's own clock"
    assert zone_of_machine({}) == zone_of_machine({"TZ": "nonsense"})
    copied = tmp_path / "localtime"  # not a link, as in many containers: only its content tells
    copied.write_bytes((Path(zone_file("Europe/Madrid"))).read_bytes())
    assert zone_of_machine({"TZ": f":{copied}"}) == "CET-1CEST,M3.5.0,M10.5.0/3"


def zone_file(name: str) -> str:
    import tzdata

    return str(Path(tzdata.__file__).parent / "zoneinfo" / name)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("Europe/Madrid", "Europe/Madrid"),
        ("europe/madrid", "Europe/Madrid"),
        ("America/New York", "America/New_York"),
        ("new york", "America/New_York"),
        ("Buenos Aires", "America/Argentina/Buenos_Aires"),
        ("São Paulo", "America/Sao_Paulo"),
        ("bogotá", "America/Bogota"),
        ("US/Pacific", "US/Pacific"),
        ("Asia/Calcutta", "Asia/Calcutta"),
        ("UTC", "UTC"),
        ("z", "UTC"),
        ("+05:30", "UTC+05:30"),
        ("+0545", "UTC+05:45"),
        ("UTC+2", "UTC+02:00"),  # as people write it: ahead of UTC
        ("GMT-3", "UTC-03:00"),
        ("utc −3", "UTC-03:00"),
        ("UTC+14", "UTC+14:00"),
        (":Europe/Madrid", "Europe/Madrid"),
        ("<+0330>-3:30", "UTC+03:30"),
    ],
)
def test_people_name_zones_by_name_city_or_offset(said: str, name: str) -> None:
    assert zone_said(said) == name


@pytest.mark.parametrize(
    ("said", "like"),
    [
        ("Europe/Madird", "Europe/Madrid"),
        ("aukland", "Pacific/Auckland"),
        ("PST", "America/Los_Angeles"),
        ("IST", "Asia/Kolkata"),
        ("north dakota", "America/North_Dakota/Center"),
    ],
)
def test_an_unclear_name_is_not_guessed_and_similar_zones_are_proposed(said: str, like: str) -> None:
    assert zone_said(said) == ""
    assert like in zones_like(said)


@pytest.mark.parametrize(
    "said", ["", "nonsense", "UTC+15", "-13:00", "9", "Mars/Olympus", "x" * 5000, "../etc"]
)
def test_what_is_no_zone_is_none(said: str) -> None:
    assert zone_said(said) == ""


def test_each_zone_has_a_rule_that_the_c_library_reads_without_a_database(tmp_path: Path) -> None:
    names = [
        *sorted(zone_names().values())[::20],
        "UTC+05:30",
        "UTC-03:30",
        "UTC+14:00",
        "CET-1CEST,M3.5.0,M10.5.0/3",
    ]
    for name in names:
        environ = {**os.environ, "TZ": rule_at(name, NOW), "TZDIR": str(tmp_path)}
        shown = subprocess.check_output(["date", "-d", f"@{NOW}", "+%F %R"], env=environ, text=True)
        assert shown.strip() == f"{local_at(NOW, name):%Y-%m-%d %H:%M}", name
    code = f"import time; print(time.strftime('%F %R %z', time.localtime({NOW})))"
    environ = {**os.environ, "TZ": rule_at("Pacific/Kiritimati", NOW), "TZDIR": str(tmp_path)}
    shown = subprocess.check_output([sys.executable, "-c", code], env=environ, text=True)
    assert shown == "2026-11-28 00:00 +1400\n"


def test_the_rule_of_no_zone_is_wrong_at_present() -> None:
    """A zone whose country has decided on another clock keeps the old one until then."""
    for name in zone_names().values():
        if name != "Factory":
            assert hours(known_rule(name), NOW) == hours(name, NOW), name


def known_rule(name: str) -> str:
    """Return the canonical name of the zone with the rule of another one."""
    return zone_of_variable(rule_at(name, NOW))


def test_a_zone_of_a_rule_keeps_its_name_and_changes_its_clock() -> None:
    assert zone_of("Gone/Zone").key == "UTC"
    assert posix_rule("Gone/Zone") == "UTC0"
    assert instant_at(datetime(2026, 7, 1, 12), "UTC-03:00") == JULY + 3 * 3600
    assert is_utc("Atlantic/Reykjavik"), "what a browser says that hides its place"
    assert not is_utc("Europe/London")


@pytest.mark.parametrize(
    ("latitude", "longitude", "name"),
    [
        (40.4168, -3.7038, "Europe/Madrid"),
        (42.2314, -8.7124, "Europe/Madrid"),  # Vigo: nearer to Lisbon
        (-36.8485, 174.7633, "Pacific/Auckland"),
        (1.8721, -157.4278, "Pacific/Kiritimati"),
        (32.5149, -117.0382, "America/Tijuana"),
        (-34.6037, -58.3816, "America/Argentina/Buenos_Aires"),
        (0, -30, ""),  # the high seas
        (91, 0, ""),
        (float("nan"), 0, ""),
    ],
)
def test_a_place_has_its_zone(latitude: float, longitude: float, name: str) -> None:
    assert zone_at(latitude, longitude) == name
