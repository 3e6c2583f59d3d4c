"""A watch every minute for a week in virtual time: what it costs, what it says, and what it misses."""

import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
import trio
import trio.testing

from rumi.models.model import Emit, ModelRequest, Reply, ToolCall
from rumi.store.journal import actor as journal_actor
from rumi.store.journal.records import ScheduleRecord
from rumi.tasks.schedules import clock
from rumi.tasks.schedules.when import Every
from tests.chats.house import house
from tests.tasks.schedules.test_schedules import LIMITS, MADRID, Wall, rows, texts_of
from tests.tasks.schedules.watching import URL, Site

DAY_S = 86_400.0
CHANGES = 5
SILENT = 2
"""The change about which the model has nothing to tell."""


@pytest.fixture(autouse=True)
def looks_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at the clock each half minute would be most of the week's work."""
    monkeypatch.setattr(clock, "LOOK_S", 900.0)
    monkeypatch.setattr(journal_actor, "WATCH_S", 86_400.0)


@pytest.fixture
def fast_path() -> Iterator[Path]:
    """A folder in memory, where writing through costs nothing."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@dataclass
class Week:
    """What a week has seen."""

    requests: list[str] = field(default_factory=list)
    lives: int = 0
    fetched: int = 0

    async def model(self, request: ModelRequest, emit: Emit) -> Reply:
        """Say what is new, or nothing about one of the changes."""
        await trio.sleep(2.0)
        told = next(m.content for m in reversed(request.messages) if "A program has found" in m.content)
        change = told.partition("+version ")[2].partition("\n")[0].partition(" ")[0]
        self.requests.append(change)
        if change == str(SILENT):
            return Reply("", (ToolCall("c1", "nothing_new", json.dumps({"why": "a comma"})),))
        return Reply(f"now it is version {change}")


async def play(path: Path, seed: int, days: float = 7.0) -> Week:
    """Play a week with faults of the site and ends of the process; return what it has seen."""
    random, week = Random(seed), Week()
    wall = Wall()
    begin = wall()
    end = begin + days * DAY_S
    moments = sorted(begin + (0.1 + 0.8 * random.random()) * days * DAY_S for _ in range(CHANGES))
    site = Site("version 0 of the page", random=random, slow_s=0.5)
    first = True
    while wall() < end:
        life_s = min(random.uniform(0.3, 1.5) * DAY_S, end - wall() + 1)
        # Some processes end in the middle of the check, or of the turn, that follows a change.
        ahead = [moment for moment in moments if moment > wall()]
        if ahead and random.random() < 0.6:
            life_s = min(life_s, ahead[0] - wall() + random.uniform(55.0, 66.0))
        with trio.move_on_after(life_s):
            async with house(
                path, week.model, now=wall, schedule_limits=LIMITS, sources=site.sources()
            ) as home:
                if first:
                    options = json.dumps({"if_changed": [URL]})
                    new = ScheduleRecord("local", "cli", "turn", "tell me", options=options)
                    site.random = None
                    await home.schedules.add(await home.schedules.first_read(new), Every("* * * * *"), MADRID)
                    site.random, first = random, False
                while True:
                    due = [moment for moment in moments if moment > wall()]
                    if not due:
                        await trio.sleep_forever()
                    await trio.sleep(due[0] - wall())
                    site.text = f"version {CHANGES - len(due) + 1} of the page"
        due = [moment for moment in moments if moment > wall()]
        site.text = f"version {CHANGES - len(due)} of the page"
        week.lives += 1
    site.random = None
    async with house(path, week.model, now=wall, schedule_limits=LIMITS, sources=site.sources()) as home:
        await trio.sleep(600)
        assert await home.open_chats() == ()
    week.fetched = site.fetched
    return week


def check(path: Path, week: Week) -> None:
    """Each change began one turn, each turn was told or silent, and failures were told."""
    begun = rows(path, "SELECT id FROM messages WHERE schedule = 1 AND NOT notice")
    said = [text for text in texts_of(path) if text.startswith("now it is version")]
    silent = rows(path, "SELECT count(*) FROM outbox WHERE text LIKE 'Nothing new%' AND delivered > 0")
    assert len(begun) == CHANGES, "each change begins one turn"
    versions = [text.split()[4] for text in said]
    loud = [str(n) for n in range(1, CHANGES + 1) if n != SILENT]
    assert versions == loud, "each change is told once, in order"
    assert silent[0][0] == 1, "what is silent stays silent"
    assert len(week.requests) <= CHANGES + week.lives, "a model is called for changes alone"
    fails = [text for text in texts_of(path) if "can't read what it watches" in text]
    again = [text for text in texts_of(path) if "can read what it watches again" in text]
    others = len(texts_of(path)) - len(said) - 1 - len(fails) - len(again)
    assert others == 0, "nothing else is said"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
async def test_a_day_of_checks_each_minute_tells_each_change_once(
    fast_path: Path, autojump_clock: trio.testing.MockClock, seed: int
) -> None:
    week = await play(fast_path, seed, days=0.4)
    check(fast_path, week)


@pytest.mark.skipif(not os.environ.get("RUMI_WEEK"), reason="takes a minute or two: RUMI_WEEK=1")
@pytest.mark.parametrize("seed", range(3))
async def test_a_week_of_checks_each_minute_tells_each_change_once(
    fast_path: Path, autojump_clock: trio.testing.MockClock, seed: int
) -> None:
    week = await play(fast_path, seed)
    check(fast_path, week)
    print(
        f"\nseed {seed}: {week.fetched} looks, {week.lives} processes, {len(week.requests)} model calls,"
        f" {len(texts_of(fast_path)) - 1} messages, 1 silent turn"
    )
