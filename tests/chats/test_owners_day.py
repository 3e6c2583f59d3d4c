"""Conversations over midnight with people ahead of this machine's clock and behind it."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rumi.chats.surroundings import Surroundings
from rumi.memory.extractor import Extracted
from rumi.memory.messages import Fact
from rumi.models.model import Emit, Message, Model, ModelRequest, Reply, ToolCall
from rumi.platform.chat_ids import BUILT_IN
from rumi.platform.config.schema import SchedulesSection
from rumi.platform.zones import local_at, rule_at
from rumi.sandbox.overview import NOTHING
from rumi.store.journal.records import Incoming, ScheduleRecord, Update
from rumi.tasks.schedules.times import instant_of
from rumi.tasks.schedules.tools import schedule_tools
from rumi.texts import Language
from tests.chats.house import FunctionModel, House, house
from tests.chats.test_surroundings import Boxes, notes_of

CHAT = "tg7"
ZONES = ("Pacific/Auckland", "Pacific/Kiritimati", "America/Los_Angeles", "UTC+05:45")


@asynccontextmanager
async def living_in(
    path: Path, zone: str, local: datetime, model: Model, **more: Any
) -> AsyncIterator[House]:
    """A house whose clock shows a local time in a zone, and whose person has said so."""
    began = trio.current_time()
    homes: list[House] = []

    async def zone_of(chat: str) -> str:
        return await homes[0].schedules.zone_of(BUILT_IN.owner_of(chat))

    async def look(chat: str) -> Any:
        return NOTHING

    async def budget_left(chat: str) -> str:
        return ""

    def tools_for(view: Any) -> tuple[Any, ...]:
        owner = BUILT_IN.owner_of(view.chat)
        new = lambda: ScheduleRecord(owner, view.chat, "text", "", asked_at=view.said_at())  # noqa: E731
        return schedule_tools(lambda: homes[0].schedules, new)

    async with house(
        path,
        model,
        now=lambda: instant_of(local, zone) + trio.current_time() - began,
        surroundings=Surroundings(zone_of, look, budget_left),
        tools_for=tools_for,
        schedule_limits=SchedulesSection(),
        **more,
    ) as home:
        homes.append(home)
        assert zone in await home.ask(f"/timezone {zone}", CHAT)
        yield home


async def works(request: ModelRequest, emit: Emit) -> Reply:
    """Do what the last message names: a tool and its arguments as JSON."""
    await trio.lowlevel.checkpoint()
    last = request.messages[-1]
    if last.role == "user" and last.content.startswith("{"):
        ((name, given),) = json.loads(last.content).items()
        return Reply("", (ToolCall("c", name, json.dumps(given)),))
    return Reply(last.content if last.role == "tool" else "fine")


async def sent(home: House, text: str, written: float, number: int = 1) -> str:
    """Send a message that was written at an instant; return its reply."""
    with home.services.hub.listening(CHAT) as events:
        message = Incoming(Update("t", number), CHAT, text, "en", user=7, sent=written)
        await home.inbox.accept_all([message])
        while True:
            what = (await events.receive()).what
            if hasattr(what, "delivery"):
                return str(what.text)


@pytest.mark.parametrize("zone", ZONES)
async def test_a_conversation_over_midnight_has_the_persons_days(
    tmp_path: Path, autojump_clock: MockClock, zone: str
) -> None:
    model, boxes, days = FunctionModel(works), Boxes(), list[date]()

    async def extract(
        model: Model, language: Language, messages: Sequence[Message], known: Sequence[Fact], today: date
    ) -> Extracted:
        days.append(today)
        return Extracted((), "")

    evening = datetime(2026, 11, 26, 23, 40)
    more = {"sandboxes": boxes, "remembers": True, "extract": extract}
    async with living_in(tmp_path, zone, evening, model, **more) as home:
        await home.ask('{"bash": {"command": "date"}}', CHAT)
        assert f"Today is Thursday, 2026-11-26, 23:40 in {zone}." in notes_of(model)[0]
        assert boxes.started[-1][:2] == ("env", f"TZ={rule_at(zone, instant_of(evening, zone))}")
        said = await home.ask("/remind tomorrow 09:00: swim", CHAT)
        assert f"Friday 27 November 2026, 09:00, {zone}" in said
        said = await home.ask('{"remind": {"at": "2026-11-27T08:00", "text": "run"}}', CHAT)
        assert f"Friday 27 November 2026, 08:00, {zone}" in said
        beginning = notes_of(model)[0]
        await trio.sleep(25 * 60)
        await home.ask("and now?", CHAT)
        assert notes_of(model)[-1].endswith(f"Today is Friday, 2026-11-27, 00:05 in {zone}.")
        assert notes_of(model)[0] == beginning, "the beginning stays, for servers that cache it"
        said = await home.ask("/remind tomorrow 09:00: swim", CHAT)
        assert f"Saturday 28 November 2026, 09:00, {zone}" in said
        said = await home.ask('{"remind": {"in_minutes": "20", "text": "tea"}}', CHAT)
        assert f"Friday 27 November 2026, 00:25, {zone}" in said
        await home.ask("/new", CHAT)
        await trio.sleep(60)
    assert days == [date(2026, 11, 26)], "facts have the day on which their session began"


@pytest.mark.parametrize("zone", ZONES)
async def test_a_message_that_waited_means_what_its_writer_meant(
    tmp_path: Path, autojump_clock: MockClock, zone: str
) -> None:
    model = FunctionModel(works)
    after_midnight = datetime(2026, 11, 27, 0, 20)
    async with living_in(tmp_path, zone, after_midnight, model) as home:
        now = instant_of(after_midnight, zone)
        written = now - 30 * 60
        said = await sent(home, "/remind tomorrow 09:00: swim", written)
        assert f"Friday 27 November 2026, 09:00, {zone}" in said, "their tomorrow is today by now"
        said = await sent(home, '{"remind": {"in_minutes": 60, "text": "tea"}}', written, 2)
        assert f"Friday 27 November 2026, 00:50, {zone}" in said
        assert any(
            message.content == "[This message was written at 23:50 on Thursday, 2026-11-26, 30 minutes ago.]"
            for message in model.requests[0].messages
        )
        assert model.requests[0].messages[-1].content.startswith('{"remind"'), "the words stay the last"
        for number, text in enumerate(
            ("/remind in 10 minutes: take the cake out", '{"remind": {"in_minutes": 10.0, "text": "cake"}}'),
            3,
        ):
            said = await sent(home, text, now - 6 * 3600, number)
            assert "This time is over." in said
            assert f"Your message of Thursday 26 November 2026, 18:20, {zone} meant" in said
            assert f"18:30, {zone}, and it is Friday 27 November 2026, 00:2" in said
        assert len(await home.schedules.listed(CHAT)) == 2, "nothing was set silently"


async def test_only_a_message_older_than_five_minutes_is_told_to_be_old(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    model = FunctionModel(works)
    noon = datetime(2026, 11, 27, 12, 0)
    async with living_in(tmp_path, "Europe/Madrid", noon, model) as home:
        now = instant_of(noon, "Europe/Madrid")
        ages = {
            10.0: "",
            299.0: "",
            301.0: "5 minutes",
            6 * 3600.0: "6 hours",
            3 * 86_400.0: "3 days",
            -900.0: "",
            now: "",
        }
        for number, (age_s, told) in enumerate(ages.items(), 1):
            await sent(home, "hello", now - age_s, number)
            lines = [
                m.content for m in model.requests[-1].messages if "This message was written" in m.content
            ]
            assert len(lines) == sum(bool(each) for each in list(ages.values())[:number])
            assert not told or lines[-1].endswith(f", {told} ago.]")


async def test_a_clock_of_a_sender_that_is_ahead_does_not_move_a_reminder(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    noon = datetime(2026, 11, 27, 12, 0)
    async with living_in(tmp_path, "Europe/Madrid", noon, FunctionModel(works)) as home:
        assert Incoming(sent=200.0, received=100.0).said_at == 100.0
        said = await sent(home, "/remind in 10 minutes: tea", instant_of(noon, "Europe/Madrid") + 7200)
        assert "12:10, Europe/Madrid" in said


async def test_a_time_with_a_zone_is_that_zones_and_shown_in_the_persons(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    noon = datetime(2026, 11, 27, 12, 0)
    async with living_in(tmp_path, "Europe/Madrid", noon, FunctionModel(works)) as home:
        for at, shown in {
            "2026-11-28T09:00+13:00": "Friday 27 November 2026, 21:00, Europe/Madrid",
            "2026-11-28T09:00Z": "Saturday 28 November 2026, 10:00, Europe/Madrid",
            "09:00 America/Los_Angeles": "Friday 27 November 2026, 18:00, Europe/Madrid",
            "2026-11-28T09:00:30[Asia/Tokyo]": "Saturday 28 November 2026, 01:00, Europe/Madrid",
        }.items():
            assert shown in await home.ask(json.dumps({"remind": {"at": at, "text": "x"}}), CHAT)
        said = await home.ask('{"remind": {"at": "2026-11-27T09:00", "text": "x"}}', CHAT)
        assert "It is Friday 27 November 2026, 12:00, Europe/Madrid now" in said
        said = await home.ask('{"remind": {"at": "2026-11-28", "text": "x"}}', CHAT)
        assert "has no time of day" in said
        said = await home.ask("/remind every day 09:00 Asia/Tokyo: markets", CHAT)
        assert "Saturday 28 November 2026, 09:00, Asia/Tokyo" in said, "a recurrence keeps its zone"


async def test_a_zone_is_taken_from_a_device_once_and_a_persons_own_stays(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    noon = datetime(2026, 11, 27, 12, 0)
    async with living_in(tmp_path, "Europe/Madrid", noon, FunctionModel(works)) as home:
        chat = replace(home.chat("tg8"), zone="Pacific/Auckland")
        told = "🕰 I take Pacific/Auckland for your time zone, as your device says."
        with home.services.hub.listening("tg8") as events:

            async def say(chat: Any, text: str) -> str:
                await chat.send(text)
                while True:
                    what = (await events.receive()).what
                    if hasattr(what, "delivery"):
                        return str(what.text)

            assert "time zone is not known" in await home.ask("/remind tomorrow 09:00: swim", "tg9")
            assert told not in await say(replace(chat, zone="UTC"), "hello"), "browsers say so to hide"
            assert told not in await say(replace(chat, zone="Mars/Olympus"), "hello")
            assert told in await say(chat, "hello")
            assert told not in await say(chat, "hello")
            now = local_at(home.services.context.now(), "Pacific/Auckland")
            assert "2026, 09:00, Pacific/Auckland" in await say(chat, "/remind tomorrow 09:00: swim")
            assert now.day == 28
            assert told not in await say(replace(chat, zone="America/Lima"), "hello")
            assert await home.schedules.zone_of("tg8") == "Pacific/Auckland"
        await replace(home.chat(CHAT), zone="Pacific/Auckland").send("hello")
        assert "Europe/Madrid" in await home.ask("/timezone", CHAT), "a person's own zone wins"


async def test_a_place_proposes_a_zone_and_changes_none(tmp_path: Path, autojump_clock: MockClock) -> None:
    noon = datetime(2026, 11, 27, 12, 0)
    async with living_in(tmp_path, "Europe/Madrid", noon, FunctionModel(works)) as home:
        tokyo = Incoming(Update("t", 1), CHAT, "here", "en", user=7, place=(35.68, 139.69))
        with home.services.hub.listening(CHAT) as events:
            for number, said in ((1, True), (2, False)):
                await home.inbox.accept_all([replace(tokyo, update=Update("t", number))])
                while True:
                    what = (await events.receive()).what
                    if hasattr(what, "delivery"):
                        break
                assert (
                    "I still go by Europe/Madrid. To change it: /timezone Asia/Tokyo" in what.text
                ) == said
        assert await home.schedules.zone_of(CHAT) == "Europe/Madrid"
        with home.services.hub.listening("tg8") as events:
            await home.inbox.accept_all([replace(tokyo, update=Update("t", 3), chat="tg8", user=8)])
            while True:
                what = (await events.receive()).what
                if hasattr(what, "delivery"):
                    break
        assert await home.schedules.zone_of("tg8") == "Asia/Tokyo"
