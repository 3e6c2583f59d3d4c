"""How much one model takes at once: what its context has room for, and what its server's plan allows.

A plan that allows fewer tokens a minute than the model's context has answers 413 to a larger request, which
no waiting helps: a free key of Groq allows 8,000. Servers tell that limit in the headers of each answer
(`x-ratelimit-limit-tokens`), and in the error.
"""

from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from rumi.models.rates import RateLimits
from rumi.models.types import Model, TooLarge

REPLY_SHARE: Final = 0.25
"""How much of it all is the reply's."""

SMALLER: Final = 0.6
"""How much of a refused request is sent again where the server does not say what it would have taken."""


@runtime_checkable
class Roomy(Protocol):
    """A model that knows how much it takes."""

    @property
    def context_tokens(self) -> int | None:
        """Prompt and reply together, as far as that is known now."""
        ...


@dataclass(slots=True)
class Room:
    """One model's room, which its chats share. None is what is not known: then nothing is cut.

    `context` is the model's own; `a_minute` what its plan allows, as last told; `refused_above` the limit
    that an error told, until the plan tells another one.
    """

    context: int | None = None
    a_minute: int | None = None
    refused_above: int | None = None

    @property
    def small_plan(self) -> bool:
        """Whether the plan allows less than the model takes: then what a reply may take counts beforehand."""
        return self.a_minute is not None and (self.context is None or self.a_minute < self.context)

    @property
    def context_tokens(self) -> int | None:
        """How much it takes, prompt and reply together, as far as that is known now."""
        return min(
            (n for n in (self.context, self.a_minute, self.refused_above) if n is not None), default=None
        )

    @property
    def prompt_tokens(self) -> int | None:
        """How much of that a prompt may take."""
        tokens = self.context_tokens
        return None if tokens is None else prompt_share(tokens)

    def saw(self, limits: RateLimits) -> None:
        """Take in what the headers of an answer tell."""
        if limits.tokens is None or limits.tokens.limit < 1:
            return
        told = int(limits.tokens.limit)
        if self.a_minute is not None and told != self.a_minute:
            self.refused_above = None  # another plan
        self.a_minute = told

    def refused(self, tokens: int, told: TooLarge | None) -> int:
        """Take in that a request of about so many tokens was too large; return what the next may take.

        Our estimate may be too low for what it was (digits, base64): the server's count says by how much.
        """
        if told is None:
            return int(tokens * SMALLER)
        if told.a_minute and self.a_minute is None:
            self.a_minute = told.limit
        self.refused_above = told.limit
        most = prompt_share(told.limit)
        if told.requested is not None and told.requested > tokens:
            return int(most * tokens / told.requested)
        return most if most < tokens else int(tokens * SMALLER)


def context_of(model: Model, most: int) -> int:
    """How much a model takes now, prompt and reply together, and never more than `most`.

    A chain knows it of its first model; of others nothing is known.
    """
    tokens = model.context_tokens if isinstance(model, Roomy) else None
    return most if tokens is None else min(most, tokens)


def prompt_share(context_tokens: int) -> int:
    """How much of so many tokens a prompt may take; the rest is the reply's."""
    return int(context_tokens * (1 - REPLY_SHARE))
