"""A chat that crashes at each message: the whole house, its sandboxes included, seen from outside."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
from rich.console import Console

from rumi.app.app import App, open_app
from rumi.app.engine import ready_engine
from rumi.channels.attach.connection import ControlClient, connect
from rumi.channels.attach.status_view import render
from rumi.channels.attach.wire import Wire
from rumi.models.model import Emit, ModelRequest, Reply
from rumi.models.offline import Offline
from rumi.platform.caller import TERMINAL
from rumi.platform.config.cascade import load_settings
from rumi.platform.home import Home, socket_path
from rumi.platform.logs.entries import Wanted, read
from rumi.platform.logs.lines import line_of
from tests.chats.house import reply_to

pytestmark = pytest.mark.bubblewrap


@pytest.fixture
async def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[App]:
    """A running house whose model breaks at the word bang."""
    real = Offline.reply

    async def fragile(self: Offline, request: ModelRequest, emit: Emit) -> Reply:
        if request.messages[-1].content == "bang":
            raise ValueError("a fault of ours")
        return await real(self, request, emit)

    monkeypatch.setattr(Offline, "reply", fragile)
    home = Home(tmp_path / "home").make()
    settings = load_settings(home.root, {}, {"model.default": "offline", "sandbox.backend": "bubblewrap"})
    engine = await ready_engine(home, settings, lambda step: None)
    async with open_app(home, settings, engine) as app:
        yield app


async def ask(app: App, chat: str, text: str) -> str:
    with app.services.hub.listening(chat) as events:
        return await reply_to(events, await app.inbox.accept(chat, text))


async def follow(wire: Wire, into: list[dict[str, Any]]) -> None:
    while True:
        into.append(dict(await wire.receive()))


@pytest.mark.long
async def test_it_shows_stops_at_its_limit_is_told_so_and_the_next_message_starts_it_afresh(app: App) -> None:
    path = socket_path(app.home.run, app.home.installation())
    seen: list[dict[str, Any]] = []
    wanted = ["crashed", "restarted", "failed"]
    async with (
        connect(path, TERMINAL) as control,
        connect(path, TERMINAL) as other,
        trio.open_nursery() as nursery,
    ):
        wire = await other.stream("events", events=wanted, chats=["bad"])
        assert (await wire.receive())["events"] == 1
        nursery.start_soon(follow, wire, seen)
        calm: list[str] = []

        async def work() -> None:
            calm.append(await ask(app, "calm", "run sleep 1; then run echo done"))

        nursery.start_soon(work)
        told = [await ask(app, "bad", "bang") for _ in range(4)]
        assert [text.split(".")[0] for text in told] == [
            *["❌ Something failed and was restarted"] * 3,
            "❌ This chat failed several times in a row and was stopped",
        ]
        status = await status_of(control)
        assert status["failed"]["bad"]["error"] == "ValueError: a fault of ours"
        (line,) = [line for line in shown(status).splitlines() if " bad " in line]
        assert " ".join(line.split()).endswith("bad failed gave up: ValueError: a fault of ours")
        with trio.fail_after(60):
            while not calm or len(seen) < 8:  # noqa: ASYNC110  # two things, in any order
                await trio.sleep(0.01)
        assert "done" in calm[0]
        names = [event["event"] for event in seen]
        assert names == [
            "crashed",
            "restarted",
            "crashed",
            "restarted",
            "crashed",
            "restarted",
            "crashed",
            "failed",
        ]
        assert seen[-1] | {"time": 0} == {
            "time": 0, "event": "failed", "chat": "bad", "turn": "", "actor": "rumi/chats/bad",
            "incarnation": 4, "error": "ValueError: a fault of ours",
        }  # fmt: skip
        assert "afresh" in await ask(app, "bad", "run echo afresh")
        status = await status_of(control)
        chats = {chat["id"]: chat for node in status["tree"]["children"] for chat in node["children"]}
        assert status["failed"] == {}
        assert (chats["bad"]["restarts"], chats["calm"]["restarts"]) == (0, 0)
        nursery.cancel_scope.cancel()
    lines = [
        line_of(entry, "en", width=120)
        for entry in read(app.home.logs / "audit.jsonl", Wanted(frozenset({"bad"})))
    ]
    logged = [line.split("✗ ")[1] for line in lines if "✗ rumi/chats/bad" in line]
    assert logged[-2:] == [
        "rumi/chats/bad crashed: ValueError: a fault of ours",
        "rumi/chats/bad gave up: ValueError: a fault of ours",
    ]


async def status_of(control: ControlClient) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(await control.call("status")))
    return found


def shown(status: dict[str, Any]) -> str:
    console = Console(width=80)
    with console.capture() as captured:
        console.print(render(status))
    return captured.get()
