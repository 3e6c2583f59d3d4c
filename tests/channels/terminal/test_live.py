"""What a person sees, in virtual time: lines printed for good, and the live region at each moment."""

import time
from collections.abc import Sequence

import pytest
import trio
from rich.cells import cell_len
from trio.testing import MockClock

from rumi.agent.events import (
    ConfirmationAsked,
    ConfirmationEnded,
    Thinking,
    ToolFinished,
    ToolOutput,
    ToolProgress,
    ToolStarted,
    TurnFinished,
)
from rumi.agent.tool import ToolResult
from rumi.channels.terminal.calls import DIFF_LINES
from rumi.channels.terminal.live import LiveView
from rumi.channels.terminal.once import once
from rumi.channels.terminal.paint import Called, Painter
from rumi.channels.terminal.session import Settled, TerminalSession
from rumi.channels.terminal.words import Reader
from rumi.chats.events import ChatEvent, Replied, TurnStarted, TurnState
from rumi.models.model import Discarded, TextDelta, ToolCall, Usage, Waiting
from rumi.store.journal.records import Reason
from rumi.texts import gettext
from tests.channels.terminal.scripted import (
    STOPPED,
    Ask,
    ScriptedChat,
    Silence,
    Step,
    finish,
    signals,
    tool,
    words,
)

READER = Reader("en")


