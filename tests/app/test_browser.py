"""The browser in the running program: its tools in turns, its questions, `/stop`, `/forget_everything`."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from rumi.agent.events import ConfirmationAsked, ToolStarted
from rumi.app.app import App, open_app
from rumi.app.parts.browser import browser_settings_of
from rumi.chats.events import Replied
from rumi.chats.hub import reply_to
from rumi.platform.config.cascade import load_settings
from rumi.platform.home import Home
from tests.fakes.containers import FakeEngine
from tests.fakes.groq_replies import Answer, Body, answered_calls
from tests.fakes.groq_server import KEY, serve_groq
from tests.web.browser.site import Site, site
from tests.web.browser.world import browsers_of, until

CONFIG = """
[browser]
enabled = true
[browser.passwords.shop]
host = "shop.example"
value = "$SHOP_PASSWORD"
"""
TOOLS = {"browser_open", "browser_read", "browser_click", "browser_fill"}


@pytest.fixture(scope="module")
def shop() -> Iterator[Site]:
    with site() as made:
        yield made


def ref(body: Body, label: str) -> str:
    """Return the reference of an element in what the model has read."""
    said = str(body["messages"])
    return re.findall(rf"\[(\w+)\] [a-z ]+ .?\"{label}", said)[-1]


def call(name: str, **arguments: object) -> Answer:
    return Answer(calls=[(name, json.dumps(arguments))])


def names(body: Body) -> set[str]:
    return {tool["function"]["name"] for tool in body.get("tools", ())}


async def ask(app: App, text: str) -> str:
    with app.services.hub.listening("cli") as events:
        return (await reply_to(events, await app.inbox.accept("cli", text, "en"))).text


@pytest.mark.browser
@pytest.mark.bubblewrap
async def test_an_order_is_placed_after_a_yes_and_a_stop_leaves_no_browser_at_work(
    tmp_path: Path, shop: Site
) -> None:
    bodies: list[Body] = []

    def think(body: Body) -> Answer:
        bodies.append(body)
        if "stop" in str(body["messages"][-1]) or "wait for it" in str(body["messages"]):
            return call("browser_open", url=shop.url("/silent"))
        match len(answered_calls(body)):
            case 0:
                return call("browser_open", url=shop.url("/shop"))
            case 1:
                fields = [{"ref": ref(body, "Name"), "text": "Ana"}]
                return call("browser_fill", fields=fields, submit=ref(body, "Order now"))
            case _:
                return Answer("done")

    async with serve_groq(think) as groq:
        home = Home(tmp_path / "home").make()
        (home.root / "config.toml").write_text(CONFIG)
        environment = {"GROQ_API_KEY": KEY, "GROQ_BASE_URL": groq.base_url, "SHOP_PASSWORD": "hunter22"}
        loaded = load_settings(home.root, environment, {"fetch.allow": [f"127.0.0.1:{shop.port}"]})
        assert "hunter22" in [*loaded.secrets.values()]
        assert browser_settings_of(loaded).passwords["shop"].value == "hunter22"
        with trio.fail_after(60):
            async with open_app(home, loaded, FakeEngine()) as app:
                with app.services.hub.listening("cli") as events:
                    await app.inbox.accept("cli", f"order a chair at {shop.url('/shop')} for Ana", "en")
                    questions = []
                    while True:
                        what = (await events.receive()).what
                        if isinstance(what, ConfirmationAsked):
                            questions.append(what.text)
                            app.services.hub.has_shown(what.id)
                            await app.inbox.accept("cli", "yes", "en")
                        if isinstance(what, Replied):
                            break
                assert len(questions) == 1
                assert "submit “Order now”" in questions[0]
                assert shop.orders == ["name=Ana&colour=r&token=t0"]
                assert names(bodies[0]) >= TOOLS
                assert "hunter22" not in str(bodies)
                with app.services.hub.listening("cli") as events:
                    await app.inbox.accept("cli", f"open {shop.url('/silent')} and wait for it", "en")
                    while not isinstance((await events.receive()).what, ToolStarted):
                        pass
                    began = trio.current_time()
                    replied = await reply_to(events, await app.inbox.accept("cli", "/stop", "en"))
                    assert "Stopped" in replied.text
                    assert trio.current_time() - began < 5
                assert (home.root / "browser" / "local").exists()
                assert "1 browser profiles" in await ask(app, "/forget_everything yes")
                assert not (home.root / "browser" / "local").exists()
                await until(lambda: not browsers_of(os.getpid()))


@pytest.mark.parametrize("config", ["", "[browser]\nenabled = true\nprogram = 'no-such-browser'\n"])
async def test_without_a_browser_models_get_no_tools_for_one(tmp_path: Path, config: str) -> None:
    bodies: list[Body] = []

    def think(body: Body) -> Answer:
        bodies.append(body)
        return Answer("hello")

    async with serve_groq(think) as groq:
        home = Home(tmp_path / "home").make()
        (home.root / "config.toml").write_text(config)
        loaded = load_settings(home.root, {"GROQ_API_KEY": KEY, "GROQ_BASE_URL": groq.base_url}, {})
        with trio.fail_after(60):
            async with open_app(home, loaded, FakeEngine()) as app:
                await ask(app, "hi")
                assert not names(bodies[0]) & TOOLS
                profile = home.root / "browser" / "local"
                profile.mkdir(parents=True)
                assert "1 browser profiles" in await ask(app, "/forget_everything yes")
                assert not profile.exists()
