"""Recipes whose work begins at a time: schedules."""

import os
import time
from collections.abc import Iterator

import pytest

from tests.recipes.led import then
from tests.recipes.readers import Readers, reading

pytestmark = pytest.mark.bubblewrap

PLAYED = (1, 2, 3)
"""The numbers of the page's recipes that are played here."""

FEED = (
    "<rss><channel><title>News</title><item><title>Today</title>"
    "<description>{}</description></item></channel></rss>"
)


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Readers]:
    with reading(tmp_path_factory.mktemp("times"), *PLAYED) as readers:
        yield readers


@pytest.mark.long
def test_a_briefing_needs_one_yes_for_all_mornings(readers: Readers) -> None:
    talk, recipe = readers.talks[1], readers.recipes[1]
    readers.put("/madrid", "<title>Madrid</title><p>Sunny, 14 degrees</p>")
    readers.put("/feed.xml", FEED.format("Trams run again"), "application/rss+xml")
    for day in (27, 30):
        readers.put(f"/menu/2026-11-{day}", f"<p>Soup of day {day}</p>")
    readers.shell(recipe.take("sh"))
    (always,) = recipe.said()
    assert recipe.is_played()
    root = f"http://{readers.site.web.endpoint}"

    def briefing(day: int) -> None:
        pages = [[("web_fetch", {"url": f"{root}{path}"})] for path in ("/madrid", "/feed.xml")]
        menu = [("web_fetch", {"url": f"{root}/menu/2026-11-{day}"})]
        readers.model.on("My briefing in six lines", then(*pages, menu, answer=lambda done: "\n".join(done)))
        readers.model.on("<answers>", then(menu, answer=lambda done: f"The menu: {done[-1]}"))

    briefing(27)
    first = readers.having(talk, "🔁 /yes 1 always", readers.fire(talk))
    assert "Sunny, 14 degrees" in first.text
    assert "Trams run again" in first.text
    assert readers.asked("/menu/") == []
    assert [button["text"] for button in first.buttons][-1].startswith("🔁")
    talk.say(always)
    readers.having(talk, "Soup of day 27")
    briefing(30)
    second = readers.having(talk, "Soup of day 30", readers.fire(talk))
    assert "needs your yes" not in second.text

    readers.put("/feed.xml", FEED.format(readers.order()), "application/rss+xml")
    readers.refuses(talk, readers.fire(talk))


@pytest.mark.long
def test_a_watched_price_is_told_when_it_changes(readers: Readers) -> None:
    talk, recipe = readers.talks[2], readers.recipes[2]
    readers.put("/kettle", "<title>Kettle</title><p>Price: 39 EUR</p><p>In stock: 5</p>")
    assert "Watching " in readers.shell(recipe.take("sh"))
    assert recipe.is_played()
    watch = readers.newest(talk)
    words = "If the price of the kettle is another one"
    readers.model.on(words, then([("nothing_new", {"why": "not the price"})], answer="unheard"))
    assert readers.comes(watch) == "unchanged"
    assert readers.model.asked(words) == 0
    readers.put("/kettle", "<title>Kettle</title><p>Price: 39 EUR</p><p>In stock: 4</p>")
    assert readers.comes(watch) == "nothing_new"
    assert "+In stock: 4" in readers.model.read(words)
    assert len(talk.texts) == 1
    readers.model.on(words, then(answer="The kettle: 39 → 29 EUR"))
    readers.put("/kettle", "<title>Kettle</title><p>Price: 29 EUR</p><p>In stock: 4</p>")
    assert readers.comes(watch) == "said"
    readers.having(talk, "The kettle: 39 → 29 EUR")

    readers.put("/kettle", f"<title>Kettle</title><p>Price: 29 EUR</p><p>{readers.order()}</p>")
    assert readers.comes(watch) == "parked"
    readers.refuses(talk)


@pytest.mark.long
def test_a_backup_that_did_not_run_is_told(readers: Readers) -> None:
    talk, recipe = readers.talks[3], readers.recipes[3]
    log = readers.bot.workspace(talk.chat) / "backup.log"
    recipe.place["~/.rumi"] = str(readers.bot.program.home)
    readers.shell(recipe.take("sh"))
    readers.shell(recipe.take("sh"))
    assert recipe.is_played()
    schedule, calls = readers.newest(talk), len(readers.model.bodies)
    assert readers.comes(schedule) == "nothing_new"
    assert len(talk.texts) == 1
    old = time.time() - 3 * 86400
    os.utime(log, (old, old))
    assert readers.comes(schedule) == "said"
    assert readers.having(talk, "No backup").text == "No backup since yesterday."
    log.unlink()
    before = len(talk.texts)
    assert readers.comes(schedule) == "said"
    assert readers.having(talk, "No backup", before).text == "No backup since yesterday."
    assert len(readers.model.bodies) == calls
