"""`/forget_everything`: after a yes nothing of an owner is left, and everything of the others."""

from pathlib import Path

import trio

from rumi.app import App, open_app
from rumi.channels.telegram import Telegram
from rumi.config import load_settings
from rumi.home import Home
from rumi.journal import ListSchedules
from rumi.memory import Facts
from tests.chats.house import reply_to
from tests.fakes.containers import FakeEngine

ENV = {"TELEGRAM_TOKEN": "11111:" + "x" * 35, "TELEGRAM_BASE_URL": "http://127.0.0.1:9"}


async def ask(app: App, text: str, chat: str = "cli") -> str:
    with app.services.hub.listening(chat) as events:
        return await reply_to(events, await app.inbox.accept(chat, text, "en"))


async def test_after_a_yes_nothing_of_an_owner_is_left(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").make()
    loaded = load_settings(home.root, ENV, {"model.default": "offline"})
    with trio.fail_after(60):
        async with open_app(home, loaded, FakeEngine(), channels=(Telegram(),)) as app:
            memory = app.services.context.memory
            assert memory is not None
            await ask(app, "remember city = Xanadu")
            await ask(app, "remember city = Zembla", "notes")
            await ask(app, "remember city = Ruritania", "tg7")
            await ask(app, "remind me in 20 minutes: water Xanadu")
            assert "Xanadu" in await ask(app, "what did we say about Xanadu")
            assert "Xanadu" in await ask(app, "/recall Xanadu")
            assert "Xanadu" in await ask(app, "/memory history city")
            told = await ask(app, "/forget_everything")
            assert "/forget_everything yes" in told
            assert len(await memory(Facts("local"))) == 1
            done = await ask(app, "/forget_everything yes")
            assert done.startswith("🗑 Everything is forgotten: 1 schedules, 2 chats, 1 facts, ")
            assert await memory(Facts("local")) == ()
            assert await app.services.journal.ask(ListSchedules("local")) == ()
            assert "Nothing" in await ask(app, "/recall Zembla")
            assert "Ruritania" in await ask(app, "/recall Ruritania", "tg7")
            assert len(await memory(Facts("tg7"))) == 1


async def test_in_a_group_a_member_forgets_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").make()
    loaded = load_settings(home.root, ENV, {"model.default": "offline"})
    with trio.fail_after(60):
        async with open_app(home, loaded, FakeEngine(), channels=(Telegram(),)) as app:
            await ask(app, "remember city = Xanadu", "tg-7")
            assert "only an admin" in await ask(app, "/forget_everything yes", "tg-7")
            assert "Xanadu" in await ask(app, "/memory", "tg-7")
