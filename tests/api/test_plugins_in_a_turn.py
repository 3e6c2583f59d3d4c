"""Plugins in a whole Rumi: tools, models, tasks, readers and channels, and what they do when they break."""

import os
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

from rumi.api import (
    Actor,
    Backoff,
    Channel,
    ChannelPlugin,
    ChildSpec,
    FunctionTool,
    ModelPlugin,
    PluginContext,
    ReaderPlugin,
    Reply,
    Request,
    RumiError,
    Serving,
    SimpleChannel,
    Supervisor,
    Take,
    Tool,
    ToolCall,
    ToolContext,
    ToolPlugin,
    answers,
)
from rumi.api.testing import MakeCall, RunningRumi, running
from rumi.platform.config.plugins import PluginPart
from rumi.platform.threads import Threads
from rumi.sandbox.chat_files import ChatFiles
from rumi.sandbox.engine import SandboxLimits
from rumi.sandbox.workspace import prepare_workspace
from rumi.web.readers.files.reading import ViewLimits, ViewRefused
from rumi.web.readers.files.viewer import Viewer
from rumi.web.readers.registration import PluginReaders

USER = (1234, 1234) if os.getuid() == 0 else (os.getuid(), os.getgid())


async def greet(name: str, times: int = 1) -> str:
    """Greet somebody."""
    await trio.lowlevel.checkpoint()
    if name == "nobody":
        raise RumiError("There is nobody.")
    if name == "crash":
        raise ValueError("a bug")
    return " ".join([f"Hello, {name}!"] * times)


def greeting(context: ToolContext) -> Sequence[Tool]:
    return (FunctionTool(greet, reads=True),)


GREETING = ToolPlugin(api="1.0", tools=greeting)


async def test_a_tool_is_called_and_its_result_is_marked_as_from_outside() -> None:
    replies = [MakeCall("greet", {"name": "Ana", "times": 2}), "Done."]
    async with running({"greeting": GREETING}, replies=replies) as rumi:
        assert await rumi.say("Greet Ana twice.") == "Done."
        assert "Hello, Ana! Hello, Ana!" in rumi.results[0]
        assert "what others wrote" in rumi.results[0]
        assert rumi.problems() == ()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": 5}, "`name` is not allowed"),
        ({}, "`name` is not allowed"),
        ({"name": "a", "other": 1}, "`other` is not allowed"),
        ({"name": "nobody"}, "There is nobody."),
        ({"name": "crash"}, "greet failed: ValueError"),
    ],
)
async def test_bad_arguments_and_errors_are_results(arguments: dict[str, object], said: str) -> None:
    async with running({"greeting": GREETING}, replies=[MakeCall("greet", arguments), "Well."]) as rumi:
        assert await rumi.say("Greet.") == "Well."
        assert said in rumi.results[0]


async def test_a_call_that_changes_something_asks_once_the_turn_has_read_what_others_wrote() -> None:
    sent: list[str] = []

    async def post(text: str) -> str:
        """Post a text."""
        await trio.lowlevel.checkpoint()
        sent.append(text)
        return "posted"

    plugin = ToolPlugin(
        api="1.0", tools=lambda context: (FunctionTool(greet, reads=True), FunctionTool(post, reads=False))
    )
    replies = [MakeCall("greet", {"name": "Ana"}), MakeCall("post", {"text": "hi"}), "Over."]
    async with running({"both": plugin}, replies=replies) as rumi:
        assert await rumi.say("Look.", yes=False) == "Over."
        assert sent == []
        assert len(rumi.questions) == 1
        assert '"hi"' in rumi.questions[0]
    async with running({"both": plugin}, replies=replies) as rumi:
        assert await rumi.say("Look.", yes=True) == "Over."
        assert sent == ["hi"]


async def test_tools_with_taken_names_are_left_out_and_named() -> None:
    async def web_search(query: str) -> str:
        """Look."""
        await trio.lowlevel.checkpoint()
        return query

    plugin = ToolPlugin(api="1.0", tools=lambda context: (FunctionTool(web_search, reads=True),))
    async with running({"greeting": GREETING, "other": plugin}) as rumi:
        await rumi.say("Hello.")
        assert any("web_search" in problem for problem in rumi.problems())


async def test_a_plugin_that_breaks_leaves_the_others_working() -> None:
    def breaks(context: ToolContext) -> Sequence[Tool]:
        raise KeyError("a bug")

    def breaks_at_start(root: Supervisor, plugin: PluginContext) -> object:
        raise OSError("no socket")

    broken = ToolPlugin(api="1.0", tools=breaks)
    dead = ToolPlugin(api="1.0", tools=greeting, add_actors=breaks_at_start)
    future = ToolPlugin(api="1.9", tools=greeting)
    registrations = {"broken": broken, "dead": dead, "future": future, "greeting": GREETING}
    async with running(registrations, replies=[MakeCall("greet", {"name": "Ana"}), "Done."]) as rumi:
        assert await rumi.say("Greet Ana.") == "Done."
        assert "Hello, Ana!" in rumi.results[0]
        problems = " ".join(rumi.problems())
        assert all(word in problems for word in ("KeyError", "no socket", "1.9"))


