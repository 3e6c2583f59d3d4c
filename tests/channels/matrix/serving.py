"""A whole Rumi with one Matrix account, for tests against a real homeserver."""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from rumi.app.app import App, open_app
from rumi.app.shutdown import wind_down
from rumi.channels.matrix.channel import MatrixChannel
from rumi.channels.matrix.growing import GrowingTimes
from rumi.platform.config.cascade import load_settings
from rumi.platform.home import Home
from tests.fakes.containers import FakeEngine
from tests.matrix_server import Homeserver, User

WITHIN_S = 15
QUICK = GrowingTimes(quick_s=0.05, every_s=0.1, again_s=0.05)


@dataclass
class Serving:
    app: App
    channel: MatrixChannel
    server: Homeserver
    rumi: User
    ana: User
    engine: FakeEngine
    home: Path

    async def room(self, *others: str, direct: bool = True) -> str:
        """A room with Ana and Rumi, who has come."""
        room = await in_thread(lambda: self.ana.room(self.rumi.id, *others, direct=direct))
        await self.came(room)
        return room

    async def came(self, room: str) -> None:
        """Wait until Rumi is in a room."""
        await until(lambda: self.ana.members(room).get(self.rumi.id) == "join")

    async def says(self, room: str, content: dict[str, Any] | str) -> str:
        return await in_thread(lambda: self.ana.send(room, content))

    async def shown(self, room: str, count: int) -> list[str]:
        """Wait until a client shows so many messages of Rumi."""
        found = list[str]()

        def look() -> bool:
            found[:] = self.ana.shown(room, self.rumi.id)
            return len(found) >= count

        await until(look)
        return found

    async def settled(self, room: str, count: int) -> list[str]:
        """Wait until so many replies are delivered in all and none is open; return what a client shows."""
        delivered = "SELECT count(*) FROM outbox WHERE delivered IS NOT NULL AND silent = 0"
        await until(lambda: self.ask(delivered)[0][0] >= count and not self.unfinished())
        return await self.shown(room, 1)

    def unfinished(self) -> int:
        return len(self.ask("SELECT 1 FROM messages WHERE reply IS NULL")) + len(
            self.ask("SELECT 1 FROM outbox WHERE delivered IS NULL")
        )

    def ask(self, sql: str, *values: object) -> list[Any]:
        with closing(sqlite3.connect(f"file:{self.home}/state.db?mode=ro", uri=True)) as db:
            return db.execute(sql, values).fetchall()

    def messages(self) -> list[str]:
        return [text for (text,) in self.ask("SELECT text FROM messages ORDER BY id")]


async def in_thread(work: Callable[[], Any]) -> Any:
    return await trio.to_thread.run_sync(work)


async def until(there: Callable[[], bool], within_s: float = WITHIN_S) -> None:
    with trio.fail_after(within_s):
        while not await trio.to_thread.run_sync(there):  # noqa: ASYNC110  # a server tells nobody
            await trio.sleep(0.05)


def configure(home: Home, server: Homeserver, rumi: User, users: Sequence[str], more: str = "") -> None:
    listed = ", ".join(f'"{user}"' for user in users)
    (home.root / "config.toml").write_text(
        f'[model]\ndefault = "offline"\n[matrix.home]\nhomeserver = "{server.url}"\nuser = "{rumi.id}"\n'
        f'token = "$MATRIX_TOKEN"\nusers = [{listed}]\n{more}'
    )


@asynccontextmanager
async def serving(
    path: Path,
    server: Homeserver,
    *,
    rumi: User | None = None,
    ana: User | None = None,
    more: str = "",
    late_s: float = 60.0,
    before: Callable[[User, User], Awaitable[None]] | None = None,
) -> AsyncIterator[Serving]:
    rumi = rumi or await in_thread(server.user)
    ana = ana or await in_thread(server.user)
    if before is not None:
        await before(rumi, ana)
    home = Home(path / "home").make()
    configure(home, server, rumi, [ana.id], more)
    loaded = load_settings(home.root, {"MATRIX_TOKEN": rumi.token}, {"language": "en"})
    engine, channel = FakeEngine(), MatrixChannel("home", poll_s=2, times=QUICK, late_s=late_s)
    async with open_app(home, loaded, engine, channels=(channel,)) as app:
        try:
            await until(lambda: channel.synced)
            yield Serving(app, channel, server, rumi, ana, engine, home.root)
        finally:
            with trio.move_on_after(10, shield=True):
                await wind_down((channel,), app.inbox.chats, app.services.fact_extraction)
