"""The model that a turn gets: the configured models in order, with permits, retries and fallback."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import Final, Protocol, runtime_checkable

import trio

from actors import ActorCrashed, ActorStopped, MailboxFull
from rumi.models.actor import HoldPermit, HowLong, LimitsSeen, ModelsRef
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
from rumi.platform.texts.language import Language

MAX_WAIT_S: Final = 60.0
"""The longest wait for one model; for a longer one, the next model is asked instead."""

BACKOFF_S: Final = (1.0, 4.0)
MOST_REFUSALS: Final = 5
"""How often a call is tried if the server has no capacity and permits then reduce the number of calls."""

REFUSALS: Final = frozenset({"rate_limited", "server", "timeout"})
"""Failures that mean that a server has too many calls."""

SHOW_WAIT_AFTER_S: Final = 0.3
EXPECTED_REPLY_TOKENS: Final = 512

MAX_FAILED_SHOWN_CHARS: Final = 2000
UNREADABLE_CALL: Final = (
    "[What you wrote last could not be read as a tool call. Call the tool again by its exact name, with "
    "arguments that are one JSON object as its schema says, or answer in words.]"
)
NO_TOOLS: Final = "[You called a tool, and there are none here. Answer in words, as you were asked to.]"


_RANDOM: Final = Random()
"""Jitter, for all chains: to seed a generator takes longer than all that a chain needs to be made."""


@runtime_checkable
class ReportsLimits(Protocol):
    """A model that can report its server's rate limits."""

    async def metered_reply(self, request: ModelRequest, emit: Emit, seen: Seen) -> Reply:
        """Like `reply`; `seen` is called as soon as the limits are known."""
        ...


@dataclass(frozen=True, slots=True)
class ChainStep:
    """A model of the chain. `server` shares permits and keys; a model without one needs no permit.

    `room` is the model's token budget; requests to it are cut to that. Without `pictures` it gets none.
    """

    model: Model
    server: str | None = None
    budget: TokenBudget = field(default_factory=TokenBudget)
    pictures: bool = False


