"""Amounts, prices, and the days and months of budgets."""

import sys
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
import trio

from rumi.chats.budgets.amounts import Amount, amount_text, parse_amount
from rumi.chats.budgets.periods import days_of, renewal
from rumi.chats.budgets.prices import Price, price_of, prices_source
from rumi.errors import UsageError
from rumi.models.model import Usage

MADRID = ZoneInfo("Europe/Madrid")
NEW_YORK = ZoneInfo("America/New_York")
BEIRUT = ZoneInfo("Asia/Beirut")


NOW = datetime(2026, 11, 26, tzinfo=MADRID).timestamp()


def published(model: str) -> Price:
    price = price_of(model, {}, NOW)
    assert price is not None
    return price


def at(zone: ZoneInfo, *when: int) -> float:
    return datetime(*when, tzinfo=zone).timestamp()  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("2 USD", Amount("usd", 2_000_000_000)),
        ("0.5 usd", Amount("usd", 500_000_000)),
        ("0,25 dólares", Amount("usd", 250_000_000)),
        ("$3", Amount("usd", 3_000_000_000)),
        ("US$ 1.5", Amount("usd", 1_500_000_000)),
        ("500000 tokens", Amount("tokens", 500_000)),
        ("500,000 tokens", Amount("tokens", 500_000)),
        ("50k tokens", Amount("tokens", 50_000)),
        ("1 token", Amount("tokens", 1)),
    ],
)
def test_amounts_are_read(text: str, amount: Amount) -> None:
    assert parse_amount(text) == amount


@pytest.mark.parametrize(
    "text", ["", "2", "two USD", "-1 USD", "0 USD", "2 EUR", "0 tokens", "1e9 USD", "2 USD x"]
)
def test_what_is_not_an_amount_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not an amount"):
        parse_amount(text)


def test_amounts_are_written() -> None:
    assert amount_text("en", "usd", 2_000_000_000) == "2.00 USD"
    assert amount_text("en", "usd", 4_200_000) == "0.0042 USD"
    assert amount_text("en", "tokens", 50_000) == "50,000 tokens"
    assert amount_text("es", "tokens", 50_000) == amount_text("pt", "tokens", 50_000) == "50.000 tokens"
    assert amount_text("es", "usd", 4_200_000) == "0,0042 USD"


def test_prices_count_what_was_cached_for_less_and_round_up() -> None:
    price = published("groq:openai/gpt-oss-120b")
    assert price.of(Usage(1_000_000, 0)) == 150_000_000
    assert price.of(Usage(1_000_000, 0, 1_000_000)) == 75_000_000
    assert price.of(Usage(0, 1_000_000)) == 600_000_000
    assert price.per_million_usd() == (0.15, 0.6, 0.075)
    assert published("groq:openai/gpt-oss-20b").of(Usage(1, 0, 1)) == 38
    assert published("offline").of(Usage(10**9, 10**9)) == 0
    assert Price.per_million(1.0, 2.0).of(Usage(0, 0)) == 0
    assert Price.per_million(0.0, 0.0).of(Usage(10**6, 10**6)) == 0


@pytest.mark.parametrize(
    "model",
    [
        "openai:gpt-5-mini",
        "anthropic:claude-sonnet-5-5",
        "gemini:gemini-2.5-flash",
        "mistral:mistral-medium-2508",
        "deepseek:deepseek-chat",
        "xai:grok-4-0709",
        "openrouter:openai/gpt-oss-120b",
    ],
)
def test_models_of_every_provider_have_a_price(model: str) -> None:
    prompt, reply, cached = published(model).per_million_usd()
    assert 0 < cached <= prompt < reply


def test_a_long_prompt_costs_what_the_provider_asks_for_it() -> None:
    price = published("gemini:gemini-2.5-pro")
    assert price.of(Usage(200_001, 0)) > price.of(Usage(200_000, 0)) * 1.5


async def test_prices_come_from_the_package_alone_and_load_beside_the_event_loop() -> None:
    code = """
import sys
import trio
from rumi.chats.budgets.prices import Price, prepare, price_of
async def main():
    models = ("offline", "ollama:qwen3", "custom:home", "first")
    await prepare(models, {})
    assert all(price_of(model, {}, 0.0) is None for model in models[2:])
    assert "genai_prices" not in sys.modules
    await prepare(("offline", "groq:openai/gpt-oss-120b"), {})
    assert "genai_prices.data" in sys.modules
trio.run(main)
"""
    await trio.run_process([sys.executable, "-c", code])
    assert prices_source().startswith("genai-prices ")


def test_a_month_ends_at_local_midnight() -> None:
    before = at(MADRID, 2026, 11, 30, 23, 59)
    assert days_of("day", before, MADRID) == ("2026-11-30", "2026-11-30")
    assert days_of("month", before, MADRID) == ("2026-11-01", "2026-11-30")
    assert str(renewal("month", before, MADRID)) == "2026-12-01 00:00:00+01:00"
    assert days_of("month", before + 60, MADRID) == ("2026-12-01", "2026-12-31")
    assert days_of("month", at(MADRID, 2028, 2, 5), MADRID) == ("2028-02-01", "2028-02-29")
    assert renewal("ever", before, MADRID) is None


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        (MADRID, (2026, 3, 29), 23),
        (MADRID, (2026, 10, 25), 25),
        (NEW_YORK, (2026, 3, 8), 23),
        (NEW_YORK, (2026, 11, 1), 25),
    ],
)
def test_a_day_on_which_the_clock_changes_is_one_day(
    zone: ZoneInfo, day: tuple[int, int, int], hours: int
) -> None:
    midnight = at(zone, *day)
    renewed = renewal("day", midnight, zone)
    assert renewed is not None
    assert renewed.timestamp() - midnight == hours * 3600
    for hour in range(hours):
        assert days_of("day", midnight + hour * 3600, zone)[0] == str(datetime(*day).date())
        assert renewal("day", midnight + hour * 3600, zone) == renewed


def test_a_midnight_that_the_clock_skips_is_the_first_moment_behind_it() -> None:
    renewed = renewal("day", at(BEIRUT, 2024, 3, 30, 12), BEIRUT)
    assert renewed is not None
    assert str(renewed) == "2024-03-31 01:00:00+03:00"
    assert days_of("day", renewed.timestamp(), BEIRUT)[0] == "2024-03-31"
    assert days_of("day", renewed.timestamp() - 1, BEIRUT)[0] == "2024-03-30"


def test_what_is_written_into_a_cache_has_a_price_of_its_own() -> None:
    price = published("anthropic:claude-haiku-4-5")
    usage = Usage(10_000, 1000, 6000, written_tokens=3000)
    assert price.of(usage) == 1000 * 1000 + 6000 * 100 + 3000 * 1250 + 1000 * 5000
    assert Price.per_million(1.0, 5.0).of(usage) == 10_000 * 1000 + 1000 * 5000


def test_a_local_model_costs_nothing_and_an_unknown_one_has_no_price() -> None:
    assert published("ollama:qwen3") == Price()
    assert price_of("openai:unheard-of", {}, NOW) is None
    assert price_of("custom:home", {}, NOW) is None
    own = {"ollama:qwen3": Price.per_million(1.0, 1.0)}
    assert price_of("ollama:qwen3", own, NOW) == own["ollama:qwen3"]
