"""What servers say of requests that are too large, over a real connection, and chats that go on anyway.

`too_long.jsonl` has a wording a line: the server's status and body (or an event of its stream, or a text),
with `<L>` for the limit, `<S>` for the prompt's size, `<R>` for the longest reply and `<T>` for both.
"""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rumi.models.anthropic import AnthropicModel
from rumi.models.body import Sampling
from rumi.models.chain import Chain, ChainStep
from rumi.models.chat_completions import ChatCompletions
from rumi.models.model import (
    Message,
    ModelError,
    ModelEvent,
    ModelRequest,
    Reply,
    TooLarge,
    ToolSpec,
    Waiting,
)
from rumi.models.ollama import OllamaModel
from rumi.models.server import ModelServer
from rumi.models.token_budget import RAISE_AFTER, TokenBudget
from rumi.models.too_long import MAX_SAID_CHARS, USUAL_REPLY, refusal_for_size
from tests.fakes.anthropic_server import ANTHROPIC_KEY, serve_anthropic
from tests.fakes.groq_replies import Answer, Behaviour, Body, Fail, Raw
from tests.fakes.groq_server import KEY, GroqServer, serve_groq
from tests.fakes.ollama_server import serve_ollama

HELLO = ModelRequest((Message("user", "hi"),))
LIMIT, SIZE, REPLY = 131_072, 150_000, 8000
TURNS = 9


@dataclass(frozen=True)
class Wording:
    """A line of the file. `says`: L the limit, S the size, + the limit counts the reply, R only the reply."""

    server: str
    says: str
    adapter: str = "openai"
    status: int = 200
    body: object = None
    text: str | None = None
    event: object = None

    def refusal(self, *, limit: int = LIMIT, size: int = SIZE, reply: int = REPLY) -> Behaviour:
        """What the server answers, with these figures."""
        figures = {"<L>": limit, "<S>": size, "<R>": reply, "<T>": size + reply}
        said = self.text if self.text is not None else json.dumps(self.event or self.body)
        for mark, figure in figures.items():
            said = said.replace(mark, str(figure))
        if self.event is None:
            return Fail(self.status, body=said if self.text is not None else json.loads(said))
        data = f"{said}\n" if self.adapter == "ollama" else f"data: {said}\n\n"
        return Raw(data.encode())

    @property
    def told(self) -> TooLarge | None:
        """The figures that are read from it."""
        if "R" in self.says or "?" in self.says:
            return TooLarge(reply=REPLY if "R" in self.says else USUAL_REPLY)
        if not self.says:
            return None
        return TooLarge(LIMIT, SIZE if "S" in self.says else None, with_reply="+" in self.says)


LINES = Path(__file__).with_name("too_long.jsonl").read_text(encoding="utf-8").splitlines()
WORDINGS = [Wording(**json.loads(line)) for line in LINES]
NAMES = [wording.server for wording in WORDINGS]
FREE = Sampling(None, 60_000)


def ignore(_: ModelEvent) -> None:
    pass


@asynccontextmanager
async def model_at(
    adapter: str, script: Any, sampling: Sampling = FREE, **more: Any
) -> AsyncIterator[tuple[Any, GroqServer]]:
    """A model of this adapter at a real server with this script."""
    async with AsyncExitStack() as stack:
        fake: GroqServer
        if adapter == "anthropic":
            fake = await stack.enter_async_context(serve_anthropic(script))
            server = ModelServer("anthropic", fake.base_url, ANTHROPIC_KEY, dialect="anthropic")
            kind: Any = AnthropicModel
        elif adapter == "ollama":
            fake = await stack.enter_async_context(serve_ollama(script))
            server, kind = ModelServer("ollama", fake.base_url, "", dialect="ollama"), OllamaModel
        elif adapter == "groq":
            fake = await stack.enter_async_context(serve_groq(script))
            server = ModelServer("groq", fake.base_url, KEY, dialect="groq")
            kind = ChatCompletions
        else:
            fake = await stack.enter_async_context(serve_groq(script, key=None))
            server = ModelServer("custom:mine", fake.openai_url, "", dialect="openai")
            kind = ChatCompletions
        yield kind(server, "m", name=f"{adapter}:m", timeout_s=600, sampling=sampling, **more), fake
        await server.aclose()


