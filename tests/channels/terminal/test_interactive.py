"""The interactive chat on a pseudo-terminal, in real time because prompt_toolkit keeps its own."""

import base64
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest
import trio

from rumi.agent.events import BY_HAND, Thinking, ToolFinished, ToolOutput, ToolProgress, ToolStarted
from rumi.agent.tool import ToolResult
from rumi.channels.terminal.options import TerminalOptions
from rumi.channels.terminal.run import run_terminal
from rumi.channels.terminal.words import Reader
from rumi.chats.events import Replied
from rumi.chats.port import ChatPort, PastTurn
from rumi.models.model import Emit, ModelRequest, Reply, TextDelta, ToolCall, Waiting
from rumi.texts import gettext
from tests.channels.terminal.ptys import WAIT_S, Terminal, terminal
from tests.channels.terminal.scripted import (
    BUSY,
    STOPPED,
    Ask,
    ScriptedChat,
    Step,
    answering,
    finish,
    tool,
    words,
)
from tests.chats.house import echo, house

READER = Reader("en")
CTRL_C, CTRL_D, CTRL_U, ENTER, ALT_ENTER, TAB, UP = "\x03", "\x04", "\x15", "\r", "\x1b\r", "\t", "\x1b[A"
PASTE, PASTED = "\x1b[200~", "\x1b[201~"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "COLORTERM", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)


@dataclass
class Session:
    """A chat, the terminal in front of it, and the exit code once it has ended."""

    chat: ScriptedChat
    window: Terminal
    code: int | None = None
    ended: trio.Event = field(default_factory=trio.Event)

    async def leave(self) -> None:
        """Press Ctrl-D when nothing is unanswered."""
        await self.window.until(lambda: self.chat.idle)
        await self.window.type(CTRL_D)
        await self.end()

    async def end(self) -> None:
        """Wait for the exit, and for all that was written: the shell's prompt comes behind it."""
        with trio.fail_after(WAIT_S):
            await self.ended.wait()
        os.write(self.window.slave, b"\r\nshell$")
        await self.window.see("shell$")

    @property
    def left(self) -> list[str]:
        """What is on the screen after the end."""
        lines = self.window.shown[:-1]
        while lines and not lines[-1]:
            lines.pop()
        return lines


@asynccontextmanager
async def session(
    chat: ChatPort,
    columns: int = 80,
    rows: int = 24,
    options: TerminalOptions = TerminalOptions(engine="docker"),  # noqa: B008 - frozen
    typed_ahead: str = "",
) -> AsyncIterator[Session]:
    async with terminal(columns, rows) as window, trio.open_nursery() as nursery:
        await window.type(typed_ahead)
        if isinstance(chat, ScriptedChat):
            chat.nursery = nursery
        talk = Session(cast(ScriptedChat, chat), window)

        async def run() -> None:
            talk.code = await run_terminal(chat, options, window.streams)
            talk.ended.set()

        nursery.start_soon(run)
        if options.prompt is None and os.environ["TERM"] != "dumb":
            await window.see("groq:m · docker · cli")
        yield talk
        nursery.cancel_scope.cancel()


async def test_a_message_is_typed_and_its_answer_grows_and_stays() -> None:
    async with session(ScriptedChat({"hola": answering("¡Hola! Soy **Rumi** 日本 👍")})) as talk:
        await talk.window.type("hola" + ENTER)
        await talk.window.see("Soy Rumi")
        await talk.window.see("15 tokens")
        await talk.leave()
        assert talk.left == [
            gettext("en", "/help lists the commands · ? shows the keys · Ctrl-D leaves"),
            "",
            "› hola",
            "",
            "¡Hola! Soy Rumi 日本 👍",
        ]
        assert (talk.code, talk.window.restored) == (0, True)
        assert talk.chat.acknowledged == [101]


PHASES: dict[str, tuple[list[Step], str]] = {
    "thinking": ([Thinking(1), 60.0], "thinking 0 s"),
    "writing": ([Thinking(1), *words("words and " * 500, every=0.02)], "words and"),
    "waiting": ([Thinking(1), Waiting(60.0, "rate limit"), 60.0], "s · rate limit"),
    "running a tool": ([Thinking(1), *tool("sleep 60", took=60.0)], "$ sleep 60"),
    "asking": ([Thinking(1), Ask("May I?", [], [])], "(yes/no) ›"),
}


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("keys", [CTRL_C, "/stop" + ENTER])
async def test_ctrl_c_and_a_typed_stop_end_the_turn_in_every_phase(phase: str, keys: str) -> None:
    steps, sign = PHASES[phase]
    async with session(ScriptedChat({"go": steps})) as talk:
        await talk.window.type("go" + ENTER)
        await talk.window.see(sign)
        await talk.window.type(keys)
        await talk.window.see(STOPPED)
        await talk.leave()
        assert talk.code == 0
        assert talk.chat.texts == ["go", "/stop"]


