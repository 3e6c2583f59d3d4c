"""`/forget_everything`: after a yes nothing of an owner is left, and everything of the others."""

from pathlib import Path

import pytest
import trio

from rumi.app.app import App, open_app
from rumi.app.forget_all import Forgetting
from rumi.channels.telegram import Telegram
from rumi.chats.hub import reply_to
from rumi.memory.rows import facts_of
from rumi.platform.config.cascade import load_settings
from rumi.platform.home import Home
from rumi.store.journal.outbox import mark_acknowledged
from rumi.store.journal.schedules import list_schedules, zone_of
from tests.fakes.containers import FakeEngine

ENV = {"TELEGRAM_TOKEN": "11111:" + "x" * 35, "TELEGRAM_BASE_URL": "http://127.0.0.1:9"}


async def ask(app: App, text: str, chat: str = "cli") -> str:
    with app.services.hub.listening(chat) as events:
        reply = await reply_to(events, await app.inbox.accept(chat, text, "en"))
    await app.services.journal.ask(mark_acknowledged(reply.delivery))
    return reply.text


def traces(home: Home, *words: str) -> list[str]:
    """Return the databases and their logs that hold one of the words, while the program runs."""
    files = [entry for entry in home.root.iterdir() if entry.is_file() and ".db" in entry.name]
    assert {file.name for file in files} >= {"state.db", "state.db-wal", "memory.db", "recall.db"}
    return [file.name for file in files for word in words if word.encode() in file.read_bytes()]


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
            await ask(app, "/timezone Pacific/Auckland")
            await ask(app, "/timezone Pacific/Kiritimati", "tg7")
            await ask(app, "remind me in 20 minutes: water Xanadu")
            assert "Xanadu" in await ask(app, "what did we say about Xanadu")
            assert "Xanadu" in await ask(app, "/recall Xanadu")
            assert "Xanadu" in await ask(app, "/memory history city")
            told = await ask(app, "/forget_everything")
            assert "/forget_everything yes" in told
            assert len(await memory(facts_of("local"))) == 1
            done = await ask(app, "/forget_everything yes")
            assert done.startswith("🗑 Everything is forgotten: 1 schedules, 2 chats, 1 facts, ")
            assert "in the audit log" in done
            assert traces(home, "Xanadu", "Zembla", "Pacific/Auckland") == []
            assert traces(home, "Ruritania") != []
            assert await memory(facts_of("local")) == ()
            assert await app.services.journal.ask(list_schedules("local")) == ()
            assert await app.services.journal.ask(zone_of("local")) == ""
            assert await app.services.journal.ask(zone_of("tg7")) == "Pacific/Kiritimati"
            assert "I found nothing" in await ask(app, "/recall Zembla")
            assert "Ruritania" in await ask(app, "/recall Ruritania", "tg7")
            assert len(await memory(facts_of("tg7"))) == 1


async def test_in_a_group_a_member_forgets_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").make()
    loaded = load_settings(home.root, ENV, {"model.default": "offline"})
    with trio.fail_after(60):
        async with open_app(home, loaded, FakeEngine(), channels=(Telegram(),)) as app:
            await ask(app, "remember city = Xanadu", "tg-7")
            assert "only an admin" in await ask(app, "/forget_everything yes", "tg-7")
            assert "Xanadu" in await ask(app, "/memory", "tg-7")


async def test_a_log_that_is_not_truncated_shows_the_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted fault: the deletion is committed, and the write-ahead log stays as it is."""

    async def nothing(self: Forgetting) -> bool:
        await trio.lowlevel.checkpoint()
        return True

    monkeypatch.setattr(Forgetting, "_leave_no_trace", nothing)
    home = Home(tmp_path / "home").make()
    loaded = load_settings(home.root, ENV, {"model.default": "offline"})
    with trio.fail_after(60):
        async with open_app(home, loaded, FakeEngine(), channels=(Telegram(),)) as app:
            await ask(app, "remember city = Xanadu")
            await ask(app, "/forget_everything yes")
            assert "state.db-wal" in traces(home, "Xanadu")
