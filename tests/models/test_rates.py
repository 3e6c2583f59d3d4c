import pytest

from rumi.models.rates import RateLimits, Window, duration_s, rate_limits, retry_after_s


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7.66s", 7.66),
        ("2m59.56s", 179.56),
        ("120ms", 0.12),
        ("1h2m3s", 3723),
        ("1d", 86400),
        ("12", 12),
        ("0", 0),
        ("", None),
        ("soon", None),
        ("-3s", None),
        ("nan", None),
        ("inf", None),
        ("3 s", None),
        ("1e9s", None),
    ],
)
def test_durations_are_read_as_groq_writes_them(text: str, seconds: float | None) -> None:
    assert duration_s(text) == (seconds if seconds is None else pytest.approx(seconds))


def test_a_window_needs_all_of_its_three_headers() -> None:
    headers = {"x-ratelimit-limit-tokens": "8000", "x-ratelimit-remaining-tokens": "1"}
    assert rate_limits(headers) is None
    headers["x-ratelimit-reset-tokens"] = "1m"
    assert rate_limits(headers) == RateLimits(tokens=Window(8000, 1, 60))


@pytest.mark.parametrize("text", ["", "soon", "-5", "nan", "Wed, 99 Foo 2020", "1" * 400])
def test_a_retry_after_that_says_nothing_is_none(text: str) -> None:
    assert retry_after_s({"retry-after": text}) is None
