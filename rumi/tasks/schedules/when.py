"""A strict parser for times in English and Spanish. It understands a text completely or not at all.

    in 20 minutes · tomorrow 09:00 · friday 18:30 · 2026-12-01 09:00 · every monday 08:00 · every 15 minutes
    en 20 minutos · mañana 09:00 · viernes 18:30 · 2026-12-01 09:00 · todos los lunes 08:00 · cada 15 minutos

It reads a few Portuguese forms too, and a recurrence in cron's five fields, `0 9 * * 1`. It never guesses: if
it does not understand a text, the program asks the user.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from typing import Final, TypeAlias

from rumi.platform.date_words import WEEKDAYS
from rumi.platform.unaccented import unaccented
from rumi.platform.zone_finding import zone_said
from rumi.platform.zones import offset_name
from rumi.tasks.schedules.times import NotATime, checked_cron, instant_of, local_time


@dataclass(frozen=True, slots=True)
class After:
    """A time relative to now: in exact minutes, or in days at the same local time.

    Minutes are exact even across a clock change.
    """

    minutes: int = 0
    days: int = 0


@dataclass(frozen=True, slots=True)
class On:
    """A local time on a date: on `day`, in `ahead` days, or on the next `weekday`.

    If none of the three is set, the date is the next day on which this time is still in the future. `zone` is
    the time zone of the time; if empty, it is the owner's.
    """

    at: time
    day: date | None = None
    ahead: int | None = None
    weekday: int | None = None
    zone: str = ""


@dataclass(frozen=True, slots=True)
class Every:
    """A recurrence in local time, as a cron expression with five fields; `zone` is as in `On`."""

    cron: str
    zone: str = ""


When: TypeAlias = After | On | Every

MOST_MINUTES: Final = 60 * 24 * 366 * 5

_MANY: Final = {f"{name}s": number for name, number in WEEKDAYS.items() if not name.endswith("s")}
_DAYS: Final = {**WEEKDAYS, **_MANY}
_DAY: Final = "|".join(sorted(_DAYS, key=len, reverse=True))
_ONE_DAY: Final = "|".join(WEEKDAYS)
_MANY_DAYS: Final = "|".join(_MANY)
_MINUTES: Final = r"minutes?|mins?|minutos?"
_HOURS: Final = r"hours?|horas?"
_TIME: Final = r"(?:at |a las? |as )?(?P<h>[01]?\d|2[0-3]):(?P<m>[0-5]\d)(?: ?(?P<half>[ap]m)| ?(?:hs?|h))?"
_HOUR: Final = r"(?:at|a las?|as) (?P<h>[01]?\d|2[0-3])"
"""An hour alone, of 24: only after a day, because a bare `at 9` may also mean the evening."""
_HALF: Final = r"(?:at )?(?P<h>1[0-2]|0?[1-9]) ?(?P<half>[ap]m)"
_NOON: Final = r"(?:at |al? )?(?P<noon>noon|midday|mediodia)"
_NIGHT: Final = ("tonight", "esta noche")
_TODAY: Final = ("today", "hoy", "hoje", *_NIGHT)
_EACH: Final = r"(?:every|each|cada|todos los|todas las|los)"
_LIST: Final = rf"(?P<days>(?:{_DAY})(?:(?:, | and | y |, and )(?:{_DAY}))*)"


def _minutes(found: re.Match[str]) -> When | None:
    number, unit = int(found["n"]), found["unit"]
    if re.fullmatch(_MINUTES, unit) or re.fullmatch(_HOURS, unit):
        minutes = number * (1 if unit.startswith("m") else 60)
        return After(minutes) if minutes <= MOST_MINUTES else None
    days = number * (1 if unit.startswith("d") else 7)
    return After(days=days) if days * 1440 <= MOST_MINUTES else None


def _time(found: re.Match[str]) -> time | None:
    groups = found.groupdict()
    if groups.get("noon"):
        return time(12)
    hour, minute, half = int(groups["h"]), int(groups.get("m") or 0), groups.get("half")
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half == "pm" else 0)
    return time(hour, minute)


def _on(found: re.Match[str]) -> When | None:
    at, groups = _time(found), found.groupdict()
    if at is None:
        return None
    if groups.get("date"):
        try:
            return On(at, date.fromisoformat(groups["date"]))
        except ValueError:
            return None
    if word := groups.get("ahead"):
        if word in _NIGHT and at.hour < 17:
            return None
        return On(at, ahead={"t": 1, "m": 1, "a": 1, "p": 2}[word[0]] if word not in _TODAY else 0)
    if day := groups.get("day"):
        return On(at, weekday=_DAYS[day])
    return On(at)


def _every_day(days: str) -> Callable[[re.Match[str]], When | None]:
    def read(found: re.Match[str]) -> When | None:
        at = _time(found)
        return None if at is None else Every(f"{at.minute} {at.hour} * * {days}")

    return read


def _every_weekday(found: re.Match[str]) -> When | None:
    at = _time(found)
    names = re.findall(_DAY, found["days"])
    if at is None or len(set(names)) < len(names):
        return None
    days = ",".join(str((_DAYS[name] + 1) % 7) for name in names)
    return Every(f"{at.minute} {at.hour} * * {days}")


def _every_month(found: re.Match[str]) -> When | None:
    at, number = _time(found), int(found["number"])
    if at is None or not 1 <= number <= 28:  # not every month has more
        return None
    return Every(f"{at.minute} {at.hour} {number} * *")


def _step(found: re.Match[str]) -> When | None:
    """Return an interval of minutes or hours as a recurrence; None if it does not divide an hour or a day."""
    # Cron restarts the step at each hour or day, so another step would have one interval of other length.
    number = int(found["n"] or 1)
    if re.fullmatch(_MINUTES, found["unit"]):
        if number == 60:
            return Every("0 * * * *")
        return Every("* * * * *" if number == 1 else f"*/{number} * * * *") if 60 % number == 0 else None
    if number == 1:
        return Every("0 * * * *")
    return Every(f"0 */{number} * * *") if number < 24 and 24 % number == 0 else None


_FORMS: Final[tuple[tuple[str, Callable[[re.Match[str]], When | None]], ...]] = (
    (
        rf"(?:in|en|em|dentro de|daqui a) (?P<n>[1-9]\d{{0,6}}) ?"
        rf"(?P<unit>{_MINUTES}|{_HOURS}|days?|dias?|weeks?|semanas?)",
        _minutes,
    ),
    *(
        (form.replace("TIME", at), read)
        for at in (_TIME, _HALF, _NOON, _HOUR)
        for form, read in (
            (r"(?:on |el )?(?P<date>\d{4}-\d\d-\d\d)(?:,? |t)TIME", _on),
            (
                r"(?P<ahead>today|tonight|tomorrow|hoy|hoje|esta noche|manana|amanha|pasado manana),? TIME",
                _on,
            ),
            (rf"(?:on |el )?(?P<day>{'|'.join(WEEKDAYS)}),? TIME", _on),
            *([] if at is _HOUR else [(r"TIME", _on)]),
            (r"(?:every day|each day|daily|cada dia|todos los dias),? TIME", _every_day("*")),
            (
                r"(?:every weekday|weekdays|on weekdays|cada dia habil|todos los dias habiles"
                r"|los dias habiles|de lunes a viernes|monday to friday|every monday to friday),? TIME",
                _every_day("1-5"),
            ),
            (r"(?:every weekend|los fines de semana|todos los fines de semana),? TIME", _every_day("0,6")),
            (rf"{_EACH} {_LIST},? TIME", _every_weekday),
            (rf"(?:on )?(?P<days>{_MANY_DAYS}),? TIME", _every_weekday),
            (
                r"(?:every month on(?: the| day)?|monthly on(?: the| day)?) (?P<number>\d\d?),? TIME",
                _every_month,
            ),
            (r"(?:cada mes el|todos los meses el|cada mes el dia) (?P<number>\d\d?),? TIME", _every_month),
            (r"el (?P<number>\d\d?) de cada mes,? TIME", _every_month),
        )
    ),
    (rf"(?:every|each|cada) (?:(?P<n>[1-9]\d?) )?(?P<unit>{_MINUTES}|{_HOURS})", _step),
    (r"(?P<n>)(?P<unit>hour)ly", _step),
)
_READ: Final = [(re.compile(form), read) for form, read in _FORMS]
_CRON: Final = re.compile(r"[0-9*][0-9a-z*/,#-]*(?: [0-9*a-z][0-9a-z*/,#-]*){4}")

_WITH_ZONE: Final = re.compile(
    r"(?P<head>.*\S)(?:,? \(?|\[)(?P<zone>[a-z_+-]+(?:/[a-z0-9_+-]+)+|utc|gmt"
    r"|(?:utc|gmt) ?[+\u2212-] ?\d{1,2}(?::?[0-5]\d)?|\+\d\d:?[0-5]\d)[)\]]?",
    re.IGNORECASE,
)
_ISO: Final = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d(?::?\d\d)?)?", re.I
)

MOST_WORDS: Final = 14
"""Number of words in the longest possible time."""

_GOES_ON: Final = frozenset(
    re.findall(
        r"\w+",
        "a after afternoon am and at before but cada days de del desde dias durante during e each el en"
        " evening every except excepto for from gmt h hasta hora horas hour hours hs if in la las los"
        " media medio mediodia menos minute minutes minuto minutos morning night noche noon o of on or"
        " para pero pm por salvo seconds segundos semanas sharp si tarde then til till to todas todo"
        " todos u until utc weeks y",
    )
)
"""Words that may continue a time. If such a word follows a time, the text is not parsed."""


def read_when(text: str) -> When | None:
    """Parse a text that consists only of a time; return None for any other text.

    A zone or an offset may follow a clock time: `09:00 Europe/Madrid`, `2026-12-01 09:00 UTC+2`.
    """
    if (when := _read(text) or _read_iso(text)) is not None:
        return when
    head, zone = _split_zone(text)
    when = _read(head) or _read_iso(head) if zone else None
    return replace(when, zone=when.zone or zone) if isinstance(when, On | Every) else None


def _split_zone(text: str) -> tuple[str, str]:
    """Return a text without the zone at its end, and the zone; the zone is empty if there is none."""
    found = _WITH_ZONE.fullmatch(text.strip().rstrip(".!"))
    zone = "" if found is None else zone_said(found["zone"])
    return (found["head"], zone) if found is not None and zone else (text, "")


def _read_iso(text: str) -> On | None:
    """Parse a date and a time as programs write them, with or without seconds and an offset."""
    if _ISO.fullmatch(text.strip()) is None:
        return None
    try:
        at = datetime.fromisoformat(text.strip().upper())
    except ValueError:
        return None
    ahead = at.utcoffset()
    zone = "" if ahead is None else offset_name(int(ahead.total_seconds() // 60))
    return On(at.time().replace(second=0, microsecond=0), at.date(), zone=zone)


def _read(text: str) -> When | None:
    plain = _plain(text)
    if _CRON.fullmatch(plain):
        try:
            return Every(checked_cron(plain))
        except NotATime:
            return None
    for form, read in _READ:
        found = form.fullmatch(plain)
        if found is not None and (when := read(found)) is not None:
            return when
    return None


def read_when_and_text(said: str) -> tuple[When, str] | None:
    """Split `said` into the time at its beginning and the text after it; return None if the split is unclear.

    The time and the text may be separated by a colon. Without a colon, the text must not begin with a word
    that could continue the time.
    """
    words = said.split(maxsplit=MOST_WORDS)
    # The longest time first: "tomorrow 09:00" must not be read as a shorter time and the rest as text.
    for many in range(min(MOST_WORDS, len(words) - 1), 0, -1):
        head = " ".join(words[:many])
        rest = said.split(maxsplit=many)[many].strip()
        closed = head.endswith(":")
        when = read_when(head.removesuffix(":"))
        if when is None:
            continue
        if closed:
            return (when, rest) if rest else None
        first = _plain(rest.split()[0]).strip(".,;:!?¡¿()\"'")
        return None if first in _GOES_ON or first[:1].isdigit() or first in _DAYS else (when, rest)
    return None


def instants(when: When, zone: str, now: float) -> float | None:
    """Return, in seconds since 1970, the instant that `when` means; None if it has passed or recurs."""
    if isinstance(when, Every):
        return None
    instant = meant(when, zone, now)
    return instant if instant > now else None


def meant(when: After | On, zone: str, said_at: float) -> float:
    """Return the instant that `when` means if it was said at `said_at`, both in seconds since 1970.

    Only a date that was said, or today's, can lead to an instant that had passed by then.
    """
    if isinstance(when, On):
        return _instant(when, when.zone or zone, said_at)
    if not when.days:
        return said_at + when.minutes * 60
    local = local_time(said_at, zone).replace(tzinfo=None, fold=0)
    return instant_of(local + timedelta(days=when.days), zone)


def _instant(on: On, zone: str, now: float) -> float:
    today = local_time(now, zone).date()
    if on.day is not None:
        return instant_of(datetime.combine(on.day, on.at), zone)
    if on.ahead is not None:
        return instant_of(datetime.combine(today + timedelta(days=on.ahead), on.at), zone)
    days = 0 if on.weekday is None else (on.weekday - today.weekday()) % 7
    instant = instant_of(datetime.combine(today + timedelta(days=days), on.at), zone)
    if instant > now:
        return instant
    days += 1 if on.weekday is None else 7
    return instant_of(datetime.combine(today + timedelta(days=days), on.at), zone)


def _plain(text: str) -> str:
    """Return the text casefolded, without accents, with single spaces and no final punctuation."""
    return " ".join(unaccented(text).split()).rstrip(".!")