class _EventForwarder:
    """Passes events on, and remembers if it passed words that a further attempt would make void.

    `begun`: something of the reply of this attempt came.
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
        """Report that the words so far are void, if there were any."""
        if self._has_text:
            self._has_text = False
            self._emit(Discarded())


class Chain:
    """The models in order, bound to a chat: each is tried up to three times, then the next one.

    With permits, a call is tried up to five times if its server has no capacity.

    Temporary failures are retried after the server's `retry-after`, or after about 1 and 4 seconds: a rate
    limit, a cut connection, a server's failure, a reply that is empty or unreadable. A wait of more than
    `MAX_WAIT_S`, silence or an unknown model leads to the next model at once, and so does a rate limit where
    a model of another server can answer before the wait is over; a refused key also skips the other models of
    that server. A refused request ends the call: it would be refused elsewhere too. Waits and changes of
    model are emitted as `Waiting`, and words that a further attempt makes void as `Discarded`.

    Each model gets the request cut to its own budget. If the server still refuses it as too large, the
    request is cut to the limit in the server's answer and sent once more. If the model wrote an unreadable
    tool call, the next attempt tells it so.

    Without `permits` no permit is asked for: for a single chat, or a test. All waiting is on trio's clock.

    The `meter` is asked before each attempt, for the `account`, and told after it what was used. If it
    refuses, no other model is tried.
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
        """The first model's current maximum, prompt and reply together; None if it is not known.

        It is less than the model's context if the server's plan allows less in one minute.
        """
        return self._steps[0].budget.context_tokens

    @property
    def takes_pictures(self) -> bool:
        """True if the first model gets pictures. A fallback that takes none gets a note in place of each."""
        return self._steps[0].pictures

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        """Stream one reply from the first model that answers.

        Cancelled, it leaves no permit, no connection and no wait behind.

        Raises:
            ModelError: No model answered. It lists the attempts, and has the kind of the last failure.
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
                why = model_texts.model_falls_back(
                    self._language, self._reason(failures[-1]), step.model.name
                )
                emit(Waiting(0.0, why))
            outcome = await self._ask(step, request, events, others)
            if isinstance(outcome, Reply):
                return outcome
            if outcome.kind == "budget":
                raise outcome
            failures.append(outcome)
            if outcome.kind == "refused":
                break
            if outcome.kind == "auth":
                refused_keys.add(step.server)
        raise self._summary(failures)

    async def _ask(
        self, step: ChainStep, request: ModelRequest, events: _EventForwarder, others: Sequence[ChainStep]
    ) -> Reply | ModelError:
        """Ask one model with a request of its maximum size; ask once with less if that was too much.

        `others` are the later models at other servers.
        """
        request = seen_by(request, takes_pictures=step.pictures)
        request = fitted(request, step.budget.prompt_tokens)
        tries = count(1)
        outcome = await self._persist(step, request, events, others, tries)
        if isinstance(outcome, Reply) or outcome.kind != "too_large":
            return outcome
        tokens = request_tokens(request)
        smaller = fitted(request, step.budget.refused(tokens, outcome.too_large))
        if request_tokens(smaller) >= tokens:
            return outcome
        events(Waiting(0.0, model_texts.model_takes_less(self._language, step.model.name)))
        return await self._persist(step, smaller, events, others, tries)

    async def _persist(
        self,
        step: ChainStep,
        request: ModelRequest,
        events: _EventForwarder,
        others: Sequence[ChainStep],
        numbers: Iterator[int],
    ) -> Reply | ModelError:
        """Ask one model, with retries; `numbers` counts all attempts of the call at this model."""
        for tries in numbers:
            outcome = await self._attempt(step, request, events, others)
            if isinstance(outcome, Reply) or not outcome.retriable or tries >= self._most(step, outcome):
                return outcome
            pause = BACKOFF_S[min(tries, len(BACKOFF_S)) - 1]
            seconds = outcome.retry_after_s
            if seconds is None:
                # Jitter, so that chats that failed together do not come back together.
                seconds = pause * self._random.uniform(0.75, 1.25)
            if seconds > MAX_WAIT_S:
                return outcome
            if outcome.kind == "rate_limited" and await self._sooner(others, request, seconds):
                return outcome
            events.discard()
            events(Waiting(seconds, model_texts.model_retrying(self._language, self._reason(outcome))))
            await trio.sleep(seconds)
            if outcome.failed_generation:
                request = _corrected(request, outcome.failed_generation)
        raise AssertionError("the last attempt returns")

    def _most(self, step: ChainStep, outcome: ModelError) -> int:
        """Return how often a call with this failure is tried."""
        permitted = self._permits is not None and step.server is not None
        return MOST_REFUSALS if permitted and outcome.kind == "rate_limited" else len(BACKOFF_S) + 1

    async def _sooner(self, others: Sequence[ChainStep], request: ModelRequest, seconds: float) -> bool:
        """Return True if one of the other models could begin to answer in less than these seconds."""
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
        """Make one attempt while the permit is held: its ask is a sibling task and ends after the call.

        Cancelled, the call closes its connection first: a permit that came back sooner would let another call
        begin while the server still works on this one.
        """

        def seen(limits: RateLimits) -> None:
            with suppress(MailboxFull, ActorStopped):  # they are only advice
                permits.tell_nowait(LimitsSeen(permit, limits))

        outcome: Reply | ModelError | None = None
        held = trio.CancelScope(shield=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_hold, permits, permit, held)
            try:
                outcome = await self._granted(permits, permit, request, events, others)
                if outcome is None:
                    tokens = permit.tokens - EXPECTED_REPLY_TOKENS
                    outcome = await self._metered(model, request, events, seen, tokens)
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
        """Make one attempt that the meter allows, and have it counted; cut off, it counts as reserved.

        `tokens` are those of the request, where they are known.
        """
        if self._meter is None:
            return await _reply(model, request, events, seen)
        if tokens is None:
            tokens = request_tokens(request)
        hold = await self._meter.reserve(self._account, model.name, tokens, self._language)
        if isinstance(hold, ModelError):
            return hold
        outcome: Reply | ModelError | None = None
        events.has_output = False
        try:
            if hold.most_reply is not None:
                request = replace(request, max_output_tokens=hold.most_reply)
            outcome = await _reply(model, request, events, seen)
        finally:
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
        """Wait for the permit, and emit the wait.

        Return an error if the wait would be too long, or if a model of another server can answer before.
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
            if permit.granted.is_set():
                return None
            if wait is None:
                continue
            why = model_texts.model_queues(self._language, wait.cause, permit.model)
            limited = wait.cause != "busy"
            if wait.seconds > MAX_WAIT_S or (limited and await self._sooner(others, request, wait.seconds)):
                if permit.granted.is_set():
                    return None
                return ModelError("rate_limited", f"{why}.", retry_after_s=wait.seconds, model=permit.model)
            if reported_cause != wait.cause:
                reported_cause = wait.cause
                events(Waiting(wait.seconds, why))

    def _reason(self, error: ModelError) -> str:
        return model_texts.model_reason(self._language, error.kind, error.model, error.message, error.detail)

    def _summary(self, failures: Sequence[ModelError]) -> ModelError:
        last = failures[-1]
        refused_key = next((failure for failure in failures if failure.kind == "auth"), last)
        return ModelError(
            last.kind,
            model_texts.models_failed(self._language, [self._reason(failure) for failure in failures]),
            model_texts.model_advice(self._language, refused_key.kind, refused_key.advice),
            retry_after_s=last.retry_after_s,
            detail=last.detail,
            model=last.model,
        )


def _corrected(request: ModelRequest, failed_generation: str) -> ModelRequest:
    """Return the request with the model's unreadable text and the error in it, so that it is not repeated."""
    wrote = Message("assistant", failed_generation[:MAX_FAILED_SHOWN_CHARS])
    correction = Message("user", UNREADABLE_CALL if request.tools else NO_TOOLS)
    return replace(request, messages=(*request.messages, wrote, correction))


async def _reply(
    model: Model, request: ModelRequest, events: _EventForwarder, seen: Seen | None
) -> Reply | ModelError:
    """Make one attempt and return its error; raised inside a nursery, it would come out in a group."""
    try:
        if seen is not None and isinstance(model, ReportsLimits):
            return await model.metered_reply(request, events, seen)
        return await model.reply(request, events)
    except ModelError as error:
        return error


async def _hold(permits: ModelsRef, permit: HoldPermit, held: trio.CancelScope) -> None:
    """Hold a permit until `held` is cancelled."""
    with held:
        while True:
            try:
                await permits.ask(permit)
            except ActorCrashed:
                # A running call continues without a permit, because the restarted actor has forgotten all
                # permits.
                if permit.granted.is_set():
                    return
            except ActorStopped:
                # The whole program is ending, and the chat with it.
                permit.granted.set()
                return
