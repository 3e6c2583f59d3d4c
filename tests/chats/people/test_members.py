"""`/people` and `/usage` in a group: who has written there, what they have used, and who may see it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rumi.chats.budgets.meter import Rules
from rumi.chats.budgets.prices import Price
from rumi.chats.people.people import People
from rumi.models.metering import Limit
from rumi.models.model import Emit, ModelRequest, Reply, Usage
from rumi.platform.config.groups import Groups
from rumi.platform.config.schema import GroupSection
from rumi.store.journal.members import MOST_MEMBERS, members_of
from rumi.store.journal.records import Incoming
from tests.chats.house import House, house
from tests.chats.people.speaking import ANN, BOB, CAT, GROUP, GUS, OLD, people, say

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()


class Costly:
    """A model of which each call costs 3,000 and 1,000 tokens."""

    name = "groq:tested"

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        await trio.lowlevel.checkpoint()
        return Reply("answer", usage=Usage(3000, 1000))


def inside(
    path: Path, *limits: Limit, everyone: People | None = None, **more: object
) -> Mapping[str, object]:
    rules = Rules({"groq:tested": Price.per_million(1.0, 2.0)}, limits, reply_tokens=1500)
    fixed = {"rules": rules, "now": lambda: NOON + trio.current_time(), "remembers": True}
    return {**fixed, "people": everyone or people(path), **more}


async def everybody_writes(home: House) -> None:
    names = {ANN: "Ann Lee (@ann)", BOB: "Bob", GUS: "`Gus` [x](https://evil.example)", OLD: "somebody"}
    for user, name in names.items():
        await say(home, user, "hello", author=name)
    await trio.sleep(1)
    await say(home, BOB, "hello", f"{GROUP}_5", author="Bobby @all evil.example")
    await say(home, CAT, "hello", "tg-200", author="Cat")


async def test_the_people_of_a_group_are_those_who_have_written_there(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with house(tmp_path, Costly(), **inside(tmp_path)) as home:  # type: ignore[arg-type]
        await everybody_writes(home)
        shown = await say(home, ANN, "/people", author="Ann Lee (@ann)")
        lines = [line for line in shown.splitlines() if line.startswith("- ")]
        assert sorted(lines) == [
            "- `ann`, calls themselves `Ann Lee (@ann)` (id 11): `admin`, since 23 November 2026",
            "- `bob`, calls themselves `Bobby @all evil.example` (id 12): `member`, since 23 November 2026",
            "- `gus`, calls themselves `'Gus' [x](https://evil.example)` (id 13): `guest`, "
            "since 23 November 2026",
            "- calls themselves `somebody` (id 15): `member`, since 23 November 2026",
        ]
        assert "Cat" not in shown, "another group's"
        assert "has not written here: `cat`\n" in shown
        assert "no list of a group's members" in shown
        assert "rumi config people add" in shown
        members = await say(home, BOB, "/people")
        assert "`ann`" in members
        assert "id 1" not in members, "only an admin sees ids"
        assert "cat" not in members
        assert "does not allow /people" in await say(home, GUS, "/people")
        assert "does not allow /people" in await say(home, CAT, "/people")
        assert "send it there" in await say(home, BOB, "/people", f"tg{BOB}")
        assert "send it there" in await home.ask("/people")
        assert "`/people`" in await say(home, BOB, "/help")
        assert "`/people`" not in await say(home, GUS, "/help")


async def test_who_may_not_talk_any_more_is_shown_as_such(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with house(tmp_path, Costly(), **inside(tmp_path)) as home:  # type: ignore[arg-type]
        await everybody_writes(home)
    fewer = people(tmp_path, '[people.ann]\ntelegram = [11]\nrole = "admin"\n')
    async with house(tmp_path, Costly(), **inside(tmp_path, everyone=fewer)) as home:  # type: ignore[arg-type]
        shown = await say(home, ANN, "/people")
        assert "(id 12): may not talk to me any more, since" in shown
        assert "`ann`" in shown


@pytest.mark.parametrize(
    ("section", "says"),
    [
        (GroupSection(), "commands, messages that mention me, and replies to mine"),
        (GroupSection(listen="mention"), "commands, and messages that mention me."),
        (GroupSection(listen="all"), "I answer every message"),
        (GroupSection(quiet="22:00-07:00"), "From 22:00–07:00 I send nothing here unless you write"),
    ],
    ids=["default", "mention", "all", "quiet"],
)
async def test_the_list_says_how_the_group_is_listened_to(
    tmp_path: Path, autojump_clock: MockClock, section: GroupSection, says: str
) -> None:
    groups = Groups({"-100": section})
    async with house(tmp_path, Costly(), **inside(tmp_path, group_of=groups.of)) as home:  # type: ignore[arg-type]
        shown = await say(home, ANN, "/people", author="Ann")
        assert says in shown
        assert ("From" in shown) == bool(section.quiet)


async def test_a_group_with_many_people_is_remembered_and_shown_in_bounds(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with house(tmp_path, Costly(), **inside(tmp_path)) as home:  # type: ignore[arg-type]
        many = [
            Incoming(chat=GROUP, text="x", user=1000 + number, author=f"P{number}", answer="no")
            for number in range(MOST_MEMBERS + 20)
        ]
        await home.inbox.accept_all(many)
        shown = await say(home, ANN, "/people", author="Ann")
        assert len(await home.services.journal.ask(members_of(GROUP))) == MOST_MEMBERS
        assert f"- and {MOST_MEMBERS - 50} more" in shown
        assert len(shown) < 8000


async def test_an_admin_sees_what_each_person_has_used_in_the_group_and_others_see_their_own(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    limit = Limit("person", "usd", "day", 10**9)
    async with house(tmp_path, Costly(), **inside(tmp_path, limit)) as home:  # type: ignore[arg-type]
        await everybody_writes(home)
        shown = await say(home, ANN, "/usage")
        lines = shown.split("In this group, by person:\n")[1].splitlines()
        twice = "- `bob`: today 8,000 tokens, 0.01 USD; this month 8,000 tokens, 0.01 USD; "
        assert lines[0] == twice + "left today: 0.99 USD of 1.00 USD"
        assert sorted(line.split(":")[0] for line in lines) == [
            *("- `ann`", "- `bob`", "- `gus`", "- `somebody #15`")
        ]
        assert "left today: 96,000 tokens of 100,000 tokens" in shown, "the budget of the role guest"
        assert "cat" not in shown, "another group's"
        mine = await say(home, GUS, "/usage")
        own = mine.split("Yours, in this group:\n")[1]
        assert own.startswith("- `gus`: today 4,000 tokens")
        assert "bob" not in mine
        assert "by person" not in await say(home, BOB, "/usage", f"tg{BOB}")


async def test_who_has_used_nothing_is_told_so(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with house(tmp_path, Costly(), **inside(tmp_path)) as home:  # type: ignore[arg-type]
        await say(home, ANN, "hello", author="Ann")
        assert (await say(home, BOB, "/usage")).endswith("Yours, in this group:\n- nothing this month")
