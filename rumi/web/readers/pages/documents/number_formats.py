"""Numbers as spreadsheets show them, by the format of their cell (ECMA-376 part 1, 18.8.30 and 18.8.31).

Names of months and days are English, and dates whose format depends on the reader's country are ISO dates.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import takewhile
from typing import Final, TypeAlias

BUILT_IN: Final = {
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 5: "$#,##0;-$#,##0", 6: "$#,##0;-$#,##0",
    7: "$#,##0.00;-$#,##0.00", 8: "$#,##0.00;-$#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "# ?/?",
    13: "# ??/??", 14: "yyyy-mm-dd", 15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM",
    19: "h:mm:ss AM/PM", 20: "h:mm", 21: "h:mm:ss", 22: "yyyy-mm-dd h:mm", 37: "#,##0;-#,##0",
    38: "#,##0;-#,##0", 39: "#,##0.00;-#,##0.00", 40: "#,##0.00;-#,##0.00", 41: "#,##0", 42: "$#,##0",
    43: "#,##0.00", 44: "$#,##0.00", 45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss.0", 48: "##0.0E+0", 49: "@",
    **dict.fromkeys((*range(27, 32), 36, *range(50, 55), 57, 58), "yyyy-mm-dd"),
    **dict.fromkeys((32, 33, 34, 35, 55, 56), "h:mm"),
}  # fmt: skip
"""The formats that have a number instead of a code."""

_MOST_CODE_CHARS: Final = 500
_MOST_DECIMALS: Final = 30
_DIGITS: Final = "0#?"
_TOKEN: Final = re.compile(
    r"""
    "(?P<quoted>[^"]*)"? | \\(?P<escaped>.) | (?P<space>_.) | (?P<fill>\*.)
    | \[\$(?P<currency>[^\]-]*)[^\]]*\] | \[(?P<elapsed>h+|m+|s+)\] | \[(?P<bracket>[^\]]*)\]
    | (?P<half>AM/PM|A/P) | (?P<general>General|Standard) | (?P<power>E[+-]) | (?P<date>y+|m+|d+|h+|s+|e+)
    | (?P<other>.)
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_CONDITION: Final = re.compile(r"(<=|>=|<>|<|>|=)\s*(-?\d+(?:\.\d+)?)")
_MONTHS: Final = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_DAYS: Final = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_LAST_DAY: Final = 2_958_466  # the first day of the year 10000

_Token: TypeAlias = tuple[str, str]
"""The kind of a piece of a format, which is the name of its group above, and its text."""


def plain(value: float) -> str:
    """Return a number with up to 15 digits, which is all that spreadsheets store."""
    if value == int(value) and abs(value) < 1e21:
        return str(int(value))
    return f"{value:.15g}"


def shown(value: float, code: str, *, since_1904: bool = False) -> str:
    """Return a number as its cell shows it; a number that the format would hide is returned plain."""
    try:
        section, magnitude = _section(value, code[:_MOST_CODE_CHARS])
        if any(kind in ("date", "elapsed", "half") for kind, _ in section):
            text = _as_date(value, section, since_1904=since_1904)
        else:
            text = _as_number(magnitude, section)
    except (ValueError, ArithmeticError, LookupError):
        return plain(value) if value - value == 0 else str(value)
    return " ".join(text.split()) or plain(value)


@lru_cache(maxsize=500)
def _sections(code: str) -> tuple[tuple[_Token, ...], ...]:
    sections: list[list[_Token]] = [[]]
    for found in _TOKEN.finditer(code):
        kind = found.lastgroup or ""
        text = found[kind] or ""
        if kind == "other" and text == ";":
            sections.append([])
        elif kind not in ("space", "fill"):
            sections[-1].append((kind, text))
    return tuple(map(tuple, sections))


def _section(value: float, code: str) -> tuple[Sequence[_Token], float]:
    """Return the part of a format for a value, and the value without a sign that the part shows itself."""
    sections = _sections(code)
    conditions = [_condition(section) for section in sections[:3]]
    if any(conditions):
        for section, condition in zip(sections, conditions, strict=False):
            if condition is None or _meets(value, *condition):
                return section, value
        return sections[-1], value
    if value < 0 and len(sections) > 1:
        return sections[1], -value
    if value == 0 and len(sections) > 2:
        return sections[2], value
    return sections[0], value


