from datetime import date, datetime, timedelta

import pytest
from babel.dates import format_date, format_skeleton
from babel.numbers import format_decimal
from hypothesis import given
from hypothesis import strategies as st

from docs.making import formats as making
from rumi.platform.texts.formats import day_and_month, full_date, language_name, number, weekday
from rumi.texts import languages

LOCALES = {"en": "en_GB"}


def test_the_stored_formats_are_those_of_cldr() -> None:
    assert making.TARGET.read_text("utf-8") == making.rendered(), "make texts"


@given(st.floats(-1e15, 1e15, allow_subnormal=False), st.integers(0, 4), st.sampled_from(languages()))
def test_numbers_are_written_as_babel_writes_them(value: float, digits: int, language: str) -> None:
    pattern = "#,##0" + ("." + "0" * digits if digits else "")
    locale = LOCALES.get(language, language)
    assert number(language, value, digits) == format_decimal(value, format=pattern, locale=locale)


@pytest.mark.parametrize("language", languages())
def test_every_day_of_a_year_is_written_as_babel_writes_it(language: str) -> None:
    locale = LOCALES.get(language, language)
    pattern = "EEEE d MMMM y" if language == "en" else "full"
    for days in range(366):
        day = datetime(2028, 1, 1) + timedelta(days)
        assert full_date(language, day.date()) == format_date(day.date(), pattern, locale=locale)
        assert day_and_month(language, day) == format_skeleton("MMMMd", day, locale=locale)


def test_names_of_days_and_languages() -> None:
    assert full_date("es", date(2026, 3, 1)) == "domingo, 1 de marzo de 2026"
    assert [weekday(language, 0) for language in ("en", "es", "pt")] == ["Monday", "lunes", "segunda-feira"]
    assert language_name("es_AR") == "Español (Argentina)"
