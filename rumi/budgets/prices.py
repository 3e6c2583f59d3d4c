"""What the tokens of models cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rumi.models import OFFLINE, Usage

PRICES_OF: Final = "2026-11-23"
"""The day on which the prices below were looked up."""

_NANO_PER_THOUSAND: Final = 1_000_000
"""One USD per million tokens is so many billionths of a USD for a thousand tokens."""


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a thousand tokens in billionths of a USD: of prompts, their cached part, and replies."""

    input: int
    cached: int
    output: int

    @staticmethod
    def per_million(input: float, output: float, cached: float | None = None) -> "Price":
        """Return a price given in USD per million tokens. Without `cached` all of a prompt costs the same."""
        return Price(
            round(input * _NANO_PER_THOUSAND),
            round((input if cached is None else cached) * _NANO_PER_THOUSAND),
            round(output * _NANO_PER_THOUSAND),
        )

    def of(self, usage: Usage) -> int:
        """Return what tokens cost in billionths of a USD, rounded up."""
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        fresh = usage.prompt_tokens - cached
        whole = fresh * self.input + cached * self.cached + usage.completion_tokens * self.output
        return -(-whole // 1000)


OWN_PRICES: Final[Mapping[str, Price]] = {
    OFFLINE: Price(0, 0, 0),
    # Groq: console.groq.com/docs/models. Cached prompt tokens cost half: its page on prompt caching.
    "groq:openai/gpt-oss-120b": Price.per_million(0.15, 0.60, 0.075),
    "groq:openai/gpt-oss-20b": Price.per_million(0.075, 0.30, 0.0375),
}
"""The prices of the models that the configuration names by default; `[prices]` has those of others."""
