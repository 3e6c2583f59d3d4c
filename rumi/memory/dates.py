"""Resolves relative dates such as `next year`, `mañana` and `hace 3 años`.

Facts contain absolute dates, which the user may never have written. To check such a date against the user's
words, this module derives the date's words from the relative dates in the user's messages.
"""

import re
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Final

from rumi.platform.date_words import MONTHS, SMALL_NUMBERS

_NUMBER: Final = rf"(\d{{1,2}}|{'|'.join(SMALL_NUMBERS)})"

_DAYS: Final = {
    re.compile(r"\b(?:today|tonight|hoy)\b"): 0,
    re.compile(r"\b(?:tomorrow|manana)\b"): 1,
    re.compile(r"\b(?:yesterday|last night|ayer|anoche)\b"): -1,
}
_MONTHS: Final = {
    re.compile(r"\b(?:this month|este mes)\b"): 0,
    re.compile(r"\b(?:next month|(?:el )?mes que viene|(?:el )?proximo mes)\b"): 1,
    re.compile(r"\b(?:last month|(?:el )?mes pasado)\b"): -1,
}
_YEARS: Final = {
    re.compile(r"\b(?:this year|este ano)\b"): 0,
    re.compile(r"\b(?:next year|ano que viene|proximo ano|ano proximo)\b"): 1,
    re.compile(r"\b(?:last year|ano pasado)\b"): -1,
}
_IN_YEARS: Final = re.compile(rf"\b(?:in|en|dentro de) {_NUMBER} (?:years?|anos?)\b")
_YEARS_AGO: Final = re.compile(
    rf"\b{_NUMBER} years? ago\b|\b(?:for|since) {_NUMBER} years?\b|\b(?:hace|desde hace) {_NUMBER} anos?\b"
)


def numbers_of(text: str, today: date) -> Iterator[str]:
    """Yield the words of all dates to which a text refers.

    Years, months and days are yielded as numbers, months also by name. `text` must not contain capitals or
    accents.
    """
    for pattern, days in _DAYS.items():
        if pattern.search(text):
            that = today + timedelta(days)
            yield from (str(that.year), *_month(that.month), *_both(that.day))
    for pattern, months in _MONTHS.items():
        if pattern.search(text):
            year, month = divmod(today.year * 12 + today.month - 1 + months, 12)
            yield from (str(year), *_month(month + 1))
    for pattern, years in _YEARS.items():
        if pattern.search(text):
            yield str(today.year + years)
    for found in _IN_YEARS.finditer(text):
        yield str(today.year + _number(found))
    for found in _YEARS_AGO.finditer(text):
        yield str(today.year - _number(found))


def _number(found: re.Match[str]) -> int:
    word = next(group for group in found.groups() if group)
    return SMALL_NUMBERS.get(word) or int(word)


def _month(number: int) -> tuple[str, ...]:
    names = [name for name, month in MONTHS.items() if month == number]
    return (*_both(number), *names[:2])


def _both(number: int) -> tuple[str, str]:
    return str(number), f"{number:02}"
