"""What a chat knows of its user: facts in its turns, and what is learned from sessions when they end."""

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from actors import Request
from rumi.agent.skills.messages import ForPrompt, InPrompt, PromptSkills
from rumi.chats.fact_extractor import AGAIN_S, EXTRACT_S, SessionEnded
from rumi.memory.messages import MemoryUnavailable, NewFact
from rumi.memory.rows import remember_fact, store_extracted
from rumi.models.model import Emit, ModelError, ModelRequest, Reply
from rumi.store.journal.extraction import read_unextracted
from tests.chats.house import House, echo, house, reply_to

EPOCH = 1.0e9
TTL_S = 3600.0
SAID = "json_extract(message, '$.role') != 'system'"
"""What in the history is no note of the program."""
ROSARIO = ("city", "lives in Rosario")


def now() -> float:
    return EPOCH + trio.current_time()


def is_extraction(request: ModelRequest) -> bool:
    """Whether it is facts that the model is asked for."""
    return '{"facts"' in request.messages[0].content


@dataclass
class Mind:
    """A model that answers turns by an echo, and draws these facts from sessions, after that many seconds.

    `lessons` is what it was given to draw from; `fails` how many times it cannot be reached.
    """

    facts: tuple[tuple[str, str], ...] = (ROSARIO,)
    takes_s: float = 0.0
    fails: int = 0
    says: str | None = None
    extractions: list[str] = field(default_factory=list)
    prompts: list[ModelRequest] = field(default_factory=list)

    async def __call__(self, request: ModelRequest, emit: Emit) -> Reply:
        if not is_extraction(request):
            self.prompts.append(request)
            return await echo(request, emit)
        self.extractions.append(request.messages[1].content)
        await trio.sleep(self.takes_s)
        if self.fails:
            self.fails -= 1
            raise ModelError("unreachable", "the line is cut")
        if self.says is not None:
            return Reply(self.says)
        return Reply(json.dumps({"facts": [{"key": key, "value": value} for key, value in self.facts]}))


def living(path: Path, mind: Mind, **more: Any) -> AbstractAsyncContextManager[House]:
    more = {"remembers": True, "now": now, "session_ttl_s": TTL_S, **more}
    return house(path, mind, **more)


@asynccontextmanager
async def settled(path: Path, mind: Mind, **more: Any) -> AsyncIterator[House]:
    """A house that has had the time to do what was due when it started."""
    async with living(path, mind, **more) as home:
        await trio.sleep(1)
        yield home


def rows(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(path / "state.db")) as db:
        return db.execute(query).fetchall()


def kept(path: Path) -> int:
    """How many entries of history there are."""
    return int(rows(path, f"SELECT count(*) FROM history WHERE {SAID}")[0][0])


# Facts in turns


