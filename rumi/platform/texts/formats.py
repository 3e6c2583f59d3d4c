"""Numbers, dates and times as a reader's language writes them.

The formats are those of CLDR: `make texts` writes them into `rumi/locale/formats.json`.
"""

import json
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import Any

from rumi.texts import LOCALE, Language


def number(language: Language, value: float, digits: int = 0) -> str:
    """Return a number with `digits` decimals and the language's separators."""
    formats = _formats(language)
    rounded = Decimal(str(value)).quantize(Decimal(1).scaleb(-digits))
    separators = str.maketrans({",": formats["group"], ".": formats["decimal"]})
    return f"{rounded:,f}".translate(separators)


def full_date(language: Language, day: date) -> str:
    """Return a date in words, with its day of the week."""
    return _date(language, "full_date", day)


def day_and_month(language: Language, day: datetime) -> str:
    """Return a date in words, without its year."""
    return _date(language, "day_and_month", day)


def weekday(language: Language, number: int) -> str:
    """Return the name of a day of the week; 0 is Monday."""
    return str(_formats(language)["weekdays"][number])


def language_name(language: Language) -> str:
    """Return the name of a language in that language, such as `Español` or `Español (Argentina)`."""
    return str(_formats(language)["name"])


def _date(language: Language, kind: str, day: date) -> str:
    formats = _formats(language)
    return str(formats[kind]).format(
        weekday=formats["weekdays"][day.weekday()],
        day=day.day,
        month=formats["months"][day.month - 1],
        year=day.year,
    )


def _formats(language: Language) -> dict[str, Any]:
    return _all_formats()[language]


@cache
def _all_formats() -> dict[str, dict[str, Any]]:
    formats: dict[str, dict[str, Any]] = json.loads((LOCALE / "formats.json").read_text("utf-8"))
    return formats
