"""Control calls about schedules: whose a schedule is, and what the owner of the home allows or may not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rumi.agent.permissions.standing import ToolVersion
from rumi.errors import RumiError, UsageError
from rumi.platform.caller import PROGRAM, TERMINAL, NotAllowed
from rumi.platform.chat_ids import BUILT_IN
from rumi.store.journal.actor import open_journal
from rumi.store.journal.inbox import accept_messages
from rumi.store.journal.records import Incoming
from rumi.tasks.schedules.schedule_calls import ScheduleCalls
from rumi.tasks.schedules.stored import StoredSchedules

TOOLS = {
    "mail__send": ToolVersion("v1"),
    "mail__find": ToolVersion("v2", reads=True),
    "mail__delete": ToolVersion("v3", stands=False),
}


@asynccontextmanager
async def calling(path: Path) -> AsyncIterator[ScheduleCalls]:
    async with open_journal(path / "state.db") as ask:
        message = Incoming(chat="tg5", text="hola", language="es", user=5)
        await ask(accept_messages((message,)))
        yield ScheduleCalls(StoredSchedules(ask, version_of=TOOLS.get), BUILT_IN)


async def add(calls: ScheduleCalls, chat: str = "cli", **more: Any) -> dict[str, Any]:
    given = {"text": "Brief me", "when": "every day 09:00", "kind": "turn", "chat": chat, **more}
    added: Any = await calls.add(TERMINAL, **given)
    return dict(added)


async def test_a_schedule_belongs_to_the_owner_of_its_chat(tmp_path: Path) -> None:
    async with calling(tmp_path) as calls:
        for chat, zone in (("tg5", "America/Bogota"), ("tg-100", "Asia/Tokyo")):
            await calls.schedules.set_zone(chat, zone)
        kept = ("owner", "chat", "zone", "language", "user")
        for chat, expected in (
            ("tg5", ("tg5", "tg5", "America/Bogota", "es", 5)),
            ("tg5_7", ("tg5", "tg5_7", "America/Bogota", "en", 5)),
            ("tg-100_3", ("tg-100", "tg-100_3", "Asia/Tokyo", "en", None)),
            ("work", ("local", "work", "Etc/UTC", "en", None)),
        ):
            added = await add(calls, chat)
            shown = tuple(added[name] for name in kept)
            assert (*shown[:2], *shown[3:]) == (*expected[:2], *expected[3:])
            assert shown[2] == expected[2] or chat == "work"
        assert [one.chat for one in await calls.schedules.listed("tg5")] == ["tg5", "tg5_7"]
        listed: Any = await calls.list(TERMINAL, chat="tg5")
        assert [one["id"] for one in listed] == [1]
        listed = await calls.list(TERMINAL, owner="5")
        assert [one["id"] for one in listed] == [1, 2]
        with pytest.raises(UsageError, match="time zone of this chat's owner is not known"):
            await add(calls, "tg6")
        assert (await add(calls, "tg6", zone="Europe/Madrid"))["zone"] == "Europe/Madrid"
        assert (await add(calls, "tg6", when="in 20 minutes"))["owner"] == "tg6"
        assert (await add(calls, "tg6", when="tomorrow 09:00 Asia/Tokyo"))["owner"] == "tg6"
        with pytest.raises(NotAllowed):
            await calls.add(PROGRAM, text="x", when="every day 09:00", chat="tg5")


async def test_the_owner_of_the_home_allows_exact_things(tmp_path: Path) -> None:
    async with calling(tmp_path) as calls:
        await add(calls)
        found: Any = await calls.approve(
            TERMINAL,
            id=1,
            hosts=["weather.example", "http://10.0.0.1:8080"],
            tools=["mail__send"],
            to=["to=ana@example.org"],
            per_run=2,
            days=7,
        )
        grants = found["approval"]["grants"]
        assert [(one["tool"], one["host"], one["to"], one["per_run"]) for one in grants] == [
            ("web_fetch", "https://weather.example", [], 2),
            ("web_fetch", "http://10.0.0.1:8080", [], 2),
            ("mail__send", "", [["to", '"ana@example.org"']], 2),
        ]
        assert "mail__send: at most 2 times per run" in found["allowed"]
        assert 'to: "ana@example.org"' in found["allowed"]
        assert found["approval"]["operator"]
        found = await calls.edit(TERMINAL, id=1, text="Another")
        assert (found["ended"], found["allowed"], found["text"]) == (True, "", "Another")
        found = await calls.approve(TERMINAL, id=1, hosts=["a.example"])
        assert [one["host"] for one in found["approval"]["grants"]] == ["https://a.example"]
        found = await calls.revoke(TERMINAL, id=1)
        assert found["approval"] is None


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({}, "Nothing is named"),
        ({"hosts": ["*.example"]}, "not an exact host"),
        ({"hosts": ["example.com/path"]}, "not an exact host"),
        ({"hosts": ["user@example.com"]}, "not an exact host"),
        ({"hosts": ["a.example"], "per_run": 0}, "1 to 20 times"),
        ({"hosts": ["a.example"], "per_run": 21}, "1 to 20 times"),
        ({"hosts": ["a.example"], "days": 0}, "up to 90 days"),
        ({"hosts": ["a.example"], "days": 91}, "up to 90 days"),
        ({"hosts": [f"a{n}.example" for n in range(21)]}, "at most 20 permissions"),
        ({"to": ["ana@example.org"]}, "belongs to a tool"),
        ({"tools": ["mail__send"]}, "needs an exact destination"),
        ({"tools": ["mail__delete"], "to": ["x"]}, "never allowed in advance"),
        ({"tools": ["mail__other"], "to": ["x"]}, "Unknown tool"),
        ({"tools": ["bash"], "to": ["x"]}, "Unknown tool"),
        ({"tools": ["remember"], "to": ["x"]}, "Unknown tool"),
    ],
)
async def test_what_is_not_exact_is_refused(tmp_path: Path, wanted: dict[str, Any], why: str) -> None:
    async with calling(tmp_path) as calls:
        await add(calls)
        with pytest.raises(UsageError, match=why):
            await calls.approve(TERMINAL, id=1, **wanted)
        assert (await calls.schedules.show(1, None)).approval == ""


@pytest.mark.parametrize("more", [{"kind": "text"}, {"kind": "research"}, {"when": "in 5 minutes"}])
async def test_only_recurring_work_in_a_chat_is_allowed_something(
    tmp_path: Path, more: dict[str, str]
) -> None:
    async with calling(tmp_path) as calls:
        await add(calls, **more)
        with pytest.raises(UsageError, match="no recurring work"):
            await calls.approve(TERMINAL, id=1, hosts=["a.example"])


async def test_a_program_approves_nothing_and_an_empty_text_is_refused(tmp_path: Path) -> None:
    async with calling(tmp_path) as calls:
        await add(calls)
        with pytest.raises(NotAllowed):
            await calls.approve(PROGRAM, id=1, hosts=["a.example"])
        for text in ("", " ", "x" * 4001):
            with pytest.raises(RumiError):
                await calls.edit(TERMINAL, id=1, text=text)
