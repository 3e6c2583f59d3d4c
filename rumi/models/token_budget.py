"""One model's token budget: the tokens of its context, or those that its server's plan allows.

If a plan allows fewer tokens a minute than the model's context has, the server answers 413 to a larger
request, and waiting does not help: a free key of Groq allows 8,000. Servers report that limit in the headers
of each answer (`x-ratelimit-limit-tokens`), and in the error.
"""

from dataclasses import dataclass
from typing import Final

from rumi.models.model import Model, TooLarge
from rumi.models.rates import RateLimits

REPLY_SHARE: Final = 0.25
"""The share of the budget that is for the reply."""

SMALLER: Final = 0.6
"""The share of a refused request that is sent again if the server does not report its limit."""


@dataclass(slots=True)
class TokenBudget:
    """One model's budget, which its chats share. None is unknown: then nothing is cut.

    `context` is the model's own; `a_minute` is the last reported limit of its plan; `refused_above` is the
    limit in an error, until the plan reports another one.
    """

    context: int | None = None
    a_minute: int | None = None
    refused_above: int | None = None

    @property
    def small_plan(self) -> bool:
        """True if the plan allows less than the model: then servers count a reply's maximum in advance."""
        return self.a_minute is not None and (self.context is None or self.a_minute < self.context)

    @property
    def context_tokens(self) -> int | None:
        """The maximum of prompt and reply together, as far as it is known now."""
        return min(
            (n for n in (self.context, self.a_minute, self.refused_above) if n is not None), default=None
        )

    @property
    def prompt_tokens(self) -> int | None:
        """The part of it that a prompt may take."""
        tokens = self.context_tokens
        return None if tokens is None else prompt_share(tokens)

    def saw(self, limits: RateLimits) -> None:
        """Store the limits in the headers of an answer."""
        if limits.tokens is None or limits.tokens.limit < 1:
            return
        reported = int(limits.tokens.limit)
        if self.a_minute is not None and reported != self.a_minute:
            self.refused_above = None  # another plan
        self.a_minute = reported

    def refused(self, tokens: int, reported: TooLarge | None) -> int:
        """Store that a request of about `tokens` tokens was too large; return the size for the next one.

        Our estimate may be too low for some texts (digits, base64): the server's count shows by how much.
        """
        if reported is None:
            return int(tokens * SMALLER)
        if reported.a_minute and self.a_minute is None:
            self.a_minute = reported.limit
        self.refused_above = reported.limit
        most = prompt_share(reported.limit)
        if reported.requested is not None and reported.requested > tokens:
            return int(most * tokens / reported.requested)
        return most if most < tokens else int(tokens * SMALLER)


def context_of(model: Model, most: int) -> int:
    """Return a model's current maximum, prompt and reply together, at most `most`.

    A chain reports it for its first model, as `context_tokens`; for others it is unknown.
    """
    tokens: int | None = getattr(model, "context_tokens", None)
    return most if tokens is None else min(most, tokens)


def takes_pictures(model: Model) -> bool:
    """Return True if a model gets the pictures of a request: its `takes_pictures` says so.

    Other models get a note in place of each.
    """
    return bool(getattr(model, "takes_pictures", False))


def prompt_share(context_tokens: int) -> int:
    """Return the part of a budget that a prompt may take; the rest is for the reply."""
    return int(context_tokens * (1 - REPLY_SHARE))
