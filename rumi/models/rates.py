"""Parsing of a server's rate limits from response headers."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True)
class Window:
    """One rate limit: its size, the amount that remains, and the seconds until the full amount is available.

    Groq counts requests per day and tokens per minute; both refill linearly.
    """

    limit: float
    remaining: float
    reset_s: float


@dataclass(frozen=True, slots=True)
class RateLimits:
    """The limits of one model that one response reported. A limit that was not reported is None."""

    requests: Window | None = None
    tokens: Window | None = None
    retry_after_s: float | None = None


def rate_limits(headers: Mapping[str, str]) -> RateLimits | None:
    """Return the limits in the headers `x-ratelimit-*` and `retry-after`; None without such headers."""
    limits = RateLimits(
        requests=_window(headers, "requests"),
        tokens=_window(headers, "tokens"),
        retry_after_s=retry_after_s(headers),
    )
    return None if limits == RateLimits() else limits


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait by the header `retry-after`, a number or a date (RFC 9110, 10.2.3)."""
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    seconds = _number(text)
    if seconds is None:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds)


def duration_s(text: str) -> float | None:
    """Return the seconds in a duration in Groq's format: `7.66s`, `2m59.56s`, `120ms`; None if invalid."""
    if (seconds := _number(text)) is not None:
        return seconds
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def _window(headers: Mapping[str, str], what: str) -> Window | None:
    limit = _number(headers.get(f"x-ratelimit-limit-{what}", ""))
    remaining = _number(headers.get(f"x-ratelimit-remaining-{what}", ""))
    reset_s = duration_s(headers.get(f"x-ratelimit-reset-{what}", ""))
    if limit is None or remaining is None or reset_s is None:
        return None
    return Window(limit, remaining, reset_s)


def _number(text: str) -> float | None:
    # Not float(): it accepts "nan" and "inf" too.
    return float(text) if re.fullmatch(r"\d{1,15}(\.\d{1,15})?", text) else None
