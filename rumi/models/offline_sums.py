"""Sums for the demo model: exact arithmetic on a text, with a parser of its own and bounded work."""

import re
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Final

from rumi.platform.unaccented import unaccented
from rumi.texts import Language

MOST_CHARS: Final = 200
"""Maximum length of a sum."""

MOST_DIGITS: Final = 60
"""Maximum number of digits of a result; a power with more digits is refused before it is computed."""

MOST_DEPTH: Final = 20
SHOWN_DIGITS: Final = 12
"""Significant digits of a result that has no exact decimal form."""

_ASKED: Final = re.compile(
    r"(?:(?P<en>what(?:'|\u2019)?s|what is|how much is|how much are|calculate|compute)"
    r"|(?P<es>cuantos? (?:es|son|da|dan)|calcula|calcular|cuentame)"
    r"|(?P<pt>quantos? (?:e|sao|da|dao)|calcule))\s*:?\s+"
)
_ARTICLE: Final = re.compile(r"(?:the|el|la|o|a) (?=\d)")
_WORDS: Final = (
    (r"(?:multiplied by|times|multiplicado por|vezes|por)", "*"),
    (r"(?:divided by|dividido por|dividido entre|over|entre)", "/"),
    (r"(?:plus|mas|mais)", "+"),
    (r"(?:minus|menos)", "-"),
)
_PERCENT: Final = re.compile(r"(?:%|\b(?:per cent|percent|por ciento|por cento)\b)\s*(?:of|de|del|do|da)\b")
_SIGNS: Final = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "^": "↑"})
_TOKEN: Final = re.compile(r"\s*(?:(?P<number>\d[\d.,]*)|(?P<sign>\*\*|[-+*/()↑%])|(?P<other>\S))")
_DATE: Final = re.compile(r"\d{4}-\d{1,2}(?:-\d{1,2})?|\d{1,2}/\d{1,2}/\d{2,4}|[\d -]{7,}|\d{1,2}:\d\d")
_EN_THOUSANDS: Final = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_THOUSANDS: Final = re.compile(r"\d{1,3}(?:\.\d{3})+(?:,\d+)?")
_PLAIN: Final = re.compile(r"\d+(?:[.,]\d+)?")
_SHOWN: Final = {"*": " × ", "/": " ÷ ", "+": " + ", "-": " − ", "↑": "^", "%": "%", "(": "(", ")": ")"}


