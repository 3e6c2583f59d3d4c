"""Plugins that break in every way that does not end the process: it runs on, and what went wrong is noted."""

import itertools
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rumi.agent.plugin_tools import checked_tools
from rumi.api import (
    Channel,
    ChannelPlugin,
    ChannelPrefix,
    FunctionTool,
    ModelError,
    ReaderPlugin,
    Reply,
    RumiError,
    Serving,
    TextDelta,
    ToolPlugin,
    ToolSpec,
    Usage,
)
from rumi.api.testing import running
from rumi.channels.guarded import GuardedChannel
from rumi.models.plugin_models import SILENCE_S, GuardedModel
from rumi.platform.config.plugins import is_fault
from tests.api.test_plugins_in_a_turn import FAST, Line, Service, greet

PREFIX = ChannelPrefix("via-odd-", "Odd")


def leaves() -> Any:
    sys.exit("the plugin wants to end")


class Odd:
    """A channel each of whose hooks returns what it should not."""

    def __init__(self, found: Callable[[], Any]) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        return self._found() if name == "limited" else lambda *words, **more: self._found()

    @asynccontextmanager
    async def open(self, process: object) -> AsyncIterator[None]:
        yield


@asynccontextmanager
async def guarding(inner: Any) -> AsyncIterator[tuple[GuardedChannel, list[str]]]:
    notes = list[str]()

    def note(what: str, error: BaseException) -> None:
        notes.append(f"{what.removeprefix('via-odd ')}: {error}")

    channel = GuardedChannel(inner, PREFIX, note)
    async with channel.open(SimpleNamespace(language="en")):  # type: ignore[arg-type]
        yield channel, notes


@pytest.mark.parametrize("found", [lambda: None, object, itertools.count, leaves])
async def test_hooks_that_return_nonsense_or_leave_are_noted(found: Callable[[], Any]) -> None:
    async with guarding(Odd(found)) as (channel, notes):
        assert channel.limited == 0
        assert channel.admin_chats() == ()
        assert channel.names_of("via-odd-ana") == ("via-odd-ana",)
        assert channel.tools_for("via-odd-ana") == ()
        assert channel.speaks("via-odd-ana") is False
        await channel.introduce(print)
        await channel.stop_receiving()
        hooks = {note.partition(":")[0] for note in notes}
        assert hooks >= {"limited", "admin_chats", "names_of", "tools_for", "speaks", "introduce"}


async def test_hooks_that_never_return_are_left_after_a_time(autojump_clock: MockClock) -> None:
    async with guarding(Odd(trio.sleep_forever)) as (channel, notes):
        await channel.introduce(print)
        await channel.stop_receiving()
        await channel.flush()
        assert [note.partition(":")[0] for note in notes] == ["introduce", "stop_receiving", "flush"]
        assert trio.current_time() < 120


async def test_a_channel_that_never_opens_or_never_closes_delays_only_a_while(
    autojump_clock: MockClock,
) -> None:
    class Stuck(Odd):
        @asynccontextmanager
        async def open(self, process: object) -> AsyncIterator[None]:
            if self._found():
                await trio.sleep_forever()
            yield
            await trio.sleep_forever()

    for opens in (True, False):
        async with guarding(Stuck(lambda opens=opens: opens)) as (_, notes):
            pass
        assert notes
        assert notes[0].startswith("open: no answer in")
    assert trio.current_time() < 60


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (ValueError(), True),
        (SystemExit(1), True),
        (GeneratorExit(), True),
        (BaseExceptionGroup("", [SystemExit(1), ValueError()]), True),
        (KeyboardInterrupt(), False),
        (BaseExceptionGroup("", [ValueError(), KeyboardInterrupt()]), False),
    ],
)
def test_ctrl_c_is_never_a_fault_of_a_plugin(error: BaseException, fault: bool) -> None:
    assert is_fault(error) == fault


# Tools


class Named:
    """A tool with any specification."""

    def __init__(self, *spec: Any) -> None:
        self.spec = ToolSpec(*spec)

    async def call(self, arguments: object) -> None: ...


GOOD = FunctionTool(greet, reads=True)


@pytest.mark.parametrize(
    "bad",
    [
        None,
        7,
        object(),
        Named("a name", "x", {"type": "object"}),
        Named("x" * 65, "x", {"type": "object"}),
        Named(None, "x", {"type": "object"}),
        Named("odd", None, {"type": "object"}),
        Named("odd", "x", None),
        Named("odd", "x", {"type": {1, 2}}),
        Named("greet", "another one", {"type": "object"}),
        Named("taken", "x", {"type": "object"}),
    ],
)
def test_a_tool_that_no_provider_takes_is_left_out_and_the_others_stay(bad: Any) -> None:
    faults = list[BaseException]()
    assert checked_tools([GOOD, bad], ("taken",), faults.append) == [GOOD]
    assert len(faults) == 1


@pytest.mark.parametrize("found", [None, itertools.repeat(GOOD), "tools", [GOOD] * 129])
def test_what_is_no_list_of_tools_is_refused(found: object) -> None:
    with pytest.raises(RumiError, match="up to 128"):
        checked_tools(found, (), print)


