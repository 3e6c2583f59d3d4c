"""Turns that the end of a process interrupted: which go on, which ask, and what never happens twice."""

import json
import sqlite3
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rumi.agent.events import ConfirmationAsked
from rumi.agent.tool import Claims, Question, ToolResult
from rumi.chats.events import ChatEvent, Queued, Replied, TurnStarted
from rumi.chats.resuming import MOST_RESUMED, NOT_BEGUN, in_words, may_have_acted
from rumi.errors import RumiError
from rumi.models.model import Emit, Message, ModelRequest, Reply, ToolCall, ToolSpec
from rumi.platform.texts.replies import crashed, goes_on_later, restarted, stopped, went_on
from rumi.store.journal.records import BrokenTurn, HistoryEntry
from tests.chats.house import House, house
from tests.fakes.tools import Unasked

NOTE = f"\n\n{went_on('en')}"


@dataclass
class Act(Unasked):
    """Takes a while, and has an effect at its end. `only_reads`, `concurrent` as a test says."""

    name: str = "act"
    seconds: float = 0.0
    only_reads: bool = False
    concurrent: bool = False
    asks: bool = False
    done: list[str] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.spec = ToolSpec(self.name, "Does something.", {})
        self.always_asks = True

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        return Question("fetch", {"url": str(arguments.get("what"))}) if self.asks else None

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        what = str(arguments.get("what"))
        self.begun.append(what)
        await trio.sleep(self.seconds)
        self.done.append(what)
        return ToolResult(True, f"{self.name} {what}")


async def steps(request: ModelRequest, emit: Emit) -> Reply:
    """Does what the user says: `act 1 + look 2 ; think 5`; each step is a reply, with one or more calls."""
    index = max(n for n, m in enumerate(request.messages) if m.role == "user")
    wanted = request.messages[index].content.split(" ; ")
    behind = request.messages[index + 1 :]
    done = sum(m.role == "assistant" for m in behind)
    if done >= len(wanted):
        results = [m.content for m in behind if m.role == "tool"]
        return Reply(f"done: {results}")
    calls = [words.split() for words in wanted[done].split(" + ")]
    if calls[0][0] in ("think", "boom"):
        await trio.sleep(float(calls[0][1]))
        if calls[0][0] == "boom":
            raise RuntimeError
        results = [m.content for m in behind if m.role == "tool"]
        return Reply(f"done: {results}")
    made = [
        ToolCall(f"c{done}{n}", name, json.dumps({"what": what, "command": f"sleep {what}"}))
        for n, (name, what) in enumerate(calls)
    ]
    return Reply("", tuple(made))


@dataclass
class Sent(Act):
    """Knows in the next process how its call ended: `ended`, or nothing."""

    ended: ToolResult | None = None
    fails: bool = False

    async def outcome(self, arguments: Mapping[str, object]) -> ToolResult | None:
        await trio.lowlevel.checkpoint()
        if self.fails:
            raise RumiError("It cannot be looked up.")
        return self.ended


@dataclass
class Heard:
    house: House
    events: list[ChatEvent] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        return [event.what.text for event in self.events if isinstance(event.what, Replied)]

    @property
    def notices(self) -> list[str]:
        return [event.what.text for event in self.events if isinstance(event.what, Queued)]

    @property
    def turns(self) -> list[str]:
        return [event.turn for event in self.events if isinstance(event.what, TurnStarted)]

    async def question(self) -> ConfirmationAsked:
        with trio.fail_after(1000):
            while True:
                for event in self.events:
                    if isinstance(event.what, ConfirmationAsked):
                        self.house.services.hub.has_shown(event.what.id)
                        return event.what
                await trio.sleep(1)

    async def settled(self) -> None:
        with trio.fail_after(5000):
            await wait_all_tasks_blocked()
            await self.house.services.pending.all_replied()
            await wait_all_tasks_blocked()


@asynccontextmanager
async def life(path: Path, *tools: Any, answer: Any = steps, **more: Any) -> AsyncIterator[Heard]:
    """One process: leaving the block is its end, without any order."""

    async def listen(heard: Heard, *, task_status: trio.TaskStatus[None]) -> None:
        with heard.house.services.hub.listening() as events:
            task_status.started()
            while True:
                heard.events.append(await events.receive())

    async with (
        house(path, answer, tools_for=lambda view: tools, **more) as home,
        trio.open_nursery() as nursery,
    ):
        heard = Heard(home)
        await nursery.start(listen, heard)
        await home.inbox.chats.open("cli")
        yield heard
        nursery.cancel_scope.cancel()


