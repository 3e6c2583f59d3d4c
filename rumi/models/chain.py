"""The fallback chain: a model for a turn, which tries several other models in order, with retries."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final, Protocol, runtime_checkable

import trio

from actors import ActorCrashed, ActorStopped, MailboxFull
from rumi.models.actor import HoldPermit, HowLong, LimitsSeen, ModelsRef
from rumi.models.cutting import CERTAIN, exceeds_plan, nothing_left, smaller_request, with_reply
from rumi.models.fitting import fitted, request_tokens, seen_by
from rumi.models.metering import Account, Meter, counted
from rumi.models.model import (
    Discarded,
    Emit,
    Message,
    Model,
    ModelError,
    ModelEvent,
    ModelRequest,
    Reply,
    TextDelta,
    ToolCallNamed,
    Usage,
    Used,
    Waiting,
)
from rumi.models.rates import RateLimits
from rumi.models.reading import Seen
from rumi.models.token_budget import TokenBudget
from rumi.platform.texts import models as model_texts
from rumi.texts import Language, gettext, translate

MAX_WAIT_S: Final = 60.0
"""Maximum wait for one model, in seconds. If the wait would be longer, the chain calls the next model."""

BACKOFF_S: Final = (1.0, 4.0)
"""Pauses before the second and third attempt, in seconds, if the server sends no `retry-after`."""

MOST_REFUSALS: Final = 5
"""Maximum attempts of a rate-limited call with permits.

This is more than for other failures, because each refusal lowers the limit of simultaneous calls, so that
fewer other calls run during a later attempt.
"""

REFUSALS: Final = frozenset({"rate_limited", "server", "timeout"})
"""Kinds of failures that show that a server has too many calls; they lower the concurrency limit."""

MOST_CUTS: Final = 14
"""Maximum number of requests of one call that are cut further and further: from a million tokens to a few."""

SHOW_WAIT_AFTER_S: Final = 0.3
EXPECTED_REPLY_TOKENS: Final = 512
"""Estimated tokens of a reply, added to the request's size when a permit is requested."""


MAX_FAILED_SHOWN_CHARS: Final = 2000
UNREADABLE_CALL: Final = (
    "[What you wrote last could not be read as a tool call. Call the tool again by its exact name, with "
    "arguments that are one JSON object as its schema says, or answer in words.]"
)
NO_TOOLS: Final = "[You called a tool, and there are none here. Answer in words, as you were asked to.]"


_RANDOM: Final = Random()
"""The shared generator of jitter. Seeding a generator takes longer than the other set-up of a chain."""


@runtime_checkable
class ReportsLimits(Protocol):
    """A model that reports its server's rate limits."""

    async def metered_reply(self, request: ModelRequest, emit: Emit, seen: Seen) -> Reply:
        """Stream one reply like `Model.reply`, and call `seen` as soon as the rate limits are known."""
        ...


@dataclass(frozen=True, slots=True)
class ChainStep:
    """One model of a chain. Models with the same `server` share its permits and its key.

    A model whose `server` is None needs no permit.

    Requests to the model are cut to `budget`, its token budget. Without `pictures`, a request's pictures are
    replaced by notes.
    """

    model: Model
    server: str | None = None
    budget: TokenBudget = field(default_factory=TokenBudget)
    pictures: bool = False


class _EventForwarder:
    """A forwarder of model events, which records whether a retry must discard emitted text.

    `has_output` is True if some output of the current attempt has arrived.
    """

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._has_text = False
        self.has_output = False

    def __call__(self, event: ModelEvent) -> None:
        if isinstance(event, TextDelta):
            self._has_text = True
        if isinstance(event, TextDelta | ToolCallNamed):
            self.has_output = True
        self._emit(event)

    def discard(self) -> None:
        """Emit `Discarded` if text was emitted since the last `Discarded` event."""
        if self._has_text:
            self._has_text = False
            self._emit(Discarded())


