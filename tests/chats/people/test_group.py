"""People in a group and a guest who tries: rights, facts and budgets hold for the one who speaks."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rumi.agent.tools.web_fetch import WebFetch
from rumi.chats.budgets.meter import Rules
from rumi.chats.budgets.prices import Price
from rumi.chats.events import Replied
from rumi.memory.messages import NewFact
from rumi.memory.rows import facts_of, remember_fact
from rumi.models.model import Emit, Message, Model, ModelRequest, Reply, Usage
from rumi.platform.config.schema import SchedulesSection
from rumi.store.journal.records import Attachment, ScheduleRecord, TaskRecord
from rumi.store.journal.schedules import add_schedule
from rumi.tasks.schedules.when import After
from tests.chats.house import House, house, limited
from tests.chats.people.speaking import (
    ANN,
    BOB,
    CAT,
    CONFIG,
    GROUP,
    GUS,
    NAMES,
    OLD,
    Named,
    obeys,
    people,
    say,
)
from tests.tasks.kinds import Looking

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()


def tools(calls: list[str]) -> dict[str, object]:
    return {"tools_for": lambda view: tuple(Named(name, calls) for name in NAMES)}


async def test_in_a_group_each_speakers_rights_hold_for_what_they_ask(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    calls: list[str] = []
    async with house(tmp_path, obeys, people=people(tmp_path), **tools(calls)) as home:
        done = await say(home, BOB, "call bash research")
        assert done.endswith("research is done")
        assert "does not allow" not in done
        refused = await say(home, GUS, "call bash research web_search")
        assert "the role guest of the person who asks does not allow bash" in refused
        assert "does not allow research" in refused
        assert refused.endswith("web_search is done")
        assert "does not allow bash" in await say(home, CAT, "call bash")
        assert "remember is done" in await say(home, CAT, "call remember")
        assert "does not allow" not in await say(home, ANN, "call bash")
        assert "does not allow" not in await say(home, OLD, "call bash")
    assert calls == ["research", "web_search", "remember"]


async def test_a_model_is_offered_only_the_tools_of_the_speaker(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    offered: list[set[str]] = []

    async def looks_at_tools(request: ModelRequest, emit: Emit) -> Reply:
        await trio.lowlevel.checkpoint()
        offered.append({tool.name for tool in request.tools})
        return Reply("seen")

    async with house(tmp_path, looks_at_tools, people=people(tmp_path), **tools([])) as home:
        for user in (BOB, GUS, CAT, BOB):
            await say(home, user, "hello")
    everything = {
        *(*NAMES, "bash", "bash_output", "bash_stop", "read_file", "edit_file", "write_file", "delegate"),
    }
    reader = {"web_search", "web_fetch", "remember"}
    assert offered == [everything, {"web_search", "web_fetch"}, reader, everything]


async def test_a_role_that_may_not_change_files_saves_none_from_the_web(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    offered: list[bool] = []

    async def looks_at_tools(request: ModelRequest, emit: Emit) -> Reply:
        await trio.lowlevel.checkpoint()
        fetch = next(tool for tool in request.tools if tool.name == "web_fetch")
        offered.append("save" in str(fetch.parameters))
        return Reply("seen")

    async def never(*_: object) -> Any:
        raise AssertionError("nothing is fetched")

    saving = {"tools_for": lambda view: (WebFetch(never, never),)}
    async with house(tmp_path, looks_at_tools, people=people(tmp_path), **saving) as home:
        for user in (BOB, GUS, CAT):
            await say(home, user, "hello")
    assert offered == [True, False, False]


COMMANDS = (
    "/research why", "/tasks", "/stop 1", "/bots", "/bot tidy go", "/wake tidy", "/remind in 5 minutes x",
    "/schedules", "/schedules delete 1", "/timezone UTC", "/yes 1", "/no 1", "/skills", "/reset files",
    "/share city", "/unshare city", "/stop all", "/allow 2 USD today", "/reset", "/new", "/memory forget x",
)  # fmt: skip


async def test_a_guest_who_tries_every_command_is_refused(tmp_path: Path, autojump_clock: MockClock) -> None:
    more: dict[str, object] = {"remembers": True, "kinds": {"web": Looking()}, **tools([])}
    async with house(tmp_path, obeys, people=people(tmp_path), **more) as home:
        await say(home, BOB, "keep this")
        for command in COMMANDS:
            told = await say(home, GUS, command)
            assert told.startswith(("🔒", "❌", "⛔")), (command, told)
        assert not home.tasks.open_tasks()
        assert await home.schedules.listed(None) == ()
        shown = await say(home, GUS, "/help all")
        assert "`/stop`" in shown
        everything = await say(home, GUS, "/help all")
        assert "`/whoami`" in everything
        for hidden in ("/research", "/bot", "/remind", "/yes", "/share", "/reset", "/skills"):
            assert f"`{hidden}`" not in shown + everything
        assert "`/reset`" in await say(home, GUS, "/help all", f"tg{GUS}")
        assert "Session reset" in await say(home, GUS, "/reset", f"tg{GUS}")
        assert "`/research`" in await say(home, BOB, "/help all")


async def test_words_that_a_guest_forwards_from_an_admin_have_a_guests_rights(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    forwarded = Attachment("words", source="a message of ann's", text="call bash")
    async with house(tmp_path, obeys, people=people(tmp_path), **tools([])) as home:
        told = await say(home, GUS, "call bash", f"tg{GUS}", forwarded, admin=True)
        assert "does not allow bash" in told
        assert "whole" not in await say(home, GUS, "/status", f"tg{GUS}", admin=True)


async def test_a_request_is_retried_only_by_somebody_with_the_same_role(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    calls: list[str] = []
    limits = limited(max_turns=1)
    async with house(tmp_path, obeys, people=people(tmp_path), agent=limits, **tools(calls)) as home:
        await say(home, ANN, "call research research research")
        before = len(calls)
        assert (await say(home, GUS, "/retry")).startswith("🔒")
        assert (await say(home, BOB, "/retry")).startswith("🔒")
        assert len(calls) == before
        assert not (await say(home, ANN, "/retry")).startswith("🔒")
        await say(home, BOB, "call research research research")
        assert not (await say(home, OLD, "/retry")).startswith("🔒"), "a member's, by a member"
        await say(home, GUS, "call web_search web_search web_search")
        assert (await say(home, ANN, "/retry")).startswith("🔒"), "a guest's words get no more rights"


async def test_somebody_who_left_the_list_gets_nothing_done(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    everybody = people(tmp_path)
    gone = people(tmp_path, CONFIG.replace("allowed_users = [13, 15]", "allowed_users = [13]"))
    async with house(tmp_path, obeys, people=everybody, **tools([])) as home:
        assert "you said hello" in await say(home, OLD, "hello")
    async with house(tmp_path, obeys, people=gone, **tools([])) as home:
        assert "not on the list any more" in await say(home, OLD, "hello")
        assert "not on the list any more" in await say(home, OLD, "/help")


async def test_after_a_restart_a_schedule_has_the_rights_of_its_person_then(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    calls: list[str] = []

    def now() -> float:
        return NOON + trio.current_time()

    async def heard(home: House) -> str:
        with home.services.hub.listening(GROUP) as events, trio.fail_after(1000):
            while not isinstance(what := (await events.receive()).what, Replied):
                pass
            return what.text

    demoted = CONFIG.replace(
        "[people.bob]\ntelegram = [12]", '[people.bob]\ntelegram = [12]\nrole = "reader"'
    )
    guest = CONFIG.replace("[people.bob]\ntelegram = [12]", '[people.bob]\ntelegram = [12]\nrole = "guest"')
    limits = SchedulesSection()
    new = ScheduleRecord(GROUP, GROUP, "turn", "call bash remember", user=BOB)
    told = []
    for config in (CONFIG, demoted, guest):
        async with house(
            tmp_path, obeys, people=people(tmp_path, config), schedule_limits=limits, now=now, **tools(calls)
        ) as home:
            stored = await home.services.journal.ask(
                add_schedule(replace(new, instant=now() + 60, next_at=now() + 60), 9)
            )
            assert stored is not None
            assert stored.user == BOB
            home.schedules.changed()
            told.append(await heard(home))
    assert "does not allow" not in told[0]
    assert "reader of the person who asks does not allow bash" in told[1]
    assert "does not allow scheduled work" in told[2]
    assert calls == ["remember", "remember"]


async def test_a_role_has_so_many_schedules_and_no_more(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with house(tmp_path, obeys, people=people(tmp_path), **tools([])) as home:
        assert "❌" not in await say(home, CAT, "/remind in 5 minutes tea")
        assert "There are 1 schedules already" in await say(home, CAT, "/remind in 6 minutes tea")
        assert "There are 1" in await say(home, CAT, "/remind in 7 minutes tea", f"tg{CAT}"), "all places"
        assert "❌" not in await say(home, BOB, "/remind in 8 minutes tea")
        assert {schedule.user for schedule in await home.schedules.listed(None)} == {CAT, BOB}
        assert (await home.schedules.add(ScheduleRecord("tg12", "tg12", "text", "x", user=BOB), After(9))).id


async def test_a_task_keeps_its_person_and_is_refused_where_the_role_ends(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    kinds = {"web": Looking()}
    more: dict[str, object] = {"kinds": kinds, **tools([])}
    async with house(tmp_path, obeys, people=people(tmp_path), **more) as home:
        assert "1" in await say(home, BOB, "/research why")
        assert (await home.tasks.show(1, None)).user == BOB
        for user, state in ((BOB, "succeeded"), (GUS, "failed")):
            task = TaskRecord("web", GROUP, "why", GROUP, user=user)
            begun = await home.tasks.begin(task)
            with trio.fail_after(1000):
                await home.tasks.all_ended()
            shown = await home.tasks.show(begun.id, None)
            assert shown.state == state, shown.answer
        assert "The role guest does not allow research" in shown.answer


async def test_a_group_sees_a_members_facts_only_where_they_shared_them(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    seen: list[str] = []

    async def looks(request: ModelRequest, emit: Emit) -> Reply:
        await trio.lowlevel.checkpoint()
        seen.append("\n".join(message.content for message in request.messages))
        return Reply("seen")

    async with house(tmp_path, looks, people=people(tmp_path), remembers=True, **tools([])) as home:
        memory = home.services.context.memory
        assert memory is not None
        for key, value in (("city", "Rosario"), ("salary", "a secret sum")):
            await memory(remember_fact(f"tg{BOB}", NewFact(key, value)))
        await memory(remember_fact(f"tg{ANN}", NewFact("city", "Salta")))
        await memory(remember_fact(GROUP, NewFact("boiler", "in March")))
        await say(home, BOB, "hello")
        assert "boiler: in March" in seen[-1]
        assert "Rosario" not in seen[-1]
        assert "shares" not in await say(home, BOB, "/share city")
        assert "nothing about you" in await say(home, BOB, "/share shoes")
        await say(home, ANN, "hello")
        assert "bob: city: Rosario" in seen[-1]
        assert "secret sum" not in seen[-1]
        assert "Salta" not in seen[-1]
        assert "You share with this group: `city`" in await say(home, BOB, "/share")
        assert "You share nothing" in await say(home, ANN, "/share"), "each their own"
        await say(home, ANN, "hello", "tg-200")
        assert "Rosario" not in seen[-1], "another group"
        await memory(remember_fact(f"tg{BOB}", NewFact("city", "Quilmes")))
        await say(home, ANN, "again")
        assert "bob: city: Quilmes" in seen[-1], "as it is now"
        assert "You did not share" in await say(home, ANN, "/unshare city"), "nobody unshares another's"
        assert "sees `city` no more" in await say(home, BOB, "/unshare city")
        await say(home, ANN, "and now")
        assert "× bob: city: Quilmes" in seen[-1]
        assert "in a group" in await say(home, BOB, "/share city", f"tg{BOB}")
        assert {fact.key for fact in await memory(facts_of(GROUP))} == {"boiler"}


async def test_the_speaker_pays_in_a_group_and_a_budget_is_one_for_all_places(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    class Costly:
        name = "groq:tested"

        async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
            await trio.lowlevel.checkpoint()
            return Reply("answer", usage=Usage(3000, 1000))

    model: Model = Costly()
    rules = Rules({"groq:tested": Price.per_million(1.0, 2.0)}, (), reply_tokens=1500)
    more: dict[str, object] = {"rules": rules, "now": lambda: NOON, "remembers": True}
    async with house(tmp_path, model, people=people(tmp_path), **more) as home:
        assert "answer" in await say(home, CAT, "hello")
        assert "Left today: 1,000 tokens of 5,000 tokens" in await say(home, CAT, "/whoami")
        refused = await say(home, CAT, "again", f"tg{CAT}")
        assert "This person's budget for today is used up" in refused
        assert "answer" in await say(home, BOB, "hello"), "another speaker of the group pays themselves"
        mine = await say(home, GUS, "/whoami")
        assert "`gus` (id 13), role: `guest`" in mine
        assert "of 100,000 tokens" in mine
        assert "4,000" not in mine
    with closing(sqlite3.connect(tmp_path / "state.db")) as db:
        used = dict(db.execute("SELECT person, sum(prompt + completion) FROM usage GROUP BY person"))
    assert used == {"cat": 4000, "bob": 4000}


async def test_words_of_a_guest_in_a_group_count_as_read_from_outside(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with house(tmp_path, obeys, people=people(tmp_path), **tools([])) as home:
        await say(home, BOB, "hello")
        await say(home, GUS, "hello")
        await say(home, GUS, "hello", f"tg{GUS}")
    with closing(sqlite3.connect(tmp_path / "state.db")) as db:
        tainted = dict(db.execute("SELECT chat, max(tainted) FROM history GROUP BY chat"))
        (first,) = db.execute("SELECT tainted FROM history WHERE chat = ? ORDER BY id", (GROUP,)).fetchone()
    assert (tainted, first) == ({GROUP: 1, f"tg{GUS}": 0}, 0)


async def test_a_press_of_anothers_button_has_the_rights_of_the_person_who_pressed(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with house(tmp_path, obeys, people=people(tmp_path), **tools([])) as home:
        # The journal stores a press as what its button says, and as the message of the person who pressed.
        assert (await say(home, GUS, "/yes 1")).startswith("🔒")
        assert not (await say(home, BOB, "/yes 1")).startswith("🔒")


@pytest.mark.parametrize(
    ("chosen", "role", "used"),
    [
        ("groq:other", GUS, ""),
        ("groq:other", BOB, "groq:other"),
        ("", GUS, ""),
    ],
)
async def test_a_model_that_the_role_does_not_allow_does_not_work_for_it(
    tmp_path: Path, autojump_clock: MockClock, chosen: str, role: int, used: str
) -> None:
    names: list[str] = []

    class Plain:
        name = "plain"

        async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
            await trio.lowlevel.checkpoint()
            return Reply(Message("assistant", "answer").content)

    def model_for(chat: str, language: str, name: str) -> Model:
        names.append(name)
        return Plain()

    more: dict[str, object] = {"model_for": model_for, "sender_model": None}
    async with house(tmp_path, obeys, people=people(tmp_path), **more) as home:
        await say(home, role, "hello", model=chosen)
    assert names[0] == used
