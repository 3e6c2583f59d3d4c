"""The `recall` tool and the calls of other processes."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from rumi.agent.tools.recall import RecallTool
from rumi.app.recall_calls import RecallCommands
from rumi.errors import UsageError
from rumi.memory.actor import open_memory
from rumi.memory.messages import NewFact
from rumi.memory.recall.actor import open_recall
from rumi.memory.recall.request import search_of
from rumi.memory.rows import remember_fact
from rumi.models.model import text_tokens
from rumi.platform.caller import TERMINAL
from rumi.platform.calls import served
from rumi.platform.chat_ids import BUILT_IN
from rumi.platform.untrusted_text import read_block
from tests.memory.recall.states import State

NOW = 1_790_100_000.0


async def called(path: Path, **arguments: object) -> tuple[str, bool, bool]:
    async with (
        open_memory(path / "memory.db") as memory,
        open_recall(path / "recall.db", path / "state.db", BUILT_IN) as ask,
    ):
        await memory(remember_fact("local", NewFact("perro", "se llama Toto")))
        tool = RecallTool(ask, memory, "local", lambda: "en", lambda: NOW)
        result = await tool.call(arguments)
        assert tool.question(arguments, ()) is None
    return result.content, result.ok, result.tainted


async def test_passages_and_facts_come_with_dates_and_places(tmp_path: Path) -> None:
    turn = State(tmp_path / "state.db").add_turn("cli", "my dog eats rice", "noted")
    content, ok, tainted = await called(tmp_path, query="dog")
    assert (ok, tainted) == (True, False)
    assert content.startswith("- perro: se llama Toto\n\n[2026-")
    assert f" {turn} User: my dog eats rice\nAssistant: noted" in content


async def test_a_result_is_tainted_if_a_passage_was(tmp_path: Path) -> None:
    State(tmp_path / "state.db").add_turn("cli", "the heron page", "it says: obey", tainted=True)
    content, _, tainted = await called(tmp_path, query="heron")
    assert tainted
    block = read_block(content)
    assert block is not None
    assert "it says: obey" in block[1]


async def test_a_result_with_facts_and_its_frame_takes_no_more_than_its_tokens(tmp_path: Path) -> None:
    state = State(tmp_path / "state.db")
    for number in range(60):
        state.add_turn("cli", f"my dog number {number}", "it barks", tainted=True, session=number)
    for tokens in (200, 600):
        content, ok, _ = await called(tmp_path, query="dog", tokens=tokens)
        assert ok
        assert "se llama Toto" in content
        assert tokens * 0.6 < text_tokens(content) <= tokens


async def test_bad_arguments_are_told_to_the_model(tmp_path: Path) -> None:
    State(tmp_path / "state.db").add_turn("cli", "a", "b")
    for arguments in ({}, {"query": " "}, {"query": 7}, {"query": "x", "since": "soonish"}):
        assert (await called(tmp_path, **arguments))[1] is False
    assert await called(tmp_path, query="zzz") == (
        "I found nothing about that in earlier conversations.",
        True,
        False,
    )


def test_days_are_whole_days() -> None:
    search = search_of(
        "local", {"query": "x", "since": "2026-03-05", "until": "2026-03-05", "tokens": 99_999}, NOW
    )
    _, query, since, until, who, tokens = search.args
    assert (query, who, tokens) == ("x", "", 8000)
    assert 86_399 < until - since < 86_400
    with pytest.raises(UsageError, match="day is not understood"):
        search_of("local", {"query": "x", "until": "blah"}, NOW)


@pytest.mark.parametrize(
    ("zone", "day", "clock"),
    [
        ("Pacific/Kiritimati", "2026-11-28", "00:30"),
        ("Pacific/Auckland", "2026-11-27", "23:30"),
        ("America/Los_Angeles", "2026-11-27", "02:30"),
        ("UTC-11:00", "2026-11-26", "23:30"),
    ],
)
async def test_days_are_those_of_the_owners_zone(tmp_path: Path, zone: str, day: str, clock: str) -> None:
    at = datetime(2026, 11, 27, 10, 30, tzinfo=UTC).timestamp()
    State(tmp_path / "state.db").add_turn("cli", "the heron is here", "yes", at=at)
    before = (date.fromisoformat(day) - timedelta(1)).isoformat()
    async with (
        open_memory(tmp_path / "memory.db") as memory,
        open_recall(tmp_path / "recall.db", tmp_path / "state.db", BUILT_IN) as ask,
    ):
        tool = RecallTool(ask, memory, "local", lambda: "en", lambda: at + 60, lambda: zone)
        for days in ({}, {"since": day}, {"until": day}, {"since": "today"}):
            found = (await tool.call({"query": "heron", **days})).content
            assert found.startswith(f"[{day} cli]\n{clock} "), days
        for days in ({"until": before}, {"until": "yesterday"}):
            assert (await tool.call({"query": "heron", **days})).content.startswith("I found nothing"), days


async def test_other_processes_name_an_owner(tmp_path: Path) -> None:
    State(tmp_path / "state.db").add_turn("tg7", "the heron", "yes")
    async with open_recall(tmp_path / "recall.db", tmp_path / "state.db", BUILT_IN) as ask:
        serve = served(RecallCommands(ask, BUILT_IN, lambda: NOW))["recall"]
        assert await serve(TERMINAL, {"query": "heron"}) == []
        found = await serve(TERMINAL, {"query": "heron", "owner": "7"})
        assert isinstance(found, list)
        assert found[0]["chat"] == "tg7"
