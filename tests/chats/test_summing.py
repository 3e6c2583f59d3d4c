"""History that no longer fits: a summary stands for whole exchanges, and the prompt keeps its bounds."""

import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rumi.agent.compaction.form import INSTRUCTIONS
from rumi.agent.compaction.summaries import CUT, GAP, KEPT_TOKENS, NO_SUMMARY
from rumi.agent.skills.messages import ForPrompt, InPrompt, PromptSkills
from rumi.agent.tool import ToolResult
from rumi.agent.tools.todo import TodoTool
from rumi.chats.session import HistoryBudget
from rumi.memory.messages import Fact
from rumi.models.fitting import messages_tokens, request_tokens
from rumi.models.model import Emit, Message, ModelError, ModelRequest, Reply, ToolCall, ToolSpec
from rumi.store.journal.history import summarize
from rumi.store.journal.inbox import load_chat
from rumi.store.journal.records import HistoryEntry, Summary
from tests.chats.house import House, echo, house, limited
from tests.chats.test_confirmations import Page
from tests.fakes.summaries import summary_of
from tests.fakes.tools import Unasked

MESSAGES = 12
"""What the prompt may hold in these houses."""

MORE = (pytest.mark.long, pytest.mark.more)


@dataclass
class Mind:
    """A model that echoes, reads pages where it is told to, and sums up in its own words.

    `summed` is what it was given for that, `prompts` what for turns.
    """

    takes_s: float = 0.0
    fails: bool = False
    summed: list[str] = field(default_factory=list)
    prompts: list[ModelRequest] = field(default_factory=list)

    async def __call__(self, request: ModelRequest, emit: Emit) -> Reply:
        if request.messages[0].content != INSTRUCTIONS:
            self.prompts.append(request)
            if request.messages[-1].content == "page":
                return Reply("", (ToolCall("c", "page", "{}"),))
            return await echo(request, emit)
        self.summed.append(request.messages[1].content)
        await trio.sleep(self.takes_s)
        if self.fails:
            raise ModelError("unreachable", "the line is cut")
        return Reply(summary_of(f"summary {len(self.summed)}"))

    @property
    def last(self) -> list[str]:
        """What the last turn's prompt holds besides the instructions."""
        return [message.content for message in self.prompts[-1].messages[1:]]


def living(path: Path, mind: Mind, **more: Any) -> AbstractAsyncContextManager[House]:
    more = {"thinks": True, "history_messages": MESSAGES, "tools_for": lambda view: (Page(),), **more}
    return house(path, mind, **more)


def told(text: str) -> str:
    """The message that stands for what this summary replaces."""
    return f"[Summary of the earlier conversation]\n{text}\n[End of the summary]"


async def talk(home: House, first: int, last: int) -> None:
    for number in range(first, last + 1):
        assert await home.ask(f"m{number}") == f"you said m{number}"
        await trio.sleep(0.1)


async def test_what_no_longer_fits_is_told_in_a_summary(tmp_path: Path, autojump_clock: MockClock) -> None:
    mind = Mind()
    async with living(tmp_path, mind) as home:
        await talk(home, 1, 3)
        assert mind.summed == []
        await talk(home, 4, 6)
    assert [line for line in mind.summed[0].splitlines() if line.startswith("User")] == [
        "User: m1",
        "User: m2",
        "User: m3",
    ]
    assert mind.last[0] == told(summary_of("summary 1"))
    assert mind.last[1:3] == ["m4", "you said m4"]
    assert mind.last[-1] == "m6"
    assert len(mind.summed) == 1