@pytest.mark.long
async def test_steps_of_three_calls_change_in_place_and_only_their_number_stays() -> None:
    calls = [ToolCall(name, "research", "{}") for name in ("north", "south", "east")]
    script: list[Step] = [Thinking(1), *(ToolStarted(call, {"query": call.id}) for call in calls)]
    for number in (1, 2):
        script += [*(ToolProgress(call.id, f"{call.id} page {number}", number) for call in calls), 1.0]
    script += [ToolFinished(call, ToolResult(True, f"{call.id} found"), 2) for call in calls]
    async with session(
        ScriptedChat({"go": [*script, 1.0, finish("done")], "again": [*script[:7], 60.0]})
    ) as talk:
        shown = talk.window
        await shown.type("go" + ENTER)
        for number in (1, 2):
            steps = [f"  ↳ {call.id} page {number}" for call in calls]
            await shown.until(lambda steps=steps: [line for line in shown.shown if "↳" in line] == steps)
        await shown.see("east found")
        await shown.see("done")
        assert [line.split("  ")[1] for line in shown.everything if line.startswith("● research")] == [
            "2 steps"
        ] * 3
        assert not [line for line in shown.everything if "↳" in line]
        await shown.type("again" + ENTER)
        await shown.see("↳ east page 1")
        await shown.type(CTRL_C)
        await shown.see(STOPPED)
        await talk.leave()
        assert not [line for line in talk.left if "↳" in line]


async def test_ctrl_c_sends_one_stop_then_asks_for_patience_then_leaves() -> None:
    async with session(ScriptedChat({"go": [Thinking(1), 60.0]}, stop_s=60.0)) as talk:
        await talk.window.type("go" + ENTER)
        await talk.window.see("thinking")
        await talk.window.type(CTRL_C)
        await talk.window.see("stopping…")
        await talk.window.type(CTRL_C)
        await talk.window.see(gettext("en", "Still stopping. Press Ctrl-C again to leave now."))
        await talk.window.type(CTRL_C)
        await talk.end()
        assert (talk.code, talk.window.restored) == (130, True)
        assert talk.chat.texts == ["go", "/stop"]


