import signal
from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import MockClock

from rumi.agent.events import Thinking, ToolFinished, ToolProgress, ToolStarted
from rumi.agent.tool import ToolResult
from rumi.channels.terminal.plain import PlainView, converse
from rumi.channels.terminal.session import TerminalSession
from rumi.channels.terminal.streams import Lines
from rumi.channels.terminal.words import Reader, help_of_own
from rumi.chats.events import Replied, TurnStarted
from rumi.models.model import ToolCall
from rumi.texts import gettext
from tests.channels.terminal.scripted import (
    NOTHING,
    STOPPED,
    Ask,
    Page,
    ScriptedChat,
    Silence,
    Typist,
    answering,
    finish,
    signals,
    tool,
)

READER = Reader("en")


async def run_lines(
    chat: ScriptedChat,
    lines: Lines,
    arriving: AsyncIterator[int] | None = None,
    prompt: Page | None = None,
) -> tuple[int, str, str]:
    """The exit code, standard output and error output of a chat by lines."""
    output, errors = Page(), Page()
    async with trio.open_nursery() as nursery:
        chat.nursery = nursery
        session = TerminalSession(chat, PlainView(output, errors, READER), READER, alone=prompt is None)
        code = await converse(session, lines, arriving or signals(), reader=READER, prompt=prompt)
        nursery.cancel_scope.cancel()
    return code, output.text, errors.text


def typed(*lines: str) -> Typist:
    return Typist(*((0.0, line) for line in lines))


async def test_each_line_waits_for_the_turn_before_it(autojump_clock: MockClock) -> None:
    chat = ScriptedChat({"one": [5.0, finish("1")], "two": [5.0, finish("2")]})
    code, output, _ = await run_lines(chat, typed("one", "", "two"))
    assert (code, output) == (0, "1\n2\n")
    assert [(round(at, 3), text) for at, text in chat.sent] == [(0.0, "one"), (5.0, "two")]


async def test_of_a_long_call_a_step_is_written_now_and_then_and_the_number_of_all(
    autojump_clock: MockClock,
) -> None:
    long, quick = ToolCall("c1", "research", "{}"), ToolCall("c2", "web_fetch", "{}")
    steps = [step for n in range(1, 41) for step in (0.25, ToolProgress("c1", f"page {n}\x1b[2J", n))]
    script = [
        *(ToolStarted(quick, {"url": "http://x.example/"}), 0.5, ToolProgress("c2", "reading", 1)),
        *(ToolFinished(quick, ToolResult(True, "x"), 1), ToolStarted(long, {"question": "moss"})),
        *(*steps, ToolFinished(long, ToolResult(True, "x"), 40), finish("done")),
    ]
    chat = ScriptedChat({"go": script}, now=trio.current_time)
    _, output, errors = await run_lines(chat, typed("go"))
    assert output == "done\n"
    assert errors.splitlines() == [
        "web_fetch http://x.example/",
        "  1 step",
        "research “moss”",
        *(f"  ↳ page {n}" for n in (8, 16, 24, 32, 40)),
        "  40 steps",
    ]


async def test_a_stop_waits_for_nothing(autojump_clock: MockClock) -> None:
    chat = ScriptedChat({"one": [60.0, finish("1")], "two": [1.0, finish("2")]}, stop_s=0.5)
    code, output, _ = await run_lines(chat, Typist((0.0, "one"), (3.0, "/stop"), (0.0, "two")))
    assert (code, output) == (0, f"{STOPPED}\n2\n")
    assert [(round(at, 1), text) for at, text in chat.sent] == [(0.0, "one"), (3.0, "/stop"), (3.5, "two")]


async def test_a_stop_right_behind_a_message_finds_it(autojump_clock: MockClock) -> None:
    chat = ScriptedChat({"one": [60.0, finish("1")]})
    code, output, _ = await run_lines(chat, typed("one", "/stop"))
    assert (code, output) == (0, f"{STOPPED}\n")
    assert trio.current_time() < 1


async def test_a_stop_with_nothing_to_stop_says_so(autojump_clock: MockClock) -> None:
    assert await run_lines(ScriptedChat(), typed("/stop")) == (0, f"{NOTHING}\n", "")


@pytest.mark.parametrize("command", ["/exit", "/quit", " /EXIT "])
async def test_leaving_waits_for_the_last_reply_and_reads_no_further(
    autojump_clock: MockClock, command: str
) -> None:
    chat = ScriptedChat({"one": [5.0, finish("1")]})
    code, output, _ = await run_lines(chat, typed("one", command, "never"))
    assert (code, output) == (0, "1\n")
    assert chat.texts == ["one"]


async def test_the_end_of_the_input_leaves_after_the_last_reply(autojump_clock: MockClock) -> None:
    chat = ScriptedChat({"one": answering("first")}, commands={"/help": "commands"})
    code, output, _ = await run_lines(chat, typed("/help", "one"))
    assert (code, output) == (0, f"commands\n{help_of_own('en')}\nfirst\n")
    assert chat.acknowledged == [101, 102]