@pytest.mark.parametrize("adapter", ["openai", "anthropic", "ollama", "groq"])
async def test_every_wording_of_the_table_is_read_with_its_figures(adapter: str) -> None:
    wordings = [wording for wording in WORDINGS if wording.adapter == adapter]
    wrong = {}
    async with model_at(adapter, [wording.refusal() for wording in wordings]) as (model, _):
        for wording in wordings:
            with pytest.raises(ModelError) as caught:
                await model.reply(HELLO, ignore)
            if (caught.value.kind, caught.value.too_large) != ("too_large", wording.told):
                wrong[wording.server] = (caught.value.kind, caught.value.too_large, str(caught.value))
    assert wrong == {}


def messages_size(body: Body) -> int:
    """The tokens of the prompt as the server counts them."""
    contents = [message["content"] for message in body["messages"]]
    texts = [text if isinstance(text, str) else text[0]["text"] for text in contents]
    return sum(len(text) for text in texts) // 4


@dataclass
class Narrow:
    """A server that takes `limit` tokens, and refuses more in this wording."""

    wording: Wording
    limit: int = 2000
    sizes: list[int] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)

    def __call__(self, body: Body) -> Behaviour:
        size, asked = messages_size(body), body.get("max_tokens") or body.get("max_completion_tokens") or 0
        self.sizes.append(size)
        self.seen.append(json.dumps(body["messages"][-1], ensure_ascii=False))
        counts = size + asked if "+" in self.wording.says else size
        if "R" in self.wording.says or "?" in self.wording.says:
            if asked > 3000:
                return self.wording.refusal(reply=3000)
        elif counts > self.limit:
            return self.wording.refusal(limit=self.limit, size=size, reply=asked)
        return Answer("ok")