async def test_ctrl_c_at_the_prompt_clears_the_line_and_does_not_leave() -> None:
    async with session(ScriptedChat(commands={"/help": "what it does"})) as talk:
        await talk.window.type("never sent")
        await talk.window.see("› never sent")
        await talk.window.type(CTRL_C)
        await talk.window.until(lambda: "› never sent" not in "\n".join(talk.window.shown))
        await talk.window.type(CTRL_C)
        await talk.window.see(gettext("en", "Ctrl-D or exit leaves."))
        await talk.window.type("/help" + ENTER)
        await talk.window.see("what it does")
        assert talk.chat.texts == ["/help"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_leaves_and_the_turn_goes_on(number: int) -> None:
    async with session(ScriptedChat({"go": [Thinking(1), 60.0]})) as talk:
        await talk.window.type("go" + ENTER)
        await talk.window.see("thinking")
        os.kill(os.getpid(), number)
        await talk.end()
        assert (talk.code, talk.window.restored) == (130, True)
        assert talk.chat.texts == ["go"]


@pytest.mark.parametrize("keys", [CTRL_D, "/exit" + ENTER, "/quit" + ENTER])
async def test_leaving_during_a_turn_waits_for_nothing_and_says_that_it_goes_on(keys: str) -> None:
    async with session(ScriptedChat({"go": [Thinking(1), 60.0]}, stop_s=0.2)) as talk:
        await talk.window.type("go" + ENTER)
        await talk.window.see("thinking")
        await talk.window.type(keys)
        await talk.end()
        assert (talk.code, talk.window.restored) == (0, True)
        assert (talk.chat.texts, talk.chat.acknowledged) == (["go"], [])
        assert any(
            gettext("en", "The turn continues. To see its reply later: rumi chat") in line
            for line in talk.window.everything
        )


async def test_leaving_lets_a_turn_go_on_that_another_window_began() -> None:
    chat = ScriptedChat({"theirs": [Thinking(1), *tool("sleep 60", took=60.0)]})
    async with session(chat) as at:
        await at.window.until(lambda: chat.heard)
        await at.chat.send("theirs")
        await at.window.see("› theirs  (in another window)")
        await at.window.see("$ sleep 60")
        await at.window.type(CTRL_D)
        await at.end()
        assert (at.code, at.chat.texts) == (0, ["theirs"])


async def test_ctrl_c_stops_also_what_another_window_began() -> None:
    chat = ScriptedChat({"theirs": [Thinking(1), *tool("sleep 60", took=60.0)]})
    async with session(chat) as at:
        await at.window.until(lambda: chat.heard)
        await at.chat.send("theirs")
        await at.window.see("$ sleep 60")
        await at.window.type(CTRL_C)
        await at.window.see(STOPPED)
        await at.leave()
        assert at.chat.texts == ["theirs", "/stop"]


async def test_what_is_typed_during_a_turn_is_busy_and_commands_are_answered() -> None:
    chat = ScriptedChat(
        {"go": [Thinking(1), 1.0, *words("Done."), finish("Done.")]}, {"/status": "it thinks"}
    )
    async with session(chat) as talk:
        await talk.window.type("go" + ENTER + "more" + ENTER + "/status" + ENTER)
        await talk.window.see("tokens")
        await talk.window.until(lambda: talk.chat.idle)
        await talk.window.type("!" + CTRL_U)  # what was refused is back in the input line
        await talk.leave()
        assert talk.chat.texts == ["go", "more", "/status"]
        assert {"› go", "› more", "› /status", BUSY, "it thinks"} < set(talk.left)
        assert talk.left[-1] == "Done."


async def test_what_waits_is_in_the_status_bar_and_typed_again_above_its_answer(tmp_path: Path) -> None:
    async def slow(request: ModelRequest, emit: Emit) -> Reply:
        await released.wait()
        return await echo(request, emit)

    released = trio.Event()
    async with (
        house(tmp_path, slow, max_queued=5, own_model="groq:m") as home,
        session(home.chat()) as talk,
    ):
        await talk.window.type("one" + ENTER + "two" + ENTER + "three" + ENTER)
        await talk.window.see("Queued (2 of 5)")
        await talk.window.see("2 queued")
        released.set()
        await talk.window.see("you said three")
        await talk.window.until(lambda: "queued" not in talk.window.shown[-1])
        await talk.window.type(CTRL_D)
        await talk.end()
        said = [line for line in talk.left if line.startswith(("›", "you"))]
        assert said[-5:] == ["you said one", "› two", "you said two", "› three", "you said three"]


async def test_alt_enter_and_a_paste_make_one_message_of_several_lines() -> None:
    async with session(ScriptedChat()) as talk:
        await talk.window.type("one" + ALT_ENTER + "two")
        await talk.window.see("  two")
        await talk.window.type(ENTER)
        await talk.window.until(lambda: len(talk.chat.acknowledged) == 1)
        await talk.window.type(PASTE + "three\rfour\r" + PASTED + ENTER)
        await talk.window.until(lambda: len(talk.chat.acknowledged) == 2)
        assert talk.chat.texts == ["one\ntwo", "three\nfour"]


async def test_commands_are_completed_with_what_they_mean() -> None:
    async with session(ScriptedChat(commands={"/status": "idle"})) as talk:
        await talk.window.type("/sta")
        await talk.window.see("what it is doing")
        await talk.window.type(TAB + ENTER)
        await talk.window.see("idle")
        assert talk.chat.texts == ["/status"]


async def test_what_was_typed_is_there_again_the_next_time(tmp_path: Path) -> None:
    history = tmp_path / "history"
    options = TerminalOptions(engine="docker", history_path=history)
    async with session(ScriptedChat(), options=options) as talk:
        await talk.window.type("remember this" + ENTER)
        await talk.window.until(lambda: len(talk.chat.acknowledged) == 1)
        await talk.leave()
    assert history.stat().st_mode & 0o777 == 0o600
    async with session(ScriptedChat(), options=options) as talk:
        await talk.window.type(UP)
        await talk.window.see("› remember this")


async def test_a_question_is_answered_at_the_prompt() -> None:
    chat = ScriptedChat({"go": [Thinking(1), Ask("Send a.txt?", [finish("sent")], [finish("kept")])]})
    async with session(chat) as talk:
        await talk.window.type("go" + ENTER)
        await talk.window.see("(yes/no) ›")
        await talk.window.type("yes" + ENTER)
        await talk.window.until(lambda: "sent" in talk.window.shown)
        assert not any("(yes/no) ›" in line for line in talk.window.shown)


LINES = [f"line {number}" for number in range(120)]


async def test_an_answer_that_is_taller_than_the_screen_is_there_once_and_in_order() -> None:
    answer = "Before\n\n```\n" + "\n".join(LINES) + "\n```\n\nAfter"
    chat = ScriptedChat({"go": [Thinking(1), *words(answer, every=0.002), finish(answer)]})
    async with session(chat, rows=15) as talk:
        await talk.window.type("go" + ENTER)
        await talk.window.see("After")
        await talk.leave()
        everything = talk.window.everything
        assert [line.strip() for line in everything if line.startswith("  line ")] == LINES
        assert everything.count("Before") == everything.count("After") == 1
        assert not any("writing" in line for line in everything)


@pytest.mark.parametrize(("columns", "rows"), [(50, 30), (100, 10), (60, 12)])
async def test_a_resize_in_the_middle_of_an_answer_leaves_it_whole(columns: int, rows: int) -> None:
    answer = "\n\n".join(f"Paragraph {number} with some words in it" for number in range(40))
    steps = [Thinking(1), *words(answer[:600], every=0.005), 0.5, TextDelta(answer[600:]), finish(answer)]
    async with session(ScriptedChat({"go": steps}), rows=20) as talk:
        await talk.window.type("go" + ENTER)
        await talk.window.see("Paragraph 8")
        talk.window.resize(columns, rows)
        await talk.window.see("Paragraph 39")
        await talk.window.see("tokens")
        await talk.window.type("still here?")
        await talk.window.see("› still here?")
        everything = "\n".join(talk.window.everything)
        positions = [everything.find(f"Paragraph {number} ") for number in range(20, 40)]
        assert -1 not in positions
        assert positions == sorted(positions)


async def test_escape_sequences_of_models_and_tools_do_not_reach_the_terminal() -> None:
    hostile = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m\x9b2J &#27;[2J"
    steps = [Thinking(1), *tool(f"echo {hostile}", hostile), *words(hostile), finish(hostile)]
    async with session(ScriptedChat({"go": steps})) as talk:
        await talk.window.type("go" + ENTER)
        await talk.window.see("tokens")
        await talk.leave()
        assert b"owned" not in talk.window.raw
        assert b"\x1b[2J" not in talk.window.raw
        assert "● $ echo red &#27;[2J  exit 0 · 100 ms" in talk.left


async def test_replies_that_nobody_saw_come_first() -> None:
    chat = ScriptedChat(earlier=[Replied(5, (1,), "I was restarted")])
    async with session(chat) as talk:
        await talk.window.see("I was restarted")
        await talk.window.until(lambda: chat.acknowledged == [5])


async def test_a_terminal_that_is_closed_ends_the_chat() -> None:
    async with session(ScriptedChat()) as talk:
        talk.window.hang_up()
        with trio.fail_after(WAIT_S):
            await talk.ended.wait()
        assert talk.code == 0


async def test_cancelling_the_front_end_restores_the_terminal() -> None:
    async with terminal() as window, trio.open_nursery() as nursery:
        chat = ScriptedChat({"go": [Thinking(1), 60.0]})
        chat.nursery = nursery
        scope, ended = trio.CancelScope(), trio.Event()

        async def run() -> None:
            with scope:
                await run_terminal(chat, TerminalOptions(), window.streams)
            ended.set()

        nursery.start_soon(run)
        await window.see("›")
        await window.type("go" + ENTER)
        await window.see("thinking")
        scope.cancel()
        await ended.wait()
        await window.until(lambda: window.restored)
        nursery.cancel_scope.cancel()


async def test_no_color_and_the_terminal_type_are_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    steps = [Thinking(1), *tool("ls", "a"), *words("`code` and **bold**"), finish("`code` and **bold**")]
    async with session(ScriptedChat({"go": steps})) as talk:
        await talk.window.type("go" + ENTER)
        await talk.window.see("tokens")
        await talk.leave()
    used = {
        parameter
        for sequence in talk.window.raw.split(b"\x1b[")[1:]
        if (parameters := sequence.split(b"m")[0]).replace(b";", b"").isdigit()
        for parameter in parameters.split(b";")
    }
    assert not {code for code in used if 30 <= int(code) <= 48 or 90 <= int(code) <= 107} - {b"39"}


async def test_one_turn_on_a_terminal_is_drawn_and_leaves_only_the_answer() -> None:
    steps = [
        Thinking(1),
        0.3,
        *tool("ls", "a.txt", took=0.3),
        *words("One **file**."),
        finish("One **file**."),
    ]
    async with session(ScriptedChat({"go": steps}), options=TerminalOptions(prompt="go")) as talk:
        await talk.window.see("thinking")
        await talk.end()
        assert talk.left == ["● $ ls  exit 0 · 300 ms", "    a.txt", "", "One file."]
        assert talk.code == 0


async def test_ctrl_c_during_one_turn_stops_it() -> None:
    chat = ScriptedChat({"go": [Thinking(1), 60.0]}, stop_s=0.3)
    async with session(chat, options=TerminalOptions(prompt="go")) as talk:
        await talk.window.see("thinking")
        os.kill(os.getpid(), signal.SIGINT)
        await talk.window.see("stopping…")
        await talk.end()
        assert (talk.left[-1], talk.code, talk.window.restored) == (STOPPED, 130, True)


async def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    chat = ScriptedChat({"go": [Thinking(1), *tool("ls", "a"), finish("**done**")]})
    async with session(chat, options=TerminalOptions()) as talk:
        await talk.window.see("›")
        await talk.window.type("go\n")
        await talk.window.see("**done**")
        await talk.window.type(CTRL_D)
        await talk.end()
        assert b"\x1b" not in talk.window.raw
        assert (talk.code, talk.window.restored) == (0, True)


async def test_a_file_named_in_a_message_is_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("uno")
    (tmp_path / "b.bin").write_bytes(b"\0")
    async with session(ScriptedChat({"read @a.txt and @nobody": answering("hola")})) as talk:
        await talk.window.type(f"read @a.txt and @nobody{ENTER}")
        await talk.window.see("hola")
        await talk.leave()
        assert "📎 a.txt, 3 B" in talk.left
    assert talk.chat.texts == ["read @a.txt and @nobody"]
    assert [(one.kind, one.name) for one in talk.chat.handed_on] == [("file", "a.txt")]
    assert talk.chat.uploaded == [str(tmp_path / "a.txt")]


async def test_a_new_name_of_a_stored_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("uno")
    chat = ScriptedChat({"read @a.txt": answering("hola")}, stored_as={"a.txt": "a-2.txt"})
    chat.changing = ("a.txt",)
    async with session(chat) as talk:
        await talk.window.type(f"read @a.txt{ENTER}")
        await talk.window.see("15 tokens")
        await talk.leave()
        assert "📎 a.txt, 3 B, stored as /workspace/a-2.txt" in talk.left
        assert "a.txt changed while it was read: the chat has what was read of it." in talk.left


async def test_a_misspelt_file_is_named_and_the_line_waits_in_the_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text("1")
    async with session(ScriptedChat({"see @dta.csv": answering("hola")})) as talk:
        await talk.window.type(f"see @dta.csv{ENTER}")
        await talk.window.see("Did you mean @data.csv?")
        await talk.window.see("› see @dta.csv")
        assert talk.chat.texts == []
        await talk.window.type(ENTER)  # as it is
        await talk.window.see("15 tokens")
        await talk.leave()
    assert (talk.chat.texts, talk.chat.handed_on) == (["see @dta.csv"], [])


async def test_tab_completes_a_path_and_a_dropped_path_becomes_a_mention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my data.csv").write_text("1")
    async with session(ScriptedChat()) as talk:
        await talk.window.type("see @my")
        await talk.window.see("my data.csv")  # the menu
        await talk.window.type(TAB)
        await talk.window.see('› see @"my data.csv"')
        await talk.window.type(f" \x1b[200~'{tmp_path}/my data.csv' \x1b[201~")
        await talk.window.see('› see @"my data.csv" @"my data.csv"')
        await talk.window.type(CTRL_U)
        await talk.leave()


async def test_a_line_with_an_exclamation_mark_is_a_command_for_the_sandbox() -> None:
    call = ToolCall(BY_HAND, "bash", '{"command": "false"}')
    steps: list[Step] = [
        ToolStarted(call, {"command": "false"}),
        ToolOutput(BY_HAND, "so far\n"),
        1.0,
        ToolFinished(call, ToolResult(True, "exit code 1 (5 ms)\noutput:\nall of it", 1, 5)),
        finish("```\nall of it\n```\n\nexit code 1", tokens=0),
    ]
    async with session(ScriptedChat({"!false": steps})) as talk:
        await talk.window.type(f"!false{ENTER}")
        await talk.window.see("so far")
        await talk.window.see("exit code 1")
        await talk.leave()
        assert talk.left[-5:] == ["● $  exit 1 · 5 ms", "", "  all of it", "", "exit code 1"]
    (command,) = talk.chat.handed_on
    assert (command.kind, command.text) == ("command", "false")


async def test_a_file_that_is_no_text_is_handed_over_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    async with session(ScriptedChat({"see @b.png": answering("hola")})) as talk:
        await talk.window.type(f"see @b.png{ENTER}")
        await talk.window.see("hola")
        await talk.leave()
    (handed,) = talk.chat.handed_on
    assert (handed.kind, handed.name, talk.chat.uploaded) == ("file", "b.png", [str(tmp_path / "b.png")])


@pytest.mark.parametrize("word", ["exit", "Quit", "/exit"])
async def test_a_person_leaves_with_a_word(word: str) -> None:
    async with session(ScriptedChat({})) as talk:
        await talk.window.type(f"{word}{ENTER}")
        await talk.end()
    assert (talk.code, talk.chat.texts) == (0, [])


async def test_the_model_is_the_windows_and_the_line_at_the_bottom_shows_it() -> None:
    async with session(ScriptedChat()) as talk:
        await talk.window.type(f"/model groq:other{ENTER}")
        await talk.window.see("groq:other · docker · cli")
        await talk.window.type(f"/model nobody:x{ENTER}")
        await talk.window.see("Unknown model 'nobody:x'.")
        await talk.window.see("groq:other · docker · cli")
        await talk.leave()
    assert talk.chat.texts == []


@pytest.mark.parametrize(
    ("answer", "count"), [("Una **ñandú**\n\n- 1", 18), ("ñ" * 60_000, 37_497)], ids=["whole", "beginning"]
)
async def test_copy_puts_the_last_answer_into_the_clipboard(answer: str, count: int) -> None:
    async with session(ScriptedChat({"go": [finish(answer)]}, {"/status": "idle"})) as talk:
        await talk.window.type(f"/copy{ENTER}")
        await talk.window.see(gettext("en", "There is no answer to copy yet."))
        await talk.window.type(f"go{ENTER}")
        await talk.window.until(lambda: talk.chat.idle and talk.chat.texts == ["go"])
        await talk.window.type(f"/status{ENTER}/copy{ENTER}")
        await talk.window.see(f"{count} characters")
        await talk.leave()
    (sequence,) = re.findall(rb"\x1b]52;c;([A-Za-z0-9+/=]+)\x07", talk.window.raw)
    assert len(sequence) <= 100_000
    assert base64.b64decode(sequence).decode() == answer[:count]


async def test_what_was_said_last_is_shown_again_short_and_dim() -> None:
    long = "\n".join(f"line {number}" for number in range(30))
    said = [
        PastTurn("t1", "first\x1b[2J", "**one**"),
        PastTurn("t2", "second", long),
        PastTurn("t3", "third", "3"),
    ]
    chat = ScriptedChat(said=said, earlier=[Replied(5, (3,), "3", "complete")])
    async with session(chat) as talk:
        await talk.window.see("Earlier:")
        await talk.window.until(lambda: chat.acknowledged == [5])
        await talk.window.type(f"/copy{ENTER}")
        await talk.window.see("1 characters")
        await talk.leave()
    assert [line for line in talk.window.everything if line][1:-1] == [
        gettext("en", "The end of this session so far:"), "› first", "  one", "› second",
        *(f"  line {number}" for number in range(5)), "  …", "› third",
        "Earlier:", "3", "› /copy", "Copied the last answer: 1 characters, if the terminal allows it.",
    ]  # fmt: skip
