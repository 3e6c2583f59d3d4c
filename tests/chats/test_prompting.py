"""What a chat asks of a model that takes less than the configuration says, as one on a free plan does."""

import json
from collections.abc import Mapping
from pathlib import Path

import trio
from trio.testing import MockClock

from rumi.agent.compaction.form import INSTRUCTIONS
from rumi.agent.tool import Tool, ToolResult
from rumi.models.fitting import request_tokens
from rumi.models.model import Emit, ModelRequest, Reply, ToolCall
from tests.chats.house import FunctionModel, echo, house
from tests.chats.test_confirmations import Page
from tests.fakes.summaries import summary_of

TAKES = 8000
PROMPT_TOKENS = 6000
"""What a prompt may take of that."""


class Small(FunctionModel):
    """A model that says how much it takes."""

    context_tokens = TAKES


class LongPage(Page):
    """A page of 50,000 characters."""

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        return ToolResult(True, "p" * 50_000, tainted=True)


async def mind(request: ModelRequest, emit: Emit) -> Reply:
    """Reads a page where it is told to, sums up, and draws no facts."""
    said = request.messages[-1].content
    if said.startswith("page"):
        return Reply("", (ToolCall("c", "page", "{}"),))
    if request.messages[0].content == INSTRUCTIONS:
        return Reply(summary_of("a summary"))
    if "<conversation>" in said:
        return Reply(json.dumps({"facts": []}))
    return await echo(request, emit)


async def test_whatever_a_chat_asks_keeps_to_what_its_model_takes_now(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    model = Small(mind)
    tools: tuple[Tool, ...] = (LongPage(),)
    async with house(
        tmp_path, model, remembers=True, history_messages=1000, tools_for=lambda view: tools
    ) as home:
        for number in range(20):
            words = "page" if number % 5 == 4 else f"word{number} " * 200
            assert await home.ask(words)
            await trio.sleep(1)
        await home.ask("/reset")
    kinds = {"summary": 0, "facts": 0, "turn": 0}
    for request in model.requests:
        first, last = request.messages[0].content, request.messages[-1].content
        kinds["summary" if first == INSTRUCTIONS else "facts" if "<conversation>" in last else "turn"] += 1
        assert request_tokens(request) <= PROMPT_TOKENS
    assert kinds["turn"] == 24
    assert kinds["summary"] > 0
    assert kinds["facts"] == 1
