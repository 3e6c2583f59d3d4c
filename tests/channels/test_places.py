"""Where the built-in channels stand in the tree, whatever the order in which they are given."""

from pathlib import Path

import pytest

from rumi.app.app import open_app
from rumi.channels.channel import Channel
from rumi.channels.page import PageChannel, open_entrance
from rumi.channels.telegram import Telegram
from rumi.chats.context import ChatView
from rumi.errors import RumiError
from rumi.platform.config.cascade import load_settings
from rumi.platform.home import Home
from rumi.store.journal.records import Attachment
from tests.fakes.containers import FakeEngine

ABOVE = [
    "journal",
    "budgets",
    "memory",
    "recall",
    "skills",
    "fetcher",
    "models",
    "registry",
    "disk",
    "sandboxes",
    "sender",
]
BELOW = [
    *("extractor", "task_recovery", "tasks", "undo", "recovery", "chats", "schedules", "poller", "control"),
    "page",
]
ENV = {"TELEGRAM_TOKEN": "11111:" + "x" * 35, "TELEGRAM_BASE_URL": "http://127.0.0.1:9"}


@pytest.mark.parametrize("turned", [False, True])
async def test_senders_stand_above_the_chats_receivers_below_and_the_page_last(
    tmp_path: Path, turned: bool
) -> None:
    home = Home(tmp_path / "home").make()
    loaded = load_settings(home.root, ENV, {"model.default": "offline"})
    with open_entrance("127.0.0.1:0", "en", lambda line: None, home.run / "page-sessions.json") as entrance:
        channels: tuple[Channel, ...] = (PageChannel(entrance), Telegram())
        async with open_app(
            home, loaded, FakeEngine(), channels=channels[::-1] if turned else channels
        ) as app:
            assert [child.id for child in app.status.tree().children] == [*ABOVE, *BELOW]
            for chat in ("tg11", "web"):  # each chat sends files in the way of its channel
                tools = app.services.context.tools_for(ChatView(chat, lambda: False, lambda: "en"))
                assert [tool.spec.name for tool in tools].count("send_file") == 1
            with pytest.raises(RumiError, match="names no file"):
                await app.services.context.bring("web", Attachment("file", name="notes"))


async def test_the_open_policy_never_applies_in_groups(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").make()
    loaded = load_settings(home.root, ENV, {"model.default": "offline", "sandbox.policy": "open"})
    async with open_app(home, loaded, FakeEngine(), channels=(Telegram(),)) as app:
        applies = {chat: app.services.policy_of(chat).open for chat in ("cli", "tg7", "tg-7", "tg-7_2")}
        assert applies == {"cli": True, "tg7": True, "tg-7": False, "tg-7_2": False}
        assert "python3" in app.services.policy_of("tg-7").programs
