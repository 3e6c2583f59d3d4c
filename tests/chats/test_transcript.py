"""All that a chat has shown is read from the journal, as live clients saw it, also by the next process."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio
from trio.testing import MockClock

from rumi.agent.events import ToolFinished, ToolStarted, TurnFinished
from rumi.agent.tool import Question, ToolResult
from rumi.chats.hub import HubSubscription
from rumi.chats.joining import StoredTurn
from rumi.models.model import Emit, ModelRequest, Reply, TextDelta, ToolCall, ToolSpec, Usage
from rumi.store.journal.shown import CallFigures, ShownCall, ShownReply
from rumi.store.journal.transcript import StoredMessage, read_messages, read_transcript
from rumi.tasks.schedules.when import After
from tests.chats.house import house
from tests.chats.test_folder_work import working
from tests.chats.test_resuming import Heard, life
from tests.fakes.folders import added
from tests.fakes.tools import Unasked
from tests.tasks.schedules.test_schedules import LIMITS, MADRID, Wall, of


@dataclass
class Edit(Unasked):
    """Changes a file after a yes, and shows it; `slow` ones never end."""

    spec: ToolSpec = field(default_factory=lambda: ToolSpec("edit", "Edits.", {}))
    always_asks: bool = True

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        return Question("fetch", {"url": str(arguments.get("what"))})

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        await trio.sleep(1e9 if arguments.get("what") == "slow" else 1)
        return ToolResult(True, "x" * 9_000, None, 7, diff="-old\n+new", shows=("a.png",))


async def works(request: ModelRequest, emit: Emit) -> Reply:
    """Edits what the user names, with a thought; for a schedule it has nothing to tell."""
    last = max(index for index, m in enumerate(request.messages) if m.role == "user")
    said, behind = request.messages[last].content, request.messages[last + 1 :]
    await trio.sleep(0.5)
    if "watch" in said:
        return Reply("", (ToolCall("n", "nothing_new", '{"why": "calm"}'),))
    if said.startswith("edit") and not any(m.role == "tool" for m in behind):
        emit(TextDelta("I edit."))
        await trio.sleep(0.25)
        what = said.removeprefix("edit ")
        calls = (ToolCall("c1", "edit", f'{{"what": "{what}"}}'),)
        return Reply("I edit.", calls, usage=Usage(100, 10, 50, 7), model="m:1", reasoning="Hm. It is old.")
    return Reply(f"did {said}", usage=Usage(200, 20))


async def shown(home: Heard, **given: Any) -> tuple[StoredMessage, ...]:
    return await home.house.services.journal.ask(read_transcript("cli", **given))


async def test_the_next_process_reads_what_live_clients_saw(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with life(tmp_path, Edit(), answer=works, schedule_limits=LIMITS, now=Wall()) as home:
        accept = home.house.inbox.accept
        await accept("cli", "edit a")
        question = await home.question()
        (running,) = await shown(home)
        assert running.turn == "t1"
        assert not running.answered
        await accept("cli", "yes")
        await home.settled()
        await home.house.ask("plain")
        await home.house.ask("/undo")
        await accept("cli", "edit slow")
        home.events.clear()
        await home.question()
        await accept("cli", "yes")
        await trio.sleep(10)
        await accept("cli", "/stop")
        await home.settled()
        finished = [event.what for event in home.events if isinstance(event.what, ToolFinished)]
        await home.house.ask("/schedules")
        await home.house.schedules.add(of("turn", "watch"), After(1), MADRID)
        await home.house.schedules.add(of("text", "tea"), After(2), MADRID)
        await home.house.schedules.add(of("turn", "speak"), After(3), MADRID)
        await trio.sleep(300)
        await home.settled()
        live = await shown(home)
    async with life(tmp_path, Edit(), answer=works) as home:
        assert await shown(home) == live
        numbers = [one.message for one in live]
        assert await home.house.services.journal.ask(read_messages("cli", tuple(numbers[1:3]))) == live[1:3]
        assert [one.message for one in await shown(home, before=numbers[4], limit=2)] == numbers[2:4]
    first, yes, plain, undo, slow, yes_again, stop, command, tea, speak = live
    assert [(one.text, one.turn, one.reason) for one in (first, yes)] == [
        ("edit a", "t1", "complete"),
        ("yes", "", ""),
    ]
    assert [one.entry.message.role for one in first.entries] == ["user", "assistant", "tool", "assistant"]
    _, called, result, answer = (one.entry.shown for one in first.entries)
    assert called == ShownReply(CallFigures("m:1", 100, 10, 50, 7, 750, 500, "Hm. It is old.", 500, 1))
    assert isinstance(result, ShownCall)
    assert (result.ok, result.ms, result.diff, result.shows, result.cut) == (
        True,
        7,
        "-old\n+new",
        ("a.png",),
        True,
    )
    assert [(one.id, one.text, one.verdict) for one in result.questions] == [
        (question.id, question.text, "yes")
    ]
    assert first.entries[2].cut
    assert isinstance(answer, ShownReply)
    assert answer.call is not None
    assert (answer.call.prompt, answer.call.number) == (200, 2)
    assert first.reply is not None
    assert (first.reply.messages, first.reply.text) == ((1, 2), "did edit a")
    assert yes.answered
    assert yes.reply is None
    assert (plain.undone, first.undone) == (True, False)
    assert undo.reply is not None
    assert not undo.turn
    # A stopped call has no result, so the turn's end has it, with its question.
    end = slow.entries[-1].entry.shown
    assert isinstance(end, ShownReply)
    ((stopped,),) = (end.calls,)
    assert (stopped.id, stopped.name, stopped.call.ok) == ("c1", "edit", False)
    assert [one.verdict for one in stopped.call.questions] == ["yes"]
    assert slow.reason == "stopped"
    assert slow.reply is not None
    assert slow.reply.messages == (slow.message, yes_again.message, stop.message)
    assert stop.reply is None
    assert command.reply is not None
    assert command.text == "/schedules"
    # The watch had nothing to tell, and is left out.
    assert (tea.text, tea.notice, tea.schedule, tea.turn) == ("⏰ tea", True, 2, "")
    assert tea.reply is not None
    assert (speak.text, speak.schedule, speak.turn) == ("speak", 3, f"t{speak.message}")
    assert all("watch" not in one.text for one in live)
    assert finished[-1].shown.said == "stopped before it ended"


async def test_a_turn_that_goes_on_keeps_what_was_seen_before_and_numbers_its_calls_after_it(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with life(tmp_path, Edit(), answer=works) as home:
        await home.house.inbox.accept("cli", "edit a")
        await home.question()
    async with life(tmp_path, Edit(), answer=works) as home:
        await home.question()
        (queued,) = await shown(home)
        assert (queued.turn, queued.answered) == ("t1", False)
        await home.house.inbox.accept("cli", "yes")
        await home.settled()
        first, _ = await shown(home)
    calls = [one.entry.shown.call for one in first.entries if isinstance(one.entry.shown, ShownReply)]
    numbers = [call.number for call in calls if call is not None]
    assert numbers == [1, 10_001]
    (result,) = [one.entry.shown for one in first.entries if isinstance(one.entry.shown, ShownCall)]
    assert [one.verdict for one in result.questions] == ["yes"]


async def test_a_reset_leaves_nothing_of_what_was_said_before_it(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with house(tmp_path, works) as home:
        for text in ("a", "/schedules", "/reset", "b"):
            await home.ask(text)
        left = await home.services.journal.ask(read_transcript("cli"))
        assert [one.text for one in left] == ["/reset", "b"]


async def test_a_question_of_a_command_and_the_note_about_a_folder_are_stored_with_the_reply(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with working(tmp_path) as chat:
        chat.folders.change(added("a.txt", "one"))
        await chat.say("/apply")
        asked = await chat.question()
        await chat.reply("yes")
        _, replied = await chat.reply("bash tee b.txt")
        live = await chat.house.services.journal.ask(read_transcript("cli"))
    command, _, turn = live
    assert command.reply is not None
    assert (command.turn, command.entries, command.reply.turn) == ("t1", (), "t1")
    assert [(one.text, one.verdict) for one in command.reply.questions] == [(asked, "yes")]
    assert turn.reply is not None
    assert replied.note == turn.reply.note != ""


async def test_a_view_that_comes_at_any_time_shows_each_step_once(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    views: list[tuple[StoredMessage, HubSubscription]] = []
    async with life(tmp_path, Edit(), answer=works) as home:

        async def come() -> None:
            while True:
                events = home.house.services.hub.subscribe("cli", entering=True)
                found = await shown(home)
                views.extend((one, events) for one in found if one.turn == "t1")
                await trio.sleep(0.2)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(come)
            await home.house.inbox.accept("cli", "edit a")
            await home.question()
            await trio.sleep(1)
            await home.house.inbox.accept("cli", "yes")
            await home.settled()
            await trio.sleep(1)
            nursery.cancel_scope.cancel()
        seen = {await steps_of(message, events) for message, events in views}
    assert len(views) > 12
    assert seen == {"text I edit.; call c1; result c1; text did edit a"}


async def steps_of(message: StoredMessage, events: HubSubscription) -> str:
    """What a view shows at the end: the entries that it has read, and the events that these do not have."""
    steps: list[str] = []
    for row in message.entries:
        said = row.entry.message
        if said.role == "assistant":
            steps += [f"text {said.content}", *(f"call {call.id}" for call in said.tool_calls)]
        elif said.role == "tool":
            steps.append(f"result {said.tool_call_id}")
    stored = StoredTurn(message)
    while events.behind:
        event = await events.receive()
        match event.what:
            case _ if stored.has(event):
                pass
            case TextDelta(text):
                steps.append(f"text {text}")
            case ToolStarted(call) if f"call {call.id}" not in steps:
                steps.append(f"call {call.id}")
            case ToolFinished(call):
                steps.append(f"result {call.id}")
            case TurnFinished(_, answer):
                steps.append(f"text {answer}")
    return "; ".join(steps)
