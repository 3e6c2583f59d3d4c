import os
import signal
from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import MockClock

from rumi.agent.events import Thinking
from rumi.channels.terminal.once import once
from rumi.channels.terminal.plain import PlainView
from rumi.channels.terminal.session import TerminalSession
from rumi.channels.terminal.streams import InputStream
from rumi.channels.terminal.words import Reader
from rumi.chats.events import Replied, TurnStarted, turn_of
from rumi.models.model import Discarded, Waiting
from rumi.store.journal.records import Reason
from rumi.texts import gettext
from tests.channels.terminal.scripted import (
    BUSY,
    STOPPED,
    Ask,
    Page,
    ScriptedChat,
    Step,
    answering,
    finish,
    signals,
    tool,
    words,
)

READER = Reader("en")


async def run_once(
    chat: ScriptedChat,
    text: str = "hi",
    arriving: AsyncIterator[int] | None = None,
    yes: bool = False,
) -> tuple[int, str, str]:
    """The exit code, standard output and error output of one turn."""
    output, errors = Page(), Page()
    async with trio.open_nursery() as nursery:
        chat.nursery = nursery
        view = PlainView(output, errors, READER, failures_apart=True)
        session = TerminalSession(chat, view, READER, yes=yes, alone=True)
        code = await once(session, text, arriving or signals(), reader=READER)
        nursery.cancel_scope.cancel()
    return code, output.text, errors.text


async def test_the_answer_is_all_that_goes_to_standard_output(autojump_clock: MockClock) -> None:
    steps: list[Step] = [
        Thinking(1),
        *words("Let me look."),
        *tool("echo one", "one", number=1),
        Thinking(2),
        *tool("ls nowhere", "", exit_code=2, took=1.5, number=2),
        Thinking(3),
        *words("one and nothing"),
        finish("one and nothing"),
    ]
    chat = ScriptedChat({"hi": steps})
    code, output, errors = await run_once(chat)
    assert (code, output) == (0, "one and nothing\n")
    assert errors == "$ echo one\n  exit 0 · 100 ms\n$ ls nowhere\n  exit 2 · 1.5 s\n"
    assert chat.acknowledged == [101]


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("complete", 0),
        ("crashed", 1),
        ("max_turns", 3),
        ("repeated_call", 3),
        ("consecutive_errors", 3),
        ("timeout", 3),
        ("model_error", 4),
        ("stopped", 130),
        ("interrupted", 130),
    ],
)
async def test_each_reason_has_its_exit_code(autojump_clock: MockClock, reason: Reason, code: int) -> None:
    chat = ScriptedChat({"hi": [Thinking(1), finish("text", reason)]})
    found, output, errors = await run_once(chat)
    assert found == code
    without_answer = reason in ("crashed", "model_error", "stopped", "interrupted")
    assert (output, errors) == (("", "text\n") if without_answer else ("text\n", ""))


async def test_a_command_without_a_turn_succeeds_with_its_reply(autojump_clock: MockClock) -> None:
    chat = ScriptedChat(commands={"/status": "idle"})
    assert await run_once(chat, "/status") == (0, "idle\n", "")


async def test_a_chat_that_is_busy_with_something_else_is_a_failure(autojump_clock: MockClock) -> None:
    chat = ScriptedChat({"first": [60.0, finish("late")]})
    async with trio.open_nursery() as nursery:
        chat.nursery = nursery
        await chat.send("first")
        session = TerminalSession(chat, PlainView(output := Page(), Page(), READER), READER, alone=True)
        code = await once(session, "second", signals(), reader=READER)
        nursery.cancel_scope.cancel()
    assert (code, output.text) == (1, BUSY + "\n")


async def test_a_turn_whose_end_nobody_told_has_crashed(autojump_clock: MockClock) -> None:
    class Crashing(ScriptedChat):
        async def _turn(self, number: int, text: str) -> None:
            turn = turn_of(number)
            self._publish(turn, TurnStarted(text, number))
            self._reply(turn, tuple(self._sharing), "❌ Something failed and was restarted.")

    code, output, errors = await run_once(Crashing())
    assert (code, output, errors) == (1, "", "❌ Something failed and was restarted.\n")


PHASES: dict[str, list[Step]] = {
    "thinking": [Thinking(1), 60.0],
    "writing": [Thinking(1), *words("x" * 4000, every=0.1)],
    "waiting": [Thinking(1), Waiting(60.0, "rate limit"), 60.0],
    "running a tool": [Thinking(1), *tool("sleep 60", took=60.0)],
}


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_stops_the_turn_in_every_phase(
    autojump_clock: MockClock, phase: str, number: int
) -> None:
    chat = ScriptedChat({"hi": PHASES[phase]}, stop_s=2.0)
    code, output, errors = await run_once(chat, arriving=signals((5.0, number)))
    assert (code, output) == (130, "")
    assert errors.endswith(f"stopping…\n{STOPPED}\n")
    assert chat.texts == ["hi", "/stop"]
    assert trio.current_time() == pytest.approx(7.0, abs=0.1)