def _condition(section: Sequence[_Token]) -> tuple[str, float] | None:
    for kind, text in section:
        if kind == "bracket" and (found := _CONDITION.fullmatch(text.strip())):
            return found[1], float(found[2])
    return None


def _meets(value: float, sign: str, bound: float) -> bool:
    equal = sign in ("<=", ">=", "=") and value == bound
    less, more = "<" in sign and value < bound, ">" in sign and value > bound
    return equal or less or more


def _literal(kind: str, text: str) -> str:
    return text if kind in ("quoted", "escaped", "currency", "other", "date", "half") else ""


def _as_number(value: float, section: Sequence[_Token]) -> str:
    if any(kind == "general" for kind, _ in section):
        return "".join(plain(value) if kind == "general" else _literal(kind, text) for kind, text in section)
    others = "".join(text if kind == "other" else "\0" for kind, text in section)
    places = [place for place, sign in enumerate(others) if sign in _DIGITS]
    if not places:
        text = "".join(
            plain(value) if (kind, text) == ("other", "@") else _literal(kind, text) for kind, text in section
        )
        return text if not text or value >= 0 or "@" in others else f"-{text}"
    sign = "-" if value < 0 else ""
    value = abs(value) * 100 ** others.count("%")
    before = "".join(_literal(*token) for token in section[: places[0]])
    after = "".join(_literal(*token) for token in section[places[-1] + 1 :])
    pattern = section[places[0] : places[-1] + 1]
    if (bar := others.find("/", places[0], places[-1])) > 0:
        return f"{sign}{before}{_as_fraction(value, others, bar)}{after}"
    if any(kind == "power" for kind, _ in pattern):
        return f"{sign}{before}{_as_power(value, pattern)}{after}"
    value /= 1000 ** len([*takewhile(lambda letter: letter == ",", others[places[-1] + 1 :])])
    digits = _with_places(value, pattern)
    sign = sign if any(digit in "123456789" for digit in digits) else ""
    return f"{sign}{before.strip()}{' ' * before.endswith(' ')}{digits}{after.lstrip(',')}"


def _with_places(value: float, pattern: Sequence[_Token]) -> str:
    """Return a number that is not negative with the digits, thousands and decimals of a pattern."""
    point = next((place for place, token in enumerate(pattern) if token == ("other", ".")), len(pattern))
    whole, decimals = pattern[:point], pattern[point + 1 :]
    signs = [text for kind, text in decimals if kind == "other" and text in _DIGITS][:_MOST_DECIMALS]
    with localcontext() as context:
        context.prec = 400
        exact = Decimal(repr(value)).quantize(Decimal(1).scaleb(-len(signs)), ROUND_HALF_UP)
    integer, _, fraction = f"{exact:f}".partition(".")
    kept = len(signs)
    while kept and signs[kept - 1] != "0" and fraction[kept - 1] == "0":
        kept -= 1
    text = _with_thousands(integer, whole)
    if kept:
        text += "." + fraction[:kept]
    return text + "".join(
        _literal(*token) for token in decimals if not (token[0] == "other" and token[1] in _DIGITS + ",")
    )


def _with_thousands(integer: str, pattern: Sequence[_Token]) -> str:
    signs = [text for kind, text in pattern if kind == "other" and text in _DIGITS]
    zeros = signs.count("0")
    digits = integer.zfill(zeros) if zeros or integer != "0" else ""
    if ("other", ",") in pattern:
        return f"{int(digits):0{len(digits)}d}" if not digits.isdigit() else _grouped(digits)
    if len(signs) == len(pattern):
        return digits
    # Literals between the digits, as in a telephone number: filled from the right.
    out: list[str] = []
    left, places = list(digits), len(signs)
    for kind, text in reversed(pattern):
        if kind == "other" and text in _DIGITS:
            places -= 1
            out.append(left.pop() if left else "")
            if not places:
                out.extend(reversed(left))
        elif left or places:
            out.append(_literal(kind, text))
    return "".join(reversed(out))


def _grouped(digits: str) -> str:
    first = len(digits) % 3
    groups = [digits[:first], *(digits[at : at + 3] for at in range(first, len(digits), 3))]
    return ",".join(filter(None, groups))


def _as_power(value: float, pattern: Sequence[_Token]) -> str:
    place = next(number for number, (kind, _) in enumerate(pattern) if kind == "power")
    decimals = "".join(text for kind, text in pattern[:place] if kind == "other").partition(".")[2]
    least = sum(text == "0" for _, text in pattern[place:])
    mantissa, _, power = f"{value:.{min(len(decimals), _MOST_DECIMALS)}E}".partition("E")
    return f"{mantissa}E{power[0]}{power[1:].lstrip('0').zfill(least)}"


