"""The strict form of times: what it understands is right, and everything else is asked back."""

from datetime import date, datetime, time

import pytest

from rumi.tasks.schedules.times import instant_of, local_time
from rumi.tasks.schedules.tools import when_of
from rumi.tasks.schedules.when import After, Every, On, instants, read_when, read_when_and_text
from tests.tasks.schedules.phrases import ENGLISH, SPANISH

ZONE = "Europe/Madrid"
AHEAD_AND_BEHIND = (
    "Pacific/Auckland",
    "Pacific/Kiritimati",
    "America/Los_Angeles",
    "Asia/Kathmandu",
    "UTC-03:00",
)
TEN = datetime(2026, 11, 23, 10, 0)
NOW = instant_of(TEN, ZONE)


def understood(text: str, zone: str = ZONE, local: datetime = TEN) -> str | None:
    """Return the local time that a text means if it is said at a local time in a zone."""
    when = read_when(text)
    if when is None or isinstance(when, Every):
        return None if when is None else when.cron
    instant = instants(when, zone, instant_of(local, zone))
    assert instant is not None
    return local_time(instant, zone).replace(tzinfo=None).isoformat(timespec="minutes")


@pytest.mark.parametrize("zone", [ZONE, *AHEAD_AND_BEHIND])
@pytest.mark.parametrize("phrases", [ENGLISH, SPANISH], ids=["en", "es"])
def test_of_forty_phrases_none_is_understood_wrongly(phrases: dict[str, str | None], zone: str) -> None:
    assert len(phrases) >= 40
    right = {text for text, meant in phrases.items() if meant is not None and understood(text, zone) == meant}
    asked = {text for text, meant in phrases.items() if understood(text, zone) is None}
    wrong = phrases.keys() - right - asked
    assert wrong == set()
    assert {text for text in asked if phrases[text] is not None} == set()
    assert len(right) >= 30


@pytest.mark.parametrize("zone", AHEAD_AND_BEHIND)
def test_around_midnight_the_day_is_the_persons(zone: str) -> None:
    evening, night = datetime(2026, 11, 26, 23, 50), datetime(2026, 11, 27, 0, 10)  # a Thursday, a Friday
    for text, said_in_the_evening, said_at_night in (
        ("tomorrow 09:00", "2026-11-27T09:00", "2026-11-28T09:00"),
        ("in 20 minutes", "2026-11-27T00:10", "2026-11-27T00:30"),
        ("friday 09:00", "2026-11-27T09:00", "2026-11-27T09:00"),
        ("el viernes a las 09:00", "2026-11-27T09:00", "2026-11-27T09:00"),
        ("thursday 23:55", "2026-11-26T23:55", "2026-12-03T23:55"),
        ("noon", "2026-11-27T12:00", "2026-11-27T12:00"),
        ("today 23:59", "2026-11-26T23:59", "2026-11-27T23:59"),
        ("pasado mañana 09:00", "2026-11-28T09:00", "2026-11-29T09:00"),
        ("in 1 day", "2026-11-27T23:50", "2026-11-28T00:10"),
    ):
        said = understood(text, zone, evening), understood(text, zone, night)
        assert said == (said_in_the_evening, said_at_night), text


