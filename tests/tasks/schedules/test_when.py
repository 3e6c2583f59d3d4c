"""The strict form of times: what it understands is right, and everything else is asked back."""

from datetime import datetime

import pytest

from rumi.tasks.schedules.times import instant_of, local_time
from rumi.tasks.schedules.tools import when_of
from rumi.tasks.schedules.when import After, Every, On, instants, read_when, read_when_and_text
from tests.tasks.schedules.phrases import ENGLISH, SPANISH

ZONE = "Europe/Madrid"
NOW = instant_of(datetime(2026, 11, 23, 10, 0), ZONE)


def understood(text: str) -> str | None:
    when = read_when(text)
    if when is None or isinstance(when, Every):
        return None if when is None else when.cron
    instant = instants(when, ZONE, NOW)
    assert instant is not None
    return local_time(instant, ZONE).replace(tzinfo=None).isoformat(timespec="minutes")


@pytest.mark.parametrize("phrases", [ENGLISH, SPANISH], ids=["en", "es"])
def test_of_forty_phrases_none_is_understood_wrongly(phrases: dict[str, str | None]) -> None:
    assert len(phrases) >= 40
    right = {text for text, meant in phrases.items() if meant is not None and understood(text) == meant}
    asked = {text for text, meant in phrases.items() if understood(text) is None}
    wrong = phrases.keys() - right - asked
    assert wrong == set()
    assert {text for text in asked if phrases[text] is not None} == set()
    assert len(right) >= 30


@pytest.mark.parametrize(
    ("said", "text"),
    [
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
    assert isinstance(at, On)
    assert instants(at, ZONE, NOW) == instant_of(datetime(2026, 12, 1, 9, 0), ZONE)
    for wrong in (
        {}, {"at": "2026-12-01"}, {"at": "soon"}, {"at": "2026-12-01T09:00Z"}, {"in_minutes": 0},
        {"in_minutes": True}, {"in_minutes": "5"}, {"cron": "x"}, {"cron": 5},
        {"at": "09:00", "in_minutes": 5},
    ):  # fmt: skip
        assert isinstance(when_of(wrong), str), wrong
