"""A small kind of task for tests, and models that work on it."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import trio

from rumi.agent.tool import ToolResult
from rumi.models.model import Emit, ModelRequest, Reply, ToolCall, ToolSpec, Usage
from rumi.store.journal.records import Reason
from rumi.tasks.kinds import Finished, TaskContext, TaskWork
from tests.fakes.tools import Unasked

INSTRUCTIONS = "You look things up."


class Look(Unasked):
    """A tool that looks something up: `done` counts how often, `seconds` is how long it takes."""

    spec = ToolSpec("look", "Look up.", {"type": "object", "properties": {"at": {"type": "string"}}})

    def __init__(self, context: TaskContext, kind: "Looking") -> None:
        self._context = context
        self._kind = kind

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        at = str(arguments.get("at"))
        self._kind.done.append(at)
        self._kind.running += 1
        try:
            await trio.sleep(self._kind.seconds)
        finally:
            self._kind.running -= 1
        return ToolResult(True, f"{at} is blue", tainted=True)


class Looking:
    """The kind: its tasks have the one tool."""

    def __init__(self, seconds: float = 1.0) -> None:
        self.seconds = seconds
        self.done: list[str] = []
        self.running = 0
        self.opened = 0

    @asynccontextmanager
    async def open(self, context: TaskContext) -> AsyncIterator[TaskWork]:
        self.opened += 1

        async def finish(answer: str, reason: Reason) -> Finished:
            await trio.lowlevel.checkpoint()
            return Finished(answer, json.dumps({"whole": reason == "complete"}))

        try:
            yield TaskWork(INSTRUCTIONS, (Look(context, self),), finish)
        finally:
            self.opened -= 1


def is_task(request: ModelRequest) -> bool:
    return request.messages[0].content.startswith(INSTRUCTIONS)


def calls(*names: str) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(f"c{name}", "look", json.dumps({"at": name})) for name in names)


def looks(times: int = 1, chat: Callable[[ModelRequest], Awaitable[Reply]] | None = None):  # type: ignore[no-untyped-def]
    """A model that looks so many times in a task, and answers a chat's own turns with `chat`, or an echo."""

    async def answer(request: ModelRequest, emit: Emit) -> Reply:
        await trio.lowlevel.checkpoint()
        question = next(m.content for m in reversed(request.messages) if m.role == "user")
        if not is_task(request):
            return await chat(request) if chat is not None else Reply(f"you said {question}")
        assert [m.content for m in request.messages if m.role == "user"][-1] == question
        results = [m for m in request.messages if m.role == "tool"]
        usage = Usage(100, 10)
        if len(results) < times:
            return Reply("", calls(f"thing{len(results)}"), usage=usage)
        return Reply(f"{question}: {results[-1].content if results else 'nothing'}", usage=usage)

    return answer