class Chain:
    """A model that tries several models in order, for one chat, each of them up to three times.

    If the chain uses permits, a rate-limited call is tried up to five times.

    Temporary failures (a rate limit, a cut connection, a server error, an empty or unreadable reply) are
    retried after the server's `retry-after`, or after about 1 and 4 seconds. The chain continues with the
    next model at once after a timeout, an unknown model or a required wait of more than `MAX_WAIT_S`, and
    also after a rate limit if a model of another server can answer before the wait is over. After a refused
    key, the other models of that server are skipped too. A refused request ends the call, because other
    servers would refuse the request too; but a content filter is a provider's own, so the next model is
    tried. The chain emits `Waiting` for waits and for changes of the model, and `Discarded` before a new
    attempt if text was already emitted. If no model answers, the error has the longest partial reply.

    The request is cut to each model's budget. If a server still refuses the request as too large, the chain
    cuts the request to the limit in the server's answer, or to a share of its size, and sends it again, until
    it fits or nothing more can be cut. A refusal with another reason, or none, is treated like that too if no
    prompt of this size has passed (`TokenBudget.may_be_too_large`); if the smallest request is refused too,
    the error is the first one. If the model wrote an unreadable tool call, the next attempt includes that
    text and a correction.

    Without `permits`, the chain requests no permits; this is for a single chat or a test. All waits use
    trio's clock.

    Before each attempt, the chain reserves budget for `account` from the `meter`; after the attempt, it
    settles the usage. If the meter refuses, no other model is tried.
    """

    def __init__(
        self,
        steps: Sequence[ChainStep],
        *,
        chat: str,
        permits: ModelsRef | None = None,
        language: Language = "en",
        random: Random | None = None,
        account: Account | None = None,
        meter: Meter | None = None,
    ) -> None:
        if not steps:
            raise ValueError("a chain needs a model")
        self._steps = tuple(steps)
        self._chat = chat
        self._permits = permits
        self._language: Language = language
        self._random = random or _RANDOM
        self._account = account or Account(chat)
        self._meter = meter

    @property
    def name(self) -> str:
        """The first model's name."""
        return self._steps[0].model.name

    @property
    def context_tokens(self) -> int | None:
        """The first model's current maximum of prompt and reply together, in tokens; None if it is not known.

        The maximum is less than the model's context if the server's plan allows fewer tokens per minute.
        """
        return self._steps[0].budget.context_tokens

    @property
    def takes_pictures(self) -> bool:
        """True if the first model accepts pictures.

        A model that accepts none gets a note in place of each picture.
        """
        return self._steps[0].pictures

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        """Stream one reply from the first model that answers.

        On cancellation, releases the permit and closes the connection.

        Raises:
            ModelError: No model answered. The error lists all failures and has the kind of the last failure.
        """
        events = _EventForwarder(emit)
        failures: list[ModelError] = []
        refused_keys: set[str | None] = set()
        for at, step in enumerate(self._steps):
            if step.server in refused_keys:
                continue
            others = [
                later_step
                for later_step in self._steps[at + 1 :]
                if later_step.server not in (None, step.server, *refused_keys)
            ]
            if failures:
                events.discard()
                why = gettext(
                    self._language,
                    "{why}; trying {model} instead",
                    why=self._reason(failures[-1]),
                    model=step.model.name,
                )
                emit(Waiting(0.0, why))
            outcome = await self._ask(step, request, events, others, last=step is self._steps[-1])
            if isinstance(outcome, Reply):
                return outcome
            # A budget limits all models of the account alike, so the fallbacks would be refused too.
            if outcome.kind == "budget":
                raise outcome
            failures.append(outcome)
            if outcome.kind == "refused":
                break
            if outcome.kind == "auth":
                refused_keys.add(step.server)
        raise self._summary(failures)

    async def _ask(
        self,
        step: ChainStep,
        request: ModelRequest,
        events: _EventForwarder,
        others: Sequence[ChainStep],
        *,
        last: bool,
    ) -> Reply | ModelError:
        """Call one model with the request cut to the model's budget; cut it further while it is refused.

        `others` are the models that come later in the chain and are at other servers. `last` means that no
        model comes later; otherwise a request that was cut to a stated limit is not cut again.
        """
        budget = step.budget
        request = fitted(seen_by(request, takes_pictures=step.pictures), budget.prompt_tokens)
        tokens = request_tokens(request)
        request = with_reply(request, budget.most_reply_to(tokens))
        failures: list[ModelError] = []
        retried: list[ModelError] = []
        limited = without_limit = False
        for _ in range(MOST_CUTS):
            outcome = await self._persist(step, request, events, others, retried)
            if isinstance(outcome, Reply):
                budget.took(tokens, after_refusal=without_limit)
                return outcome
            failures.append(outcome)
            smaller = smaller_request(request, outcome, budget, last=last)
            if smaller is None and outcome.kind == "too_large" and (limited or without_limit):
                return nothing_left(outcome)
            if smaller is None or (limited and not last):
                break
            size = request_tokens(smaller)
            if size < tokens:  # otherwise only the reply is asked for shorter, and nothing is left out
                limited = outcome.too_large is not None and outcome.too_large.limit is not None
                without_limit = not limited
                why = gettext(
                    self._language,
                    "{model} does not take so much at once; trying again with less",
                    model=step.model.name,
                )
                events.discard()
                events(Waiting(0.0, why))
            request, tokens = smaller, size
        first, latest = failures[0], failures[-1]
        if first.kind == "too_large" or latest.kind in {"too_large", "budget"}:
            return latest
        return first  # what the server said about the whole request is the useful error

    async def _persist(
        self,
        step: ChainStep,
        request: ModelRequest,
        events: _EventForwarder,
        others: Sequence[ChainStep],
        retried: list[ModelError],
    ) -> Reply | ModelError:
        """Call one model, with retries. `retried` has the failures after which it was called again."""
        partial = ""
        while True:
            tries = len(retried) + 1
            outcome = await self._attempt(step, request, events, others)
            if isinstance(outcome, ModelError):  # the user gets the longest part if no attempt succeeds
                outcome.partial = partial = max(outcome.partial, partial, key=len)
            if isinstance(outcome, Reply) or not outcome.retriable or tries >= self._most(step, outcome):
                return outcome
            if exceeds_plan(outcome, request_tokens(request), CERTAIN):
                return outcome
            pause = BACKOFF_S[min(tries, len(BACKOFF_S)) - 1]
            retried.append(outcome)
            seconds = outcome.retry_after_s
            if seconds is None:
                # Jitter, so that chats that failed at the same time do not retry at the same time.
                seconds = pause * self._random.uniform(0.75, 1.25)
            if seconds > MAX_WAIT_S:
                return outcome
            if outcome.kind == "rate_limited" and await self._sooner(others, request, seconds):
                return outcome
            events.discard()
            events(
                Waiting(seconds, gettext(self._language, "{why}; trying again", why=self._reason(outcome)))
            )
            await trio.sleep(seconds)
            if outcome.failed_generation:
                request = _corrected(request, outcome.failed_generation)

    def _most(self, step: ChainStep, outcome: ModelError) -> int:
        """Return the maximum number of attempts for a call with this failure."""
        permitted = self._permits is not None and step.server is not None
        return MOST_REFUSALS if permitted and outcome.kind == "rate_limited" else len(BACKOFF_S) + 1

    async def _sooner(self, others: Sequence[ChainStep], request: ModelRequest, seconds: float) -> bool:
        """Return True if one of the `others` could start a call in less than `seconds` seconds.

        A model is not considered if the `models` actor does not answer for it.
        """
        if self._permits is None:
            return bool(others) and seconds > 0
        tokens = request_tokens(request) + EXPECTED_REPLY_TOKENS
        for other in others:
            assert other.server is not None
            with suppress(ActorCrashed, ActorStopped):
                wait = await self._permits.ask(HowLong(other.server, other.model.name, tokens))
                if (0.0 if wait is None else wait.seconds) < seconds:
                    return True
        return False

    async def _attempt(
        self, step: ChainStep, request: ModelRequest, events: _EventForwarder, others: Sequence[ChainStep]
    ) -> Reply | ModelError:
        if self._permits is None or step.server is None:
            return await self._metered(step.model, request, events, None)
        tokens = request_tokens(request)
        permit = HoldPermit(self._chat, step.server, step.model.name, tokens + EXPECTED_REPLY_TOKENS)
        return await self._with_permit(self._permits, permit, step.model, request, events, others)

    async def _with_permit(
        self,
        permits: ModelsRef,
        permit: HoldPermit,
        model: Model,
        request: ModelRequest,
        events: _EventForwarder,
        others: Sequence[ChainStep],
    ) -> Reply | ModelError:
        """Make one attempt while a sibling task holds the permit for the call. Release the permit afterwards.

        On cancellation, the call closes its connection before the permit is released: otherwise another call
        could start while the server still works on this one.
        """

        def seen(limits: RateLimits) -> None:
            with suppress(MailboxFull, ActorStopped):  # the limits are advice: losing them is harmless
                permits.tell_nowait(LimitsSeen(permit, limits))

        outcome: Reply | ModelError | None = None
        # Shielded, so that a cancelled turn cannot end the ask before the call has closed its connection.
        # The `finally` below is the only place that ends it.
        held = trio.CancelScope(shield=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_hold, permits, permit, held)
            try:
                outcome = await self._granted(permits, permit, request, events, others)
                if outcome is None:
                    tokens = permit.tokens - EXPECTED_REPLY_TOKENS
                    outcome = await self._metered(model, request, events, seen, tokens)
                    # Set before the release: the actor reads it when the ask is cancelled. Other failures
                    # say nothing about the server's capacity, so `refused` stays None.
                    if isinstance(outcome, Reply) or outcome.kind in REFUSALS:
                        permit.refused = not isinstance(outcome, Reply)
            finally:
                held.cancel()
        assert outcome is not None
        return outcome

    async def _metered(
        self,
        model: Model,
        request: ModelRequest,
        events: _EventForwarder,
        seen: Seen | None,
        tokens: int | None = None,
    ) -> Reply | ModelError:
        """Make one attempt if the meter allows it, and record the attempt's usage.

        For a cancelled or crashed attempt, the account is charged the whole reserved amount. `tokens` is the
        size of the request, if the caller has computed the size.
        """
        if self._meter is None:
            return await _reply(model, request, events, seen)
        if tokens is None:
            tokens = request_tokens(request)
        hold = await self._meter.reserve(self._account, model.name, tokens, self._language)
        if isinstance(hold, ModelError):
            return hold
        outcome: Reply | ModelError | None = None
        # The forwarder serves all attempts, but whether this one is billed depends on its own output.
        events.has_output = False
        try:
            request = with_reply(request, hold.most_reply)
            outcome = await _reply(model, request, events, seen)
        finally:
            # Cancelled: the server may have produced and billed a reply that Rumi did not see.
            if outcome is None:
                hold.abandon()
        usage = await hold.settle(counted(outcome, tokens, begun=events.has_output))
        if usage != Usage():
            events(Used(model.name, usage))
        return replace(outcome, usage=usage) if isinstance(outcome, Reply) else outcome

    async def _granted(
        self,
        permits: ModelsRef,
        permit: HoldPermit,
        request: ModelRequest,
        events: _EventForwarder,
        others: Sequence[ChainStep],
    ) -> ModelError | None:
        """Wait for the permit, and emit `Waiting` if it takes time. Return None once the permit is granted.

        Return an error if the wait would be longer than `MAX_WAIT_S`, or if a model of another server can
        answer earlier.
        """
        reported_cause: str | None = None
        while True:
            with trio.move_on_after(SHOW_WAIT_AFTER_S if reported_cause is None else 5.0):
                await permit.granted.wait()
                return None
            try:
                wait = await permits.ask(HowLong(permit.server, permit.model, permit.tokens))
            except (ActorCrashed, ActorStopped):
                wait = None
            # The ask above is a checkpoint: the permit may have been granted meanwhile.
            if permit.granted.is_set():
                return None
            if wait is None:
                continue
            why = model_texts.model_queues(self._language, wait.cause, permit.model)
            # For a busy server no end of the wait is known (its seconds are 0), so no other model is sooner.
            limited = wait.cause != "busy"
            if wait.seconds > MAX_WAIT_S or (limited and await self._sooner(others, request, wait.seconds)):
                if permit.granted.is_set():
                    return None
                return ModelError(
                    "rate_limited", "{why}.", why=why, retry_after_s=wait.seconds, model=permit.model
                )
            if reported_cause != wait.cause:
                reported_cause = wait.cause
                events(Waiting(wait.seconds, why))

    def _reason(self, error: ModelError) -> str:
        return translate(self._language, error.message).rstrip(". ")

    def _summary(self, failures: Sequence[ModelError]) -> ModelError:
        last = failures[-1]
        refused_key = next((failure for failure in failures if failure.kind == "auth"), last)
        summary = ModelError(
            last.kind,
            model_texts.models_failed(self._language, [self._reason(failure) for failure in failures]),
            refused_key.advice,
            retry_after_s=last.retry_after_s,
            detail=last.detail,
            model=last.model,
        )
        summary.partial = max((failure.partial for failure in failures), key=len)
        return summary