@dataclass(frozen=True, slots=True)
class Count(Request[int]):
    """Count, or crash."""

    crash: bool = False


class Counter(Actor[Count]):
    def __init__(self) -> None:
        self.count = 0

    @answers(Count)
    async def counted(self, message: Count) -> int:
        await trio.lowlevel.checkpoint()
        if message.crash:
            raise ValueError("a bug")
        self.count += 1
        return self.count


def incarnations(rumi: RunningRumi) -> dict[str, int]:
    return {child.id: child.incarnation for child in rumi.app.status.tree().children}


async def test_an_actor_of_a_plugin_crashes_alone() -> None:
    def tools(context: ToolContext) -> Sequence[Tool]:
        async def count(crash: bool = False, try_: int = 0) -> str:
            """Count."""
            return str(await context.actors.ask(Count(crash)))  # type: ignore[attr-defined]

        return (FunctionTool(count, reads=True, reaches_out=False, trusted=True),)

    plugin = ToolPlugin(
        api="1.0", tools=tools, add_actors=lambda root, plugin: root.add(ChildSpec("counter", Counter))
    )
    crashes = [MakeCall("count", {"crash": True, "try_": number}) for number in range(2)]
    replies = [
        MakeCall("count"),
        *crashes,
        "Once.",
        *crashes,
        "Twice.",
        MakeCall("count", {"try_": 9}),
        "Well.",
    ]
    async with running({"counter": plugin}, replies=replies) as rumi:
        before = incarnations(rumi)
        assert await rumi.say("Count.") == "Once."
        assert await rumi.say("Count.") == "Twice."
        assert await rumi.say("Count.") == "Well."
        assert rumi.results[0] == "1"
        assert "count failed" in rumi.results[-1]  # it has given up
        assert incarnations(rumi) == before
        assert before["plugin-counter"] == 1


class Broken:
    name = "broken"

    async def reply(self, request: object, emit: object) -> Reply:
        await trio.lowlevel.checkpoint()
        raise ZeroDivisionError


async def test_a_model_of_a_plugin_that_raises_is_a_model_that_failed() -> None:
    plugin = ModelPlugin(api="1.0", model=lambda name, context: Broken())
    async with running({"broken": plugin}) as rumi:
        chat = rumi.app.chat("cli")
        with pytest.raises(RumiError, match="No enabled plugin"):
            await chat.use_model("plugin:other:x")
        await chat.use_model("plugin:broken:x")
        assert "ZeroDivisionError" in await rumi.say("Hello.", model="plugin:broken:x")
        assert await rumi.say("Hello.") != ""


async def test_a_reader_of_a_plugin_reads_files_in_a_confined_process(tmp_path: Path) -> None:
    function = "tests.fakes.loud_files:shout"
    reader = ReaderPlugin(api="1.0", function=function, sample=b"a", endings=(".loud",), begins=(b"LOUD",))
    context = PluginContext("loud", None, tmp_path, lambda name: "")
    readers = PluginReaders((PluginPart("loud", reader, context),))
    files = ChatFiles(tmp_path / "workspace", USER)
    viewer = Viewer(files, USER, SandboxLimits(), ViewLimits(), Threads(2), readers=readers)
    workspace = prepare_workspace(tmp_path, "cli", *USER)
    (workspace / "a.loud").write_bytes(b"one\ntwo")
    (workspace / "b").write_bytes(b"LOUD three")
    (workspace / "broken.loud").write_bytes(b"crash")
    (workspace / "curious.loud").write_bytes(b"open")
    seen = await viewer.file("cli", "a.loud")
    assert seen is not None
    assert (seen.text, seen.about[:24]) == ("ONE\nTWO", "The text of this loud fi")
    assert (await viewer.file("cli", "b")).text == "LOUD THREE"  # type: ignore[union-attr]
    (workspace / "other.txt").write_text("x")
    assert await viewer.file("cli", "other.txt") is None
    with pytest.raises(ViewRefused, match="ValueError: no words"):
        await viewer.file("cli", "broken.loud")
    with pytest.raises(ViewRefused, match="PermissionError"):
        await viewer.file("cli", "curious.loud")


class Line(SimpleChannel):
    """A channel whose service is two lists."""

    def __init__(self, serving: Serving, service: "Service") -> None:
        super().__init__(serving)
        self._service = service

    async def receive(self, take: Take) -> None:
        while True:
            if self._service.failing:
                self._service.failing -= 1
                raise ConnectionError("the line is down")
            for sender, text, id in self._service.said:
                await take(sender, text, id)
            await trio.sleep(0.01)

    async def send(self, to: str, text: str, key: str) -> None:
        await trio.lowlevel.checkpoint()
        if self._service.refusing:
            self._service.refusing -= 1
            raise ConnectionError("not now")
        self._service.got.append((to, text, key))


@dataclass(slots=True)
class Service:
    said: list[tuple[str, str, str]]
    got: list[tuple[str, str, str]]
    failing: int = 0
    refusing: int = 0


