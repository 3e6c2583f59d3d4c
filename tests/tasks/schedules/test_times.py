"""Local times around clock changes, in all zones; recurrences, quiet hours, names of zones."""

from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise

import pytest

from rumi.platform.zones import zone_of, zone_of_machine
from rumi.tasks.schedules.times import (
    NotATime,
    checked_cron,
    following,
    instant_of,
    latest,
    local_time,
    named_zone,
    quiet_hours,
)
from tests.tasks.schedules.zones import changing_zones

changes = cache(changing_zones)


def wall(instant: float, zone: str) -> datetime:
    return local_time(instant, zone).replace(tzinfo=None, fold=0)


def at(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone_of(zone)).timestamp()


def check_day(zone: str, local: datetime, change: int) -> None:
    """A daily recurrence at that time comes once on each day around the change, skipped times at its end."""
    cron = f"{local.minute} {local.hour} * * *"
    found, instant = [], change - 2.5 * 86_400
    while (instant := following(cron, zone, instant)) < change + 2.5 * 86_400:
        found.append(instant)
    named = set()
    day = (wall(found[0], zone) - timedelta(days=1)).date()
    for _ in range(8):
        named.add(instant_of(datetime.combine(day, local.time()), zone))
        day += timedelta(days=1)
    assert found == sorted(moment for moment in named if found[0] <= moment <= found[-1])
    assert len(set(found)) == len(found)
    for moment in found:
        shown = wall(moment, zone)
        assert shown.time() == local.time() or moment == change, (zone, local, shown)
        if shown.time() == local.time() and local_time(moment, zone).fold:
            raise AssertionError(f"{zone}: {shown} is the second of two")


@pytest.mark.parametrize(("first", "last"), [(2026, 2036), pytest.param(2010, 2020, marks=pytest.mark.long)])
def test_each_time_comes_once_around_every_change_of_every_zone(first: int, last: int) -> None:
    checked = 0
    for zone, moments in changes(first, last).items():
        for change in moments:
            before = wall(change - 1, zone)
            for minutes in (-30, 0, 15, 30, 59, 90):
                check_day(zone, before.replace(second=0) + timedelta(minutes=minutes), change)
                checked += 1
    assert checked > 3_000


@pytest.mark.parametrize("cron", ["*/15 * * * *", "0 * * * *", "*/30 2 * * *", "0 */2 * * *"])
def test_no_recurrence_comes_twice_or_goes_silent_around_a_change(cron: str) -> None:
    longest = {"*/15 * * * *": 900, "0 * * * *": 5400, "0 */2 * * *": 14_400}.get(cron, 26 * 3600)
    for zone, moments in changes(2026, 2036).items():
        for change in moments[:4]:
            found, instant = [], change - 90_000.0
            while (instant := following(cron, zone, instant)) < change + 90_000:
                found.append(instant)
            gaps = [later - sooner for sooner, later in pairwise(found)]
            assert min(gaps) > 0
            assert max(gaps) <= longest, (zone, cron, max(gaps))


def test_a_skipped_time_is_the_end_of_what_is_skipped_and_a_repeated_one_the_first() -> None:
    skipped = instant_of(datetime(2027, 3, 28, 2, 30), "Europe/Madrid")
    assert skipped == at("2027-03-28T03:00", "Europe/Madrid")
    repeated = instant_of(datetime(2026, 10, 25, 2, 30), "Europe/Madrid")
    assert repeated == at("2026-10-25T00:30+00:00")
    half = instant_of(datetime(2026, 10, 4, 2, 15), "Australia/Lord_Howe")
    assert wall(half, "Australia/Lord_Howe") == datetime(2026, 10, 4, 2, 30)


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "America/Los_Angeles", "UTC-12:00"])
@pytest.mark.parametrize(
    "said", ["0001-01-01T00:00", "0001-01-02T23:59", "9999-12-30T00:00", "9999-12-31T23:59:59"]
)
def test_the_first_and_the_last_days_of_the_calendar_have_an_instant_in_each_zone(
    zone: str, said: str
) -> None:
    instant = instant_of(datetime.fromisoformat(said), zone)
    for other in ("Pacific/Kiritimati", "America/Los_Angeles"):
        assert local_time(instant, other).year == int(said[:4])


def test_the_latest_instant_is_found_among_few_and_among_very_many() -> None:
    first = at("2026-11-01T09:00")
    assert latest("0 9 * * *", "UTC", first, at("2026-11-03T10:00")) == (at("2026-11-03T09:00"), 2)
    assert latest("0 9 * * *", "UTC", first, first + 1) == (first, 0)
    assert latest("* * * * *", "UTC", first, at("2027-11-01T09:00:30")) == (at("2027-11-01T09:00"), 1000)


@pytest.mark.parametrize(
    "wrong", ["", "* * * *", "* * * * * *", "61 * * * *", "0 0 30 2 *", "@daily", "x" * 200]
)
def test_a_recurrence_has_five_fields_and_comes_some_day(wrong: str) -> None:
    with pytest.raises(NotATime):
        checked_cron(wrong)


def test_quiet_hours_end_in_the_morning_of_their_zone() -> None:
    night = quiet_hours("23:00-08:00")
    assert night is not None
    madrid = "Europe/Madrid"
    assert night.until(at("2026-11-23T23:30", madrid), madrid) == at("2026-11-24T08:00", madrid)
    assert night.until(at("2026-11-24T07:59", madrid), madrid) == at("2026-11-24T08:00", madrid)
    for free in ("2026-11-24T08:00", "2026-11-24T22:59"):
        assert night.until(at(free, madrid), madrid) == at(free, madrid)
    noon = quiet_hours("12:00-14:00")
    assert noon is not None
    assert noon.until(at("2026-11-24T13:00"), "UTC") == at("2026-11-24T14:00")
    assert quiet_hours("") is None
    for wrong in ("23-8", "23:00", "08:00-08:00", "24:00-08:00"):
        with pytest.raises(ValueError):
            quiet_hours(wrong)


def test_a_zone_has_its_name_and_a_city_suffices_if_it_is_clear() -> None:
    assert named_zone("europe/madrid") == "Europe/Madrid"
    assert named_zone("America/New York") == "America/New_York"
    assert named_zone("Madrid") == "Europe/Madrid"
    with pytest.raises(NotATime, match="Europe/Madrid"):
        named_zone("Madird")
    with pytest.raises(NotATime):
        named_zone("../etc/passwd")
    assert zone_of_machine({"TZ": ":America/Lima"}) == "America/Lima"
    assert zone_of("Gone/Zone").key == "UTC"
    assert datetime.fromtimestamp(0, UTC).year == 1970
