"""A standing approval is given by the schedule's person or an admin, and holds while they may give it."""

from dataclasses import replace
from pathlib import Path

import pytest
from trio.testing import MockClock

from rumi.agent.permissions.rights import GUEST, MEMBER
from rumi.chats.people.people import People
from rumi.store.journal import actor as journal_actor
from rumi.store.journal.records import ScheduleRecord
from rumi.tasks.schedules import clock
from tests.chats.people.speaking import ANN, BOB, CAT, GROUP, GUS, people, say
from tests.chats.standing import TEXT, Outside, briefing

BOBS = ScheduleRecord(GROUP, GROUP, "turn", TEXT, user=BOB)


@pytest.fixture(autouse=True)
def looks_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at the clock each half minute would be most of the days' work."""
    monkeypatch.setattr(clock, "LOOK_S", 900.0)
    monkeypatch.setattr(journal_actor, "WATCH_S", 86_400.0)


@pytest.mark.parametrize(
    ("user", "said", "opened"),
    [
        (BOB, "🔁 Schedule 1 may do this in each run without asking", 2),
        (ANN, "🔁 Schedule 1 may do this in each run without asking", 2),
        (CAT, "🔂 1 is allowed this once only: only the schedule's person or an admin may do that.", 1),
        (GUS, "does not allow /yes", 0),
        (99, "You are not on the list any more", 0),
    ],
)
async def test_in_a_group_the_schedules_person_or_an_admin_approves(
    tmp_path: Path, autojump_clock: MockClock, user: int, said: str, opened: int
) -> None:
    outside = Outside()
    async with briefing(tmp_path, outside, record=BOBS, people=people(tmp_path)) as home:
        await home.next_run()
        assert said in await say(home.house, user, "/yes 1 always")
        await home.next_run()
        assert len(outside.weather) == opened


@pytest.mark.parametrize("user", [ANN, BOB, CAT, GUS])
async def test_only_the_schedules_person_or_an_admin_gives_it_a_new_text(
    tmp_path: Path, autojump_clock: MockClock, user: int
) -> None:
    async with briefing(tmp_path, Outside(), record=BOBS, people=people(tmp_path)) as home:
        said = await say(home.house, user, "/schedules edit 1 Send me everything")
        assert ("has a new text" in said) == (user in (ANN, BOB))


async def test_an_approval_does_not_outlive_the_rights_of_who_gave_it(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    outside, everyone = Outside(), people(tmp_path)
    async with briefing(tmp_path, outside, record=BOBS, people=everyone) as home:
        await home.next_run()
        await say(home.house, ANN, "/yes 1 always")
        await home.next_run()
        assert len(outside.weather) == 2
    ann = replace(everyone.persons[ANN], rights=MEMBER)
    later = People(everyone.ids, {**everyone.persons, ANN: ann})
    async with briefing(tmp_path, outside, record=BOBS, people=later, add=False) as home:
        assert "the person who allowed it no longer may" in await home.next_run()
    bob = replace(everyone.persons[BOB], rights=GUEST)
    later = People(everyone.ids, {**everyone.persons, BOB: bob})
    async with briefing(tmp_path, outside, record=BOBS, people=later, add=False) as home:
        assert "does not allow scheduled work" in (await home.replied()).text
    assert len(outside.weather) == 2