async def test_a_summary_takes_in_the_one_before_and_survives_a_restart(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    mind = Mind()
    async with living(tmp_path, mind) as home:
        await talk(home, 1, 20)
        before = len(mind.summed)
        record = await home.services.journal.ask(load_chat("cli", 100))
    assert before > 2
    assert mind.summed[1].startswith("Earlier summary: ## Goal\nsummary 1\n")
    assert len(record.history) <= MESSAGES
    async with living(tmp_path, mind) as home:
        await home.ask("again")
    assert mind.last[0].splitlines()[2] == f"summary {before}"
    assert [text for text in mind.last if text.startswith("m")][-1] == "m20"


async def test_it_delays_no_reply_and_only_one_is_made_at_a_time(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    mind = Mind(takes_s=30)
    async with living(tmp_path, mind) as home:
        await talk(home, 1, 9)
        assert trio.current_time() < 5
        assert len(mind.summed) == 1
        assert mind.last[0] == NO_SUMMARY  # simply cut, as long as there is none
        await trio.sleep(90)
        await talk(home, 10, 10)
        assert mind.last[0] == told(summary_of(f"summary {len(mind.summed)}"))
        assert said_in(*mind.summed, *mind.last) == [f"m{number}" for number in range(1, 11)]


async def test_what_was_cut_before_there_was_a_summary_is_told_in_the_next_one(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    mind = Mind(takes_s=30)
    async with living(tmp_path, mind) as home:
        await talk(home, 1, 16)
        await trio.sleep(31)
        record = await home.services.journal.ask(load_chat("cli", 100))
        assert record.summary is not None
        assert (record.summary.text, record.summary.gap) == (summary_of("summary 1"), True)
        await talk(home, 17, 17)
        assert mind.last[0].splitlines()[2::7] == ["summary 1", GAP]
    async with living(tmp_path, mind) as home:  # the process ended before the second one
        await talk(home, 18, 18)
        await trio.sleep(90)
        await talk(home, 19, 19)
        record = await home.services.journal.ask(load_chat("cli", 100))
        assert record.summary is not None
        assert not record.summary.gap
    assert said_in(*mind.summed, *mind.last) == [f"m{number}" for number in range(1, 20)]


def said_in(*texts: str) -> list[str]:
    """What the user said in these texts, in order."""
    found = set(re.findall(r"\bm[0-9]+\b", "\n".join(texts)))
    return sorted(found, key=lambda word: int(word[1:]))


async def test_where_it_fails_or_takes_for_ever_the_history_is_simply_cut(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    for name, mind in (("fails", Mind(fails=True)), ("hangs", Mind(takes_s=1e9))):
        (tmp_path / name).mkdir()
        async with living(tmp_path / name, mind) as home:
            await talk(home, 1, 20)
            assert mind.last[0] == NO_SUMMARY
            assert mind.last[1].startswith("m")
            assert len(mind.last) <= MESSAGES + 1
            await trio.sleep(300)
            await talk(home, 21, 22)
            assert 1 < len(mind.summed) < 10


async def test_a_reset_ends_it_and_what_comes_is_a_new_conversation(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    mind = Mind(takes_s=30)
    async with living(tmp_path, mind) as home:
        await talk(home, 1, 6)
        await home.ask("/reset")
        await trio.sleep(60)
        await talk(home, 7, 7)
        assert mind.last == ["m7"]
        record = await home.services.journal.ask(load_chat("cli", 100))
        assert record.summary is None


async def test_what_strangers_said_stays_marked_in_a_summary_and_the_session_stays_tainted(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    mind = Mind()
    async with living(tmp_path, mind) as home:
        assert await home.ask("page") == "you said page"
        await trio.sleep(0.1)
        await talk(home, 1, 8)
    async with living(tmp_path, mind) as home:
        await talk(home, 9, 9)
        record = await home.services.journal.ask(load_chat("cli", 100))
    assert record.summary is not None
    assert record.summary.tainted
    assert record.tainted
    assert "http://a.example/" in record.summary.links
    assert '<page source="summary of the earlier conversation">\n## Goal\nsummary' in mind.last[0]
    assert mind.last[0].endswith("</page>")


async def test_where_facts_and_skills_leave_little_room_it_is_made_sooner(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    mind = Mind()
    more: dict[str, Any] = {"context_tokens": 4096, "history_messages": 100}
    async with living(tmp_path, mind, memory=a_lot, skills=a_lot, **more) as home:
        for number in range(24):
            await home.ask(f"m{number} " + "what " * 60)
            await trio.sleep(0.1)
    assert mind.summed
    assert not [p for p in mind.prompts if not has_all(p)]


def has_all(request: ModelRequest) -> bool:
    """Whether the prompt has the whole conversation, or a summary of what it lacks."""
    first = request.messages[1].content
    return first.startswith(("m0 ", "[Summary"))


async def test_without_a_model_that_thinks_nothing_is_summed_up(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    mind = Mind()
    async with living(tmp_path, mind, thinks=False) as home:
        await talk(home, 1, 20)
    assert mind.summed == []
    assert len(mind.last) <= MESSAGES


def test_one_exchange_that_fills_the_room_alone_is_summed_up_too() -> None:
    entries = [
        HistoryEntry("t1", Message("user", "hi")),
        HistoryEntry("t1", Message("assistant", "x" * 3000)),
    ]
    assert HistoryBudget(1000, 0).outgrown(entries) == tuple(entries)
    assert HistoryBudget(1600, 0).outgrown(entries) == tuple(entries)
    assert HistoryBudget(1800, 0).outgrown(entries) == ()
    two = [*entries, HistoryEntry("t2", Message("user", "ok"))]
    assert HistoryBudget(1600, 0).outgrown(two) == tuple(entries)
    assert HistoryBudget(1, 0, messages=1).outgrown([]) == ()


async def test_a_model_that_writes_no_summary_gets_a_cut_that_says_so_and_is_not_asked_for_ever(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    asked = 0

    async def model(request: ModelRequest, emit: Emit) -> Reply:
        nonlocal asked
        if request.messages[0].content != INSTRUCTIONS:
            return await echo(request, emit)
        await trio.lowlevel.checkpoint()
        asked += 1
        return Reply("I'm sorry, but I can't help with that.")

    async with house(tmp_path, model, thinks=True, history_messages=MESSAGES) as home:
        await talk(home, 1, 20)
        record = await home.services.journal.ask(load_chat("cli", 100))
    assert record.summary is not None
    assert (record.summary.text, record.summary.gap) == (CUT, False)
    assert asked <= 12


async def test_a_summary_of_an_earlier_version_is_shown_and_taken_into_the_next_one(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    old = "## Goal\nto pay\n## Files and addresses\nbill.pdf"
    mind = Mind()
    async with living(tmp_path, mind) as home:
        await talk(home, 1, 2)
        await home.services.journal.ask(summarize("cli", 1, Summary(await first_turn(home), old)))
    async with living(tmp_path, mind) as home:
        await talk(home, 3, 3)
        assert mind.last[0] == told(old)
        await talk(home, 4, 8)
    assert mind.summed[0].startswith(f"Earlier summary: {old}\n")


async def first_turn(home: House) -> str:
    record = await home.services.journal.ask(load_chat("cli", 100))
    return record.history[0].turn


# Within a long exchange


def long_exchange(turn: str, steps: int, size: int = 3_000) -> list[HistoryEntry]:
    """A request, steps of a call with a result of this many characters, and an answer."""
    messages = [Message("user", f"do {turn}")]
    for number in range(steps):
        call = ToolCall(f"{turn}.{number}", "work", "{}")
        messages += [Message("assistant", "", (call,)), Message("tool", "x" * size, tool_call_id=call.id)]
    return [HistoryEntry(turn, message) for message in (*messages, Message("assistant", "done"))]


@pytest.mark.parametrize("context", [8_192, 32_768, 131_072, 500_000])
def test_the_last_steps_of_a_long_exchange_stay_up_to_20000_tokens(context: int) -> None:
    tokens = context * 3 // 4
    budget, entries = HistoryBudget(tokens, tokens // 10), long_exchange("t1", tokens // 1_000)
    gone = budget.outgrown(entries)
    kept = entries[len(gone) :]
    assert kept[0].message.role == "assistant"
    assert kept[0].message.tool_calls
    check_calls([entry.message for entry in gone])
    check_calls([entry.message for entry in kept])
    size = messages_tokens(entry.message for entry in kept)
    most = min(KEPT_TOKENS, tokens * 0.5 * 0.35)
    assert most - 1_100 < size <= most
    before = [*long_exchange("t0", 3), *entries[:-1], HistoryEntry("t2", Message("user", "and now?"))]
    assert len(budget.outgrown(before)) in range(len(gone), len(gone) + 11)


def test_short_exchanges_stay_or_go_as_a_whole() -> None:
    entries = [entry for n in range(99) for entry in long_exchange(f"t{n}", 0)]
    entries = [HistoryEntry(e.turn, Message(e.message.role, e.message.content * 90)) for e in entries]
    gone = HistoryBudget(20_000, 1_000).outgrown(entries)
    assert gone
    assert len(gone) % 2 == 0


@dataclass
class Steps(Unasked):
    """A tool with long results."""

    spec: ToolSpec = field(default_factory=lambda: ToolSpec("step", "Works.", {}))

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        await trio.lowlevel.checkpoint()
        return ToolResult(True, f"{arguments['n']}: {'x' * 3_000}")


async def test_a_long_turn_is_summed_up_but_for_its_last_steps_which_stay_after_a_restart(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    prompts: list[ModelRequest] = []
    summed: list[str] = []
    list_of = {"items": [{"text": "lay the bricks", "state": "doing"}, {"text": "paint", "state": "open"}]}

    async def model(request: ModelRequest, emit: Emit) -> Reply:
        await trio.lowlevel.checkpoint()
        if request.messages[0].content == INSTRUCTIONS:
            summed.append(request.messages[1].content)
            return Reply(summary_of("a house is built"))
        prompts.append(request)
        number = sum(bool(message.tool_calls) for message in since_last_user(request))
        if request.messages[-1].content != "build" and not number:
            return Reply("it is blue")
        if number == 1:
            return Reply("", (ToolCall("list", "todo", json.dumps(list_of)),))
        return (
            Reply("", (ToolCall(f"c{number}", "step", f'{{"n": {number}}}'),))
            if number < 16
            else Reply("built")
        )

    more: dict[str, Any] = {"thinks": True, "context_tokens": 32_768, "agent": limited(max_turns=30)}
    more["tools_for"] = lambda view: (Steps(), TodoTool())
    async with house(tmp_path, model, **more) as home:
        assert await home.ask("build") == "built"
        await trio.sleep(1)
        assert await home.ask("which colour?") == "it is blue"
        record = await home.services.journal.ask(load_chat("cli", 100))
    async with house(tmp_path, model, **more) as home:
        assert await home.ask("which colour again?") == "it is blue"
    assert len(summed) == 1
    assert "User: build" in summed[0]
    assert record.summary is not None
    assert not record.summary.gap
    first, *kept = prompts[-2].messages[1:-1]
    assert "a house is built" in first.content
    assert "- [doing] lay the bricks\n- [open] paint" in first.content
    assert "The user's last request: build" in first.content
    assert [message.content[:3] for message in kept if message.role == "tool"] == ["13:", "14:", "15:"]
    check_calls(kept)
    # The next process continues with exactly the same prompt.
    assert prompts[-1].messages[1 : len(kept) + 3] == prompts[-2].messages[1:]


# Any conversation


CONTEXT_TOKENS = 8192
PROMPT_TOKENS = CONTEXT_TOKENS // 2


def conversation_of(random: Random, turns: int) -> list[list[HistoryEntry]]:
    """Turns of all kinds: short and long ones, many calls at once, cut off in the middle, read the web."""
    whole = []
    for number in range(1, turns + 1):
        turn, tainted = f"t{number}", random.random() < 0.1
        words = random.choice((3, 30, 300, 1200))
        said = [
            HistoryEntry(
                turn, Message("user", "what " * random.randint(1, words)), links=(f"http://{number}/",)
            )
        ]
        for step in range(random.choice((0, 0, 1, 2, 5))):
            calls = tuple(
                ToolCall(f"{turn}.{step}.{n}", "bash", json.dumps({"command": "x" * random.randint(1, 300)}))
                for n in range(random.choice((1, 1, 3)))
            )
            said.append(HistoryEntry(turn, Message("assistant", "", calls), tainted))
            for call in calls:
                result = Message("tool", "out " * random.choice((1, 50, 4000)), tool_call_id=call.id)
                said.append(HistoryEntry(turn, result, tainted))
        said.append(HistoryEntry(turn, Message("assistant", "answer " * random.randint(1, words)), tainted))
        whole.append(said[: random.randint(1, len(said))] if random.random() < 0.1 else said)
    return whole


@pytest.mark.parametrize(
    "seeds",
    [
        range(10),
        pytest.param(range(10, 29), marks=pytest.mark.long),
        *(pytest.param(range(at, at + 19), marks=MORE) for at in range(29, 200, 19)),
    ],
    ids=lambda seeds: f"{seeds[0]}",
)
async def test_the_prompt_stays_within_the_context_and_calls_stay_with_their_results(
    autojump_clock: MockClock, seeds: Sequence[int]
) -> None:
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:  # thousands of commits: no disk's business
        assert sum([await check_conversation(Path(folder) / f"{seed}", Random(seed)) for seed in seeds])


async def check_conversation(path: Path, random: Random) -> int:
    """A conversation in a real chat, every prompt of which is looked at; how many summaries there were."""
    whole = conversation_of(random, random.randint(3, 25))
    asked: list[ModelRequest] = []
    summed = 0

    async def model(request: ModelRequest, emit: Emit) -> Reply:
        nonlocal summed
        await trio.lowlevel.checkpoint()
        asked.append(request)
        if request.messages[0].content == INSTRUCTIONS:
            summed += 1
            if random.random() < 0.2:
                raise ModelError("unreachable", "cut")
            return Reply(summary_of("so it was " * random.choice((5, 500, 5000))))
        steps = whole[len(turns_begun) - 1]
        done = sum(m.role == "assistant" for m in since_last_user(request))
        replies = [entry.message for entry in steps if entry.message.role == "assistant"]
        if done >= len(replies):
            return Reply("done")
        return Reply(replies[done].content, () if request.words_only else replies[done].tool_calls)

    turns_begun: list[int] = []
    path.mkdir()
    more: dict[str, Any] = {"thinks": True, "context_tokens": CONTEXT_TOKENS, "memory": a_lot}
    more["skills"] = a_lot
    more["history_messages"] = random.choice((4, 12, 40))
    restart = random.randint(1, len(whole))
    for part in (whole[:restart], whole[restart:]):
        async with house(path, model, **more) as home:
            for turn in part:
                turns_begun.append(1)
                await home.ask(turn[0].message.content)
                if random.random() < 0.7:
                    await trio.sleep(1)
    for request in asked:
        assert request_tokens(request) <= CONTEXT_TOKENS
        check_calls(request.messages)
    return summed


async def a_lot(request: object) -> object:
    """More facts, or skills, than a small prompt has room for."""
    await trio.lowlevel.checkpoint()
    if isinstance(request, ForPrompt):
        return PromptSkills(tuple(InPrompt(f"skill-{n}", "does " * 200) for n in range(request.limit)), 400)
    return tuple(Fact(f"key {n}", "value " * 100) for n in range(100))


def since_last_user(request: ModelRequest) -> Sequence[Message]:
    index = max(n for n, message in enumerate(request.messages) if message.role == "user")
    return request.messages[index:]


def check_calls(messages: Sequence[Message]) -> None:
    """Every call is followed by its result, and every result follows its call."""
    waiting: list[str] = []
    for message in messages:
        if message.role == "tool":
            assert message.tool_call_id is not None
            waiting.remove(message.tool_call_id)
        else:
            assert waiting == []
            waiting = [call.id for call in message.tool_calls]
    assert waiting == []
