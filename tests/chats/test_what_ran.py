"""The audit log says what ran: a call that was refused, withheld or never began has no argv."""

import json
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rumi.agent.tool import ToolResult
from rumi.models.model import Emit, ModelRequest, Reply, ToolCall
from rumi.sandbox.engine import Command, CommandResult, Output
from tests.chats.house import MemorySandboxes, house
from tests.chats.people.speaking import BOB, GUS, Named, obeys, people, say
from tests.chats.people.test_group import tools

ENDS = ("command", "tool", "refused")


def lines(path: Path) -> list[dict[str, Any]]:
    """The lines of calls in the audit log."""
    read = map(json.loads, (path / "logs" / "audit.jsonl").read_text().splitlines())
    return [line for line in read if line["event"] in ENDS]


def tool_calls(path: Path) -> list[tuple[str, str, list[str] | None]]:
    return [(line["event"], line["tool"], line["argv"]) for line in lines(path)]


async def calls(request: ModelRequest, emit: Emit) -> Reply:
    """Call the tool that the user names, with the arguments behind it as they are."""
    await trio.lowlevel.checkpoint()
    if request.messages[-1].role == "tool":
        return Reply("done")
    name, _, arguments = request.messages[-1].content.split("\n")[-1].partition(" ")
    return Reply("", (ToolCall("c1", name, arguments),))


async def test_a_command_that_ran_has_its_words(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with house(tmp_path, calls) as home:
        await home.ask('bash {"command": "echo two  words"}')
    assert tool_calls(tmp_path) == [("command", "bash", ["echo", "two", "words"])]
    assert lines(tmp_path)[0]["command"] == "echo two  words"
    assert lines(tmp_path)[0]["container_id"] == "box-1"


@pytest.mark.parametrize(
    "call",
    [
        'bash {"command": "nmap example.org"}',
        'bash {"command": "echo \'open"}',
        'bash {"command": "date"',
        'bash ["date"]',
        'bash2 {"command": "date"}',
    ],
)
async def test_a_call_that_is_refused_is_no_command(
    tmp_path: Path, autojump_clock: MockClock, call: str
) -> None:
    async with house(tmp_path, calls) as home:
        await home.ask(call)
    assert tool_calls(tmp_path) == [("refused", call.partition(" ")[0], None)]
    assert lines(tmp_path)[0]["container_id"] is None


async def test_a_command_that_a_role_withholds_is_logged_as_refused(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    ran: list[str] = []
    async with house(tmp_path, obeys, people=people(tmp_path), **tools(ran)) as home:
        assert "does not allow bash" in await say(home, GUS, "call bash web_search remember")
        await say(home, BOB, "call bash")
    assert tool_calls(tmp_path) == [
        ("refused", "bash", None),
        ("tool", "web_search", None),
        ("refused", "remember", None),
        ("command", "bash", ["echo", "bash"]),
    ]
    assert ran == ["web_search"]


async def test_a_tool_with_an_argument_named_command_runs_no_command(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    named: dict[str, Any] = {"tools_for": lambda view: (Named("home__run", []),)}
    async with house(tmp_path, calls, **named) as home:
        await home.ask('home__run {"command": "date"}')
    assert tool_calls(tmp_path) == [("tool", "home__run", None)]
    assert lines(tmp_path)[0]["command"] == '{"command": "date"}', "its arguments, as of any other tool"


async def test_a_command_that_was_stopped_has_the_words_that_ran(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with house(tmp_path, calls) as home, trio.open_nursery() as nursery:
        nursery.start_soon(home.ask, 'bash {"command": "sleep 600"}')
        await trio.sleep(5)
        await home.ask("/stop")
        nursery.cancel_scope.cancel()
    assert tool_calls(tmp_path) == [("command", "bash", ["sleep", "600"])]


class Waiting(MemorySandboxes):
    """Sandboxes that are never ready."""

    async def run(self, chat_id: str, command: Command) -> CommandResult:
        await trio.sleep_forever()
        raise AssertionError


async def test_a_command_that_was_stopped_before_it_began_is_no_command(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with house(tmp_path, calls, sandboxes=Waiting()) as home, trio.open_nursery() as nursery:
        nursery.start_soon(home.ask, 'bash {"command": "date"}')
        await trio.sleep(5)
        await home.ask("/stop")
        nursery.cancel_scope.cancel()
    assert tool_calls(tmp_path) == [("tool", "bash", None)]


class Full(MemorySandboxes):
    """Sandboxes without room: nothing begins there."""

    async def run(self, chat_id: str, command: Command) -> CommandResult:
        await self.prepare(chat_id)
        return CommandResult(None, Output(), Output(), 0, "workspace_full", "box-1", ran=False)


@pytest.mark.parametrize("call", ["bash", "write_file", "read_file", "edit_file"])
async def test_a_call_for_which_there_was_no_room_ran_nothing(
    tmp_path: Path, autojump_clock: MockClock, call: str
) -> None:
    arguments = {"command": "tee a", "path": "a", "content": "x", "old_text": "x", "new_text": "y"}
    async with house(tmp_path, calls, sandboxes=Full()) as home:
        await home.ask(f"{call} {json.dumps(arguments)}")
    assert tool_calls(tmp_path) == [("tool", call, None)]


async def test_the_check_finds_words_that_are_read_from_the_arguments(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted fault: the trace of what ran is made from what was asked for."""
    from rumi.agent import acting
    from rumi.agent.tool import CommandTrace

    def guessed(call: ToolCall, result: ToolResult, steps: int) -> object:
        words = tuple(json.loads(call.arguments)["command"].split())
        return finished(call, acting.replace(result, trace=CommandTrace(words, "")), steps)

    finished = acting.ToolFinished
    monkeypatch.setattr(acting, "ToolFinished", guessed)
    with pytest.raises(AssertionError):
        await test_a_command_that_a_role_withholds_is_logged_as_refused(tmp_path, autojump_clock)
