"""Parses the time span in a search query, such as `in March`, `el martes pasado` or `2026-03-05`."""

import re
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from rumi.platform.date_words import MONTHS, SMALL_NUMBERS, WEEKDAYS

_WHOLE: Final = "|".join(name for name in MONTHS if len(name) > 3)
_ANY: Final = "|".join(MONTHS)
_N: Final = rf"(\d{{1,3}}|{'|'.join(SMALL_NUMBERS)})"
_UNITS: Final = {"day": 1, "dia": 1, "week": 7, "seman": 7, "month": 30, "mes": 30, "year": 365, "ano": 365}
_UNIT: Final = r"(day|dia|week|seman|month|mes|year|ano)[a-z]*"

_ISO: Final = re.compile(r"\b(\d{4})-(\d{1,2})(?:-(\d{1,2}))?\b")
_DAY_OF: Final = re.compile(
    rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of| de)? ({_ANY})\b(?:,? (?:de(?:l)? )?(\d{{4}}))?|"
    rf"\b({_ANY}) (\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (\d{{4}}))?"
)
_IN_MONTH: Final = re.compile(
    rf"\b(?:in|en|last|since|during|durante|desde|de|of|early|late|mid|principios de|fines de|mediados de)"
    rf" ({_WHOLE})\b(?: (?:de(?:l)? |of )?(\d{{4}}))?"
)
_AGO: Final = re.compile(rf"\b{_N} {_UNIT} ago\b|\bhace (?:como |unos |unas )?{_N} {_UNIT}\b")
_LAST: Final = re.compile(rf"\b(?:last|past) {_UNIT}\b|\b{_UNIT} pasad[oa]\b|\bultim[oa]s? {_UNIT}\b")
_WEEKDAY: Final = re.compile(
    rf"\b(?:last |el |on |este |this )({'|'.join(WEEKDAYS)})\b(?: pasado)?|\b({'|'.join(WEEKDAYS)}) pasado\b"
)
_DAYS: Final = {
    re.compile(r"\b(?:today|hoy|this morning|esta manana)\b"): 0,
    re.compile(r"\b(?:yesterday|ayer|last night|anoche)\b"): 1,
    re.compile(r"\b(?:anteayer|the day before yesterday|antes de ayer)\b"): 2,
}
_YEAR: Final = re.compile(r"\b(?:in|en|during|durante|del?) (20\d\d)\b")


@dataclass(frozen=True, slots=True)
class DateSpan:
    """Days from `first` to `last`, both included. `words` is the part of the query that names the days."""

    first: date
    last: date
    words: str = ""


def span_in(text: str, today: date) -> DateSpan | None:
    """Return the days that a text names, None if it names none. The text has no capitals or accents.

    An ambiguous date, such as a month without a year, is assumed to be in the past.
    """
    try:
        return _exact(text, today) or _relative(text, today)
    except (ValueError, OverflowError):  # a day that does not exist, such as 31 February
        return None


def _exact(text: str, today: date) -> DateSpan | None:
    if found := _ISO.search(text):
        year, month = int(found[1]), int(found[2])
        if found[3]:
            day = date(year, month, int(found[3]))
            return DateSpan(day, day, found[0])
        return DateSpan(*_month(year, month), found[0])
    if found := _DAY_OF.search(text):
        day_number, name = int(found[1] or found[5]), found[2] or found[4]
        year_text = found[3] or found[6]
        day = date(int(year_text) if year_text else today.year, MONTHS[name], day_number)
        if not year_text and day > today:
            day = day.replace(year=day.year - 1)
        return DateSpan(day, day, found[0])
    if found := _IN_MONTH.search(text):
        month = MONTHS[found[1]]
        year = int(found[2]) if found[2] else today.year - (month > today.month)
        return DateSpan(*_month(year, month), found[0])
    return None


def _relative(text: str, today: date) -> DateSpan | None:
    for pattern, days in _DAYS.items():
        if found := pattern.search(text):
            day = today - timedelta(days)
            return DateSpan(day, day, found[0])
    if found := _AGO.search(text):
        number, unit = (found[1], found[2]) if found[1] else (found[3], found[4])
        size = _UNITS[unit]
        middle = today - timedelta(size * (SMALL_NUMBERS.get(number) or int(number)))
        around = timedelta(size // 2)
        return DateSpan(middle - around, min(today, middle + around), found[0])
    if found := _WEEKDAY.search(text):
        back = (today.weekday() - WEEKDAYS[found[1] or found[2]]) % 7 or 7
        day = today - timedelta(back)
        return DateSpan(day, day, found[0])
    if found := _LAST.search(text):
        return DateSpan(*_last(next(unit for unit in found.groups() if unit), today), found[0])
    if found := _YEAR.search(text):
        return DateSpan(date(int(found[1]), 1, 1), date(int(found[1]), 12, 31), found[0])
    return None


def _last(unit: str, today: date) -> tuple[date, date]:
    match unit:
        case "week" | "seman":
            monday = today - timedelta(today.weekday() + 7)
            return monday, today
        case "month" | "mes":
            end = today.replace(day=1) - timedelta(1)
            return end.replace(day=1), end
        case "year" | "ano":
            return date(today.year - 1, 1, 1), date(today.year - 1, 12, 31)
        case _:
            return today - timedelta(2), today


def _month(year: int, month: int) -> tuple[date, date]:
    first = date(year, month, 1)
    following = date(year + month // 12, month % 12 + 1, 1)
    return first, following - timedelta(1)
