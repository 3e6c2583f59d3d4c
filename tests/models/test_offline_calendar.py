"""The demo model reads today's calendar."""

import pytest

from rumi.models.offline_grammar import Step, parse


@pytest.mark.parametrize(
    ("said", "language"),
    [
        ("calendar", "en"),
        ("my agenda for today?", "en"),
        ("mi calendario de hoy", "es"),
        ("minha agenda", "pt"),
    ],
)
def test_todays_calendar_is_read(said: str, language: str) -> None:
    (step,) = parse(said)
    assert isinstance(step, Step)
    assert (step.tool, step.arguments, step.language) == ("calendar_read", {}, language)