async def test_the_terminals_own_commands_never_reach_the_chat(autojump_clock: MockClock) -> None:
    chat = ScriptedChat({"one": answering("first")})
    lines = typed("one", "/copy", "/model", "/MODEL groq:other", "/model odd", "/model")
    code, output, errors = await run_lines(chat, lines)
    own = [
        gettext("en", "Model of this window: {model}", model="groq:m"),
        gettext("en", "From this window's next message on: {model}", model="groq:other"),
    ]
    assert output.splitlines() == [
        "first",
        *own,
        gettext("en", "Model of this window: {model}", model="groq:other"),
    ]
    unknown = "Unknown model 'odd'. Allowed are groq:NAME, custom:NAME and offline."
    assert (code, errors.splitlines()) == (
        0,
        [
            gettext("en", "/copy needs a terminal: it copies the last answer to its clipboard."),
            unknown,
        ],
    )
    assert chat.texts == ["one"]


@pytest.mark.parametrize(
    ("lines", "output", "code"),
    [
        (["ask", "yes", "one"], "done\n1\n", 0),
        (["ask", "No.", "one"], "not done\n1\n", 0),
        (["ask", "one"], "not done\n1\n", 5),  # nobody answered it
        (["ask"], "not done\n", 5),
    ],
)
async def test_a_question_takes_a_yes_or_no_from_the_input_and_anything_else_is_no(
    autojump_clock: MockClock, lines: list[str], output: str, code: int
) -> None:
    ask = Ask("Really?", yes=[1.0, finish("done")], no=[1.0, finish("not done")])
    chat = ScriptedChat({"ask": [Thinking(1), 1.0, ask], "one": [finish("1")]})
    # `No.` with its full stop is passed on as it is: what counts as an answer is the chat's business.
    chat.scripts["ask"] = [Thinking(1), 1.0, ask]
    found = await run_lines(chat, typed(*(line.lower().rstrip(".") for line in lines)))
    assert found[:2] == (code, output)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_stops_the_turn_and_leaves(autojump_clock: MockClock, number: int) -> None:
    chat = ScriptedChat({"one": [60.0, finish("1")]}, stop_s=1.0)
    code, output, errors = await run_lines(chat, Typist((0.0, "one"), (100.0, "two")), signals((2.0, number)))
    assert (code, output, errors) == (130, f"{STOPPED}\n", "stopping…\n")
    assert trio.current_time() == pytest.approx(3.0)


async def test_a_signal_while_nothing_runs_leaves_at_once(autojump_clock: MockClock) -> None:
    code, output, _ = await run_lines(ScriptedChat(), Silence(), signals((2.0, signal.SIGINT)))
    assert (code, output) == (130, "")
    assert trio.current_time() == pytest.approx(2.0)


async def test_a_third_signal_does_not_wait_for_the_stop(autojump_clock: MockClock) -> None:
    chat = ScriptedChat({"one": [60.0]}, stop_s=30.0)
    interrupts = signals(*[(1.0, signal.SIGINT)] * 3)
    code, _, _ = await run_lines(chat, Typist((0.0, "one"), (100.0, "")), interrupts)
    assert code == 130
    assert trio.current_time() == pytest.approx(3.0)


async def test_a_person_at_a_dumb_terminal_is_prompted_and_ctrl_c_does_not_leave(
    autojump_clock: MockClock,
) -> None:
    chat = ScriptedChat({"one": [60.0], "two": [1.0, finish("2")]})
    prompt = Page()
    lines = Typist((1.0, "one"), (5.0, "two"), (5.0, ""), (5.0, "/exit"))
    code, output, errors = await run_lines(
        chat, lines, signals((2.0, signal.SIGINT), (10.0, signal.SIGINT)), prompt
    )
    assert (code, output, errors) == (0, f"{STOPPED}\n2\n", "stopping…\n")
    assert prompt.text == "› › › › \n› "


async def test_a_person_can_type_stop_during_a_turn(autojump_clock: MockClock) -> None:
    chat = ScriptedChat({"one": [60.0]})
    lines = Typist((0.0, "one"), (5.0, "/stop"), (1.0, ""))
    code, output, _ = await run_lines(chat, lines, prompt=Page())
    assert (code, output) == (0, f"{STOPPED}\n")
    assert trio.current_time() == pytest.approx(6.0)


@pytest.mark.parametrize("last", [[], [(0.0, "exit")]])
async def test_a_person_who_leaves_waits_for_no_turn(
    autojump_clock: MockClock, last: list[tuple[float, str]]
) -> None:
    chat = ScriptedChat({"one": [60.0]})
    lines = Typist((0.0, "one"), (5.0, ""), *last)
    code, output, errors = await run_lines(chat, lines, prompt=Page())
    assert (code, output, errors) == (
        0,
        "",
        f"{gettext(Reader('en').language, 'The turn continues. To see its reply later: rumi chat')}\n",
    )
    assert trio.current_time() == pytest.approx(5.0)
    assert chat.texts == ["one"], "the turn goes on"