async def killed_in(path: Path, text: str, *tools: Any, seconds: float = 100.0, **more: Any) -> None:
    """A process gets the message, and is killed while it works on it."""
    async with life(path, *tools, **more) as home:
        await home.house.inbox.accept("cli", text)
        await trio.sleep(seconds)


def ask(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path / "state.db")) as db:
        return db.execute(sql).fetchall()


@pytest.mark.parametrize(
    ("text", "acts", "answer"),
    [
        ("think 500", 0, "done: []"),
        ("act 1 ; think 500", 1, "done: ['act 1']"),
        ("act 1 + act 2 ; think 500", 2, "done: ['act 1', 'act 2']"),
        ("act 1 ; act 2 ; act 3 ; think 500", 3, "done: ['act 1', 'act 2', 'act 3']"),
    ],
)
async def test_a_turn_without_an_open_call_goes_on_at_its_last_step(
    autojump_clock: MockClock, tmp_path: Path, text: str, acts: int, answer: str
) -> None:
    act = Act()
    await killed_in(tmp_path, text, act)
    assert len(act.done) == acts
    before = ask(tmp_path, "SELECT id, turn, session, message FROM history")

    async def now_quick(request: ModelRequest, emit: Emit) -> Reply:
        with trio.move_on_after(1):
            return await steps(request, emit)
        results = [m.content for m in request.messages if m.role == "tool"]
        return Reply(f"done: {results}")

    async with life(tmp_path, act, answer=now_quick) as home:
        await home.settled()
        assert home.texts == [answer + NOTE]
        assert home.turns == ["t1"]
    assert len(act.done) == acts, "nothing is done twice"
    assert ask(tmp_path, "SELECT id, turn, session, message FROM history")[: len(before)] == before
    assert ask(tmp_path, "SELECT turn, reason, resumed FROM messages") == [("t1", "complete", 1)]


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("act 1", "act: 1 sleep 1"),
        ("act 1 + act 2", "act: 1 sleep 1"),
        ("look 1 ; act 2", "act: 2 sleep 2"),
        ("bash 500", "bash: sleep 500"),
    ],
)
async def test_a_turn_whose_open_call_may_have_acted_asks_and_names_it(
    autojump_clock: MockClock, tmp_path: Path, text: str, call: str
) -> None:
    act, look = Act(seconds=500), Act("look", only_reads=True)
    await killed_in(tmp_path, text, act, look)
    async with life(tmp_path, act, look) as home:
        await home.settled()
        (told,) = home.texts
        assert told.startswith(restarted("en", text))
        assert f"`{call}`" in told
        assert "can't know" in told
        assert not act.done
        begun, act.seconds = len(act.begun), 0
        assert (await home.house.ask("/retry")).startswith("done: ")
        assert len(act.begun) > begun or text.startswith("bash")
    reasons = ask(tmp_path, "SELECT reason FROM messages")
    assert reasons == [("interrupted",), ("complete",)]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("send 1", "done: ['sent once']"),
        ("act 0 ; send 1", "done: ['act 0', 'sent once']"),
        ("send 1 + act 2", f"done: ['sent once', '{NOT_BEGUN}']"),
        ("send 1 ; act 2", "done: ['sent once', 'act 2']"),
    ],
)
async def test_a_turn_goes_on_with_the_outcome_that_its_tool_knows(
    autojump_clock: MockClock, tmp_path: Path, text: str, answer: str
) -> None:
    act, send = Act(), Sent("send", 500)
    await killed_in(tmp_path, text, act, send)
    assert send.begun == ["1"]
    send.ended = ToolResult(True, "sent once")
    async with life(tmp_path, act, send) as home:
        await home.settled()
        assert home.texts == [answer + NOTE]
    assert send.begun == ["1"], "it is not made again"


