"""A model's token budget: its context size, or the tokens per minute of its server plan, if fewer.

If a request has more tokens than the plan allows per minute, the server answers 413, and sending the same
request later fails too. A free key from Groq allows 8,000 tokens per minute. Servers report this limit in a
header of each answer (`x-ratelimit-limit-tokens`), and in the error that refuses a request. Errors without a
limit are answered with a smaller request; the size that passes is kept for the next turns of this process.
"""

from dataclasses import dataclass, field
from typing import Final

from rumi.models.model import Model, TooLarge
from rumi.models.rates import RateLimits

REPLY_SHARE: Final = 0.25
"""Share of the budget that is reserved for the reply."""

SMALLER: Final = 0.6
"""A refused request is cut to this share of its size if the server does not report a limit."""

LEAST_REPLY: Final = (512, 1 / 32)
"""Least room for a reply, in tokens and as a share of the limit; with less room, the prompt is cut."""

RAISE_AFTER: Final = 16
"""After so many prompts near a learned size, a larger prompt is tried, because the size may be wrong."""


@dataclass(slots=True)
class TokenBudget:
    """One model's token budget, shared by all chats. If the budget is not known, requests are not cut.

    `context` is the model's context size; `a_minute` is the last reported limit of the plan; `refused_above`
    is the limit from an error, valid until the server reports another plan. The other fields are learned from
    requests: `passed` is the largest prompt that the server took, `learned` a prompt that it took after it
    had refused a larger one without a limit, `most_reply` the longest reply that it allows. `window` is the
    server's limit for the prompt and the longest reply together, if it adds them up, and `ratio` the
    server's count of a prompt divided by Rumi's estimate.
    """

    context: int | None = None
    a_minute: int | None = None
    refused_above: int | None = None
    passed: int = 0
    learned: int | None = None
    most_reply: int | None = None
    window: int | None = None
    ratio: float = 1.0
    _near: int = field(default=0, repr=False, compare=False)

    @property
    def small_plan(self) -> bool:
        """True if the plan allows less than the model's context.

        With such a plan, the server charges the maximum size of a reply in advance.
        """
        return self.a_minute is not None and (self.context is None or self.a_minute < self.context)

    @property
    def context_tokens(self) -> int | None:
        """The known maximum of prompt and reply together; None if it is not known."""
        learned = None if self.learned is None else int(self.learned / (1 - REPLY_SHARE))
        return min(
            (n for n in (self.context, self.a_minute, self.refused_above, learned) if n is not None),
            default=None,
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
        if reported is None or reported.limit is None:
            return self.smaller(tokens, SMALLER)
        if reported.a_minute and self.a_minute is None:
            self.a_minute = reported.limit
        limit = reported.limit
        if reported.requested is not None and reported.requested > tokens:
            limit = int(limit * tokens / reported.requested)
        self.refused_above = limit
        most = prompt_share(limit)
        if most < tokens:
            return most
        self.learned = int(tokens * SMALLER)  # the real limit is less than the stated one
        return self.learned

    def smaller(self, tokens: int, share: float = 0.5) -> int:
        """Return the size for the next attempt after a refusal without a limit: what passed, or a share."""
        fallback = int(tokens * share)
        return self.passed if fallback < self.passed < tokens * 0.9 else fallback

    def may_be_too_large(self, tokens: int) -> bool:
        """Return True if a refusal without a known reason may be about the size of the prompt.

        It is not if the server took a prompt of twice the size. But the server may have changed, so that is
        believed only once.
        """
        if tokens * 2 > self.passed:
            return True
        self.passed = tokens
        return False

    def took(self, tokens: int, *, after_refusal: bool) -> None:
        """Record that the server took a prompt of about `tokens` tokens.

        `after_refusal` means that it refused a larger one before, without a limit.
        """
        self.passed = tokens if after_refusal else max(self.passed, tokens)
        if after_refusal:
            self.learned, self._near = tokens, 0
        elif self.learned is not None and tokens * 2 > self.learned:
            self._near += 1
            if self._near >= RAISE_AFTER:
                self.learned, self._near = self.learned * 2, 0

    def reply_after(self, tokens: int, reported: TooLarge) -> int | None:
        """Record a refusal because of the reply that was asked for; return the longest reply to ask for.

        Return None if the prompt itself must be cut.
        """
        if reported.reply is not None:
            self.most_reply = reported.reply
        elif reported.with_reply and reported.limit is not None:
            self.window = reported.limit
            self.ratio = reported.requested / tokens if reported.requested and tokens else 1.0
        return self.most_reply_to(tokens) if reported.reply is not None or reported.with_reply else None

    def most_reply_to(self, tokens: int) -> int | None:
        """Return the longest reply to ask for with a prompt of about `tokens` tokens.

        Return None if the server has not limited it, or if the prompt leaves too little room for a reply.
        """
        if self.window is None:
            return self.most_reply
        room = self.window - int(tokens * self.ratio * 1.02)
        if room < max(LEAST_REPLY[0], self.window * LEAST_REPLY[1]):
            return None
        return room if self.most_reply is None else min(room, self.most_reply)


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