async def test_a_second_signal_asks_for_patience_and_the_third_leaves_at_once(
    autojump_clock: MockClock,
) -> None:
    chat = ScriptedChat({"hi": [60.0]}, stop_s=30.0)
    interrupts = signals((1.0, signal.SIGINT), (1.0, signal.SIGINT), (1.0, signal.SIGINT))
    code, _, errors = await run_once(chat, arriving=interrupts)
    assert code == 130
    assert trio.current_time() == pytest.approx(3.0)
    assert errors.splitlines() == [
        "stopping…",
        gettext("en", "Still stopping. Press Ctrl-C again to leave now."),
        gettext("en", "Still stopping. Press Ctrl-C again to leave now."),
    ]
    assert chat.texts == ["hi", "/stop"]


async def test_a_stop_that_is_never_confirmed_is_not_waited_for_without_end(
    autojump_clock: MockClock,
) -> None:
    chat = ScriptedChat({"hi": [60.0]}, stop_s=1000.0)
    code, _, errors = await run_once(chat, arriving=signals((1.0, signal.SIGINT)))
    assert code == 130
    assert trio.current_time() == pytest.approx(16.0)
    assert errors.endswith(gettext("en", "The stop was not confirmed in time.") + "\n")


ASKING: list[Step] = [
    Thinking(1),
    Ask("Send a.txt?", yes=[1.0, finish("sent")], no=[finish("not sent")]),
]


async def test_what_nobody_can_confirm_is_refused_and_the_exit_code_says_so(
    autojump_clock: MockClock,
) -> None:
    chat = ScriptedChat({"hi": ASKING})
    code, output, errors = await run_once(chat)
    assert (code, output) == (5, "not sent\n")
    assert "Send a.txt? (yes/no)" in errors
    assert "not done: it needed your confirmation; run again with --yes to allow it" in errors
    assert (chat.texts, chat.refused) == (["hi", "no"], ["c1"])


async def test_a_worse_end_keeps_its_exit_code(autojump_clock: MockClock) -> None:
    asking = Ask("Send a.txt?", yes=[], no=[finish("too many calls", "max_turns")])
    code, _, _ = await run_once(ScriptedChat({"hi": [Thinking(1), asking]}))
    assert code == 3


@pytest.mark.parametrize(
    ("typed", "code", "texts"),
    [
        ("yes\n", 0, ["hi", "yes"]),
        ("what?\nyes\n", 0, ["hi", "yes"]),
        ("no\n", 0, ["hi", "no"]),
        ("\x04", 5, ["hi", "no"]),  # the end of the input
    ],
)
async def test_a_person_at_a_terminal_is_asked(typed: str, code: int, texts: list[str]) -> None:
    keyboard, terminal = os.openpty()
    try:
        os.write(keyboard, b"no\n")  # typed ahead: no answer to what nobody had asked
        chat = ScriptedChat({"hi": ASKING})
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                chat.nursery = nursery
                view = PlainView(Page(), errors := Page(), READER)
                session = TerminalSession(chat, view, READER, alone=True)

                async def types() -> None:
                    while "yes/no" not in errors.text:  # noqa: ASYNC110
                        await trio.sleep(0.01)
                    await trio.sleep(0.1)
                    os.write(keyboard, typed.encode())

                nursery.start_soon(types)
                found = await once(session, "hi", signals(), reader=READER, person=InputStream(terminal))
                nursery.cancel_scope.cancel()
    finally:
        os.close(keyboard)
        os.close(terminal)
    assert (found, chat.texts) == (code, texts)


async def test_yes_answers_every_question(autojump_clock: MockClock) -> None:
    chat = ScriptedChat({"hi": ASKING})
    code, output, errors = await run_once(chat, yes=True)
    assert (code, output) == (0, "sent\n")
    assert (
        gettext("en", "not done: it needed your confirmation; run again with --yes to allow it") not in errors
    )
    assert "Send a.txt? (yes/no)\nYes (--yes).\n" in errors
    assert chat.texts == ["hi", "yes"]


async def test_replies_of_an_earlier_time_come_first_and_on_the_error_output(
    autojump_clock: MockClock,
) -> None:
    chat = ScriptedChat(
        {"hi": answering("hello")}, earlier=[Replied(7, (1,), "old one"), Replied(8, (2,), "old two")]
    )
    code, output, errors = await run_once(chat)
    assert (code, output) == (0, "hello\n")
    assert errors == "Earlier: old one\nEarlier: old two\n"
    assert chat.acknowledged == [7, 8, 101]


async def test_words_that_became_void_are_not_in_the_output(autojump_clock: MockClock) -> None:
    steps: list[Step] = [
        Thinking(1),
        *words("half an ans"),
        Discarded(),
        Waiting(3.0, "the connection was cut"),
        3.0,
        *words("whole answer"),
        finish("whole answer"),
    ]
    code, output, errors = await run_once(ScriptedChat({"hi": steps}))
    assert (code, output) == (0, "whole answer\n")
    assert errors == "⏳ 3 s · the connection was cut\n"


async def test_escape_sequences_of_models_and_tools_do_not_get_through(autojump_clock: MockClock) -> None:
    steps: list[Step] = [
        *tool("printf \x1b]0;owned\x07", "\x1b[2J", ok=False),
        finish("a\x1b[31mb\x9b2Jc\x07"),
    ]
    _, output, errors = await run_once(ScriptedChat({"hi": steps}))
    assert output == "abc\n"
    assert "\x1b" not in errors
    assert "\x07" not in errors
