"""Recipes whose work begins without a person: at a time, or because another program sends something."""

import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest
import yaml

from tests.channels.triggers.bodies import RUN, Sample, github
from tests.recipes.led import then
from tests.recipes.readers import Readers, reading

pytestmark = pytest.mark.bubblewrap

PLAYED = (1, 2, 3, 4, 5)
"""The numbers of the page's recipes that are played here."""

FEED = (
    "<rss><channel><title>News</title><item><title>Today</title>"
    "<description>{}</description></item></channel></rss>"
)


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Readers]:
    with reading(tmp_path_factory.mktemp("unattended"), *PLAYED) as readers:
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


def failed_run(title: str, run: int) -> Sample:
    """GitHub's event of a failed run, of a commit with this title."""
    return github(
        "workflow_run", "", action="completed", workflow_run={**RUN, "id": run, "display_title": title}
    )


@pytest.mark.long
def test_a_failed_build_is_told_once(readers: Readers) -> None:
    talk, recipe = readers.talks[4], readers.recipes[4]
    secret = readers.printed[4].split()[-1]
    words = "A build has ended."

    def post(sample: Sample, **headers: str) -> int:
        headers = {**sample.headers, **sample.proofs(secret=secret), **headers}
        return httpx.post(
            f"{readers.address}/triggers/ci", content=sample.body, headers=headers, trust_env=False
        ).status_code

    readers.model.on(words, then(answer="It was a test."))
    assert readers.shell(recipe.take("sh")).startswith("202 ")
    assert recipe.is_played()
    readers.having(talk, "It was a test.")

    readers.model.on(
        words, then(answer="CI failed on main: https://github.com/Codertocat/Hello-World/actions/runs/1")
    )
    failed = failed_run("Fix the parser", 1)
    assert post(failed, **{"X-Hub-Signature-256": "sha256=" + "0" * 64}) == 401
    assert post(failed) == 202
    assert post(failed) == 200  # GitHub delivers it again
    readers.having(talk, "CI failed on main")
    assert "Fix the parser" in readers.model.read(words)
    readers.bot.idle()
    assert readers.model.asked(words) == 2

    before = len(talk.texts)
    assert post(failed_run(readers.order(), 2), **{"X-GitHub-Delivery": "another"}) == 202
    readers.refuses(talk, before)


@pytest.mark.long
def test_the_home_sends_a_message(readers: Readers) -> None:
    talk, recipe = readers.talks[5], readers.recipes[5]
    words = "Tell me in one short line"
    readers.model.on(words, then(answer="The washing machine is done."))
    bearer = readers.printed[5].split("rumi_bearer: ")[1].strip().strip('"')
    command = rest_command(recipe.take("yaml"), {"rumi_bearer": bearer})
    assert request(command, {"what": "The washing machine is done", "now()": "2026-11-28 17:00"}) == 202
    readers.having(talk, "The washing machine is done.")
    assert '"what": "The washing machine is done"' in readers.model.read(words)

    readers.model.on(words, then(answer="The freezer is too warm."))
    readers.shell(recipe.take("sh"))
    assert recipe.is_played()
    readers.having(talk, "The freezer is too warm.")
    assert "-9 degrees" in readers.model.read(words)

    before = len(talk.texts)
    order = readers.order().replace('"', '\\"')
    assert request(command, {"what": order, "now()": "2026-11-28 17:01"}) == 202
    readers.refuses(talk, before)


def rest_command(config: str, secrets: Mapping[str, str]) -> dict[str, Any]:
    """The only `rest_command` of a configuration of Home Assistant."""

    class Loader(yaml.SafeLoader):
        """Knows Home Assistant's own tag."""

    Loader.add_constructor("!secret", lambda loader, node: secrets[str(node.value)])
    (command,) = yaml.load(config, Loader)["rest_command"].values()  # a safe loader
    found: dict[str, Any] = command
    return found


def request(command: Mapping[str, Any], values: Mapping[str, str]) -> int:
    """Send what Home Assistant sends for it; the status of the answer."""
    payload = str(command["payload"])
    for name, value in values.items():
        assert f"{{{{ {name} }}}}" in payload
        payload = payload.replace(f"{{{{ {name} }}}}", value)
    headers = {**command["headers"], "Content-Type": command["content_type"]}
    return httpx.request(
        str(command["method"]).upper(),
        command["url"],
        content=payload.encode(),
        headers=headers,
        trust_env=False,
    ).status_code