@dataclass
class Chatting:
    """A chat of several turns with one model."""

    chain: Chain
    messages: list[Message] = field(default_factory=lambda: [Message("system", "Be good. " * 20)])
    events: list[ModelEvent] = field(default_factory=list)

    async def turn(self, number: int, length: int = 1500) -> Reply:
        self.messages.append(Message("user", f"question {number}: " + "word " * (length // 5)))
        reply = await self.chain.reply(ModelRequest(tuple(self.messages)), self.events.append)
        self.messages.append(Message("assistant", "An answer. " * 60))
        return reply


@pytest.mark.parametrize("wording", WORDINGS, ids=NAMES)
async def test_a_chat_goes_on_at_a_server_that_refuses_in_these_words(
    wording: Wording, mock_clock: MockClock
) -> None:
    mock_clock.rate = 50
    narrow, budget = Narrow(wording), TokenBudget(131_072)
    async with model_at(wording.adapter, narrow, Sampling(None, 900), budget=budget) as (model, _):
        chatting = Chatting(Chain([ChainStep(model, budget=budget)], chat="c"))
        for number in range(TURNS):
            assert (await chatting.turn(number)).text == "ok"
            assert f"question {number}: word" in narrow.seen[-1]
    assert len(narrow.sizes) <= TURNS + 6, f"it starts over in each turn: {narrow.sizes}"


UNHEARD_OF = [
    Wording("another language", "", status=400, body={"error": {"message": "Liian pitkä keskustelu."}}),
    Wording("no reason", "", status=400, body={"error": {"message": "Bad Request", "code": "invalid"}}),
    Wording("no body", "", status=400, text=""),
    Wording("a crash", "", status=500, body={"error": {"message": "Internal error: index 41"}}),
    Wording("a crash without a body", "", status=500, text=""),
    Wording("a page", "", status=500, text="<html><body>Internal Server Error</body></html>"),
    Wording("a validation", "", status=422, body={"detail": [{"loc": ["body"], "msg": "value error"}]}),
    Wording("an event", "", event={"error": {"message": "upstream error"}}),
    Wording("an event of Ollama", "", adapter="ollama", event={"error": "an error was encountered"}),
    Wording("Anthropic", "", adapter="anthropic", status=400, body={"error": {"message": "Bad request"}}),
]  # fmt: skip


@pytest.mark.parametrize("wording", UNHEARD_OF, ids=[wording.server for wording in UNHEARD_OF])
async def test_a_chat_goes_on_at_a_server_that_does_not_say_why(
    wording: Wording, mock_clock: MockClock
) -> None:
    mock_clock.rate = 1000
    narrow, budget = Narrow(wording, limit=1200), TokenBudget(131_072)
    async with model_at(wording.adapter, narrow, Sampling(), budget=budget) as (model, _):
        chatting = Chatting(Chain([ChainStep(model, budget=budget)], chat="c"))
        for number in range(TURNS):
            assert (await chatting.turn(number)).text == "ok"
            assert f"question {number}: word" in narrow.seen[-1]
    assert any(isinstance(event, Waiting) and "less" in event.why for event in chatting.events)
    assert len(narrow.sizes) <= TURNS + 6, f"it starts over in each turn: {narrow.sizes}"


async def test_a_stream_that_ends_with_nothing_is_a_prompt_that_fills_the_context(
    mock_clock: MockClock,
) -> None:
    mock_clock.rate = 1000
    budget, sizes = TokenBudget(131_072), []

    def silent(body: Body) -> Behaviour:
        sizes.append(messages_size(body))
        return Answer("" if sizes[-1] > 1200 else "ok", finish_reason="length" if sizes[-1] > 1200 else None)

    async with model_at("openai", silent, budget=budget) as (model, _):
        chatting = Chatting(Chain([ChainStep(model, budget=budget)], chat="c"))
        for number in range(TURNS):
            assert (await chatting.turn(number)).text == "ok"


SCHEMA = "Invalid schema for function 'bash': 'dict' is not valid under any of the given schemas."
OTHERS = [
    Fail(400, SCHEMA),
    Fail(400, "'temperature' : must be between 0 and 2"),
    Fail(400, "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64."),
    Fail(422, "messages: roles must alternate between user and assistant"),
    Fail(400, "The response was filtered due to the prompt triggering the content management policy."),
    Fail(401, "Invalid API Key", "invalid_api_key"),
    Fail(404, "The model `m` does not exist: its context length is 4096 tokens", "model_not_found"),
    Fail(402, "This request requires more credits, or fewer max_tokens. You requested up to 8192 tokens."),
]  # fmt: skip


@pytest.mark.parametrize("failure", OTHERS, ids=[failure.message[:30] for failure in OTHERS])
async def test_an_error_of_another_kind_is_shown_as_the_server_said_it(failure: Fail) -> None:
    budget, long = TokenBudget(131_072), Chatting(Chain([ChainStep(None)], chat="c"))  # type: ignore[arg-type]
    for number in range(10):
        long.messages += [Message("user", f"{number} " + "word " * 900), Message("assistant", "yes")]
    async with model_at("openai", failure, budget=budget) as (model, fake):
        long.chain = Chain([ChainStep(model, budget=budget)], chat="c")
        with pytest.raises(ModelError) as caught:
            await long.turn(1)
        assert caught.value.kind != "too_large"
        assert failure.message.rstrip(".") in str(caught.value)
        assert budget.learned is None
        assert len(fake.requests) <= 10


async def test_the_error_of_the_whole_request_is_shown_and_not_that_of_a_shorter_one() -> None:
    answers = [Fail(400, SCHEMA), *[Fail(400, f"messages: odd {number}") for number in range(20)]]
    budget = TokenBudget(131_072)
    async with model_at("openai", answers, budget=budget) as (model, fake):
        chatting = Chatting(Chain([ChainStep(model, budget=budget)], chat="c"))
        with pytest.raises(ModelError, match="Invalid schema"):
            await chatting.turn(1, 30_000)
    assert len(fake.requests) > 3


async def test_an_error_at_a_size_that_has_passed_is_not_tried_with_less() -> None:
    budget, answers = TokenBudget(131_072), [Answer("ok"), Fail(400, "No."), Fail(400, "No."), Answer("ok")]
    async with model_at("openai", answers, budget=budget) as (model, fake):
        chatting = Chatting(Chain([ChainStep(model, budget=budget)], chat="c"))
        await chatting.turn(0, 30_000)
        del chatting.messages[1:]
        with pytest.raises(ModelError, match=r"No\."):
            await chatting.turn(1, 6000)
        assert len(fake.requests) == 2


async def test_a_server_with_a_new_and_smaller_context_is_found_out_in_a_few_turns() -> None:
    wording = Wording("no reason", "", status=400, body={"error": {"message": "Bad Request"}})
    narrow, budget = Narrow(wording, limit=100_000), TokenBudget(131_072)
    async with model_at("openai", narrow, Sampling(), budget=budget) as (model, _):
        chatting = Chatting(Chain([ChainStep(model, budget=budget)], chat="c"))
        await chatting.turn(0, 60_000)
        del chatting.messages[1:]
        narrow.limit = 1000
        answered = []
        for number in range(6):
            try:
                answered.append((await chatting.turn(number)).text)
            except ModelError:
                answered.append("")
    assert answered[-2:] == ["ok", "ok"]


async def test_a_learned_size_is_tried_larger_again_after_some_calls() -> None:
    wording = Wording("no reason", "", status=400, body={"error": {"message": "Bad Request"}})
    narrow, budget = Narrow(wording, limit=1000), TokenBudget(131_072)
    async with model_at("openai", narrow, Sampling(), budget=budget) as (model, _):
        chatting = Chatting(Chain([ChainStep(model, budget=budget)], chat="c"))
        for number in range(4):
            await chatting.turn(number)
        narrow.limit = 100_000
        for number in range(3 * RAISE_AFTER):
            await chatting.turn(number, 200)
    assert max(narrow.sizes[-3:]) > 3000


async def test_a_last_message_that_is_too_long_alone_is_cut_with_a_mark() -> None:
    narrow, budget = Narrow(WORDINGS[NAMES.index("Qwen")]), TokenBudget(131_072)
    async with model_at("openai", narrow, budget=budget) as (model, _):
        chatting = Chatting(Chain([ChainStep(model, budget=budget)], chat="c"))
        assert (await chatting.turn(1, 90_000)).text == "ok"
    assert "question 1: word" in narrow.seen[-1]
    assert "characters left out" in narrow.seen[-1]


async def test_instructions_that_are_too_long_alone_are_told_with_what_to_do() -> None:
    narrow, budget = Narrow(WORDINGS[NAMES.index("Kimi")], limit=1500), TokenBudget(131_072)
    tool = ToolSpec("bash", "Runs a command. " * 100, {"type": "object", "properties": {}})
    async with model_at("openai", narrow, budget=budget) as (model, fake):
        chain = Chain([ChainStep(model, budget=budget)], chat="c")
        request = ModelRequest(
            (Message("system", "Be good. " * 2000), Message("user", "word " * 2000)), (tool,)
        )
        with pytest.raises(ModelError) as caught:
            await chain.reply(request, ignore)
    assert caught.value.kind == "too_large"
    assert "even cut short" in caught.value.message
    assert "exceeded model token limit" in caught.value.message
    assert len(fake.requests) < 10


@pytest.mark.parametrize("server", ["DeepSeek, longest reply", "vLLM", "Anthropic, prompt and reply"])
async def test_a_reply_that_is_too_long_is_asked_for_shorter_and_nothing_is_left_out(server: str) -> None:
    wording = WORDINGS[NAMES.index(server)]
    narrow, budget = Narrow(wording, limit=20_000), TokenBudget(131_072)
    async with model_at(wording.adapter, narrow, Sampling(None, 19_500), budget=budget) as (model, _):
        chatting = Chatting(Chain([ChainStep(model, budget=budget)], chat="c"))
        for number in range(4):
            assert (await chatting.turn(number)).text == "ok"
    assert not any(isinstance(event, Waiting) for event in chatting.events)
    assert len(narrow.sizes) <= 4 + 2


RATES = [
    (429, "Rate limit reached for `m` on tokens per minute (TPM): Limit 6000, Used 5800, Requested 900.",
     "rate_limited", None),
    (429, "Rate limit reached for m on tokens per min. Limit: 10000 / min. Current: 10020 / min.",
     "rate_limited", None),
    (429, "Too many tokens, please wait before trying again.", "rate_limited", None),
    (429, "This request would exceed the rate limit for your organization of 40,000 input tokens per minute.",
     "rate_limited", TooLarge(40_000, a_minute=True)),
    (429, "Request too large for m on tokens per min (TPM): Limit 30000, Requested 42389.",
     "too_large", TooLarge(30_000, 42_389, a_minute=True)),
    (413, "Request too large for model `m` in organization `org_01` service tier `on_demand` on tokens per "
     "minute (TPM): Limit 6000, Requested 7500, please reduce your message size and try again.",
     "too_large", TooLarge(6000, 7500, a_minute=True)),
    (400, "ThrottlingException: Too many tokens, please wait before trying again.", "refused", None),
    (429, "You exceeded your current quota: input token count limit 250000 per day.", "rate_limited", None),
]  # fmt: skip


@pytest.mark.parametrize(("status", "said", "kind", "told"), RATES)
async def test_a_rate_limit_that_counts_tokens_is_not_taken_for_a_long_prompt(
    status: int, said: str, kind: str, told: TooLarge | None
) -> None:
    async with model_at("openai", Fail(status, said)) as (model, _):
        with pytest.raises(ModelError) as caught:
            await model.reply(HELLO, ignore)
    assert (caught.value.kind, caught.value.too_large) == (kind, told)


async def test_a_prompt_above_the_plans_tokens_per_minute_is_cut_and_not_waited_for() -> None:
    said = "This request would exceed your organization's rate limit of 2,000 input tokens per minute."
    narrow, budget = Narrow(Wording("plan", "", status=429, text=said)), TokenBudget(131_072)
    async with model_at("openai", narrow, Sampling(), budget=budget) as (model, _):
        chatting = Chatting(Chain([ChainStep(model, budget=budget)], chat="c"))
        with trio.fail_after(30):
            for number in range(3):
                await chatting.turn(number, 20_000)
    assert all(event.seconds == 0 for event in chatting.events if isinstance(event, Waiting))


@pytest.mark.parametrize("status", [400, 500])
@pytest.mark.parametrize(
    "said",
    [
        "rpc error: code = DeadlineExceeded desc = context deadline exceeded",
        "your token has exceeded its lifetime",
        "authentication token is longer than allowed",
        "max_tokens must be greater than 0",
        "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead.",
        "Invalid 'tools[2].function.description': 2000 characters exceeds maximum of 1024",
        "Invalid 'tool_calls[0].id': string too long. Expected a string with maximum length 64.",
        "messages[3].name: string too long",
        "request parameter foo 5000 exceeds maximum 2048",
        "Too many images: at most 5 images are allowed",
    ],
)
def test_sentences_about_something_else_are_not_taken_for_a_long_prompt(said: str, status: int) -> None:
    assert refusal_for_size(status, "", said, {}) is None


def test_a_long_error_text_is_searched_only_at_its_beginning() -> None:
    assert refusal_for_size(500, "", "x " * 3_000_000 + "prompt is too long", {}) is None
    assert refusal_for_size(400, "", "requested 1" * MAX_SAID_CHARS, {}) is None
