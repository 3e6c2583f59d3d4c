"""Token prices of models."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rumi.models.model import Usage
from rumi.platform.config.providers import OFFLINE, PROVIDERS, is_local

PRICES_OF: Final = "2026-11-23"
"""The date on which the built-in prices were looked up."""

_NANO_PER_THOUSAND: Final = 1_000_000
"""One USD per million tokens, converted to billionths of a USD per thousand tokens."""


@dataclass(frozen=True, slots=True)
class Price:
    """Prices of prompts, cached prompts and replies, in billionths of a USD per thousand tokens.

    `written` is the price of prompt tokens that are written into the cache; None means that these tokens cost
    as much as `input`.
    """

    input: int
    cached: int
    output: int
    written: int | None = None

    @staticmethod
    def per_million(
        input: float, output: float, cached: float | None = None, written: float | None = None
    ) -> "Price":
        """Return a price from USD per million tokens. If `cached` is None, cached tokens get no discount."""
        return Price(
            round(input * _NANO_PER_THOUSAND),
            round((input if cached is None else cached) * _NANO_PER_THOUSAND),
            round(output * _NANO_PER_THOUSAND),
            None if written is None else round(written * _NANO_PER_THOUSAND),
        )

    def of(self, usage: Usage) -> int:
        """Return the price of tokens in billionths of a USD, rounded up."""
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        written = min(usage.written_tokens, usage.prompt_tokens - cached)
        fresh = usage.prompt_tokens - cached - written
        whole = fresh * self.input + cached * self.cached + usage.completion_tokens * self.output
        whole += written * (self.input if self.written is None else self.written)
        return -(-whole // 1000)


_NOTHING: Final = Price(0, 0, 0)

OWN_PRICES: Final[Mapping[str, Price]] = {
    OFFLINE: _NOTHING,
    **{
        f"{scheme}:{model.name}": Price.per_million(*model.price, model.written)
        for scheme, provider in PROVIDERS.items()
        for model in provider.models
        if model.price is not None
    },
}
"""Built-in prices from the table of providers; the configuration section `[prices]` sets other prices."""


def price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    """Return a model's price; None if it is unknown. Models on the user's own machine are free."""
    return prices.get(model) or (_NOTHING if is_local(model) else None)