def _corrected(request: ModelRequest, failed_generation: str) -> ModelRequest:
    """Return the request with the model's unreadable text and a correction appended."""
    wrote = Message("assistant", failed_generation[:MAX_FAILED_SHOWN_CHARS])
    correction = Message("user", UNREADABLE_CALL if request.tools else NO_TOOLS)
    return replace(request, messages=(*request.messages, wrote, correction))


async def _reply(
    model: Model, request: ModelRequest, events: _EventForwarder, seen: Seen | None
) -> Reply | ModelError:
    """Make one attempt; return an error instead of raising it.

    A nursery would wrap a raised error in an exception group.
    """
    try:
        if seen is not None and isinstance(model, ReportsLimits):
            return await model.metered_reply(request, events, seen)
        return await model.reply(request, events)
    except ModelError as error:
        return error


async def _hold(permits: ModelsRef, permit: HoldPermit, held: trio.CancelScope) -> None:
    """Request a permit and hold it until `held` is cancelled.

    After a crash of the actor, a waiting call requests its permit from the restarted actor.
    """
    with held:
        while True:
            try:
                await permits.ask(permit)
            except ActorCrashed:
                # The restarted actor knows no permits, so a running call continues without one.
                if permit.granted.is_set():
                    return
            except ActorStopped:
                # The program is shutting down, which cancels the chat too. Until then nothing must block.
                permit.granted.set()
                return
