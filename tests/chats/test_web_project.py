"""A web project in the sandbox: its tests start a server in the background, wait for it, and are stopped."""

import json
import secrets
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from rumi.agent.events import ToolFinished, ToolOutput
from rumi.app.app import App, open_app
from rumi.app.engine import ready_engine
from rumi.chats.hub import reply_to
from rumi.platform.config.cascade import load_settings
from rumi.platform.home import Home
from tests.fakes.groq_replies import Answer, Body, answered_calls
from tests.fakes.groq_server import KEY, serve_groq
from tests.sandbox.test_promises import on_host

SUITE = """
import time, unittest, urllib.request

class Site(unittest.TestCase):
    def test_the_page(self):
        for _ in range(100):
            try:
                page = urllib.request.urlopen("http://localhost:8000/index.html").read()
                break
            except OSError:
                time.sleep(0.1)
        self.assertEqual(page, b"hola")
        print("the page is right", flush=True)
        for second in range(600):
            print("second", second, flush=True)
            time.sleep(1)

unittest.main()
"""


def bash(**arguments: object) -> Answer:
    return Answer(calls=[("bash", json.dumps(arguments))])


@pytest.fixture(
    params=[
        pytest.param("docker", marks=pytest.mark.docker),
        pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
    ]
)
def flags(request: pytest.FixtureRequest) -> dict[str, object]:
    given: dict[str, object] = {"sandbox.backend": request.param, "sandbox.python_packages": []}
    if request.param == "docker":
        given["sandbox.image"] = request.getfixturevalue("docker_image")
    return given


@pytest.mark.long
async def test_a_test_suite_with_a_server_is_watched_and_stopped_and_leaves_nothing(
    flags: dict[str, object], tmp_path: Path
) -> None:
    marker = secrets.token_hex(8)
    steps: Sequence[Answer] = (
        bash(command="printf hola > index.html; cat > suite.py", stdin=SUITE),
        bash(command=f"exec -a {marker} python3 -m http.server 8000", background=True),
        Answer(calls=[("bash_output", json.dumps({"id": "1", "wait_s": 5}))]),
        bash(command=f"exec -a {marker} python3 suite.py", timeout_s=240),
        Answer("never said"),
    )

    def think(body: Body) -> Answer:
        return steps[len(answered_calls(body))]

    async with serve_groq(think) as groq:
        home = Home(tmp_path / "home").make()
        loaded = load_settings(home.root, {"GROQ_API_KEY": KEY, "GROQ_BASE_URL": groq.base_url}, flags)
        with home.lock("a test"):
            engine = await ready_engine(home, loaded, lambda step: None)
            async with open_app(home, loaded, engine) as app:
                await _watched_and_stopped(app, marker)


async def _watched_and_stopped(app: App, marker: str) -> None:
    with app.services.hub.listening("cli") as events, trio.fail_after(90):
        await app.inbox.accept("cli", "test the site")
        said, results = "", list[str]()
        while "second 3" not in said:
            match (await events.receive()).what:
                case ToolOutput(_, text):
                    said += text
                case ToolFinished(_, result):
                    results.append(result.content)
        assert "the page is right" in said
        assert "started in the background as 1" in results[1]
        assert len(on_host(marker)) >= 2
        replied = await reply_to(events, await app.inbox.accept("cli", "/stop"))
        assert replied.text.startswith("⏹ Stopped.")
        assert f"⏹ Ended with the turn: `exec -a {marker} python3 -m http.server 8000`" in replied.text
        assert not on_host(marker), "nothing is left when the user is told"
