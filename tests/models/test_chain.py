"""Retries, fallback and permits, with scripted models in virtual time."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random

import pytest
import trio
from trio.testing import MockClock

from actors import Supervisor
from rumi.models.actor import HoldPermit, HowLong, LimitsSeen, ModelsRef
from rumi.models.build import ModelSet
from rumi.models.chain import Chain, ChainStep
from rumi.models.chat_completions import Seen
from rumi.models.failures import sentence
from rumi.models.fitting import request_tokens
from rumi.models.model import (
    Discarded,
    Emit,
    FailureKind,
    Message,
    ModelError,
    ModelEvent,
    ModelRequest,
    Reply,
    TextDelta,
    TooLarge,
    ToolSpec,
    Waiting,
)
from rumi.models.rates import RateLimits
from rumi.models.token_budget import TokenBudget
from rumi.texts import Language, Text

HELLO = ModelRequest((Message("user", "hola"),))


class Scripted:
    """A model that does what its script says: say words, fail, take time, tell limits."""

    def __init__(self, name: str, *script: Reply | ModelError, takes_s: float = 0.0, words: str = "") -> None:
        self.name = name
        self.calls: list[float] = []
        self.requests: list[ModelRequest] = []
        self.running = 0
        self.most = 0
        self.limits: RateLimits | None = None
        self._script = iter(script)
        self._takes_s = takes_s
        self._words = words

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        return await self.metered_reply(request, emit, lambda _: None)

    async def metered_reply(self, request: ModelRequest, emit: Emit, seen: Seen) -> Reply:
        self.calls.append(trio.current_time())
        self.requests.append(request)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if self._words:
                emit(TextDelta(self._words))
            await trio.sleep(self._takes_s)
            if self.limits is not None:
                seen(self.limits)
            outcome = next(self._script, Reply("done"))
            if isinstance(outcome, ModelError):
                raise outcome
            emit(TextDelta(outcome.text))
            return outcome
        finally:
            self.running -= 1


def failed(kind: FailureKind, retry_after_s: float | None = None, model: str = "groq:a") -> ModelError:
    return ModelError(
        kind, "{model} failed with {kind}.", retry_after_s=retry_after_s, model=model, kind=kind
    )


def chain(
    *models: Scripted, servers: Sequence[str] = (), permits: ModelsRef | None = None, **more: object
) -> Chain:
    names = servers or ["groq"] * len(models)
    steps = [ChainStep(model, server) for model, server in zip(models, names, strict=True)]
    return Chain(steps, chat="c1", permits=permits, random=Random(7), **more)  # type: ignore[arg-type]


def waits(events: Sequence[ModelEvent]) -> list[float]:
    return [round(event.seconds, 3) for event in events if isinstance(event, Waiting)]


class Desk:
    """The `models` actor in a tree of its own."""

    def __init__(self, concurrency: int | None) -> None:
        self.root = Supervisor("test")
        self.ref: ModelsRef = self.root.add(ModelSet((), (), 1000, max_concurrent=concurrency).spec())

    @property
    def activity(self) -> str:
        return self.root.status().children[0].activity


@asynccontextmanager
async def running_models(concurrency: int | None = 32) -> AsyncIterator[Desk]:
    desk = Desk(concurrency)
    async with desk.root.running():
        yield desk


async def test_a_reply_at_the_first_attempt_says_nothing_else(autojump_clock: MockClock) -> None:
    events: list[ModelEvent] = []
    reply = await chain(Scripted("groq:a", Reply("hola"))).reply(HELLO, events.append)
    assert reply.text == "hola"
    assert events == [TextDelta("hola")]


async def test_a_rate_limit_is_waited_out_as_long_as_the_server_asks(autojump_clock: MockClock) -> None:
    events: list[ModelEvent] = []
    model = Scripted("groq:a", failed("rate_limited", 12.5), Reply("late"))
    start = trio.current_time()
    assert (await chain(model).reply(HELLO, events.append)).text == "late"
    assert [time - start for time in model.calls] == [0, 12.5]
    assert waits(events) == [12.5]


@pytest.mark.parametrize("kind", ["server", "unreachable", "malformed", "empty", "rate_limited"])
async def test_what_can_pass_is_tried_three_times_with_growing_pauses(
    kind: FailureKind, autojump_clock: MockClock
) -> None:
    events: list[ModelEvent] = []
    model = Scripted("groq:a", *[failed(kind)] * 3)
    with pytest.raises(ModelError) as caught:
        await chain(model).reply(HELLO, events.append)
    assert caught.value.kind == kind
    first, second = (later - earlier for earlier, later in zip(model.calls, model.calls[1:], strict=False))
    assert 0.75 <= first <= 1.25
    assert 3 <= second <= 5
    assert waits(events) == [round(first, 3), round(second, 3)]


@pytest.mark.parametrize("kind", ["timeout", "not_found", "too_large", "auth"])
async def test_what_cannot_pass_goes_to_the_next_model_at_once(
    kind: FailureKind, autojump_clock: MockClock
) -> None:
    events: list[ModelEvent] = []
    first, second = Scripted("groq:a", failed(kind)), Scripted("custom:b", Reply("from b"))
    start = trio.current_time()
    reply = await chain(first, second, servers=["groq", "custom:b"]).reply(HELLO, events.append)
    assert reply.text == "from b"
    assert trio.current_time() == start
    assert len(first.calls) == 1
    (waiting,) = (event for event in events if isinstance(event, Waiting))
    assert waiting == Waiting(0.0, f"groq:a failed with {kind}; trying custom:b instead")


async def test_a_long_retry_after_is_not_waited_for(autojump_clock: MockClock) -> None:
    first, second = Scripted("groq:a", failed("rate_limited", 61)), Scripted("groq:b", Reply("from b"))
    start = trio.current_time()
    assert (await chain(first, second).reply(HELLO, lambda _: None)).text == "from b"
    assert trio.current_time() == start


async def test_retries_come_before_the_fallback(autojump_clock: MockClock) -> None:
    first, second = Scripted("groq:a", *[failed("server")] * 3), Scripted("groq:b", Reply("from b"))
    assert (await chain(first, second).reply(HELLO, lambda _: None)).text == "from b"
    assert len(first.calls) == 3


async def test_a_refused_key_passes_over_the_other_models_of_its_server(autojump_clock: MockClock) -> None:
    first, second = Scripted("groq:a", failed("auth")), Scripted("groq:b")
    third = Scripted("custom:c", Reply("from c"))
    both = chain(first, second, third, servers=["groq", "groq", "custom:c"])
    assert (await both.reply(HELLO, lambda _: None)).text == "from c"
    assert second.calls == []


async def test_words_of_a_failed_attempt_are_discarded_before_the_next(autojump_clock: MockClock) -> None:
    events: list[ModelEvent] = []
    first = Scripted("groq:a", *[failed("unreachable")] * 3, words="half an ans")
    second = Scripted("groq:b", Reply("whole"))
    await chain(first, second).reply(HELLO, events.append)
    shown = ""
    for event in events:
        if isinstance(event, Discarded):
            shown = ""
        elif isinstance(event, TextDelta):
            shown += event.text
    assert shown == "whole"
    assert events.count(Discarded()) == 3


async def test_nothing_is_discarded_where_no_words_went_out(autojump_clock: MockClock) -> None:
    events: list[ModelEvent] = []
    await chain(Scripted("groq:a", failed("server"), Reply("x"))).reply(HELLO, events.append)
    assert Discarded() not in events


async def test_the_last_error_tells_everything_that_was_tried(autojump_clock: MockClock) -> None:
    first = Scripted("groq:a", failed("timeout"))
    second = Scripted("groq:b", failed("not_found", model="groq:b"))
    with pytest.raises(ModelError) as caught:
        await chain(first, second).reply(HELLO, lambda _: None)
    assert caught.value.kind == "not_found"
    assert (
        caught.value.message == "no model answered: groq:a failed with timeout; groq:b failed with not_found."
    )


async def test_in_spanish_reasons_are_spanish(autojump_clock: MockClock) -> None:
    events: list[ModelEvent] = []
    limited, silent = (
        ModelError(
            "rate_limited",
            sentence(Text("{model} has reached its rate limit", model="groq:a"), ""),
            retry_after_s=3,
            model="groq:a",
        ),
        ModelError(
            "timeout",
            sentence(Text("{model} said nothing for {seconds} s", model="groq:a", seconds=60), ""),
            model="groq:a",
        ),
    )
    model = Scripted("groq:a", limited, silent)
    with pytest.raises(ModelError) as caught:
        await chain(model, language="es").reply(HELLO, events.append)
    assert events == [Waiting(3, "groq:a llegó a su límite de uso; lo intento de nuevo")]
    assert caught.value.message == "groq:a no dijo nada durante 60 s."


async def test_a_permit_is_held_while_the_call_runs_and_given_back_after(autojump_clock: MockClock) -> None:
    async with running_models() as desk, trio.open_nursery() as nursery:
        model = Scripted("groq:a", Reply("x"), takes_s=5)
        nursery.start_soon(chain(model, permits=desk.ref).reply, HELLO, lambda _: None)
        await trio.sleep(1)
        assert desk.activity == "1 running, 0 waiting"
        await trio.sleep(5)
        assert desk.activity == "0 running, 0 waiting"


@pytest.mark.parametrize("kind", ["server", "auth", "timeout"])
async def test_a_failed_call_gives_its_permit_back_before_it_waits(
    kind: FailureKind, autojump_clock: MockClock
) -> None:
    async with running_models(concurrency=1) as desk:
        model = Scripted("groq:a", *[failed(kind)] * 3)
        with pytest.raises(ModelError):
            await chain(model, permits=desk.ref).reply(HELLO, lambda _: None)
        assert desk.activity == "0 running, 0 waiting"


@pytest.mark.parametrize("after_s", [0.0, 0.1, 1.0, 6.0])
async def test_a_cancelled_call_leaves_no_permit_wherever_it_stands(
    after_s: float, autojump_clock: MockClock
) -> None:
    async with running_models(concurrency=1) as desk, trio.open_nursery() as nursery:
        slow = Scripted("groq:a", takes_s=5)
        nursery.start_soon(chain(slow, permits=desk.ref).reply, HELLO, lambda _: None)
        await trio.sleep(0.01)
        waiting = Scripted("groq:b", takes_s=5)
        with trio.move_on_after(after_s) as scope:
            await chain(waiting, permits=desk.ref).reply(HELLO, lambda _: None)
        assert scope.cancelled_caught
        assert waiting.running == 0
        assert desk.activity == ("1 running, 0 waiting" if after_s < 5 else "0 running, 0 waiting")


class SlowToClose:
    """A model whose connection takes a second to close, when its call is cancelled."""

    name = "groq:slow"

    def __init__(self) -> None:
        self.closed_at = 0.0

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
            self.closed_at = trio.current_time()
        raise AssertionError("it is cancelled")


async def test_a_cancelled_call_keeps_its_permit_until_its_connection_is_closed(
    autojump_clock: MockClock,
) -> None:
    async with running_models(concurrency=1) as desk, trio.open_nursery() as nursery:
        closing, waiting = SlowToClose(), Scripted("groq:b", Reply("x"))
        scope = trio.CancelScope()
        nursery.start_soon(_in_scope, scope, chain(closing, permits=desk.ref))
        await trio.sleep(1)
        nursery.start_soon(chain(waiting, permits=desk.ref).reply, HELLO, lambda _: None)
        await trio.sleep(1)
        scope.cancel()
    assert closing.closed_at > 0
    assert waiting.calls
    assert waiting.calls[0] >= closing.closed_at


async def _in_scope(scope: trio.CancelScope, model: Chain) -> None:
    with scope:
        await model.reply(HELLO, lambda _: None)


async def test_no_more_calls_run_at_once_than_allowed(autojump_clock: MockClock) -> None:
    model = Scripted("groq:a", takes_s=1)
    async with running_models(concurrency=3) as desk, trio.open_nursery() as nursery:
        for number in range(10):
            one = Chain([ChainStep(model, "groq")], chat=f"c{number}", permits=desk.ref)
            nursery.start_soon(one.reply, HELLO, lambda _: None)
    assert model.most == 3
    assert len(model.calls) == 10


async def test_a_server_that_takes_few_at_once_refuses_little_and_no_call_fails(
    autojump_clock: MockClock,
) -> None:
    server = Narrow(takes=20)
    async with running_models(None) as desk:
        async with trio.open_nursery() as nursery:
            for number in range(300):
                one = Chain(
                    [ChainStep(server, "s")], chat=f"c{number}", permits=desk.ref, random=Random(number)
                )
                nursery.start_soon(one.reply, HELLO, lambda _: None)
        began = trio.current_time()
        assert server.answered == 300
        assert server.most == 20
        assert server.refused < 130
        assert began < 1.5 * 2 * 300 / 20
        assert "s gets" in desk.activity


class Narrow:
    """A server that takes so many calls at once, each for two seconds, and refuses the rest."""

    name = "custom:narrow"

    def __init__(self, takes: int) -> None:
        self.takes = takes
        self.running = self.most = self.answered = self.refused = 0

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        await trio.sleep(0.01)
        if self.running >= self.takes:
            self.refused += 1
            raise ModelError("rate_limited", "too many at once")
        self.running += 1
        self.most = max(self.most, self.running)
        await trio.sleep(2)
        self.running -= 1
        self.answered += 1
        return Reply("x")


async def test_a_busy_chat_does_not_starve_another(autojump_clock: MockClock) -> None:
    model = Scripted("groq:a", takes_s=1)
    order: list[str] = []

    async def ask(chat: str) -> None:
        await Chain([ChainStep(model, "groq")], chat=chat, permits=desk.ref).reply(HELLO, lambda _: None)
        order.append(chat)

    async with running_models(concurrency=1) as desk, trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(ask, "busy")
        await trio.sleep(0.5)
        nursery.start_soon(ask, "quiet")
    assert order.index("quiet") == 1


async def test_a_wait_for_other_chats_is_shown_once(autojump_clock: MockClock) -> None:
    events: list[ModelEvent] = []
    async with running_models(concurrency=1) as desk, trio.open_nursery() as nursery:
        slow = Scripted("groq:a", takes_s=30)
        nursery.start_soon(chain(slow, permits=desk.ref).reply, HELLO, lambda _: None)
        await trio.sleep(0.1)
        await chain(Scripted("groq:a", Reply("x")), permits=desk.ref).reply(HELLO, events.append)
    assert events == [Waiting(0.0, "groq:a is busy with other chats"), TextDelta("x")]


async def test_one_chats_rate_limit_makes_the_others_wait_too(autojump_clock: MockClock) -> None:
    events: list[ModelEvent] = []
    async with running_models() as desk:
        limited = Scripted("groq:a", failed("rate_limited", 90))
        limited.limits = RateLimits(retry_after_s=20)
        with pytest.raises(ModelError):
            await chain(limited, permits=desk.ref).reply(HELLO, lambda _: None)
        start = trio.current_time()
        other = Scripted("groq:a", Reply("x"))
        await chain(other, permits=desk.ref).reply(HELLO, events.append)
        assert other.calls == [start + 20]
    (waiting,) = (event for event in events if isinstance(event, Waiting))
    assert waiting.seconds == pytest.approx(20, abs=0.5)
    assert waiting.why == "groq:a has reached its rate limit"


async def test_a_model_that_cools_down_for_long_is_passed_over_without_a_call(
    autojump_clock: MockClock,
) -> None:
    async with running_models() as desk:
        permit = HoldPermit("c0", "groq", "groq:a", 10)
        await desk.ref.tell(LimitsSeen(permit, RateLimits(retry_after_s=600)))
        first, second = Scripted("groq:a"), Scripted("groq:b", Reply("from b"))
        reply = await chain(first, second, permits=desk.ref).reply(HELLO, lambda _: None)
    assert reply.text == "from b"
    assert first.calls == []


async def test_how_long_a_call_would_wait_can_be_asked(autojump_clock: MockClock) -> None:
    async with running_models(concurrency=1) as desk, trio.open_nursery() as nursery:
        assert await desk.ref.ask(HowLong("groq", "groq:a", 10)) is None
        permit = HoldPermit("c0", "groq", "groq:a", 10)
        nursery.start_soon(desk.ref.ask, permit)
        await permit.granted.wait()
        wait = await desk.ref.ask(HowLong("groq", "groq:a", 10))
        assert wait is not None
        assert wait.cause == "busy"
        nursery.cancel_scope.cancel()


async def test_without_a_server_no_permit_is_asked_for(autojump_clock: MockClock) -> None:
    async with running_models(concurrency=0) as desk:
        free = Chain([ChainStep(Scripted("offline", Reply("x")))], chat="c1", permits=desk.ref)
        assert (await free.reply(HELLO, lambda _: None)).text == "x"


async def test_an_error_of_ours_in_a_model_gives_the_permit_back(autojump_clock: MockClock) -> None:
    class Broken(Scripted):
        async def metered_reply(self, request: ModelRequest, emit: Emit, seen: Seen) -> Reply:
            raise ValueError("a bug")

    async with running_models() as desk:
        with pytest.RaisesGroup(ValueError):
            await chain(Broken("groq:a"), permits=desk.ref).reply(HELLO, lambda _: None)
        assert desk.activity == "0 running, 0 waiting"


async def test_when_the_actor_crashes_calls_go_on_and_waiting_ones_are_granted_by_its_successor(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_models(concurrency=1) as desk, trio.open_nursery() as nursery:
        slow, waiting = Scripted("groq:a", Reply("slow"), takes_s=5), Scripted("groq:a", Reply("next"))
        nursery.start_soon(chain(slow, permits=desk.ref).reply, HELLO, lambda _: None)
        await trio.sleep(1)
        nursery.start_soon(chain(waiting, permits=desk.ref).reply, HELLO, lambda _: None)
        await trio.sleep(1)
        assert desk.activity == "1 running, 1 waiting"
        permit = HoldPermit("c0", "groq", "groq:a", 10)
        await desk.ref.tell(LimitsSeen(permit, None))  # type: ignore[arg-type]
        await trio.sleep(1)
        assert len(waiting.calls) == 1
        assert slow.running == 1
    assert slow.running == 0


LONG = ModelRequest((Message("system", "be good"), Message("user", "word " * 12_000)))


def refused(told: TooLarge | None) -> ModelError:
    return ModelError("too_large", "It is too large.", model="groq:a", too_large=told)


async def test_each_model_is_asked_as_much_as_it_takes() -> None:
    small, large = Scripted("groq:small", failed("timeout")), Scripted("custom:large", Reply("x"))
    steps = [ChainStep(small, budget=TokenBudget(8000)), ChainStep(large, budget=TokenBudget(131_072))]
    await Chain(steps, chat="c").reply(LONG, lambda _: None)
    assert request_tokens(small.requests[0]) <= 6000
    assert large.requests == [LONG]


@pytest.mark.parametrize("language", ["en", "es"])
async def test_what_is_too_large_is_cut_to_what_the_server_told_and_asked_once_more(
    language: Language, autojump_clock: MockClock
) -> None:
    events: list[ModelEvent] = []
    model = Scripted("groq:a", refused(TooLarge(8000, 16_000, a_minute=True)), Reply("it fits"))
    one = Chain([ChainStep(model, budget=TokenBudget(131_072))], chat="c", language=language)
    start = trio.current_time()
    assert (await one.reply(LONG, events.append)).text == "it fits"
    assert trio.current_time() == start
    assert model.requests[0] == LONG
    assert request_tokens(model.requests[1]) <= 6000
    why = {
        "en": "groq:a does not take so much at once; trying again with less",
        "es": "groq:a no admite tanto de una vez; lo acorto y pruebo de nuevo",
    }
    assert events[0] == Waiting(0.0, why[language])
    await one.reply(LONG, events.append)
    assert request_tokens(model.requests[2]) <= 6000


async def test_what_is_still_too_large_goes_to_the_next_model() -> None:
    told = refused(TooLarge(8000, 16_000, a_minute=True))
    small, large = Scripted("groq:a", told, told, told), Scripted("custom:large", Reply("x"))
    steps = [ChainStep(small, budget=TokenBudget()), ChainStep(large)]
    assert (await Chain(steps, chat="c").reply(LONG, lambda _: None)).text == "x"
    assert len(small.requests) == 2
    assert large.requests == [LONG]


async def test_what_cannot_be_made_smaller_is_not_asked_again() -> None:
    model = Scripted("groq:a", refused(None))
    with pytest.raises(ModelError) as caught:
        await Chain([ChainStep(model)], chat="c").reply(HELLO, lambda _: None)
    assert caught.value.kind == "too_large"
    assert len(model.requests) == 1


async def test_a_model_is_told_that_its_call_could_not_be_read(autojump_clock: MockClock) -> None:
    slip = ModelError("malformed", "It wrote nonsense.", model="groq:a", failed_generation="bash(ls")
    asked = replace(HELLO, tools=(ToolSpec("bash", "Runs it.", {"type": "object", "properties": {}}),))
    model = Scripted("groq:a", slip, Reply("better"))
    await chain(model).reply(asked, lambda _: None)
    first, second = model.requests
    assert first == asked
    assert second.messages[0] == HELLO.messages[0]
    assert second.messages[1] == Message("assistant", "bash(ls")
    assert "could not be read as a tool call" in second.messages[2].content
    model = Scripted("groq:a", slip, Reply("words"))
    await chain(model).reply(HELLO, lambda _: None)
    assert "there are none here" in model.requests[1].messages[2].content


async def test_a_rate_limit_is_left_at_once_for_a_server_that_can_answer_sooner(
    autojump_clock: MockClock,
) -> None:
    first, second = Scripted("groq:a", failed("rate_limited", 20)), Scripted("openai:b", Reply("from b"))
    start = trio.current_time()
    async with running_models() as desk:
        bound = chain(first, second, servers=["groq", "openai"], permits=desk.ref)
        assert (await bound.reply(HELLO, lambda _: None)).text == "from b"
    assert (trio.current_time(), len(first.calls)) == (start, 1)


async def test_a_rate_limit_is_waited_out_where_the_others_wait_longer(autojump_clock: MockClock) -> None:
    first, second = Scripted("groq:a", failed("rate_limited", 5), Reply("late")), Scripted("openai:b")
    async with running_models() as desk:
        permit = HoldPermit("c2", "openai", "openai:b", 10)
        desk.ref.tell_nowait(LimitsSeen(permit, RateLimits(retry_after_s=30)))
        bound = chain(first, second, servers=["groq", "openai"], permits=desk.ref)
        assert (await bound.reply(HELLO, lambda _: None)).text == "late"
    assert (len(first.calls), second.calls) == (2, [])


async def test_a_model_that_cools_down_is_left_for_another_server_without_a_call(
    autojump_clock: MockClock,
) -> None:
    first, second = Scripted("groq:a"), Scripted("openai:b", Reply("from b"))
    async with running_models() as desk:
        permit = HoldPermit("c2", "groq", "groq:a", 10)
        await desk.ref.tell(LimitsSeen(permit, RateLimits(retry_after_s=30)))
        while not await desk.ref.ask(HowLong("groq", "groq:a", 10)):  # an ask may overtake a tell
            await trio.lowlevel.checkpoint()
        bound = chain(first, second, servers=["groq", "openai"], permits=desk.ref)
        start = trio.current_time()
        assert (await bound.reply(HELLO, lambda _: None)).text == "from b"
        assert trio.current_time() - start < 1
    assert first.calls == []


async def test_a_server_whose_key_was_refused_answers_nothing_sooner(autojump_clock: MockClock) -> None:
    models = (
        Scripted("openai:a", failed("auth", model="openai:a")),
        Scripted("groq:b", failed("rate_limited", 7), Reply("late")),
        Scripted("openai:c"),
    )
    bound = chain(*models, servers=["openai", "groq", "openai"])
    assert (await bound.reply(HELLO, lambda _: None)).text == "late"
    assert models[2].calls == []


async def test_a_refused_request_is_asked_of_no_other_model(autojump_clock: MockClock) -> None:
    first, second = Scripted("groq:a", failed("refused")), Scripted("openai:b")
    with pytest.raises(ModelError) as caught:
        await chain(first, second, servers=["groq", "openai"]).reply(HELLO, lambda _: None)
    assert (caught.value.kind, len(first.calls), second.calls) == ("refused", 1, [])


async def test_no_model_is_asked_more_than_five_times(autojump_clock: MockClock) -> None:
    limited = [failed("rate_limited", 1)] * 4
    large = ModelError("too_large", "no", model="groq:a", too_large=TooLarge(1000, 2000))
    long = ModelRequest((Message("user", "word " * 2000),))
    model = Scripted("groq:a", *limited, large, *limited, *limited)
    async with running_models() as desk:
        with pytest.raises(ModelError):
            await chain(model, permits=desk.ref).reply(long, lambda _: None)
    assert len(model.calls) <= 6, "five attempts, and one with a shorter request"
