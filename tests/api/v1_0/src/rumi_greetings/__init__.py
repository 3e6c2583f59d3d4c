"""A package written for version 1.0 of `rumi.api`. It never changes: later versions must load it."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import trio

from rumi.api import (
    Actor,
    Channel,
    ChannelPlugin,
    ChildSpec,
    Emit,
    Finished,
    FunctionTool,
    ModelPlugin,
    ModelRequest,
    PluginContext,
    ReaderPlugin,
    Reply,
    Request,
    Serving,
    SimpleChannel,
    Supervisor,
    Take,
    TaskContext,
    TaskPlugin,
    TaskWork,
    TextDelta,
    Tool,
    ToolContext,
    ToolPlugin,
    answers,
)


@dataclass(frozen=True)
class Settings:
    greeting: str = "Hello"
    times: int = 1


@dataclass(frozen=True)
class Greet(Request[str]):
    name: str


class Greeter(Actor[Greet]):
    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @answers(Greet)
    async def greet(self, message: Greet) -> str:
        await trio.lowlevel.checkpoint()
        return " ".join([f"{self._settings.greeting}, {message.name}!"] * self._settings.times)


def add_actors(root: Supervisor, plugin: PluginContext) -> object:
    settings = plugin.settings
    assert isinstance(settings, Settings)
    return root.add(ChildSpec("greeter", lambda: Greeter(settings)))


def tools(context: ToolContext) -> Sequence[Tool]:
    async def greet(name: str) -> str:
        """Greet somebody by name."""
        return str(await context.actors.ask(Greet(name)))  # type: ignore[attr-defined]

    return (FunctionTool(greet, reads=True, reaches_out=False, trusted=True),)


class Echo:
    def __init__(self, name: str) -> None:
        self.name = name

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        await trio.lowlevel.checkpoint()
        text = f"{self.name}: {request.messages[-1].content[-200:]}"
        emit(TextDelta(text))
        return Reply(text, model=self.name)


class Silent(SimpleChannel):
    async def receive(self, take: Take) -> None:
        await trio.sleep_forever()

    async def send(self, to: str, text: str, key: str) -> None:
        await trio.lowlevel.checkpoint()


@contextmanager
def open_channel(serving: Serving) -> Iterator[Sequence[Channel]]:
    yield (Silent(serving),)


class Kind:
    @asynccontextmanager
    async def open(self, context: TaskContext) -> AsyncIterator[TaskWork]:
        async def finish(answer: str, reason: str) -> Finished:
            await trio.lowlevel.checkpoint()
            return Finished(answer)

        yield TaskWork("Greet who is named.", (), finish)


def read(body: bytes, name: str) -> str:
    return f"{name}: {len(body)} bytes"


LOCALE = Path(__file__).with_name("locale")

TOOLS = ToolPlugin(api="1.0", tools=tools, add_actors=add_actors, settings=Settings, locale=LOCALE)
MODEL = ModelPlugin(api="1.0", model=lambda name, context: Echo(name), context_tokens=32_000)
CHANNEL = ChannelPlugin(api="1.0", open=open_channel, title="Greetings")
TASK = TaskPlugin(api="1.0", description="Greet somebody at length.", kind=lambda context: Kind())
READER = ReaderPlugin(api="1.0", function="rumi_greetings:read", sample=b"a", endings=(".greeting",))
