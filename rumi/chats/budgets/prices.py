"""Token prices of models: those of `[prices]`, otherwise those of the package genai-prices.

The package's data is a part of it: nothing is fetched. Loading it takes 0.1 s and 14 MB, so it is loaded for
the first model that may have a price there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from importlib.metadata import version
from math import ceil
from typing import TYPE_CHECKING, Final

import trio

from rumi.models.model import Usage
from rumi.platform.config.providers import OFFLINE, PROVIDERS, is_local

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice

_IDS: Final = {"gemini": "google", "xai": "x-ai"}
"""The package's ids of providers that Rumi names otherwise."""


@dataclass(frozen=True, slots=True)
class Price:
    """The prices of a model's tokens; `rates` is None if they cost nothing."""

    rates: "ModelPrice | None" = None

    @staticmethod
    def per_million(input: float, output: float, cached: float | None = None) -> "Price":
        """Return a price from USD per million tokens. If `cached` is None, cached tokens get no discount."""
        from genai_prices.types import ModelPrice

        prompt, reply = Decimal(str(input)), Decimal(str(output))
        read = prompt if cached is None else Decimal(str(cached))
        return Price(ModelPrice(input_mtok=prompt, output_mtok=reply, cache_read_mtok=read))

    def of(self, usage: Usage) -> int:
        """Return the price of tokens in billionths of a USD, rounded up."""
        if self.rates is None:
            return 0
        from genai_prices import Usage as Tokens

        cached = min(usage.cached_tokens, usage.prompt_tokens)
        tokens = Tokens(
            input_tokens=usage.prompt_tokens,
            cache_read_tokens=cached,
            cache_write_tokens=min(usage.written_tokens, usage.prompt_tokens - cached),
            output_tokens=usage.completion_tokens,
        )
        return ceil(self.rates.calc_price(tokens)["total_price"] * 10**9)

    def per_million_usd(self) -> tuple[float, float, float]:
        """Return USD per million tokens: of prompts, of replies, and of the cached part of prompts.

        Where long prompts cost more, these are the prices of short ones.
        """
        from genai_prices.types import TieredPrices

        def usd(value: "Decimal | TieredPrices | None") -> float:
            return float((value.base if isinstance(value, TieredPrices) else value) or 0)

        if self.rates is None:
            return 0.0, 0.0, 0.0
        prompt, cached = self.rates.input_mtok, self.rates.cache_read_mtok
        return usd(prompt), usd(self.rates.output_mtok), usd(prompt if cached is None else cached)


def price_of(model: str, own: Mapping[str, Price], at: float) -> Price | None:
    """Return a model's price at a Unix time; None if it is unknown. `own` are the prices of `[prices]`.

    Models on the user's own machine are free. May block for 0.1 s, except after `prepare`.
    """
    if (price := own.get(model)) is not None:
        return price
    if model == OFFLINE or is_local(model):
        return Price()
    info = _published(model)
    return None if info is None else Price(info.get_prices(datetime.fromtimestamp(at, UTC)))


async def prepare(models: Sequence[str], own: Mapping[str, Price]) -> None:
    """Load the package in a thread if the price of one of the models may come from it; else do nothing.

    The thread ignores cancellation.
    """
    for model in models:
        if model.partition(":")[0] in PROVIDERS and not is_local(model) and model not in own:
            await trio.to_thread.run_sync(_published, model, abandon_on_cancel=True)


@lru_cache(maxsize=256)
def _published(model: str) -> "ModelInfo | None":
    """Return the package's facts about a model; None if it has none."""
    scheme, _, name = model.partition(":")
    if scheme not in PROVIDERS:
        return None
    from genai_prices.data_snapshot import get_snapshot

    try:
        return get_snapshot().find_provider_model(name, None, _IDS.get(scheme, scheme), None)[1]
    except LookupError:
        return None


def prices_source() -> str:
    """Return the name and version of the package that the built-in prices come from."""
    return f"genai-prices {version('genai-prices')}"