async def test_an_outcome_with_words_of_others_taints_the_turn(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    send = Sent("send", 500)
    await killed_in(tmp_path, "send 1", send)
    send.ended = ToolResult(True, "sent: 250 do as I say", tainted=True)
    async with life(tmp_path, send) as home:
        await home.settled()
    assert ask(
        tmp_path, "SELECT tainted FROM history WHERE message LIKE '%as I say%' ORDER BY id LIMIT 1"
    ) == [(1,)]


@pytest.mark.parametrize("fails", [False, True])
async def test_a_turn_ends_if_its_tool_does_not_know_the_outcome(
    autojump_clock: MockClock, tmp_path: Path, fails: bool
) -> None:
    send = Sent("send", 500, fails=fails)
    await killed_in(tmp_path, "send 1", send)
    async with life(tmp_path, send) as home:
        await home.settled()
        assert home.texts[0].startswith(restarted("en", "send 1"))
    assert send.begun == ["1"]


async def test_a_call_that_waits_for_a_yes_has_no_outcome_yet(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    send = Sent("send", asks=True, ended=ToolResult(False, "not sent"))
    await killed_in(tmp_path, "send 1", send)
    async with life(tmp_path, send) as home:
        asked = await home.question()
        assert await home.house.inbox.chats.answer("cli", asked.id, True)
        await home.settled()
        assert home.texts == ["done: ['send 1']" + NOTE]


@pytest.mark.parametrize("text", ["look 1", "look 1 + look 2", "look 1 + act 2", "act 0 ; look 1"])
async def test_a_call_that_only_reads_is_repeated(
    autojump_clock: MockClock, tmp_path: Path, text: str
) -> None:
    act, look = Act(), Act("look", 500, only_reads=True, concurrent=True)
    await killed_in(tmp_path, text, act, look)
    acted = list(act.done)
    look.seconds = 0
    async with life(tmp_path, act, look) as home:
        await home.settled()
        (told,) = home.texts
        assert told.startswith("done: ")
        assert told.count("look") == text.count("look")
        assert told.count("act") == text.count("act")
        assert "interrupted" not in told
    assert len(act.done) == text.count("act")
    assert act.done[: len(acted)] == acted
    calls, results = 0, []
    for (row,) in ask(tmp_path, "SELECT message FROM history ORDER BY id"):
        message = json.loads(row)
        calls += len(message["tool_calls"])
        results += [message["tool_call_id"]] if message["role"] == "tool" else []
    assert calls == len(results) == len(set(results)), "each call has one result"


async def test_a_call_that_waits_for_a_yes_is_asked_again_and_made_once(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    act = Act(asks=True)
    await killed_in(tmp_path, "act 1", act)
    assert ask(tmp_path, "SELECT asking FROM messages") == [("1 c00",)]
    async with life(tmp_path, act) as home:
        asked = await home.question()
        assert not act.done
        assert await home.house.inbox.chats.answer("cli", asked.id, True)
        await home.settled()
        assert home.texts == ["done: ['act 1']" + NOTE]
    assert act.done == ["1"]
    assert ask(tmp_path, "SELECT asking FROM messages") == [("",)]


async def test_a_call_that_got_its_yes_is_not_made_again(autojump_clock: MockClock, tmp_path: Path) -> None:
    act = Act(asks=True, seconds=500)
    async with life(tmp_path, act) as home:
        await home.house.inbox.accept("cli", "act 1")
        asked = await home.question()
        assert await home.house.inbox.chats.answer("cli", asked.id, True)
        await trio.sleep(1)
    async with life(tmp_path, act) as home:
        await home.settled()
        assert home.texts[0].startswith(restarted("en", "act 1"))
    assert act.begun == ["1"]


async def test_a_typed_yes_of_an_earlier_process_shares_the_reply(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    act = Act(asks=True)
    await killed_in(tmp_path, "act 1", act)
    with closing(sqlite3.connect(tmp_path / "state.db")) as db, db:  # heard, and killed before the call
        db.execute("INSERT INTO messages (chat, text, received) VALUES ('cli', 'yes', 0)")
    async with life(tmp_path, act) as home:
        asked = await home.question()
        assert not act.done, "the old yes is no answer to the new question"
        await home.house.inbox.chats.answer("cli", asked.id, True)
        await home.settled()
    assert len({reply for (reply,) in ask(tmp_path, "SELECT reply FROM messages")}) == 1


async def test_a_turn_is_resumed_twice_and_then_asks(autojump_clock: MockClock, tmp_path: Path) -> None:
    texts: list[str] = []
    for _ in range(1 + MOST_RESUMED + 1):
        async with life(tmp_path) as home:
            if not ask(tmp_path, "SELECT 1 FROM messages"):
                await home.house.inbox.accept("cli", "think 500")
            await trio.sleep(100)
            texts += home.texts
    assert texts == [restarted("en", "think 500")]
    assert ask(tmp_path, "SELECT resumed, reason FROM messages") == [(MOST_RESUMED, "interrupted")]


async def test_a_turn_that_crashes_its_chat_is_not_resumed_and_what_waits_behind_it_runs(
    autojump_clock: MockClock,
    tmp_path: Path,
) -> None:
    async with life(tmp_path, max_queued=5) as home:
        for text in ("boom 500", "think 2", "think 3"):
            await home.house.inbox.accept("cli", text)
        await trio.sleep(100)
    async with life(tmp_path, max_queued=5) as home:
        await home.settled()
        assert home.texts == [crashed("en"), "done: []", "done: []"]


@pytest.mark.parametrize(
    ("later", "texts", "reasons"),
    [
        (("/stop",), ["⏹"], ["stopped"]),
        (("/stop", "/stop"), ["⏹"], ["stopped"]),
        (("/reset",), ["⏹", "⚠️ I was restarted before /reset"], ["stopped"]),
        (("/new",), ["⚠️ I was restarted before /new", "done"], ["complete"]),
    ],
)
async def test_a_stop_that_was_said_before_the_kill_still_counts(
    autojump_clock: MockClock,
    tmp_path: Path,
    later: Sequence[str],
    texts: Sequence[str],
    reasons: Sequence[str],
) -> None:
    await killed_in(tmp_path, "think 500")
    with closing(sqlite3.connect(tmp_path / "state.db")) as db, db:
        for text in later:
            db.execute("INSERT INTO messages (chat, text, received) VALUES ('cli', ?, 0)", (text,))
    async with life(tmp_path) as home:
        await home.settled()
        assert [text.startswith(start) for text, start in zip(home.texts, texts, strict=True)] == [
            True
        ] * len(texts)
    found = [reason for (reason,) in ask(tmp_path, "SELECT reason FROM messages WHERE turn IS NOT NULL")]
    assert found == list(reasons)


async def test_messages_behind_a_resumed_turn_run_in_order_however_many_they_are(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with life(tmp_path, max_queued=5) as home:
        for text in ("think 500", *(f"think {n}" for n in range(1, 6))):
            await home.house.inbox.accept("cli", text)
        await trio.sleep(10)
    async with life(tmp_path) as home:  # where nothing may wait any more
        await home.settled()
        assert home.texts == ["done: []" + NOTE] + ["done: []"] * 5
    assert [turn for (turn,) in ask(tmp_path, "SELECT turn FROM history GROUP BY turn ORDER BY min(id)")] == [
        f"t{n}" for n in range(1, 7)
    ]


async def test_a_retry_and_a_continue_go_on_like_other_turns(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    act = Act()
    await killed_in(tmp_path, "bash 500", act)
    async with life(tmp_path, act) as home:
        await home.settled()
        await home.house.inbox.accept("cli", "/retry")
        await trio.sleep(5)
    with closing(sqlite3.connect(tmp_path / "state.db")) as db, db:  # its command has ended
        result = json.dumps(
            {"role": "tool", "content": "exit code 0", "tool_calls": [], "tool_call_id": "c00"}
        )
        db.execute(
            "INSERT INTO history (chat, session, turn, message, tainted, created)"
            " VALUES ('cli', 1, 't2', ?, 0, 0)",
            (result,),
        )
    async with life(tmp_path, act) as home:
        await home.settled()
        assert home.texts == ["done: ['exit code 0']" + NOTE]
        assert await home.house.ask("/retry") == "There is nothing to retry."


# Ending in order


@pytest.mark.parametrize("text", ["bash 600", "act 1", "look 1", "act 1 + act 2"])
async def test_a_process_that_ends_interrupts_a_call_after_a_few_seconds_and_the_model_is_told(
    autojump_clock: MockClock, tmp_path: Path, text: str
) -> None:
    act, look = Act(seconds=600), Act("look", 600, only_reads=True)
    async with life(tmp_path, act, look) as home:
        await home.house.inbox.accept("cli", text)
        await trio.sleep(10)
        began = trio.current_time()
        await home.house.inbox.chats.wind_down(20, 15)
        assert 5 <= trio.current_time() - began < 6
        assert home.texts == []
        await wait_all_tasks_blocked()
        assert home.notices == [goes_on_later("en")]
    async with life(tmp_path, act, look) as home:
        await home.settled()
        (told,) = home.texts
        assert told.endswith(NOTE)
        assert "interrupted: Rumi was restarted, and ended this call after 15 s" in told
        assert told.count("not run: Rumi was restarted") == text.count(" + ")
    assert not act.done
    assert not look.done


async def test_a_model_call_may_end_and_a_question_is_asked_again(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    act = Act(asks=True)
    async with life(tmp_path, act) as home:
        await home.house.inbox.accept("cli", "think 15")
        await home.house.inbox.accept("other", "act 1")
        await trio.sleep(2)
        began = trio.current_time()
        await home.house.inbox.chats.wind_down(20, 15)
        assert 12 < trio.current_time() - began < 15
        assert home.texts == ["done: []"]
        assert home.notices == [goes_on_later("en")]
    async with life(tmp_path, act) as home:
        await home.house.inbox.chats.open("other")
        asked = await home.question()
        assert await home.house.inbox.chats.answer("other", asked.id, True)
        await home.settled()
        assert home.texts == ["done: ['act 1']" + NOTE]
    assert act.done == ["1"]


async def test_a_stop_while_the_process_ends_counts(autojump_clock: MockClock, tmp_path: Path) -> None:
    act = Act(seconds=600)
    async with life(tmp_path, act) as home:
        await home.house.inbox.accept("cli", "act 1")
        await trio.sleep(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(home.house.inbox.chats.wind_down, 20, 15)
            await trio.sleep(2)
            await home.house.inbox.accept("cli", "/stop")
        assert home.texts == [stopped("en")]
        assert home.notices == []
    async with life(tmp_path, act) as home:
        await home.settled()
        assert home.texts == []


async def test_a_process_that_ends_begins_nothing_more(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with life(tmp_path, max_queued=5) as home:
        await home.house.inbox.accept("cli", "think 3")
        await home.house.inbox.accept("cli", "think 1")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(home.house.inbox.chats.wind_down, 20, 15)
            await trio.sleep(1)
            await home.house.inbox.accept("other", "think 1")
        assert home.turns == ["t1"]
    async with life(tmp_path) as home:
        await home.house.inbox.chats.open("other")
        await home.settled()
        assert sorted(home.texts) == ["done: []", "done: []"]


# Which calls may have acted


def broken(*calls: str, results: Sequence[str] = (), asking: str = "") -> BrokenTurn:
    made = tuple(ToolCall(name, name.rstrip("123"), "{}") for name in calls)
    entries = [HistoryEntry("t1", Message("user", "x")), HistoryEntry("t1", Message("assistant", "", made))]
    entries += [HistoryEntry("t1", Message("tool", "y", tool_call_id=call)) for call in results]
    return BrokenTurn(1, tuple(entries), 1, asking)


@dataclass
class Remote(Act):
    """A tool of an MCP server."""

    claims: Claims | None = None


TOOLS = (
    Act("act"),
    Act("look", only_reads=True, concurrent=True),
    Act("research", concurrent=True),
    Remote("list", claims=Claims({}, reads=True, destroys=False)),
    Remote("put", claims=Claims({}, reads=False, destroys=False)),
)


@pytest.mark.parametrize(
    ("turn", "call"),
    [
        (broken(), ""),
        (broken("act"), "act"),
        (broken("act", results=["act"]), ""),
        (broken("look"), ""),
        (broken("look", "act"), ""),  # which has not begun
        (broken("look", "act", results=["look"]), "act"),
        (broken("look1", "look2", "research"), "research"),  # which ran beside them
        (broken("act", asking="1 act"), ""),
        (broken("act1", "act2", asking="1 act2"), "act1"),
        (broken("act", asking="2 act"), "act"),  # an earlier call with the same id waited
        (broken("list"), ""),
        (broken("put"), "put"),
        (broken("unknown"), "unknown"),
    ],
)
def test_only_a_call_that_has_begun_and_changes_something_may_have_acted(turn: BrokenTurn, call: str) -> None:
    found = may_have_acted(turn, TOOLS)
    assert (found.id if found else "") == call


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (ToolCall("1", "bash", '{"command": "make deploy", "timeout_s": 9}'), "bash: make deploy"),
        (ToolCall("1", "bash", '{"command": "echo `date`\\nrm x"}'), "bash: echo 'date' rm x"),
        (ToolCall("1", "send_file", '{"path": "a.txt"}'), "send_file: a.txt"),
        (ToolCall("1", "put", "not json"), "put: not json"),
        (ToolCall("1", "put", json.dumps({"text": "x" * 500})), "put: " + "x" * 115),
    ],
)
def test_an_interrupted_call_is_one_short_line(call: ToolCall, words: str) -> None:
    said = in_words(call)
    assert said.startswith(words[:100])
    assert len(said) <= 121
    assert "\n" not in said
