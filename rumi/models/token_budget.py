"""A model's token budget: its context size, or the tokens per minute of its server plan, if fewer.

If a request has more tokens than the plan allows per minute, the server answers 413, and sending the same
request later fails too. A free key from Groq allows 8,000 tokens per minute. Servers report this limit in a
header of each answer (`x-ratelimit-limit-tokens`), and in the error that refuses a request.
"""

from dataclasses import dataclass
from typing import Final

from rumi.models.model import Model, TooLarge
from rumi.models.rates import RateLimits

REPLY_SHARE: Final = 0.25
"""Share of the budget that is reserved for the reply."""

SMALLER: Final = 0.6
"""A refused request is cut to this share of its size if the server does not report a limit."""


@dataclass(slots=True)
class TokenBudget:
    """One model's token budget, shared by all chats. If the budget is not known, requests are not cut.

    `context` is the model's context size; `a_minute` is the last reported limit of the plan; `refused_above`
    is the limit from an error, valid until the server reports another plan.
    """

    context: int | None = None
    a_minute: int | None = None
    refused_above: int | None = None

    @property
    def small_plan(self) -> bool:
        """True if the plan allows less than the model's context.

        With such a plan, the server charges the maximum size of a reply in advance.
        """
        return self.a_minute is not None and (self.context is None or self.a_minute < self.context)

    @property
    def context_tokens(self) -> int | None:
        """The known maximum of prompt and reply together; None if it is not known."""
        return min(
            (n for n in (self.context, self.a_minute, self.refused_above) if n is not None), default=None
        )

    @property
    def prompt_tokens(self) -> int | None:
        """The part of `context_tokens` that is available to a prompt; None if it is not known."""
        tokens = self.context_tokens
        return None if tokens is None else prompt_share(tokens)

    def saw(self, limits: RateLimits) -> None:
        """Store the limits from the headers of an answer."""
        if limits.tokens is None or limits.tokens.limit < 1:
            return
        reported = int(limits.tokens.limit)
        if self.a_minute is not None and reported != self.a_minute:
            self.refused_above = None  # the plan changed, so the old refusal no longer applies
        self.a_minute = reported

    def refused(self, tokens: int, reported: TooLarge | None) -> int:
        """Record that a request of about `tokens` tokens was too large; return the size for the next attempt.

        The estimate may be too low for some texts (digits, base64); the server's count corrects it.
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
    """Return a model's current maximum of prompt and reply together, at most `most` tokens.

    Only a chain reports a maximum, which is the maximum of its first model. For other models, return `most`.
    """
    tokens: int | None = getattr(model, "context_tokens", None)
    return most if tokens is None else min(most, tokens)


def takes_pictures(model: Model) -> bool:
    """Return True if `model` accepts pictures, by its attribute `takes_pictures`.

    Other models get a note in place of each picture.
    """
    return bool(getattr(model, "takes_pictures", False))


def prompt_share(context_tokens: int) -> int:
    """Return the part of a token budget that a prompt may use; the other part is reserved for the reply."""
    return int(context_tokens * (1 - REPLY_SHARE))
