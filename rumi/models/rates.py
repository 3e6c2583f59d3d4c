"""Parsing of a server's rate limits, and of the wait that it asks for, from headers and bodies of errors."""

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

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


MAX_RETRY_AFTER_S: Final = 86_400.0
"""A longer wait counts as a day: limits may be per day, and a wrong date must not stop a model for good."""

_A_TIME_S: Final = 1e9
"""Larger numbers are points in time: seconds since 1970, or milliseconds if they are still larger."""

_ISO: Final = re.compile(r"\d{4}-\d\d-\d\d")
_MILLISECONDS: Final = ("retry-after-ms", "x-ms-retry-after-ms")
_RESETS: Final = ("x-ratelimit-reset-after", "ratelimit-reset", "x-ratelimit-reset")
_TRY_AGAIN: Final = re.compile(
    r"(?i)(?:try again|retry|wait|available|reset) (?:in|after|for) (?:about |approximately )?"
    r"((?:\d{1,9}(?:\.\d{1,9})? ?(?:ms|milliseconds?|s|seconds?|m|minutes?|h|hours?)(?![a-z]) ?)+)"
)
_WORDS: Final = re.compile(r"(\d+(?:\.\d+)?) ?(millis|ms|[smh])")


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait by a response's headers, at most `MAX_RETRY_AFTER_S`; None if they say none.

    The headers are `retry-after`, a number or a date (RFC 9110, 10.2.3), and `retry-after-ms` of OpenAI and
    Azure.
    """
    for name in _MILLISECONDS:
        if (milliseconds := _number(headers.get(name, "").strip())) is not None:
            return _bounded(milliseconds / 1000)
    return wait_s(headers.get("retry-after", ""))


def reset_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds until a refused request may be sent again, if headers of resets say so.

    OpenRouter and others send `x-ratelimit-reset`. If the window of requests or tokens is empty, its reset
    counts (`x-ratelimit-reset-tokens`, `anthropic-ratelimit-tokens-reset`).
    """
    for name in _RESETS:
        if (seconds := wait_s(headers.get(name, ""))) is not None:
            return seconds
    empty = [seconds for seconds in _resets_of_empty(headers) if seconds is not None]
    return max(empty, default=None)


def _resets_of_empty(headers: Mapping[str, str]) -> Iterator[float | None]:
    for what in ("requests", "tokens"):
        if _number(headers.get(f"x-ratelimit-remaining-{what}", "")) == 0:
            yield wait_s(headers.get(f"x-ratelimit-reset-{what}", ""))
        if _number(headers.get(f"anthropic-ratelimit-{what}-remaining", "")) == 0:
            yield wait_s(headers.get(f"anthropic-ratelimit-{what}-reset", ""))


def wait_s(text: str) -> float | None:
    """Return the seconds that a text says to wait: a number, a duration, or a date of HTTP or ISO 8601."""
    text = text.strip()
    if not text:
        return None
    seconds = duration_s(text)
    if seconds is not None and seconds > _A_TIME_S:
        seconds = (seconds / 1000 if seconds > 1000 * _A_TIME_S else seconds) - time.time()
    if seconds is None and (date := _date(text)) is not None:
        seconds = date.timestamp() - time.time()
    return None if seconds is None else _bounded(seconds)


def retry_in(error: Mapping[str, object]) -> float | None:
    """Return the seconds to wait by the body of an error; None if it says none.

    Google has `retryDelay` in a `RetryInfo` among its details, OpenRouter repeats the headers in its
    metadata, and others write it into the message.
    """
    for name, scale in (("retry_after_ms", 1000.0), ("retry_after", 1.0), ("retry_after_seconds", 1.0)):
        value = error.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _bounded(value / scale)
    details, metadata = error.get("details"), error.get("metadata")
    for detail in details[:20] if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if delay is None and isinstance(detail, dict) and isinstance(detail.get("metadata"), dict):
            delay = detail["metadata"].get("quotaResetDelay")
        if isinstance(delay, str) and (seconds := wait_s(delay)) is not None:
            return seconds
        if isinstance(delay, dict) and isinstance(delay.get("seconds"), int | str):
            return wait_s(str(delay["seconds"]))
    again = metadata.get("headers") if isinstance(metadata, dict) else None
    if isinstance(again, dict):
        headers = {str(name).lower(): str(value) for name, value in again.items()}
        seconds = retry_after_s(headers)
        if (seconds := reset_s(headers) if seconds is None else seconds) is not None:
            return seconds
    found = _TRY_AGAIN.search(str(error.get("message") or "")[:2000])
    if found is None:
        return None
    units = {"millis": 0.001, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
    return _bounded(sum(float(number) * units[unit] for number, unit in _WORDS.findall(found[1].lower())))


def _date(text: str) -> datetime | None:
    try:
        date = datetime.fromisoformat(text) if _ISO.match(text) else parsedate_to_datetime(text)
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def _bounded(seconds: float) -> float:
    return min(max(0.0, seconds), MAX_RETRY_AFTER_S) if seconds == seconds else 0.0


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
