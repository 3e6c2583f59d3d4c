"""Recipes whose work begins when another program sends something: triggers."""

from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest
import yaml
from tests.channels.triggers.bodies import RUN, Sample, github

from tests.recipes.led import then
from tests.recipes.readers import Readers, reading

pytestmark = pytest.mark.bubblewrap

PLAYED = (4, 5)
"""The numbers of the page's recipes that are played here."""


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Readers]:
    with reading(tmp_path_factory.mktemp("events"), *PLAYED) as readers:
        yield readers


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
