"""A scheduled turn that has nothing to tell ends without a message, and never hides a failure."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import trio
import trio.testing

from rumi.agent.prompts.message_entries import without_note
from rumi.agent.tool import Question, Tool, ToolResult
from rumi.channels.page.stored import entries_of
from rumi.chats.events import Replied
from rumi.chats.recorder.recording import dump_result, load_result
from rumi.models.model import Emit, ModelError, ModelRequest, Reply, ToolCall, ToolSpec
from rumi.store.journal.reading import read_history
from rumi.store.journal.records import ScheduleRecord
from rumi.store.journal.transcript import read_transcript
from rumi.tasks.schedules.tools import ListSchedulesTool
from rumi.tasks.schedules.when import After, Every
from tests.chats.house import House, house
from tests.tasks.schedules.test_schedules import LIMITS, MADRID, Wall, of, rows

EVERY = Every("0 * * * *")


def call(name: str, id: str = "c1", **arguments: object) -> ToolCall:
    return ToolCall(id, name, json.dumps(arguments))


NOTHING = Reply("", (call("nothing_new", why="no letter came"),))


class Script:
    """A model that gives one reply after the other."""

    def __init__(self, *replies: Reply | ModelError) -> None:
        self.replies = list(replies)
        self.calls = 0
        self.tools: list[set[str]] = []

    async def __call__(self, request: ModelRequest, emit: Emit) -> Reply:
        await trio.lowlevel.checkpoint()
        self.calls += 1
        self.tools.append({spec.name for spec in request.tools})
        reply = self.replies.pop(0) if self.replies else NOTHING
        if isinstance(reply, ModelError):
            raise reply
        return reply


class Visit(Tool):
    """A tool that fails, asks, or works, as its argument says."""

    spec = ToolSpec("visit", "Visit.", {"type": "object", "properties": {}})
    concurrent = False

    def question(self, arguments: Mapping[str, object], known_urls: object) -> Question | None:
        return Question("fetch", {"url": "https://example.org/x"}) if arguments.get("asks") else None

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        await trio.lowlevel.checkpoint()
        return ToolResult(
            not arguments.get("fails"), "seen", shows=("a.png",) if arguments.get("shows") else ()
        )


class AskingVisit(Visit):
    always_asks = True


def visits(view: object) -> tuple[Tool, ...]:
    return (AskingVisit(),)


async def fired(home: House, wall: Wall, text: str = "look") -> list[str]:
    """Add a schedule that fires each hour; return the replies of one fire that are not silent."""
    await home.schedules.add(of("turn", text), EVERY, MADRID)
    with home.services.hub.listening("cli") as events:
        with trio.fail_after(7200):
            while True:
                what = (await events.receive()).what
                if isinstance(what, Replied):
                    return [] if what.silent else [what.text]


async def test_a_turn_with_nothing_new_sends_nothing_and_the_list_says_so(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    model, wall = Script(), Wall()
    async with house(tmp_path, model, now=wall, schedule_limits=LIMITS) as home:
        assert await fired(home, wall) == []
        assert await home.chat().undelivered() == []
        assert "last: nothing new, 11:00 (no letter came)" in await home.ask("/schedules")
        await trio.sleep(5 * 3600 + 60)
        assert await home.open_chats() == ()
    assert model.calls == 6, "one model call for each fire, and none after `nothing_new`"
    assert rows(tmp_path, "SELECT count(*) FROM outbox WHERE delivered IS NULL AND text LIKE 'Nothing%'") == [
        (0,)
    ]
    history = " ".join(str(row) for row in rows(tmp_path, "SELECT message FROM history"))
    assert "Nothing new: no letter came" in history, "the history keeps the turn"


async def test_only_turns_of_schedules_can_end_silently(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    model, wall = Script(Reply("hello")), Wall()
    async with house(tmp_path, model, now=wall, schedule_limits=LIMITS) as home:
        assert await home.ask("hi") == "hello"
        await fired(home, wall)
    assert "nothing_new" not in model.tools[0]
    assert "nothing_new" in model.tools[1]


@pytest.mark.parametrize(
    ("replies", "says"),
    [
        (
            (Reply("", (call("visit", "c1", fails=True),)), NOTHING),
            "⚠️ These steps failed:\n- visit: seen",
        ),
        ((Reply("", (call("visit", "c1", fails=True), call("nothing_new", "c2", why="x"))),), "visit: seen"),
        ((Reply("", (call("nothing_new", "c2", why="x"), call("visit", "c1", fails=True))),), "visit: seen"),
        ((Reply("", (call("visit", "c1", asks=True),)), NOTHING), "🔒 This needs your yes"),
        ((Reply("", (call("visit", "c1", shows=True),)), NOTHING), "Nothing new: no letter came"),
        ((Reply("", (call("bogus", "c1"),)), NOTHING), "bogus: there is no tool"),
        ((ModelError("server", "it broke"),), "❌ The model did not answer"),
        ((ModelError("empty", "nothing"), ModelError("empty", "nothing")), "❌ The model did not answer"),
        ((Reply("NO_REPLY"),), "NO_REPLY"),
    ],
)
async def test_a_failure_a_question_and_a_file_are_never_silent(
    tmp_path: Path,
    autojump_clock: trio.testing.MockClock,
    replies: tuple[Reply | ModelError, ...],
    says: str,
) -> None:
    wall = Wall()
    async with house(tmp_path, Script(*replies), now=wall, schedule_limits=LIMITS, tools_for=visits) as home:
        (said,) = await fired(home, wall)
        assert says in said
        (reply,) = await home.chat().undelivered()
        assert reply.text == said


async def test_a_failure_that_a_later_call_has_repaired_may_be_silent(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    again = Reply("", (call("visit", "c1", fails=True),)), Reply("", (call("visit", "c2"),)), NOTHING
    wall = Wall()
    async with house(tmp_path, Script(*again), now=wall, schedule_limits=LIMITS, tools_for=visits) as home:
        assert await fired(home, wall) == []


async def test_an_empty_answer_is_asked_once_and_may_then_be_silent(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    model, wall = Script(ModelError("empty", "nothing"), NOTHING), Wall()
    async with house(tmp_path, model, now=wall, schedule_limits=LIMITS) as home:
        assert await fired(home, wall) == []
    assert model.calls == 2


def test_a_recording_keeps_that_a_call_has_ended_the_turn() -> None:
    for ends in (True, False):
        result = ToolResult(True, "calm", ends_turn=ends)
        assert load_result(json.loads(json.dumps(dump_result(result)))) == result


async def test_a_run_that_a_person_asked_for_is_answered(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    wall = Wall()
    async with house(tmp_path, Script(), now=wall, schedule_limits=LIMITS) as home:
        await home.schedules.add(of("turn", "look"), Every("* * * * *"), MADRID)
        await trio.sleep(25 * 60)  # by now, the fires on record are more than are kept
        await home.schedules.pause(1, "local")
        await trio.sleep(60)
        with home.services.hub.listening("cli") as events:
            assert await home.ask("/schedules run 1") == "⏰ Schedule 1 runs now."
            with trio.fail_after(50):
                while not isinstance(what := (await events.receive()).what, Replied) or not what.schedule:
                    pass
        assert (what.text, what.silent) == ("Nothing new: no letter came", False)


async def test_a_reason_from_outside_is_one_short_harmless_line(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    wall = Wall()
    why = Reply("", (call("nothing_new", why="a\n# b\x1b[31m [x](http://evil.example) " + "c" * 500),))
    async with house(tmp_path, Script(why), now=wall, schedule_limits=LIMITS) as home:
        await fired(home, wall)
        (listed,) = [line for line in (await home.ask("/schedules")).split("\n") if "last:" in line]
        present = ScheduleRecord("local", "cli", "text", "")
        told = await ListSchedulesTool(lambda: home.schedules, lambda: present).call({})
        assert "last: nothing new, 11:00" in told.content
        assert "evil" not in told.content, "a model is not told what another turn has read"
    assert "\x1b" not in listed
    assert "](" not in listed
    assert len(listed) < 450


@pytest.mark.parametrize("life_s", [0.0, 0.02, 0.05, 0.1])
async def test_a_kill_in_a_silent_turn_leaves_nothing_and_sends_nothing_twice(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, life_s: float
) -> None:
    wall = Wall()

    async def slow(request: ModelRequest, emit: Emit) -> Reply:
        await trio.sleep(0.03)
        return NOTHING

    with trio.move_on_after(1e6) as life:
        async with house(tmp_path, slow, now=wall, schedule_limits=LIMITS) as home:
            await home.schedules.add(ScheduleRecord("local", "cli", "turn", "look"), After(1), MADRID)
            life.deadline = trio.current_time() + 60 + life_s
            await trio.sleep_forever()
    async with house(tmp_path, slow, now=wall, schedule_limits=LIMITS) as home:
        await trio.sleep(300)
        assert await home.open_chats() == ()
        assert await home.chat().undelivered() == []
        assert "last: nothing new" in await home.ask("/schedules")
    assert rows(tmp_path, "SELECT count(*) FROM messages WHERE schedule = 1 AND reply IS NULL") == [(0,)]


async def test_prompts_of_a_watch_do_not_grow_and_a_restart_shows_the_same(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    prompts: list[ModelRequest] = []

    async def model(request: ModelRequest, emit: Emit) -> Reply:
        await trio.lowlevel.checkpoint()
        prompts.append(request)
        if "\nlook" in request.messages[-1].content:
            return Reply("", (call("visit", f"v{len(prompts)}"),))
        return NOTHING if request.messages[-1].role == "tool" else Reply("hello")

    wall = Wall()
    async with house(tmp_path, model, now=wall, schedule_limits=LIMITS, tools_for=visits) as home:
        assert await home.ask("hi") == "hello"
        for text in ("look here", "look there"):
            await home.schedules.add(of("turn", text), Every("*/10 * * * *"), MADRID)
        await trio.sleep(18 * 600)
        before = prompts[-1]
        texts = [message.content for message in before.messages if message.role == "user"]
        assert len(prompts) > 60
        assert len([text for text in texts if "\nlook" in text]) <= 5, "the last silent turn of each"
        assert len(before.messages) < 25
        assert "hi" not in texts, "silent turns do not keep a session from its end"
    prompts.clear()
    async with house(tmp_path, model, now=wall, schedule_limits=LIMITS, tools_for=visits) as home:
        await trio.sleep(700)
    assert [one for one in prompts[0].messages if one in before.messages][1:]
    assert abs(len(prompts[0].messages) - len(before.messages)) < 6
    assert rows(tmp_path, "SELECT count(*) > 100 FROM history") == [(1,)], "the history keeps all of it"


async def test_who_comes_back_sees_what_was_told_and_no_notes_for_the_model(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    model, wall = Script(Reply("A letter!")), Wall()
    async with house(tmp_path, model, now=wall, schedule_limits=LIMITS) as home:
        await home.schedules.add(of("turn", "look"), Every("*/10 * * * *"), MADRID)
        await home.schedules.add(of("text", "tea"), After(25), MADRID)
        await trio.sleep(45 * 60)
        told = [(one.question, one.answer) for one in await home.chat().recent()]
        assert told == [("look", "A letter!"), ("", "⏰ tea")]
        rows_ = await home.services.journal.ask(read_history("cli", told=True))
        stored = await home.services.journal.ask(read_transcript("cli"))
        shown = [(one.kind, one.parts[0].raw) for message in stored for one in entries_of(message)]
        assert shown == [("event", "look"), ("answer", "A letter!"), ("reply", "⏰ tea")]
        assert len(await home.services.journal.ask(read_history("cli"))) > len(rows_)


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("[The schedule 12 fires. What it says follows.]", ""),
        ("[The task 3 has ended. Its result follows.]", ""),
        ("[The schedule 4 has run a command without you: ls [a-z]*]", "ls [a-z]*"),
        ("[The schedule 1 asks this now. Its user may be away.]\nlook\n[here]", "look\n[here]"),
        ("[The user sends files.]", ""),
        ("[The user says meanwhile:]", ""),
        ("[The user answers what earlier turns have asked: yes 1 no 2]\nYes: [x]", "yes 1 no 2"),
        ("[The trigger door fires because of the events above.]\nopen", "open"),
        ("What is [The schedule 1 asks this now.]\nx", "What is [The schedule 1 asks this now.]\nx"),
    ],
)
def test_people_read_messages_without_the_notes_for_the_model(stored: str, shown: str) -> None:
    assert without_note(stored) == shown