@pytest.mark.parametrize(
    ("zone", "before", "text", "meant"),
    [
        ("America/Los_Angeles", "2027-03-13T20:00", "tomorrow 02:30", "2027-03-14T03:00-07:00"),  # skipped
        ("America/Los_Angeles", "2026-10-31T20:00", "tomorrow 01:30", "2026-11-01T01:30-07:00"),  # repeated
        ("America/Los_Angeles", "2026-10-31T20:00", "in 8 hours", "2026-11-01T03:00-08:00"),
        ("Pacific/Auckland", "2026-09-26T20:00", "tomorrow 02:30", "2026-09-27T03:00+13:00"),
        ("Pacific/Auckland", "2027-04-03T20:00", "tomorrow 02:30", "2027-04-04T02:30+13:00"),
        ("Pacific/Auckland", "2027-04-03T20:00", "in 1 day", "2027-04-04T20:00+12:00"),
        ("Australia/Lord_Howe", "2026-10-03T20:00", "tomorrow 02:15", "2026-10-04T02:30+11:00"),
    ],
)
def test_a_skipped_time_is_the_first_after_it_and_a_repeated_one_the_first(
    zone: str, before: str, text: str, meant: str
) -> None:
    when = read_when(text)
    assert when is not None
    instant = instants(when, zone, instant_of(datetime.fromisoformat(before), zone))
    assert instant == datetime.fromisoformat(meant).timestamp()


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("tomorrow 09:00 Europe/Madrid: call", "call"),
        ("tomorrow 09:00 UTC call", "call"),
        ("tomorrow 09:00 Japan trip", "Japan trip"),  # not the zone Japan
        ("tomorrow 09:00 call the dentist", "call the dentist"),
        ("tomorrow 09:00: a meeting", "a meeting"),
        ("in 20 minutes: tea", "tea"),
        ("0 9 * * 1 water the plants", "water the plants"),
        ("mañana 09:00 llamar a Juan: urgente", "llamar a Juan: urgente"),
        ("todos los lunes 08:00: regar\nlas plantas", "regar\nlas plantas"),
    ],
)
def test_a_text_stands_behind_its_time(said: str, text: str) -> None:
    read = read_when_and_text(said)
    assert read is not None
    assert read[1] == text


@pytest.mark.parametrize(
    "said",
    [
        "",
        "tomorrow 09:00",
        "tomorrow 09:00:",
        "call the dentist",
        "in 20 minutes and 30 seconds tea",
        "every monday 08:00 and thursday 09:00 swim",
        "every day 09:00 until friday pills",
        "mañana 9:00 de la noche salir",
        "tomorrow 09:00 11:00 both",
        "every 15 minutes for an hour: stretch",
        "0 9 * * 1 2 two ones",
    ],
)
def test_a_time_that_may_go_on_is_asked_back(said: str) -> None:
    assert read_when_and_text(said) is None


def test_a_time_that_is_over_has_no_instant() -> None:
    for text in ("today 09:00", "2026-11-23 10:00", "2020-01-01 00:00"):
        when = read_when(text)
        assert when is not None
        assert instants(when, ZONE, NOW) is None


def test_days_keep_the_local_time_over_a_clock_change() -> None:
    before = instant_of(datetime(2026, 10, 24, 10, 0), ZONE)
    assert instants(After(days=1), ZONE, before) == before + 25 * 3600
    assert instants(After(24 * 60), ZONE, before) == before + 24 * 3600


def test_the_times_of_tools_are_typed() -> None:
    assert when_of({"in_minutes": 20}) == After(20)
    assert when_of({"cron": "0 9 * * mon"}) == Every("0 9 * * MON")
    at = when_of({"at": "2026-12-01T09:00"})
    for minutes in ("20", 20.0, "20 minutes", " 20 ", "20 min", "in 20 minutes", 19.6):
        assert when_of({"in_minutes": minutes}) == After(20), minutes
    for at_text, zone in {
        "2026-12-01T09:00Z": "UTC",
        "2026-12-01T09:00-08": "UTC-08:00",
        "2026-12-01T09:00:00+13:00": "UTC+13:00",
        "2026-12-01 09:00-0330": "UTC-03:30",
        "2026-12-01T09:00 Europe/Madrid": "Europe/Madrid",
        "2026-12-01T09:00+01:00[Europe/Madrid]": "UTC+01:00",
        "2026-12-01T09:00:59": "",
    }.items():
        assert when_of({"at": at_text}) == On(time(9), date(2026, 12, 1), zone=zone), at_text
    assert isinstance(at, On)
    assert instants(at, ZONE, NOW) == instant_of(datetime(2026, 12, 1, 9, 0), ZONE)
    for wrong in (
        {}, {"at": "2026-12-01"}, {"at": "soon"}, {"in_minutes": 0}, {"in_minutes": True},
        {"in_minutes": "0"}, {"in_minutes": -5}, {"in_minutes": 0.2}, {"in_minutes": float("nan")},
        {"in_minutes": "soon"},
        {"in_minutes": [5]}, {"cron": "x"}, {"cron": 5}, {"at": "09:00", "in_minutes": 5},
        {"at": "2026-02-30T09:00"}, {"at": "2026-12-01T09:00 Mars/Olympus"},
    ):  # fmt: skip
        assert isinstance(when_of(wrong), str), wrong
