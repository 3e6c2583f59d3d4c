"""A month of schedules in virtual time: clock changes, jumps, suspends, ends of processes; what must hold.

The wall clock goes on with the virtual one, and is set now and then. A process ends at any moment, in the
middle of what it does, and the next one finds what is in the file.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from random import Random
from sqlite3 import connect

import trio
import trio.testing

from rumi.platform.config.schema import SchedulesSection
from rumi.store.journal.records import ScheduleRecord
from rumi.tasks.schedules.schedules import Schedules
from rumi.tasks.schedules.times import following, instant_of
from rumi.tasks.schedules.when import After, Every, When
from tests.chats.house import echo, house
from tests.searching import by_promise
from tests.tasks.schedules.answering import Answering

DAY_S = 86_400.0
ZONES = ("Europe/Madrid", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "UTC")
CRONS = (
    *("30 2 * * *", "0 9 * * 1", "15 3 * * *", "0 */6 * * *", "45 1 * * *", "0 0 1 * *", "20 14 * * 1-5"),
    *("0 3 * * *", "30 23 * * 0", "*/30 2 * * *"),
)


@dataclass
class Wall:
    """The clock on the wall."""

    ahead: float

    def __call__(self) -> float:
        return self.ahead + trio.current_time()


@dataclass
class Month:
    """What a month has seen."""

    added: dict[int, tuple[str, str, float]] = field(default_factory=dict)
    """By number: recurrence, zone, and the instant from which on it fires."""
    answering: Answering | None = None
    """Scheduled turns that park calls, and who answers."""


async def play_answers(path: Path, seed: int) -> None:
    """Play a month in which scheduled turns park calls, and people answer."""
    await play(path, seed, parks=True)


async def play(path: Path, seed: int, days: int = 31, *, parks: bool = False) -> None:
    """Play a month; raises an `AssertionError` for what must not be."""
    random = Random(seed)
    begins = random.choice([datetime(2026, 10, 10), datetime(2027, 3, 5), datetime(2026, 3, 20)])
    wall = Wall(instant_of(begins, "UTC") - trio.current_time())
    month = Month(answering=Answering(path, Random(seed)) if parks else None)
    end = wall() + days * DAY_S
    first = True
    while wall() < end:
        life_s = random.choice([0.3, 2.0, 3600.0, DAY_S, 5 * DAY_S, 9 * DAY_S]) * random.uniform(0.5, 1.5)
        await _process(path, month, wall, random, min(life_s, end - wall() + 1), first=first)
        first = False
        wall.ahead += random.choice([0.0, 5.0, 90.0, 1800.0, 6 * 3600.0, 2 * DAY_S])  # nothing runs
    await _process(path, month, wall, random, 3 * 3600.0, first=False, calm=True)
    check(path, month, wall())
    if month.answering is not None:
        month.answering.check()


async def _process(
    path: Path, month: Month, wall: Wall, random: Random, life_s: float, *, first: bool, calm: bool = False
) -> None:
    answering, more = month.answering, {}
    if answering is not None:
        tools = (answering.page, answering.visits)
        more = {"tools_for": lambda view: tools}
    with trio.move_on_after(life_s) as life:
        async with (
            house(
                path,
                echo if answering is None else answering.model,
                now=wall,
                schedule_limits=SchedulesSection(),
                **more,
            ) as home,
            trio.open_nursery() as nursery,
        ):
            if answering is not None:
                answering.life, answering.calm = life, calm
                nursery.start_soon(answering.refuse, home)
            if first:
                for _ in range(12):
                    await _add(home.schedules, month, wall, random)
                if answering is not None:
                    await answering.begin(home)
            while True:
                if answering is not None and not calm:
                    await answering.act(home)
                await trio.sleep(random.choice([60.0, 3600.0, DAY_S / 2]) if not calm else 1800.0)
                if calm:
                    await home.inbox.accept("cli", "hello")
                    continue
                match random.randrange(8):
                    case 0:
                        wall.ahead += random.choice([40.0, 3600.0, 5 * 3600.0])  # a suspend
                    case 1:
                        wall.ahead -= random.choice([20.0, 300.0, 3600.0])  # set back
                    case 2:
                        await _add(home.schedules, month, wall, random)
                    case 3:
                        await home.inbox.accept("cli", "hello")
                    case _:
                        pass


async def _add(schedules: Schedules, month: Month, wall: Wall, random: Random) -> None:
    zone, when = random.choice(ZONES), _when(random)
    added = await schedules.add(ScheduleRecord("local", "cli", "text", f"n{random.random()}"), when, zone)
    month.added[added.id] = (added.cron, added.zone, added.instant)


def _when(random: Random) -> When:
    if random.random() < 0.3:
        return After(random.randrange(1, 20_000))
    return Every(random.choice(CRONS))


def search(
    play: Callable[[Path, int], Awaitable[None]], folder: Path, seeds: Sequence[int], first: int
) -> None:
    """Play seeds until one finds something, from the `first` promising one on; fail if none does."""
    for seed in by_promise(seeds, first):
        seed_folder = folder / str(seed)
        seed_folder.mkdir()
        if _finds(play, seed_folder, seed):
            print(f"found with seed {seed}")
            return
    raise AssertionError("no seed finds it")


def _finds(play: Callable[[Path, int], Awaitable[None]], folder: Path, seed: int) -> bool:
    """Play in virtual time, and return True if something was found."""
    try:
        trio.run(play, folder, seed, clock=trio.testing.MockClock(autojump_threshold=0))
    except AssertionError:
        return True
    except BaseExceptionGroup as group:
        if group.subgroup(AssertionError) is None:
            raise
        return True
    return False


def check(path: Path, month: Month, now: float) -> None:
    """Each instant has fired once, or is told as missed; nothing fires for another instant."""
    with closing(connect(path / "state.db")) as db:
        fires = db.execute("SELECT schedule, instant, message FROM fires").fetchall()
        stored = db.execute("SELECT id, text, cron, state, instant, missed FROM schedules").fetchall()
        replies = Counter(
            text for (text,) in db.execute("SELECT text FROM outbox WHERE text LIKE '⏰ n%'").fetchall()
        )
        notices = db.execute(
            "SELECT schedule, text FROM messages WHERE notice AND text LIKE '⏰ n%'"
        ).fetchall()
        open_ = db.execute("SELECT count(*) FROM messages WHERE reply IS NULL").fetchone()[0]
    assert open_ == 0, "every message has its reply"
    assert all(message for _, _, message in fires), "a fire stores what it fires"
    by_schedule = Counter(number for number, _ in notices)
    for id, text, cron, state, instant, missed in stored:
        if id not in month.added:
            continue  # its turns park
        began = month.added[id][2]
        said = sum(many for words, many in replies.items() if words.startswith(f"⏰ {text}"))
        assert said == by_schedule[id], "what fires is delivered once"
        if not cron:
            assert state == "done" or instant >= now, "one that fires once has fired"
            assert said == (state == "done"), "and once only"
            continue
        assert instant >= now, "its next fire is ahead"  # a process may end at that very instant
        fired = {fired_at for number, fired_at, _ in fires if number == id}
        began = min((began, *fired))  # a clock that is set back brings an earlier instant
        due = _due(cron, month.added[id][1], began, max((instant, *fired)) + 1) - ({instant} - fired)
        assert fired <= due, "each fire is for an instant of its recurrence"
        assert missed == 0, "what was missed was told"
        assert said <= len(due), "no instant fires twice"
        if said < len(due):
            told = _missed_reported(path, id)
            assert said + told >= len(due), f"schedule {id}: {len(due)} due, {said} fired, {told} told"


def _due(cron: str, zone: str, began: float, before: float) -> set[float]:
    found, instant = {began}, began
    while (instant := following(cron, zone, instant)) < before:
        found.add(instant)
    return found


def _missed_reported(path: Path, id: int) -> int:
    """How many instants of a schedule people were told of as missed, in a notice or in a late fire."""
    with closing(connect(path / "state.db")) as db:
        texts = [text for (text,) in db.execute("SELECT text FROM messages WHERE notice").fetchall()]
        (own,) = db.execute("SELECT text FROM schedules WHERE id = ?", (id,)).fetchone()
    many = 0
    for text in texts:
        for line in text.split("\n"):
            if line.startswith(f"- {id} “{own}”: "):
                many += int(line.split("”: ")[1].split()[0])
        if text.startswith(f"⏰ {own}\n") and "Missed before it: " in text:
            many += int(text.split("Missed before it: ")[1].split(".")[0])
    return many