class NoSum(Exception):
    """The text is not a sum, or its result is too long. `reason` is `zero` for a division by zero."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


def read_sum(text: str, language: Language) -> tuple[str, Language] | None:
    """Return the answer to a sum, and the language in which it was asked; None if the text is not a sum.

    Numbers are read in the language of the question, or in `language` for a bare sum: `1,000` is a thousand
    in English, and one in Spanish. The answer repeats the sum as it was understood. The answer is empty if
    the sum divides by zero.
    """
    plain = " ".join(unaccented(text).split()).strip(" ¿?¡!.=")
    if len(plain) > MOST_CHARS:
        return None
    if (asked := _ASKED.match(plain)) is not None:
        language = asked.lastgroup or language
        plain = _ARTICLE.sub("", plain[asked.end() :])
    elif _DATE.fullmatch(plain):
        return None
    for words, sign in _WORDS:
        # `por` and `entre` are signs only between numbers, so that prose is not read as a sum.
        plain = re.sub(rf"(?<=[\d)%])\s*\b{words}\b\s*(?=[-(\d])", f" {sign} ", plain)
    plain = re.sub(r"(?<=[\d)])\s*x\s*(?=[-(\d])", " * ", plain)
    plain = _PERCENT.sub("% * ", plain).translate(_SIGNS)
    try:
        parts = list(_parts(plain, language))
        if not any(isinstance(part, str) and part not in "()" for part in parts):
            return None
        value = _Arithmetic(parts).whole()
    except NoSum as error:
        return ("", language) if error.reason == "zero" else None
    equals, shown = _in_words(value, language)
    return f"{_repeated(parts, language)} {equals} {shown}", language


def _parts(text: str, language: Language) -> Iterator[str | Fraction]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            break
        at = match.end()
        if match["other"]:
            raise NoSum
        if match["number"]:
            yield _number(match["number"].rstrip(".,"), language)
        else:
            yield "↑" if match["sign"] == "**" else match["sign"]


def _number(text: str, language: Language) -> Fraction:
    thousands, comma = (_EN_THOUSANDS, ",") if language == "en" else (_THOUSANDS, ".")
    if thousands.fullmatch(text):
        text = text.replace(comma, "")
    elif not _PLAIN.fullmatch(text):
        raise NoSum
    return Fraction(text.replace(",", "."))


class _Arithmetic:
    """A recursive descent parser: sums of products of signed powers."""

    def __init__(self, parts: list[str | Fraction]) -> None:
        self._tokens = parts
        self._at = 0
        self._depth = 0

    def whole(self) -> Fraction:
        value = self._sum()
        if self._at < len(self._tokens):
            raise NoSum
        return value

    def _next(self) -> str | Fraction:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _sum(self) -> Fraction:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise NoSum
        value = self._product()
        while (sign := self._next()) in ("+", "-"):
            self._at += 1
            other = self._product()
            value = _bounded(value + other if sign == "+" else value - other)
        self._depth -= 1
        return value

    def _product(self) -> Fraction:
        value = self._signed()
        while (sign := self._next()) in ("*", "/"):
            self._at += 1
            other = self._signed()
            if sign == "/" and not other:
                raise NoSum("zero")
            value = _bounded(value * other if sign == "*" else value / other)
        return value

    def _signed(self) -> Fraction:
        negative = False
        while (sign := self._next()) in ("+", "-"):
            negative ^= sign == "-"
            self._at += 1
        value = self._power()
        return -value if negative else value

    def _power(self) -> Fraction:
        base = self._atom()
        if self._next() != "↑":
            return base
        self._at += 1
        exponent = self._signed_exponent()
        digits = max(len(str(base.numerator)), len(str(base.denominator)))
        if digits * abs(exponent) > MOST_DIGITS * 4:
            raise NoSum
        if not base and exponent < 0:
            raise NoSum("zero")
        return _bounded(base**exponent)

    def _signed_exponent(self) -> int:
        value = self._signed()
        if value.denominator != 1 or abs(value) > MOST_DIGITS * 4:
            raise NoSum
        return int(value)

    def _atom(self) -> Fraction:
        part = self._next()
        self._at += 1
        if isinstance(part, Fraction):
            if self._next() != "%":
                return part
            self._at += 1
            if self._next() != "*":  # `80 + 15%`: it is unclear of what
                raise NoSum
            return part / 100
        if part != "(":
            raise NoSum
        value = self._sum()
        if self._next() != ")":
            raise NoSum
        self._at += 1
        return value


def _bounded(value: Fraction) -> Fraction:
    if max(abs(value.numerator), value.denominator) >= 10**MOST_DIGITS:
        raise NoSum
    return value


def _in_words(value: Fraction, language: Language) -> tuple[str, str]:
    """Return `=` or `≈`, and the value as a decimal number."""
    exact = value.denominator
    for factor in (2, 5):
        while exact % factor == 0:
            exact //= factor
    with localcontext() as context:
        context.prec = MOST_DIGITS * 4 if exact == 1 else SHOWN_DIGITS
        number = Decimal(value.numerator) / Decimal(value.denominator)
    return ("=" if exact == 1 else "≈"), _decimal(number, language)


def _decimal(number: Decimal, language: Language) -> str:
    text = f"{number:f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    text = text.replace("-", "−")
    return text if language == "en" else text.replace(".", ",")


def _repeated(parts: list[str | Fraction], language: Language) -> str:
    """Return the sum as it was understood."""
    shown, unary = "", True
    for part in parts:
        if isinstance(part, Fraction):
            with localcontext() as context:
                context.prec = MOST_CHARS
                shown += _decimal(Decimal(part.numerator) / Decimal(part.denominator), language)
        else:
            shown += "−" if unary and part == "-" else _SHOWN[part]
        unary = not isinstance(part, Fraction) and part != ")"
    return shown