def line(service: Service) -> ChannelPlugin:
    @contextmanager
    def open(serving: Serving) -> Iterator[Sequence[Channel]]:
        channel = Line(serving, service)
        channel.WAITS = FAST  # type: ignore[misc]
        yield (channel,)

    return ChannelPlugin(api="1.0", open=open, title="Line")


FAST = Backoff(first_s=0.01, factor=1.0, cap_s=0.01)


@pytest.mark.parametrize("name", ["ana", "ana@example.org", "böb_", "room-1", "-a-b", "a b", "\x00"])
def test_a_name_in_a_chat_id_stays_itself(name: str) -> None:
    prefix = line(Service([], [])).prefix("line")
    channel = Line(Serving(*[None] * 6, prefix=prefix), Service([], []))  # type: ignore[arg-type]
    chat = channel.chat_of(name)
    assert channel.name_of(chat) == name
    assert re.fullmatch(r"via-line-[A-Za-z0-9-]{1,50}", chat)


async def test_a_message_that_no_chat_can_take_is_noted_and_the_next_one_is_taken() -> None:
    service = Service([("x" * 60, "one", "1"), ("ana", "two", "2")], [])
    async with running({"line": line(service)}, replies=["Hello."]) as rumi:
        with trio.fail_after(20):
            while not service.got:  # noqa: ASYNC110
                await trio.sleep(0.02)
        assert any("too long" in problem for problem in rumi.problems())


async def test_a_problem_is_gone_when_the_same_works_again() -> None:
    service = Service([("ana", "one", "1")], [], failing=1, refusing=1)
    async with running({"line": line(service)}, replies=["Hello."]) as rumi:
        with trio.fail_after(20):
            while not service.got:  # noqa: ASYNC110
                await trio.sleep(0.005)
            while rumi.problems():  # noqa: ASYNC110
                await trio.sleep(0.02)


async def test_what_tools_and_actors_raise_is_noted_too() -> None:
    async def leave() -> str:
        """End the process."""
        await trio.lowlevel.checkpoint()
        raise SystemExit(3)

    plugin = ToolPlugin(api="1.0", tools=lambda context: (FunctionTool(leave, reads=True),))
    async with running({"leaving": plugin}, replies=[MakeCall("leave"), "Still here."]) as rumi:
        assert await rumi.say("Leave.") == "Still here."
        assert rumi.problems() == ("rumi.tools: leave: SystemExit: 3",)


@pytest.mark.parametrize("reply", [None, Reply(None), Reply("", (ToolCall("1", "x", {}),))])  # type: ignore[arg-type]
async def test_what_a_model_returns_is_checked(reply: object) -> None:
    class Odd:
        name = "odd"

        async def reply(self, request: object, emit: object) -> object:
            await trio.lowlevel.checkpoint()
            return reply

    plugin = ModelPlugin(api="1.0", model=lambda name, context: Odd())  # type: ignore[arg-type,return-value]
    async with running({"odd": plugin}) as rumi:
        assert "The adapter of plugin:odd:x failed" in await rumi.say("Hello.", model="plugin:odd:x")


async def test_a_simple_channel_takes_each_message_once_and_sends_each_reply() -> None:
    said = [("ana@example.org", "one", "1"), ("böb_", "two", "2"), ("ana@example.org", "one", "1")]
    service = Service(said, [], failing=2, refusing=2)
    async with running({"line": line(service)}, replies=["first", "second"]) as rumi:
        with trio.fail_after(20):
            while len(service.got) < 2:  # noqa: ASYNC110
                await trio.sleep(0.02)
        await trio.sleep(0.2)
        assert {to for to, _, _ in service.got} == {"ana@example.org", "böb_"}
        assert len({key for _, _, key in service.got}) == len(service.got) == 2
        assert rumi.problems() == ()


async def test_a_channel_that_cannot_be_opened_or_whose_connection_crashes_ends_nothing() -> None:
    class Crashing(Line):
        @asynccontextmanager
        async def open(self, process: object) -> AsyncIterator[None]:
            async with super().open(process), trio.open_nursery() as nursery:  # type: ignore[arg-type]
                nursery.start_soon(self._crash)
                yield

        async def _crash(self) -> None:
            await trio.sleep(0.1)
            raise OSError("the socket broke")

    @contextmanager
    def crashing(serving: Serving) -> Iterator[Sequence[Channel]]:
        yield (Crashing(serving, Service([], [])),)

    @contextmanager
    def refusing(serving: Serving) -> Iterator[Sequence[Channel]]:
        raise OSError("no port")
        yield ()

    registrations = {
        "crashing": ChannelPlugin(api="1.0", open=crashing),
        "refusing": ChannelPlugin(api="1.0", open=refusing),
    }
    async with running(registrations, replies=["Still here."]) as rumi:
        await trio.sleep(0.3)
        assert await rumi.say("Hello.") == "Still here."
        problems = " ".join(rumi.problems())
        assert "the socket broke" in problems
        assert "no port" in problems