async def test_a_turn_goes_on_if_a_plugin_wants_to_end_the_process() -> None:
    registrations = {
        "leaves": ToolPlugin(api="1.0", tools=lambda context: leaves()),
        "endless": ToolPlugin(api="1.0", tools=lambda context: itertools.repeat(GOOD)),  # type: ignore[arg-type,return-value]
        "odd": ToolPlugin(api=1.0, tools=lambda context: ()),  # type: ignore[arg-type]
        "actors": ToolPlugin(api="1.0", tools=lambda context: (), add_actors=lambda root, plugin: leaves()),
    }
    async with running(registrations, replies=["Still here."]) as rumi:
        assert await rumi.say("Hello.") == "Still here."
        said = " ".join(rumi.problems())
        assert "SystemExit" in said
        assert "up to 128" in said
        assert "version 1.0 of rumi.api" in said


# Models


def nothing(*what: object) -> None:
    """Take a note, or that there is none any more."""


class Model:
    name = "odd"

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self._answer = answer

    async def reply(self, request: object, emit: Any) -> Any:
        await trio.lowlevel.checkpoint()
        return self._answer(emit)


@pytest.mark.parametrize(
    "answer",
    [
        lambda emit: None,
        lambda emit: "words",
        lambda emit: Reply(None),  # type: ignore[arg-type]
        lambda emit: Reply("x", [7]),  # type: ignore[arg-type]
        lambda emit: Reply("x", usage=None),  # type: ignore[arg-type]
        lambda emit: Reply("x", usage=Usage(prompt_tokens=-1)),
        lambda emit: Reply("x", usage=Usage(nano_usd="free")),  # type: ignore[arg-type]
        lambda emit: emit("words"),
        lambda emit: leaves(),
    ],
)
async def test_an_odd_reply_is_a_failure_of_the_model(answer: Callable[[Any], Any]) -> None:
    with pytest.raises(ModelError) as raised:
        await GuardedModel("plugin:odd:x", Model(answer), nothing, nothing).reply(None, lambda event: None)  # type: ignore[arg-type]
    assert raised.value.kind == "server"


async def test_a_model_that_is_silent_fails_and_one_that_speaks_does_not(autojump_clock: MockClock) -> None:
    class Slow(Model):
        async def reply(self, request: object, emit: Any) -> Any:
            for _ in range(3):
                await trio.sleep(SILENCE_S * 0.9)
                emit(TextDelta("x"))
            return await trio.sleep_forever() if self._answer(None) else Reply("xxx")

    assert (
        await GuardedModel("m", Slow(lambda _: False), nothing, nothing).reply(None, lambda event: None)
    ).text == "xxx"  # type: ignore[arg-type]
    with pytest.raises(ModelError) as raised:
        await GuardedModel("m", Slow(lambda _: True), nothing, nothing).reply(None, lambda event: None)  # type: ignore[arg-type]
    assert raised.value.kind == "timeout"


@pytest.mark.parametrize("odd", [{"sample": "x"}, {"function": None}, {"endings": ".x"}, {"begins": ("x",)}])
def test_a_reader_with_odd_fields_cannot_be_registered(odd: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        ReaderPlugin(**{"api": "1.0", "function": "a:b", "sample": b"", **odd})


# Channels


async def test_a_channel_that_sends_odd_messages_loses_none_of_the_good_ones() -> None:
    odd: list[Any] = [("ana", None, "1"), (7, "x", "2"), ("", "x", "3"), ("a" * 200, "x", "4")]
    odd.append(("ana", "x" * 10_000_000, "5"))
    service, taken = Service([], []), list[bool]()

    class Odder(Line):
        async def receive(self, take: Any) -> None:
            taken.extend([await take(*message) for message in (*odd, ("ana", "good", "6"))])
            sys.exit("done")

        async def send(self, to: str, text: str, key: str) -> None:
            if not service.got:
                service.got.append(("", "", ""))
                sys.exit("not now")
            await super().send(to, text, key)

    @contextmanager
    def open(serving: Serving) -> Iterator[Sequence[Channel]]:
        channel = Odder(serving, service)
        channel.WAITS = FAST  # type: ignore[misc]
        yield (channel,)

    async with running({"odd": ChannelPlugin(api="1.0", open=open)}, replies=["fine"]) as rumi:
        with trio.fail_after(20):
            while len(service.got) < 2:  # noqa: ASYNC110
                await trio.sleep(0.02)
        assert service.got[1][:2] == ("ana", "fine")
        assert taken[: len(odd) + 1] == [False] * len(odd) + [True]
        assert await rumi.say("Hello.") == "Hello."


async def test_a_message_that_is_not_stored_in_time_is_not_taken(autojump_clock: MockClock) -> None:
    from rumi.channels.simple import _Receiver

    class Slow:
        async def accept_all(self, messages: object) -> None:
            await trio.sleep_forever()

    class Line:
        name = "via-line"

        def chat_of(self, name: str) -> str:
            return f"via-line-{name}"

    receiver = _Receiver(Line(), Slow(), lambda key: True)  # type: ignore[arg-type]
    with pytest.raises(RumiError, match="could not be stored"):
        await receiver._take("ana", "hello", "1")


@pytest.mark.parametrize("title", [None, 7])
async def test_a_registration_with_an_odd_title_ends_nothing(title: Any) -> None:
    @contextmanager
    def open(serving: Serving) -> Iterator[Sequence[Channel]]:
        yield None  # type: ignore[misc]

    registration = ChannelPlugin(api="1.0", open=open, title=title)
    async with running({"odd": registration}, replies=["Still here."]) as rumi:
        assert await rumi.say("Hello.") == "Still here."
        assert rumi.problems()