def _as_fraction(value: float, others: str, bar: int) -> str:
    below = "".join(takewhile(lambda sign: sign in "0123456789#?", others[bar + 1 :]))
    whole = bool(set(_DIGITS) & set(others[:bar].rstrip(_DIGITS)))
    integer, rest = divmod(value, 1) if whole else (0, value)
    exact = Fraction(rest)
    if below.isdecimal() and below.strip("0"):
        top, bottom = round(exact * int(below)), int(below)
    else:
        near = exact.limit_denominator(10 ** min(4, len(below)) - 1)
        top, bottom = near.numerator, near.denominator
    if top == bottom:
        integer, top = integer + 1, 0
    parts = [str(int(integer))] if integer or not top else []
    return " ".join([*parts, *([f"{top}/{bottom}"] if top else [])])


def _as_date(value: float, section: Sequence[_Token], *, since_1904: bool) -> str:
    if not 0 <= value < _LAST_DAY:
        return plain(value)
    times = [
        (number, text[0].lower())
        for number, (kind, text) in enumerate(section)
        if kind in ("date", "elapsed")
    ]
    decimals = _second_decimals(section)
    # Rounded as shown: 10:59:59.9996 is 11:00:00 unless the format has decimals.
    seconds = round(value * 86_400, min(3, decimals))
    # Spreadsheets count a 29 February 1900, which did not exist, so earlier days are one later.
    first = datetime(1904, 1, 1) if since_1904 else datetime(1899, 12, 30) + timedelta(days=value < 60)
    moment = first + timedelta(seconds=seconds)
    half = any(kind == "half" for kind, _ in section)
    out: list[str] = []
    skip = 0
    for number, (kind, text) in enumerate(section):
        if skip:
            skip -= 1
        elif kind == "elapsed":
            unit = {"h": 3600, "m": 60, "s": 1}[text[0].lower()]
            out.append(str(int(seconds // unit)).zfill(len(text)))
        elif kind == "half":
            sign = "AM" if moment.hour < 12 else "PM"
            out.append(sign if len(text) > 3 else sign[0])
        elif kind == "date":
            out.append(_date_part(moment, text.lower(), half=half, minutes=_is_minutes(times, number)))
        elif (kind, text) == ("other", ".") and decimals and _after_seconds(section, number):
            out.append(f".{moment.microsecond:06d}"[: decimals + 1])
            skip = decimals
        else:
            out.append(_literal(kind, text))
    return "".join(out)


def _is_minutes(times: Sequence[tuple[int, str]], number: int) -> bool:
    """Return True if the letters m at a place mean minutes: they stand after hours or before seconds."""
    at = next(place for place, (found, _) in enumerate(times) if found == number)
    return (at > 0 and times[at - 1][1] == "h") or (at + 1 < len(times) and times[at + 1][1] == "s")


def _after_seconds(section: Sequence[_Token], number: int) -> bool:
    return number > 0 and section[number - 1][0] in ("date", "elapsed") and section[number - 1][1][0] in "sS"


def _second_decimals(section: Sequence[_Token]) -> int:
    for number, token in enumerate(section):
        if token == ("other", ".") and _after_seconds(section, number):
            return len([*takewhile(lambda token: token == ("other", "0"), section[number + 1 :])])
    return 0


def _date_part(moment: datetime, letters: str, *, half: bool, minutes: bool) -> str:
    count = len(letters)
    match letters[0]:
        case "y" | "e":
            return f"{moment.year:04d}" if count > 2 or letters[0] == "e" else f"{moment.year % 100:02d}"
        case "m" if minutes:
            return str(moment.minute).zfill(min(count, 2))
        case "m" if count > 2:
            name = _MONTHS[moment.month - 1]
            return name[0] if count == 5 else name[:3] if count == 3 else name
        case "m":
            return str(moment.month).zfill(count)
        case "d" if count > 2:
            name = _DAYS[moment.weekday()]
            return name[:3] if count == 3 else name
        case "d":
            return str(moment.day).zfill(count)
        case "h":
            hour = (moment.hour % 12 or 12) if half else moment.hour
            return str(hour).zfill(min(count, 2))
        case _:
            return str(moment.second).zfill(min(count, 2))
