import json

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from rumi.agent.events import (
    ConfirmationAsked,
    Thinking,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
)
from rumi.agent.tool import ToolResult
from rumi.channels.terminal.jsonl import JsonView, encode, printed
from rumi.channels.terminal.once import once
from rumi.channels.terminal.plain import converse
from rumi.channels.terminal.session import TerminalSession
from rumi.channels.terminal.words import Reader
from rumi.chats.events import ChatEvent, Happening, Queued, TurnStarted
from rumi.models.model import Discarded, TextDelta, ToolCall, Usage, Waiting
from rumi.texts import gettext
from tests.channels.terminal.scripted import Ask, Page, ScriptedChat, Typist, finish, signals, tool

READER = Reader("en")
TIME = "2023-11-14T22:13:20.000Z"


async def events(chat: ScriptedChat, *lines: str, prompt: str | None = None) -> tuple[list[object], str]:
    output, errors = Page(), Page()
    chat.now = lambda: 1_700_000_000.0
    async with trio.open_nursery() as nursery:
        chat.nursery = nursery
        session = TerminalSession(chat, JsonView(output, errors, READER), READER, alone=True)
        source = Typist(*((0.0, line) for line in lines))
        if prompt is None:
            await converse(session, source, signals(), reader=READER)
        else:
            await once(session, prompt, signals(), reader=READER)
        nursery.cancel_scope.cancel()
    assert output.text.endswith("\n")
    return [json.loads(line) for line in output.text.splitlines()], errors.text


async def test_a_turn_is_told_in_the_documented_objects(autojump_clock: MockClock) -> None:
    fetch = ToolCall("c2", "web_fetch", '{"url": "http://x.example"}')
    chat = ScriptedChat(
        {
            "go": [
                Thinking(1),
                TextDelta("Be"),
                Discarded(),
                Waiting(2.4, "rate limit"),
                TextDelta("Looking"),
                *tool("ls", "a.txt"),
                ToolStarted(fetch, {"url": "http://x.example"}),
                ToolFinished(fetch, ToolResult(False, "refused")),
                Ask("Send?", [finish("sent")], [finish("kept")]),
            ]
        }
    )
    found, errors = await events(chat, "go", "yes")
    common = {"chat": "cli", "turn": "t1", "time": TIME}
    assert found == [
        {"event": "turn_started", **common},
        {"event": "text", **common, "delta": "Be"},
        {"event": "text", **common, "delta": "Looking"},
        {"event": "tool_call", **common, "id": "call1", "name": "bash", "arguments": {"command": "ls"}},
        {
            "event": "tool_result",
            **common,
            "id": "call1",
            "ok": True,
            "content": "exit code 0 (100 ms)\noutput:\na.txt",
            "exit_code": 0,
            "duration_ms": 100,
            "truncated": False,
        },
        {
            "event": "tool_call",
            **common,
            "id": "c2",
            "name": "web_fetch",
            "arguments": {"url": "http://x.example"},
        },
        {"event": "tool_result", **common, "id": "c2", "ok": False, "content": "refused"},
        {"event": "confirm", **common, "id": "c1", "text": "Send?"},
        {
            "event": "turn_finished",
            **common,
            "reason": "complete",
            "answer": "sent",
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "cached_tokens": 0, "usd": 0.0},
        },
    ]
    assert "rate limit" in errors
    assert gettext("en", "The reply was cut off. Ignore the text above.") in errors


CALL = ToolCall("c1", "bash", '{"command": "ls"}')
LINES: list[tuple[Happening, str]] = [
    (Queued(1, "⏳ wait", 2, 7), '{"event":"queued",%s,"place":2,"text":"⏳ wait"}'),
    (TurnStarted("go", 1), '{"event":"turn_started",%s}'),
    (TextDelta("Be"), '{"event":"text",%s,"delta":"Be"}'),
    (
        ToolStarted(CALL, {"command": "ls"}),
        '{"event":"tool_call",%s,"id":"c1","name":"bash","arguments":{"command":"ls"}}',
    ),
    (
        ToolFinished(CALL, ToolResult(True, "a.txt", 0, 12, same_as="a.txt", tainted=True)),
        '{"event":"tool_result",%s,"id":"c1","ok":true,"content":"a.txt","exit_code":0,"duration_ms":12,'
        '"truncated":false}',
    ),
    (ToolProgress("c1", "reading", 3), '{"event":"tool_progress",%s,"id":"c1","step":3,"text":"reading"}'),
    (
        ToolFinished(ToolCall("c2", "dig", "{}"), ToolResult(True, "dug"), 3),
        '{"event":"tool_result",%s,"id":"c2","ok":true,"content":"dug","steps":3}',
    ),
    (ConfirmationAsked("q1", "Send?"), '{"event":"confirm",%s,"id":"q1","text":"Send?"}'),
    (
        TurnFinished("complete", "sent", Usage(3, 2, 1)),
        '{"event":"turn_finished",%s,"reason":"complete","answer":"sent",'
        '"usage":{"prompt_tokens":3,"completion_tokens":2,"cached_tokens":1,"usd":0.0}}',
    ),
]


@pytest.mark.parametrize(("what", "line"), LINES, ids=lambda event: type(event).__name__)
def test_each_line_is_written_as_documented_byte_for_byte(what: Happening, line: str) -> None:
    common = f'"chat":"cli","turn":"t1","time":"{TIME}"'
    assert encode(printed(ChatEvent("cli", "t1", 1_700_000_000.0, what))) == line % common


async def test_a_command_is_told_as_a_reply_outside_of_turns(autojump_clock: MockClock) -> None:
    found, _ = await events(ScriptedChat(commands={"/help": "commands"}), prompt="/help")
    assert found == [{"event": "reply", "chat": "cli", "turn": "", "time": TIME, "text": "commands"}]


async def test_a_failure_is_told_as_the_end_of_its_turn(autojump_clock: MockClock) -> None:
    chat = ScriptedChat({"go": [finish("❌ The model did not answer: x.", "model_error")]})
    found, errors = await events(chat, prompt="go")
    assert isinstance(found[-1], dict)
    assert (found[-1]["event"], found[-1]["reason"]) == ("turn_finished", "model_error")
    assert errors == ""


@given(st.text(st.characters(codec=None)))
def test_any_text_survives_on_one_line_that_no_terminal_obeys(text: str) -> None:
    line = encode({"delta": text})
    assert json.loads(line) == {"delta": text}
    assert len(line.splitlines()) == 1
    assert line.encode().decode().isprintable() or not any(c < " " or "\x7f" <= c <= "\x9f" for c in line)
