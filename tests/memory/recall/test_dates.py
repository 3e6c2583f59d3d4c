"""The spans of time that queries name."""

from datetime import date

import pytest

from rumi.memory.recall.dates import span_in
from rumi.platform.unaccented import unaccented

TODAY = date(2026, 11, 24)  # a Tuesday


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("the boiler in March", "2026-03-01", "2026-03-31"),
        ("en diciembre", "2025-12-01", "2025-12-31"),
        ("en marzo de 2024", "2024-03-01", "2024-03-31"),
        ("el martes pasado", "2026-11-17", "2026-11-17"),
        ("last friday", "2026-11-20", "2026-11-20"),
        ("ayer", "2026-11-23", "2026-11-23"),
        ("2026-03-05", "2026-03-05", "2026-03-05"),
        ("5 de mayo", "2026-05-05", "2026-05-05"),
        ("on May 5th", "2026-05-05", "2026-05-05"),
        ("last month", "2026-10-01", "2026-10-31"),
        ("el año pasado", "2025-01-01", "2025-12-31"),
        ("hace dos semanas", "2026-11-07", "2026-11-13"),
        ("in 2025", "2025-01-01", "2025-12-31"),
    ],
)
def test_a_span_is_read(text: str, first: str, last: str) -> None:
    found = span_in(unaccented(text), TODAY)
    assert found is not None
    assert (found.first.isoformat(), found.last.isoformat()) == (first, last)


@pytest.mark.parametrize(
    "text", ["the boiler", "may I go", "31 de febrero", "2026-13-45", "in 99999999 weeks"]
)
def test_other_words_and_days_that_do_not_exist_name_none(text: str) -> None:
    assert span_in(text, TODAY) is None
