"""Parses and formats amounts of money or tokens, such as `2 USD` or `50,000 tokens`."""

import re
from dataclasses import dataclass
from typing import Final

from rumi.errors import UsageError
from rumi.models.metering import Unit
from rumi.platform.texts.formats import number
from rumi.texts import Language

NANO: Final = 1_000_000_000
MOST_USD: Final = 1_000_000
MOST_TOKENS: Final = 1_000_000_000_000

_MONEY = re.compile(
    r"(?:(?:US)?\$\s*)?(\d{1,9}(?:[.,]\d{1,9})?)\s*(USD|US\$|\$|d[oó]lar(?:es)?|dollars?)?", re.I
)
_TOKENS = re.compile(r"(\d{1,13}|\d{1,3}(?:[ ,._']\d{3}){1,4})\s*([kM]?)\s*tokens?", re.I)


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount in billionths of a USD, or in tokens."""

    unit: Unit
    most: int


def parse_amount(text: str) -> Amount:
    """Parse an amount such as `2 USD`, `0.50 usd`, `$2` or `500000 tokens`.

    Raises:
        UsageError: the text is not a valid amount.
    """
    text = text.strip()
    if (tokens := _TOKENS.fullmatch(text)) is not None:
        factor = {"": 1, "k": 1000, "m": 1_000_000}[tokens[2].lower()]
        count = int(re.sub(r"\D", "", tokens[1])) * factor
        if 0 < count <= MOST_TOKENS:
            return Amount("tokens", count)
    money = _MONEY.fullmatch(text)
    if money is not None and (money[2] or "$" in text):
        usd = float(money[1].replace(",", "."))
        if nano_of(usd) > 0 and usd <= MOST_USD:
            return Amount("usd", nano_of(usd))
    raise UsageError("{text} is not an amount.", "Write it like: 2 USD, or 50000 tokens.", text=f"{text!r}")


def nano_of(usd: float) -> int:
    """Convert USD to billionths of a USD."""
    return round(usd * NANO)


def as_usd(nano: int) -> float:
    """Convert billionths of a USD to USD."""
    return nano / NANO


def amount_text(language: Language, unit: Unit, most: int) -> str:
    """Format an amount for people. In English: `1.50 USD`, `0.0042 USD`, `50,000 tokens`."""
    if unit == "usd":
        digits = 2 if most >= NANO or most % (NANO // 100) == 0 else 4
        return f"{number(language, as_usd(most), digits)} USD"
    amount = number(language, most)
    return f"{amount} tokens" if unit == "tokens" else amount