class Sheet:
    """A screen in memory. `seen` has the live region as it was at each drawing, with its time."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.columns, self.rows = columns, rows
        self.printed: list[str] = []
        self.live: list[str] = []
        self.seen: list[tuple[float, list[str]]] = []

    def size(self) -> tuple[int, int]:
        return self.columns, self.rows

    async def draw(self, above: Sequence[str], live: Sequence[str]) -> None:
        await trio.lowlevel.checkpoint()
        for line in [*above, *live]:
            assert cell_len(line) <= self.columns
        assert len(live) < self.rows
        self.printed += above
        self.live = list(live)
        self.seen.append((trio.current_time(), self.live))

    def at(self, time: float) -> list[str]:
        """The live region at that time, without the turning character of the spinner."""
        lines = [live for when, live in self.seen if when <= time + 1e-6][-1]
        return ["*" + line[1:] if line[:1] in "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏" and line else line for line in lines]


async def play(
    *steps: Step,
    sheet: Sheet | None = None,
    chat: ScriptedChat | None = None,
    at: Sequence[tuple[float, int]] = (),
    brief: bool = False,
) -> Sheet:
    sheet = sheet or Sheet()
    chat = chat or ScriptedChat({"hi": steps})
    async with trio.open_nursery() as nursery:
        chat.nursery = nursery
        view = LiveView(sheet, Painter({"TERM": "dumb"}), READER, brief=lambda: brief)
        nursery.start_soon(view.run)
        await once(
            TerminalSession(chat, view, READER, yes=True, alone=True), "hi", signals(*at), reader=READER
        )
        nursery.cancel_scope.cancel()
    assert sheet.live == []
    return sheet


async def test_thinking_shows_how_long_it_takes(autojump_clock: MockClock) -> None:
    sheet = await play(Thinking(1), 10.0, finish("done"))
    assert sheet.at(0.5) == ["* thinking 0 s · Ctrl-C stops"]
    assert sheet.at(7.5) == ["* thinking 7 s · Ctrl-C stops"]
    assert sheet.printed == ["done"]


async def test_finished_blocks_are_printed_and_only_the_last_one_is_live(autojump_clock: MockClock) -> None:
    steps: list[Step] = [Thinking(1)]
    for text in ("One\n\n", "Two **b", "old**", " more\n", "\n", "- a\n", "- b\n"):
        steps += [1.0, TextDelta(text)]
    sheet = await play(*steps, 1.0, finish("One\n\nTwo **bold** more\n\n- a\n- b"))
    assert sheet.at(1.5) == ["One", "", "* writing 0 s · Ctrl-C stops"]
    assert sheet.at(2.5) == ["", "Two **b", "", "* writing 1 s · Ctrl-C stops"]
    assert sheet.at(3.5) == ["", "Two bold", "", "* writing 2 s · Ctrl-C stops"]
    assert sheet.at(6.5) == ["", " • a", "", "* writing 5 s · Ctrl-C stops"]
    assert sheet.printed == ["One", "", "Two bold more", "", " • a", " • b"]


async def test_a_block_that_is_taller_than_the_screen_shows_its_end_and_is_printed_once(
    autojump_clock: MockClock,
) -> None:
    code = "```\n" + "\n".join(f"line {number}" for number in range(100)) + "\n```"
    answer = f"Before.\n\n{code}\n\nAfter."
    sheet = await play(Thinking(1), *words(answer, every=0.01), 0.2, finish(answer), sheet=Sheet(rows=12))
    lines = [f"  line {number}" for number in range(100)]
    assert sheet.printed == ["Before.", "", *lines, "", "After."]
    assert max(len(live) for _, live in sheet.seen) <= 11


async def test_tool_calls_show_outcome_and_the_first_and_last_lines(autojump_clock: MockClock) -> None:
    long = "grep -r " + "word " * 60
    said = "\n".join(f"file{number}" for number in range(20))
    sheet = await play(
        Thinking(1),
        *words("Let me look."),
        *tool("ls", said, took=3.0),
        *tool(long, "nothing", exit_code=1, took=65.0, number=2),
        *tool("sleep 99", "timed out and was killed", ok=False, took=0.5, number=3),
        Thinking(2),
        *words("Twenty files."),
        finish("Twenty files."),
    )
    assert sheet.at(2.5) == ["", "* $ ls  2 s"]
    assert sheet.printed == [
        "Let me look.",
        "",
        "● $ ls  exit 0 · 3.0 s",
        "    file0",
        "    file1",
        "    … 16 more lines",
        "    file18",
        "    file19",
        "● $ grep -r word word word word word word word word word word word word word",
        "  word word word word word word word word word word word word word word …",
        "  exit 1 · 1 min 05 s",
        "    nothing",
        "● $ sleep 99  failed · exit 0 · 500 ms",
        "    exit code 0 (500 ms)",
        "    output:",
        "    timed out and was killed",
        "",
        "Twenty files.",
    ]


async def test_an_answer_that_repeats_an_output_shows_it_once(autojump_clock: MockClock) -> None:
    steps = [*tool("ls", "notes.md"), Thinking(2), *words("notes.md"), finish("notes.md")]
    assert sum("notes.md" in line for line in (await play(*steps, brief=True)).printed) == 1
    assert sum("notes.md" in line for line in (await play(*steps)).printed) == 2


async def test_a_changed_file_is_shown_as_a_diff_in_colours(autojump_clock: MockClock) -> None:
    diff = "--- a\n+++ a\n@@ -1,2 +1,2 @@\n one\n-two\x1b[0m\n+dos" + "\n+more" * 30
    call = ToolCall("c1", "edit_file", "")
    result = ToolResult(True, "edited a: +31 −1, line 2", None, 12, diff=diff)
    sheet = await play(ToolStarted(call, {"path": "a"}), ToolFinished(call, result), finish(""))
    assert sheet.printed[:6] == [
        "● edit_file a  12 ms",
        "    edited a: +31 −1, line 2",
        "    @@ -1,2 +1,2 @@",
        "     one",
        "    -two",
        "    +dos",
    ]
    assert (len(sheet.printed), sheet.printed[-1]) == (2 + DIFF_LINES, "    … 11 more lines")
    painted = Painter({"TERM": "xterm"}).paint(Called("edit_file a", result, READER), 80)
    assert [line.strip() for line in painted[4:6]] == ["\x1b[31m-two\x1b[0m", "\x1b[32m+dos\x1b[0m"]


async def test_calls_that_run_at_once_are_shown_at_once(autojump_clock: MockClock) -> None:
    calls = [ToolCall(f"c{n}", "web_fetch", "") for n in (1, 2)]
    sheet = await play(
        Thinking(1),
        *(ToolStarted(call, {"url": f"http://x.example/{call.id}"}) for call in calls),
        2.0,
        ToolFinished(calls[1], ToolResult(True, "Page two", duration_ms=2000)),
        2.0,
        ToolFinished(calls[0], ToolResult(False, "unreachable")),
        finish("done"),
    )
    assert sheet.at(1.5) == ["* web_fetch http://x.example/c1  1 s", "* web_fetch http://x.example/c2  1 s"]
    assert sheet.at(3.5) == ["", "* web_fetch http://x.example/c1  3 s"]
    assert sheet.printed == [
        "● web_fetch http://x.example/c2  2.0 s",
        "    Page two",
        "● web_fetch http://x.example/c1  failed",
        "    unreachable",
        "",
        "done",
    ]


async def test_the_last_step_stands_below_its_call_and_their_number_stays(autojump_clock: MockClock) -> None:
    calls = [ToolCall(f"c{n}", "web_fetch", "") for n in (1, 2)]
    sheet = await play(
        Thinking(1),
        *(ToolStarted(call, {"url": f"http://x.example/{call.id}"}) for call in calls),
        1.0,
        ToolProgress("c1", "reading one", 1),
        1.0,
        ToolProgress("c1", "reading two\x1b[2J", 2),
        ToolProgress("c2", "x" * 200, 1),
        1.0,
        ToolFinished(calls[1], ToolResult(True, "Page two"), 1),
        1.0,
        ToolFinished(calls[0], ToolResult(False, "unreachable"), 2),
        finish("done"),
        sheet=Sheet(columns=60),
    )
    titles = [f"* web_fetch http://x.example/c{n}" for n in (1, 2)]
    assert sheet.at(0.5) == [f"{titles[0]}  0 s", f"{titles[1]}  0 s"]
    assert sheet.at(1.5) == [f"{titles[0]}  1 s", "  ↳ reading one", f"{titles[1]}  1 s"]
    assert sheet.at(2.5) == [
        f"{titles[0]}  2 s", "  ↳ reading two", f"{titles[1]}  2 s", f"  ↳ {'x' * 55}…",
    ]  # fmt: skip
    assert sheet.at(3.5) == ["", f"{titles[0]}  3 s", "  ↳ reading two"]
    assert sheet.printed == [
        "● web_fetch http://x.example/c2  1 step",
        "    Page two",
        "● web_fetch http://x.example/c1  failed · 2 steps",
        "    unreachable",
        "",
        "done",
    ]


async def test_the_last_lines_of_output_stand_below_their_command(autojump_clock: MockClock) -> None:
    call = ToolCall("c1", "bash", "")
    sheet = await play(
        Thinking(1),
        ToolStarted(call, {"command": "make"}),
        1.0,
        ToolOutput("c1", "".join(f"line {n}\n" for n in range(8))),
        1.0,
        ToolOutput("c1", "10 %\r90 %\x1b[2J"),
        1.0,
        ToolFinished(call, ToolResult(True, "exit code 0 (3000 ms)\noutput:\nall", 0, 3000)),
        finish("done"),
    )
    assert sheet.at(1.5) == ["* $ make  1 s", *(f"  line {n}" for n in range(3, 8))]
    assert sheet.at(2.5) == ["* $ make  2 s", *(f"  line {n}" for n in range(4, 8)), "  90 %"]
    assert not any("line 7" in line for line in sheet.printed)


async def test_steps_of_many_calls_leave_room_on_a_small_screen(autojump_clock: MockClock) -> None:
    calls = [ToolCall(f"c{n}", "web_fetch", "") for n in range(6)]
    begun = [ToolStarted(call, {"url": f"http://x.example/{call.id}"}) for call in calls]
    steps = [ToolProgress(call.id, f"step of {call.id}", 1) for call in calls]
    ends = [ToolFinished(call, ToolResult(True, ""), 1) for call in calls]
    text = "one\n" * 30
    sheet = await play(
        Thinking(1), TextDelta(text), *begun, *steps, 1.0, *ends, finish(text), sheet=Sheet(rows=16)
    )
    assert [line for line in sheet.at(0.9) if "↳" in line] == ["  ↳ step of c0", "  ↳ step of c1"]


async def test_a_wait_counts_down(autojump_clock: MockClock) -> None:
    sheet = await play(Thinking(1), Waiting(9.5, "rate limit of groq"), 9.5, Thinking(1), 1.0, finish("done"))
    assert sheet.at(0.6) == ["⏳ 9 s · rate limit of groq"]
    assert sheet.at(9.0) == ["⏳ 1 s · rate limit of groq"]
    assert sheet.at(9.9) == ["* thinking 0 s · Ctrl-C stops"]


async def test_words_that_became_void_go_away_or_are_called_so(autojump_clock: MockClock) -> None:
    live_only = await play(
        Thinking(1), TextDelta("half"), 1.0, Discarded(), 1.0, TextDelta("whole"), finish("whole")
    )
    assert live_only.at(1.5) == ["* thinking 0 s · Ctrl-C stops"]
    assert live_only.printed == ["whole"]


async def test_printed_words_that_became_void_are_called_so(autojump_clock: MockClock) -> None:
    sheet = await play(
        Thinking(1), TextDelta("one\n\nha"), 1.0, Discarded(), 1.0, TextDelta("whole"), 1.0, finish("whole")
    )
    assert sheet.printed == [
        "one",
        "",
        gettext("en", "The reply was cut off. Ignore the text above."),
        "",
        "whole",
    ]


async def test_a_question_is_printed_for_good(autojump_clock: MockClock) -> None:
    sheet = await play(Thinking(1), Ask("Send `a.txt` to x.example?", [1.0, finish("sent")], []))
    assert sheet.at(0.5) == ["", "* thinking 0 s · Ctrl-C stops"]  # it was answered at once
    assert sheet.printed == ["? It asks: Send `a.txt` to x.example?", "Yes (--yes).", "", "sent"]


@pytest.mark.parametrize("reason", ["max_turns", "repeated_call", "consecutive_errors", "timeout"])
async def test_a_breakers_warning_follows_what_was_shown_of_the_answer(
    autojump_clock: MockClock, reason: Reason
) -> None:
    answer = "Found **two**:\n\n- a\n- b\n\n⚠️ Reached a limit."
    sheet = await play(Thinking(1), *words("Found **two**:\n\n- a\n- b"), finish(answer, reason))
    assert sheet.printed == ["Found two:", "", " • a", " • b", "", "⚠️ Reached a limit."]


async def test_an_answer_that_never_streamed_is_printed_whole(autojump_clock: MockClock) -> None:
    sheet = await play(Thinking(1), *words("Something else"), finish("Found **it**\n\n⚠️ Limit.", "timeout"))
    assert sheet.printed == ["Something else", "", "Found it", "", "⚠️ Limit."]


@pytest.mark.parametrize(
    "phase",
    [
        [Thinking(1), 60.0],
        [Thinking(1), *words("word " * 1000, every=0.1)],
        [Thinking(1), Waiting(60.0, "rate limit"), 60.0],
        [Thinking(1), *tool("sleep 60", took=60.0)],
    ],
)
async def test_ctrl_c_shows_in_every_phase_that_it_stops(
    autojump_clock: MockClock, phase: list[Step]
) -> None:
    chat = ScriptedChat({"hi": phase}, stop_s=3.0)
    sheet = await play(chat=chat, at=[(2.0, 2), (1.0, 2)])
    assert sheet.at(2.5)[-1] == "* stopping…"
    assert sheet.printed[-1] == STOPPED
    assert gettext("en", "Still stopping. Press Ctrl-C again to leave now.") in sheet.printed


async def test_replies_of_an_earlier_time_are_marked(autojump_clock: MockClock) -> None:
    chat = ScriptedChat(
        {"hi": [finish("new")]}, earlier=[Replied(1, (1,), "⚠️ I was restarted.\nSend /retry")]
    )
    sheet = await play(chat=chat)
    assert sheet.printed == ["Earlier:", "⚠️ I was restarted.", "Send /retry", "", "new"]


async def test_a_window_that_shrinks_gets_shorter_lines_from_then_on(autojump_clock: MockClock) -> None:
    sheet = Sheet()

    async with trio.open_nursery() as nursery:

        async def shrink() -> None:
            await trio.sleep(3)
            sheet.columns, sheet.rows, sheet.live = 20, 8, []

        nursery.start_soon(shrink)
        answer = "\n\n".join(["wide words " * 12] * 20)
        await play(Thinking(1), *words(answer, every=0.01), 1.0, finish(answer), sheet=sheet)
    assert sheet.printed[-1] == "words wide words"


async def test_nothing_is_drawn_while_nothing_changes(autojump_clock: MockClock) -> None:
    sheet = Sheet()
    with trio.move_on_after(60):
        await LiveView(sheet, Painter({"TERM": "dumb"}), READER).run()
    assert sheet.seen == []


async def test_silence_answers_no_question(autojump_clock: MockClock) -> None:
    with trio.move_on_after(1000) as scope:
        await Silence().line()
    assert scope.cancelled_caught


async def test_the_end_of_an_earlier_process_s_turn_shows_no_duration(autojump_clock: MockClock) -> None:
    view = LiveView(Sheet(), Painter({"TERM": "dumb"}), READER)
    ended = TurnFinished("interrupted", "restarted", Usage(0, 0))
    await view.event(ChatEvent("cli", "t7", time.time() - 47_220, ended))
    assert view.last_turn == ""
    await view.event(ChatEvent("cli", "t8", time.time() + 3600, TurnStarted("hi", 8)))  # it was set back
    await trio.sleep(3)
    await view.event(ChatEvent("cli", "t8", time.time(), finish("done")))
    assert view.last_turn == "3.0 s · 15 tokens"


async def test_what_is_said_during_a_turn_stands_behind_the_table_that_grows(
    autojump_clock: MockClock,
) -> None:
    sheet = Sheet(60, 20)
    view = LiveView(sheet, Painter({"TERM": "dumb"}), READER)
    rows = [f"| {number} | x |" for number in range(30)]
    text = "\n".join(["Intro", "", "| a | b |", "|---|---|", *rows, "", "After."])
    half = text.index("| 15 |")
    await view.event(ChatEvent("cli", "t1", 0.0, TurnStarted("hi", 1)))
    await view.event(ChatEvent("cli", "t1", 0.0, TextDelta(text[:half])))
    await view.typed("/status")
    await view.reply(
        ChatEvent("cli", "", 0.0, Replied(1, (2,), "busy")), Settled(Replied(1, (2,), "busy"), None)
    )
    assert sheet.printed == ["Intro"]
    assert [line.split() for line in sheet.live if line] == [
        ["a", "b"],
        ["──────"],
        *([str(number), "x"] for number in range(8, 15)),
        ["›", "/status"],
        ["busy"],
        sheet.live[-1].split(),
    ]
    await view.event(ChatEvent("cli", "t1", 0.0, TextDelta(text[half:])))
    await view.event(ChatEvent("cli", "t1", 0.0, finish(text)))
    told = [line.split() for line in sheet.printed if line]
    assert told == [
        ["Intro"],
        ["a", "b"],
        ["──────"],
        *([str(number), "x"] for number in range(30)),
        ["›", "/status"],
        ["busy"],
        ["After."],
    ]


async def test_a_table_taller_than_the_screen_grows_below_its_head(autojump_clock: MockClock) -> None:
    sheet = Sheet(60, 12)
    rows = "".join(f"| {number} | x |\n" for number in range(40))
    await play(Thinking(1), TextDelta(f"| a | b |\n|---|---|\n{rows}"), 1.0, finish("done"), sheet=sheet)
    shown = [line.split() for line in sheet.at(0.5) if line]
    assert shown[:2] == [["a", "b"], ["──────"]]
    assert shown[-2] == ["39", "x"]


async def test_a_window_that_comes_in_the_middle_counts_from_the_turns_real_beginning(
    autojump_clock: MockClock,
) -> None:
    sheet = Sheet()
    view = LiveView(sheet, Painter({"TERM": "dumb"}), READER)
    began, call = time.time() - 65, ToolCall("c1", "bash", "{}")
    told = TurnState().apply(ChatEvent("cli", "t1", began, TurnStarted("go", 1)))
    told = told.apply(ChatEvent("cli", "t1", began + 5, ToolStarted(call, {"command": "sleep 90"})))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(view.run)
        for event in told.catch_up("cli"):
            await view.event(event)
        at = trio.current_time()
        await trio.sleep(9.5)
        await view.event(ChatEvent("cli", "t1", time.time(), finish("done")))
        nursery.cancel_scope.cancel()
    assert sheet.at(at + 0.5) == ["* $ sleep 90  60 s"]
    assert sheet.at(at + 9.2) == ["* $ sleep 90  69 s"]
    assert view.last_turn == "1 min 15 s · 15 tokens"


async def test_nothing_moves_where_a_person_types_the_answer_to_a_question(autojump_clock: MockClock) -> None:
    sheet = Sheet()
    view = LiveView(sheet, Painter({"TERM": "dumb"}), READER, answered_below=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(view.run)
        await view.event(ChatEvent("cli", "t1", 1.0, TurnStarted("hi", 1)))
        await trio.sleep(1)
        assert sheet.live
        await view.event(ChatEvent("cli", "t1", 1.0, ConfirmationAsked("q", "May I?\n  key: boss")))
        drawn = len(sheet.seen)
        await trio.sleep(5)
        assert (sheet.live, len(sheet.seen)) == ([], drawn)
        assert sheet.printed[-2:] == ["  key: boss", "(yes/no)"]
        await view.event(ChatEvent("cli", "t1", 1.0, ConfirmationEnded("q", "yes")))
        await trio.sleep(1)
        assert sheet.live
        nursery.cancel_scope.cancel()


async def test_a_todo_list_is_redrawn_in_the_live_region_and_printed_at_the_end(
    autojump_clock: MockClock,
) -> None:
    def listed(id: str, *states: str) -> ToolStarted:
        items = [{"text": f"step {n}", "state": state} for n, state in enumerate(states)]
        return ToolStarted(ToolCall(id, "todo", "{}"), {"items": items})

    sheet = await play(
        *(
            Thinking(1),
            listed("c1", "doing", "open"),
            ToolFinished(listed("c1").call, ToolResult(True, "0/2")),
        ),
        *(
            Thinking(2),
            2.0,
            listed("c2", "done", "doing"),
            2.0,
            TextDelta("All done."),
            1.0,
            finish("All done."),
        ),
    )
    assert sheet.at(1.0)[-3:-1] == ["◐ step 0", "○ step 1"]
    assert sheet.at(3.0)[-3:-1] == ["● step 0", "◐ step 1"]
    printed = [line for line in sheet.printed if line]
    assert printed[-3:] == ["All done.", "● step 0", "◐ step 1"]
    assert sum("step 0" in line for line in printed) == 1


async def test_a_long_todo_list_leaves_room_on_a_small_screen(autojump_clock: MockClock) -> None:
    items = [{"text": f"step {n} {'x' * 150}", "state": "done" if n < 12 else "open"} for n in range(20)]
    call = ToolStarted(ToolCall("c1", "todo", "{}"), {"items": items})
    sheet = await play(Thinking(1), call, 2.0, finish("ok"), sheet=Sheet(40, 12))
    assert [line[:9] for line in sheet.at(1.0) if "step" in line] == ["○ step 12", "○ step 13", "○ step 14"]