@pytest.mark.parametrize(("at", "answer"), [(1.0, "not done"), (5.0, "done")])
async def test_what_a_person_typed_before_a_question_was_there_is_no_yes_to_it(
    autojump_clock: MockClock, at: float, answer: str
) -> None:
    ask = Ask("Really?", yes=[1.0, finish("done")], no=[1.0, finish("not done")])
    chat = ScriptedChat({"ask": [Thinking(1), 3.0, ask], "yes": [finish("yes to what?")]})
    with trio.fail_after(100):
        _, found, _ = await run_lines(chat, Typist((0.0, "ask"), (at, "yes"), (9.0, "")), prompt=Page())
    assert found.splitlines()[0] == answer


@pytest.mark.parametrize("silent", [True, False])
async def test_a_schedules_turn_is_shown_with_its_reply_unless_that_is_silent(
    autojump_clock: MockClock, silent: bool
) -> None:
    chat, output, errors = ScriptedChat({"hello": [finish("hi")]}), Page(), Page()
    async with trio.open_nursery() as nursery:
        chat.nursery = nursery
        session = TerminalSession(chat, PlainView(output, errors, READER), READER)
        await nursery.start(session.run)
        for what in (
            TurnStarted("look", 90, schedule=3),
            *[step for step in tool("date", "today") if not isinstance(step, float | int | Ask)],
            finish("news"),
            Replied(70, (90,), "news", schedule=3, silent=silent),
        ):
            chat._publish("t90", what)
            await trio.sleep(1)
            assert output.text == "" or isinstance(what, Replied)
        await session.settled(await session.send("hello"))
        nursery.cancel_scope.cancel()
    assert output.text == ("" if silent else "news\n") + "hi\n"
    assert errors.text.startswith("" if silent else "(schedule 3) › look\n")
    assert "date" not in errors.text, "its steps are not shown"


async def test_a_program_hears_only_of_its_own_turns_and_a_person_of_others_too(
    autojump_clock: MockClock,
) -> None:
    for prompt in (None, Page()):
        chat = ScriptedChat({"theirs": [*tool("date", "today"), finish("secret")]}, {"/status": "idle"})
        chat.scripts["hello"] = [finish("hi")]
        output, errors = Page(), Page()
        async with trio.open_nursery() as nursery:
            chat.nursery = nursery
            view = PlainView(output, errors, READER)
            session = TerminalSession(chat, view, READER, yes=True, alone=prompt is None)
            await nursery.start(session.run)
            await chat.send("theirs")
            await chat.send("/status")
            await trio.sleep(1)
            assert not session.owing
            number = await session.send("hello")
            await session.settled(number)
            nursery.cancel_scope.cancel()
        alone = prompt is None
        assert output.text == ("" if alone else "secret\n") + "hi\n"
        assert ("(in another window) › theirs" in errors.text) is not alone
        assert ("date" in errors.text) is not alone
        assert "idle" not in output.text, "another window's command is its own affair"
        assert len(chat.acknowledged) == (1 if alone else 2), "what was not shown is not acknowledged"


async def test_yes_answers_the_questions_of_ones_own_turns_only(autojump_clock: MockClock) -> None:
    chat = ScriptedChat({"theirs": [Ask("send it?", [finish("sent")], [finish("not sent")])]})
    async with trio.open_nursery() as nursery:
        chat.nursery = nursery
        session = TerminalSession(chat, PlainView(Page(), Page(), READER), READER, yes=True)
        await nursery.start(session.run)
        await chat.send("theirs")
        await trio.sleep(1)
        assert chat.texts == ["theirs"]
        assert session.confirming is not None, "a person may answer it"
        await session.answer(False)
        await trio.sleep(1)
        assert (chat.texts, session.busy) == (["theirs", "no"], False)
        nursery.cancel_scope.cancel()


async def test_of_a_todo_list_the_changes_are_written(autojump_clock: MockClock) -> None:
    def listed(id: str, *states: str) -> ToolStarted:
        items = [{"text": f"step {n}\x1b[2J", "state": state} for n, state in enumerate(states)]
        return ToolStarted(ToolCall(id, "todo", "{}"), {"items": items})

    script = [
        *(listed("c1", "doing", "open", "open"), ToolFinished(listed("c1").call, ToolResult(True, "0/3"))),
        *(Thinking(2), listed("c2", "done", "doing", "open"), finish("done")),
    ]
    _, output, errors = await run_lines(ScriptedChat({"go": script}), typed("go"))
    assert output == "done\n"
    lines = ["todo 0/3", "  ◐ step 0", "  ○ step 1", "  ○ step 2", "todo 1/3", "  ● step 0", "  ◐ step 1"]
    assert errors.splitlines() == lines