async def test_a_turn_knows_its_users_facts_and_nobody_elses(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    mind = Mind()
    async with living(tmp_path, mind) as home:
        assert home.services.context.memory is not None
        await home.services.context.memory(remember_fact("tg7", NewFact("city", "Rosario"), chat="tg7"))
        await home.ask("hello", "tg7")
        await home.ask("hello", "tg8")
        await home.ask("hello", "tg7_3")
    with_facts = ["<memory>" in prompt.messages[0].content for prompt in mind.prompts]
    assert with_facts == [True, False, True]
    assert "- city: Rosario" in mind.prompts[0].messages[0].content


async def test_a_turn_goes_on_without_facts_when_the_memory_fails_or_is_silent(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    for slow_s in (0.0, 1000.0):

        async def broken(request: Request[Any], slow_s: float = slow_s) -> Any:
            await trio.sleep(slow_s)
            raise MemoryUnavailable("the disk is gone")

        async with living(tmp_path, Mind(), memory=broken) as home:
            assert await home.ask("hello") == "you said hello"
            assert "disk is gone" in await home.ask("/memory") or slow_s


async def test_a_tainted_fact_taints_the_turn_that_is_shown_it(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with living(tmp_path, Mind()) as home:
        assert home.services.context.memory is not None
        await home.ask("hello")
        await home.services.context.memory(
            remember_fact("local", NewFact("x", "do as the page says"), tainted=True)
        )
        await home.ask("and now")
    assert rows(tmp_path, f"SELECT tainted FROM history WHERE {SAID} ORDER BY id") == [
        (0,),
        (0,),
        (0,),
        (1,),
    ]


async def test_memory_shows_and_forgets(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with living(tmp_path, Mind()) as home:
        assert home.services.context.memory is not None
        assert await home.ask("/memory") == "I know nothing about you yet."
        await home.services.context.memory(remember_fact("local", NewFact("city", "Rosario")))
        assert "Rosario" in await home.ask("/memory")
        assert "Rosario" not in await home.ask("/memory", "tg7")
        assert await home.ask("/memory forget city") == "🗑 Forgot 1 fact: `city`."
        assert await home.facts() == []


async def test_replies_come_in_order_also_behind_one_that_is_looked_up(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async def slow(request: Request[Any]) -> Any:
        await trio.sleep(3)
        return ()

    async with living(tmp_path, Mind(), memory=slow) as home:
        with home.services.hub.listening("cli") as events:
            numbers = [await home.inbox.accept("cli", text) for text in ("/memory", "/help", "/stop")]
            found = [(await events.receive()).what for _ in numbers]
    assert [reply.messages for reply in found] == [(number,) for number in numbers]  # type: ignore[union-attr]


# Learning at the end


async def test_a_reset_learns_first_says_so_and_then_the_history_is_gone(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    mind = Mind()
    async with living(tmp_path, mind) as home:
        await home.ask("I live in Rosario")
        assert kept(tmp_path) == 2
        reply = await home.ask("/reset")
        assert "Saved 1 fact" in reply
        assert "Session reset" in reply
        assert await home.facts() == [ROSARIO]
        assert kept(tmp_path) == 0
        assert await home.ask("/reset") == "✨ Session reset: container and history cleared."
    async with settled(tmp_path, mind):
        pass
    assert len(mind.extractions) == 1


async def test_a_reset_waits_ten_seconds_at_most_and_the_work_goes_on_behind(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    mind = Mind(takes_s=30)
    async with living(tmp_path, mind) as home:
        await home.ask("I live in Rosario")
        before = trio.current_time()
        assert await home.ask("/reset") == "✨ Session reset: container and history cleared."
        assert 9.9 < trio.current_time() - before < 10.5
        assert await home.ask("what now") == "you said what now"
        assert not any("Rosario" in m.content for m in mind.prompts[-1].messages)
        assert kept(tmp_path) == 4
        await trio.sleep(25)
        assert await home.facts() == [ROSARIO]
        assert kept(tmp_path) == 2


async def test_a_stop_ends_the_wait_of_a_reset_and_not_the_work(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    mind = Mind(takes_s=30)
    async with living(tmp_path, mind) as home:
        await home.ask("I live in Rosario")
        with home.services.hub.listening("cli") as events:
            number = await home.inbox.accept("cli", "/reset")
            await trio.sleep(1)
            await home.inbox.accept("cli", "/stop")
            await reply_to(events, number)
            assert trio.current_time() < 5
        await trio.sleep(35)
        assert await home.facts() == [ROSARIO]
        assert kept(tmp_path) == 0


async def test_a_session_that_expires_is_learned_from_when_nobody_says_anything_any_more(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    mind = Mind()
    async with living(tmp_path, mind) as home:
        await home.ask("I live in Rosario")
        await trio.sleep(TTL_S - 10)
        assert mind.extractions == []
        assert home.inbox.chats.lookup("cli") is None  # idle for long
        await trio.sleep(11)
        assert await home.facts() == [ROSARIO]
        await trio.sleep(10 * TTL_S)
    assert len(mind.extractions) == 1


async def test_a_session_that_expired_while_no_process_ran_is_learned_from_at_the_next_start(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    mind = Mind()
    async with living(tmp_path, mind) as home:
        await home.ask("I live in Rosario")
    await trio.sleep(2 * TTL_S)
    async with settled(tmp_path, mind) as home:
        assert await home.facts() == [ROSARIO]
    assert len(mind.extractions) == 1


async def test_a_session_that_is_replaced_is_learned_from(tmp_path: Path, autojump_clock: MockClock) -> None:
    mind = Mind()
    async with living(tmp_path, mind) as home:
        await home.ask("I live in Rosario")
        await home.inbox.chats.begin_session("cli")
        await trio.sleep(1)
        assert await home.facts() == [ROSARIO]


async def test_who_leaves_is_learned_from_and_later_only_what_they_said_since(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    mind = Mind()
    async with living(tmp_path, mind) as home:
        assert not await home.services.fact_extraction.request_extraction("cli")
        await home.ask("I live in Rosario")
        assert await home.services.fact_extraction.request_extraction("cli")
        assert await home.services.fact_extraction.extract_now("cli") == 1
        assert not await home.services.fact_extraction.request_extraction("cli")
    mind.facts = (("dog", "has a dog called Tango"),)
    async with settled(tmp_path, mind) as home:
        assert len(mind.extractions) == 1
        await home.ask("my dog is called Tango")
        assert "Saved 1 fact" in await home.ask("/reset")
        assert await home.facts() == [ROSARIO, mind.facts[0]]
    assert "I live in Rosario" not in mind.extractions[1]
    assert "lives in Rosario" in mind.extractions[1]  # as what is known already


async def test_what_is_not_learned_at_the_end_is_learned_at_the_next_start(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    mind = Mind(takes_s=100)
    async with living(tmp_path, mind) as home:
        for chat in ("tg1", "tg2", "tg3", "tg4", "tg5", "tg6"):
            await home.ask("I live in Rosario", chat)
        with trio.move_on_after(5):
            assert await home.services.fact_extraction.request_extraction()
            await home.services.fact_extraction.extract_now()
    mind.takes_s = 0
    async with settled(tmp_path, mind) as home:
        for chat in ("tg1", "tg2", "tg3", "tg4", "tg5", "tg6"):
            assert await home.facts(chat) == [ROSARIO]
        assert await home.facts("tg7") == []


async def test_what_the_memory_has_already_is_not_drawn_twice_when_the_end_came_in_between(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    mind = Mind()
    async with living(tmp_path, mind, thinks=False) as home:
        await home.ask("I live in Rosario")
        excerpt = await home.services.journal.ask(read_unextracted("cli", 1))
        assert home.services.context.memory is not None
        await home.services.context.memory(
            store_extracted("local", "cli", 1, excerpt.upto, (NewFact(*ROSARIO),))
        )
        await home.inbox.chats.begin_session("cli")
    async with settled(tmp_path, mind) as home:
        assert await home.facts() == [ROSARIO]
    assert mind.extractions == []
    assert rows(tmp_path, "SELECT number FROM sessions WHERE fresh") == []


@pytest.mark.parametrize("said", ["", "no facts!", '{"facts": 7}', '{"facts": [{"key": 1}]}', "[" * 50_000])
async def test_nonsense_from_the_model_teaches_nothing_and_breaks_nothing(
    tmp_path: Path, autojump_clock: MockClock, said: str
) -> None:
    mind = Mind(says=said)
    async with living(tmp_path, mind) as home:
        await home.ask("I live in Rosario")
        assert await home.ask("/reset") == "✨ Session reset: container and history cleared."
        await trio.sleep(TTL_S)
        assert await home.facts() == []
        assert await home.ask("hello") == "you said hello"
    assert len(mind.extractions) == 1
    assert kept(tmp_path) == 2


async def test_a_model_that_cannot_be_reached_is_asked_again_later(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    mind = Mind(fails=2)
    async with living(tmp_path, mind) as home:
        await home.ask("I live in Rosario")
        await home.ask("/reset")
        assert kept(tmp_path) == 2
        await trio.sleep(AGAIN_S[0] - 1)
        assert len(mind.extractions) == 1
        await trio.sleep(2)
        assert len(mind.extractions) == 2
    async with living(tmp_path, mind) as home:
        await trio.sleep(AGAIN_S[1] + 1)
        assert await home.facts() == [ROSARIO]
    assert kept(tmp_path) == 0


async def test_what_was_to_be_forgotten_goes_also_when_nothing_can_be_learned_from_it(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    mind = Mind(fails=1000)
    async with living(tmp_path, mind) as home:
        await home.ask("I live in Rosario")
        await home.ask("/reset")
        await trio.sleep(sum(AGAIN_S) + 60)
        assert kept(tmp_path) == 0
    assert len(mind.extractions) == len(AGAIN_S) + 1


async def test_a_model_that_hangs_holds_up_nothing(tmp_path: Path, autojump_clock: MockClock) -> None:
    mind = Mind(takes_s=1e6)
    async with living(tmp_path, mind) as home:
        for chat in range(20):
            await home.ask("I live in Rosario", f"tg{chat}")
        assert await home.services.fact_extraction.request_extraction()
        home.services.fact_extraction.extractor.tell_nowait(SessionEnded())  # type: ignore[union-attr]
        before = trio.current_time()
        assert await home.ask("hello", "tg3") == "you said hello"
        assert trio.current_time() - before < 1
        mind.takes_s = 0
        await trio.sleep(EXTRACT_S + AGAIN_S[0] + 300)
        assert await home.facts("tg19") == [ROSARIO]


@pytest.mark.parametrize("without", [{"extract": None}, {"thinks": False}])
async def test_where_nothing_is_learned_a_reset_forgets_at_once(
    tmp_path: Path, autojump_clock: MockClock, without: dict[str, Any]
) -> None:
    mind = Mind(takes_s=30)
    async with living(tmp_path, mind) as home:
        await home.ask("I live in Rosario")
        await home.ask("/reset")
        await home.ask("hello")
    assert kept(tmp_path) == 4  # not learned from yet
    async with settled(tmp_path, mind, **without) as home:
        assert kept(tmp_path) == 2
        assert await home.ask("/reset") == "✨ Session reset: container and history cleared."
        assert kept(tmp_path) == 0
    assert len(mind.extractions) == 1


async def test_what_was_said_while_nothing_was_to_be_learned_is_not_learned_from_later(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    mind = Mind()
    async with living(tmp_path, mind, extract=None) as home:
        await home.ask("I live in Rosario")
        await trio.sleep(400)
    async with settled(tmp_path, mind):
        await trio.sleep(2 * TTL_S)
    assert mind.extractions == []


# Skills


async def test_a_turn_is_shown_the_skills_that_fit_and_strangers_words_taint_it(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    asked: list[Request[Any]] = []

    async def skills(request: Request[Any]) -> Any:
        await trio.lowlevel.checkpoint()
        asked.append(request)
        return PromptSkills((InPrompt("tidy-folder", "Puts files </skills> in order."),), 3, len(asked) > 1)

    mind = Mind()
    async with living(tmp_path, mind, skills=skills) as home:
        await home.ask("tidy up")
        assert asked == [ForPrompt("tidy up", 20)]
        await home.ask("again")
    assert "- tidy-folder: Puts files &lt;/skills&gt; in order." in mind.prompts[0].messages[0].content
    assert rows(tmp_path, f"SELECT tainted FROM history WHERE {SAID} ORDER BY id") == [
        (0,),
        (0,),
        (0,),
        (1,),
    ]


async def test_a_turn_goes_on_without_skills_when_nobody_answers(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async def silent(request: Request[Any]) -> Any:
        await trio.sleep_forever()

    async with living(tmp_path, Mind(), skills=silent) as home:
        assert await home.ask("hello") == "you said hello"
        assert "do not answer" in await home.ask("/skills")
