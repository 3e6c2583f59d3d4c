"""What to send after a refusal that is about size, or may be: a smaller prompt, or a shorter reply."""

from dataclasses import replace
from typing import Final

from rumi.models.failures import sentence
from rumi.models.fitting import fitted, request_tokens
from rumi.models.model import ModelError, ModelRequest
from rumi.models.token_budget import TokenBudget
from rumi.texts import Text

UNKNOWN_REASON: Final = frozenset({400, 413, 422, 500})
"""Statuses of refusals that may be about the size of the prompt, whatever their text says."""

CERTAIN: Final = 1.5
"""A request of this many times the plan's tokens per minute exceeds it, although sizes are estimated."""


def with_reply(request: ModelRequest, most: int | None) -> ModelRequest:
    """Return the request with a limit on the reply; a smaller limit of the request stays."""
    if most is None or (request.max_output_tokens is not None and request.max_output_tokens <= most):
        return request
    return replace(request, max_output_tokens=most)


def smaller_request(
    request: ModelRequest, refusal: ModelError, budget: TokenBudget, *, last: bool
) -> ModelRequest | None:
    """Return the request to send after a refusal; None if a smaller one is no answer to it, or not possible.

    `last` means that no other model can be asked instead.
    """
    tokens, told = request_tokens(request), refusal.too_large
    if refusal.kind == "too_large":
        if told is not None and (reply := budget.reply_after(tokens, told)) is not None:
            shorter = with_reply(request, reply)
            if shorter is not request:
                return shorter
        # A reply that cannot be asked for shorter: the sentence was perhaps about the prompt as well.
        most = budget.refused(tokens, told)
    elif exceeds_plan(refusal, tokens, 1.0):
        most = budget.refused(tokens, told)
    elif _may_be_for_size(refusal, last=last) and budget.may_be_too_large(tokens):
        most = budget.smaller(tokens)
    else:
        return None
    smaller = fitted(request, most)
    smaller = with_reply(smaller, budget.most_reply_to(request_tokens(smaller)))
    # Instructions and tools cannot be cut, so the request may not get smaller: it would be refused again.
    return smaller if request_tokens(smaller) < tokens else None


def nothing_left(refusal: ModelError) -> ModelError:
    """Return the error for a request that is refused for its size and cannot be cut any more."""
    if refusal.too_large is not None and refusal.too_large.reply is not None:
        return refusal
    message = Text(
        "{model} takes less than Rumi's instructions and your last message need, even cut short",
        model=refusal.model,
    )
    return ModelError(
        "too_large",
        sentence(message, refusal.detail),
        "Choose a model with more room, with /model or model.default.",
        detail=refusal.detail,
        model=refusal.model,
        too_large=refusal.too_large,
        status=refusal.status,
    )


def exceeds_plan(refusal: ModelError, tokens: int, times: float) -> bool:
    """Return True if a rate limit states a plan that the request alone exceeds: then waiting is no help."""
    told = refusal.too_large
    limit = None if told is None or refusal.kind != "rate_limited" else told.limit
    return limit is not None and tokens > limit * times


def _may_be_for_size(refusal: ModelError, *, last: bool) -> bool:
    """Return True if a failure without a known reason has a status that servers send for large prompts."""
    if refusal.kind == "empty":  # some servers answer a prompt that fills the context with nothing
        return last
    if refusal.kind not in {"refused", "server"} or refusal.status not in UNKNOWN_REASON:
        return False
    return last or refusal.status != 500
