"""`/memory`, and what other processes may ask."""

import json
import math
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rumi.errors import UsageError
from rumi.memory.actor import AskMemory, open_memory
from rumi.memory.command import memory_command
from rumi.memory.memory_calls import PAGE_CHARS, MemoryCalls
from rumi.memory.messages import FactRefused, NewFact
from rumi.memory.rows import facts_of, remember_fact, store_extracted
from rumi.platform.caller import TERMINAL
from rumi.platform.calls import served
from rumi.platform.chat_ids import BUILT_IN


async def remember(ask: AskMemory, owner: str, key: str, value: str) -> None:
    await ask(remember_fact(owner, NewFact(key, value)))


async def test_the_command_shows_and_forgets_its_owners_facts(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "memory.db") as ask:
        assert await memory_command(ask, "tg1", "es", "") == "Todavía no sé nada de ti."
        await remember(ask, "tg1", "city", "Rosario")
        await remember(ask, "tg2", "city", "Salta")
        shown = await memory_command(ask, "tg1", "en", "")
        assert any(line.startswith("- `city`: `Rosario`, ") for line in shown.splitlines())
        assert "Salta" not in shown
        assert await memory_command(ask, "tg1", "en", "forget CITY") == "🗑 Forgot 1 fact: `CITY`."
        assert await memory_command(ask, "tg1", "es", "forget  city ") == "No sé nada en `city`."
        assert "Salta" in await memory_command(ask, "tg2", "en", "")


async def test_facts_are_dated_in_the_owners_zone(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "memory.db") as ask:
        await remember(ask, "local", "city", "Rosario")
        (fact,) = await ask(facts_of("local"))
        for zone, ahead_h in {
            "Pacific/Kiritimati": 14,
            "Asia/Tokyo": 9,
            "UTC": 0,
            "Pacific/Pago_Pago": -11,
        }.items():
            day = datetime.fromtimestamp(fact.updated + ahead_h * 3600, UTC).date()
            assert f"`Rosario`, {day}" in await memory_command(ask, "local", "en", "", zone)
            assert f"- {day} –: `Rosario`" in await memory_command(ask, "local", "en", "history city", zone)


@pytest.mark.parametrize("rest", ["forget", "forget  ", "show me", "city"])
async def test_anything_else_says_how_it_is_used_and_changes_nothing(tmp_path: Path, rest: str) -> None:
    async with open_memory(tmp_path / "memory.db") as ask:
        await remember(ask, "local", "city", "Rosario")
        assert "/memory forget KEY" in await memory_command(ask, "local", "en", rest)
        assert "Rosario" in await memory_command(ask, "local", "en", "")


async def test_nothing_in_a_fact_is_markdown(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "memory.db") as ask:
        await remember(ask, "local", "`a`", "[x](https://evil.example) ``b``")
        shown = await memory_command(ask, "local", "en", "")
    assert "- `` `a` ``: ``` [x](https://evil.example) ``b`` ```, " in shown


async def test_a_long_list_is_cut_and_says_so(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "memory.db") as ask:
        facts = tuple(NewFact(f"key {number}", "x") for number in range(130))
        await ask(store_extracted("local", "cli", 1, 1, facts))
        shown = await memory_command(ask, "local", "en", "")
    assert shown.count("\n- ") == 100
    assert "… and 30 more." in shown


async def test_a_list_of_any_length_comes_in_pages(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "memory.db") as ask:
        facts = tuple(NewFact(f"key {number}", "🚀" * 1000) for number in range(300))
        await ask(store_extracted("local", "cli", 1, 1, facts))
        serve = served(MemoryCalls(ask, BUILT_IN))["memory"]
        seen: list[dict[str, object]] = []
        while True:
            answer = await serve(TERMINAL, {"do": "list", "after": len(seen)})
            assert isinstance(answer, dict)
            assert len(json.dumps(answer, ensure_ascii=False).encode()) < 5 * PAGE_CHARS < 2**20
            seen += answer["facts"]
            if len(seen) == answer["all"]:
                break
    assert len({fact["key"] for fact in seen}) == 300
    assert set(seen[0]) == {
        "owner",
        "key",
        "value",
        "source",
        "chat",
        "tainted",
        "created",
        "updated",
        "turn",
    }


async def test_topics_of_a_group_share_its_owner(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "memory.db") as ask:
        serve = served(MemoryCalls(ask, BUILT_IN))["memory"]
        await serve(TERMINAL, {"do": "set", "owner": "tg-100_5", "key": "city", "value": "Rosario"})
        for owner in ("tg-100", "tg-100_7", "-100"):
            answer = await serve(TERMINAL, {"do": "list", "owner": owner})
            assert isinstance(answer, dict)
            assert answer["all"] == 1


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"do": "drop"},
        {"do": "list", "owner": "\ud800"},
        {"do": "list", "owner": "a b"},
        {"do": "list", "owner": 5},
        {"do": "set", "key": "a"},
        {"do": "set", "key": "a", "value": 5},
        {"do": "forget", "key": "\x00"},
    ],
)
async def test_what_cannot_be_done_is_refused(tmp_path: Path, request_: dict[str, object]) -> None:
    async with open_memory(tmp_path / "memory.db") as ask:
        with pytest.raises(UsageError):
            await served(MemoryCalls(ask, BUILT_IN))["memory"](TERMINAL, request_)


async def test_secrets_are_refused_from_outside_too(tmp_path: Path) -> None:
    async with open_memory(tmp_path / "memory.db") as ask:
        with pytest.raises(FactRefused, match="password"):
            await served(MemoryCalls(ask, BUILT_IN))["memory"](
                TERMINAL, {"do": "set", "key": "password", "value": "hunter2"}
            )


async def test_an_extraction_that_takes_long_goes_on_behind(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async def one(owner: str) -> int:
        return 1

    async def forever(owner: str) -> int:
        await trio.sleep(math.inf)
        return 0

    async with open_memory(tmp_path / "memory.db") as ask:
        assert await served(MemoryCalls(ask, BUILT_IN, one))["memory"](TERMINAL, {"do": "extract"}) == {
            "learned": 1
        }
        assert await served(MemoryCalls(ask, BUILT_IN, forever))["memory"](TERMINAL, {"do": "extract"}) == {
            "learned": None
        }
