"""The webhook behind the real listener, over real sockets, with a real journal."""

import json
import socket
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from rumi.app.status import StatusSource
from rumi.channels.counters import Counts
from rumi.channels.http.listener import Listener, open_listener
from rumi.channels.http.server import MOST_CONNECTIONS
from rumi.channels.telegram.channel import Telegram
from rumi.channels.telegram.receiving.webhook import MOST_BYTES, PATH, SECRET_HEADER, secret_of, with_path
from rumi.store.journal import actor as journal_module
from rumi.store.journal.actor import Journal
from tests.channels.telegram.house import ANA, BEN, EVE, TelegramHouse, telegram_house
from tests.fakes.bot_api import TOKEN, BotApi
from tests.fakes.telegram_webhook import deliver

SECRET = {SECRET_HEADER: secret_of(TOKEN)}
HEAD = f"POST {PATH} HTTP/1.1\r\nHost: x\r\n{SECRET_HEADER}: {secret_of(TOKEN)}\r\n"


@dataclass
class Hooked:
    """A house whose updates come by the webhook. `client` is what a load balancer is."""

    house: TelegramHouse
    listener: Listener
    client: httpx.AsyncClient
    path: Path

    async def post(self, update: Any, **headers: str) -> int:
        body = update if isinstance(update, bytes) else json.dumps(update).encode()
        return (await self.client.post(PATH, content=body, headers={**SECRET, **headers})).status_code

    def stored(self) -> list[str]:
        return stored(self.path)

    async def until(self, what: Any, within_s: float = 30) -> None:
        with trio.fail_after(within_s):
            while not what():  # noqa: ASYNC110  # a database tells nobody
                await trio.sleep(0.02)


def stored(path: Path) -> list[str]:
    with closing(sqlite3.connect(f"file:{path}/state.db?mode=ro", uri=True)) as db:
        return [text for (text,) in db.execute("SELECT text FROM messages ORDER BY id")]


@asynccontextmanager
async def hooked(path: Path, api: BotApi, *, delivers: bool = False, **how: Any) -> AsyncIterator[Hooked]:
    telegram = Telegram("http://127.0.0.1:1")
    with open_listener("127.0.0.1:0", "en", [telegram.deliveries]) as listener:
        telegram._webhook = with_path(listener.bound.url)

        def add(root: Any, inbox: Any, journal: Any, hub: Any) -> None:
            status = StatusSource(root.status, {}, counts=dict)
            listener.add_view(root, inbox, journal, hub, status.dump, Counts())

        async with telegram_house(path, api, telegram=telegram, add=add, **how) as house:
            async with (
                httpx.AsyncClient(base_url=listener.bound.url, trust_env=False, timeout=60) as client,
                trio.open_nursery() as nursery,
            ):
                hooked = Hooked(house, listener, client, path)
                await hooked.until(lambda: api.account.webhook)
                if delivers:
                    nursery.start_soon(deliver, api)
                yield hooked
                nursery.cancel_scope.cancel()


@pytest.fixture
def api() -> BotApi:
    began = time.monotonic()
    api = BotApi(lambda: time.monotonic() - began)
    api.user(ANA)
    api.user(EVE)
    return api


def said(api: BotApi, text: str, person: int = ANA) -> Any:
    """The update of something that somebody says, which nobody delivers but the test."""
    api.say(api.people[person], text)
    return api.updates.pending.pop()[1]


# Updates


async def test_what_is_delivered_is_answered_like_what_is_polled(tmp_path: Path, api: BotApi) -> None:
    async with hooked(tmp_path, api, delivers=True) as hook:
        assert api.account.webhook == f"{hook.listener.bound.url}{PATH}"
        assert api.updates.allowed == {"message", "edited_message", "callback_query"}
        api.say(api.people[ANA], "hello")
        await hook.house.until(lambda: api.chats[ANA].texts == ["you said hello"])
        assert api.account.answers == [200]
        assert not api.pending
        api.say(api.people[EVE], "hello")
        await hook.house.until(lambda: any(str(EVE) in text for text in api.chats[EVE].texts))
        assert hook.stored() == ["hello"], "of strangers nothing is stored"


async def test_a_press_answers_its_question(tmp_path: Path, api: BotApi) -> None:
    async with hooked(tmp_path, api, delivers=True) as hook:
        api.say(api.people[ANA], "send a.txt")
        question = await hook.house.asked(ANA)
        api.press(api.people[ANA], question)
        await hook.house.until(lambda: hook.house.sending.sent == ["a.txt"])


async def test_an_update_that_comes_again_or_twice_at_once_is_one_message(
    tmp_path: Path, api: BotApi
) -> None:
    async with hooked(tmp_path, api) as hook:
        update, statuses = said(api, "once"), list[int]()

        async def post() -> None:
            statuses.append(await hook.post(update))

        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(post)
        statuses.append(await hook.post(update))
        assert statuses == [200] * 9
        assert hook.stored() == ["once"]
        figures = next(c.metrics for c in hook.house.root.status().children if c.id == "webhook")
        assert (figures["stored"], figures["repeated"]) == (1, 8)


async def test_an_album_whose_messages_come_one_by_one_is_one_message(tmp_path: Path, api: BotApi) -> None:
    async with hooked(tmp_path, api, delivers=True) as hook:
        files = [(f"{name}.txt", b"x") for name in "abc"]
        api.send_album(api.people[ANA], files, caption="these")
        await hook.until(lambda: len(api.confirmed) == 3)
        await hook.until(hook.stored)
        await hook.house.until(lambda: api.chats[ANA].texts)
        assert hook.stored() == ["these"]
        assert album_files(tmp_path) == ["a.txt", "b.txt", "c.txt"]


async def test_an_album_in_a_group_is_for_the_bot_if_one_of_its_messages_is(
    tmp_path: Path, api: BotApi
) -> None:
    ana = api.people[ANA]
    async with hooked(tmp_path, api, delivers=True) as hook:
        ben = api.user(BEN)  # what ana sends just before she calls the bot would be for the bot as well
        group = api.group(-77, title="Team", members=[ana, ben])
        api.send_album(ben, [("x.txt", b"x"), ("y.txt", b"x")], group)
        api.send_document(ana, "a.txt", b"x", group, media_group_id="7")
        calls = [{"type": "mention", "offset": 0, "length": 14}]
        how: Any = {"media_group_id": "7", "caption": "@rumi_test_bot look", "caption_entities": calls}
        api.send_document(ana, "b.txt", b"x", group, **how)
        await hook.until(hook.stored)
        await hook.until(lambda: rows(tmp_path, "SELECT count(*) FROM album_parts") == [(0,)])
        assert album_files(tmp_path) == ["a.txt", "b.txt"]
        assert hook.stored() == ["look"]


async def test_an_album_of_which_a_killed_process_has_stored_a_part_becomes_a_message(
    tmp_path: Path, api: BotApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("rumi.channels.telegram.receiving.intake.ALBUM_QUIET_S", 1000.0)
        async with hooked(tmp_path, api) as hook:
            api.send_album(api.people[ANA], [("a.txt", b"x"), ("b.txt", b"x")], caption="these")
            for _, update in list(api.updates.pending):
                assert await hook.post(update) == 200
            assert hook.stored() == []
    async with hooked(tmp_path, api) as hook:
        await hook.until(hook.stored)
        assert album_files(tmp_path) == ["a.txt", "b.txt"]


async def test_a_group_that_moves_keeps_its_chat(tmp_path: Path, api: BotApi) -> None:
    ana = api.people[ANA]
    async with hooked(tmp_path, api, delivers=True) as hook:
        group = api.group(-77, title="Team", members=[ana])
        api.say(ana, "@rumi_test_bot one", group)
        await hook.house.until(lambda: group.texts)
        moved = api.migrate(group, -100_077)
        api.say(ana, "@rumi_test_bot two", moved)
        await hook.house.until(lambda: moved.texts)
        assert len(set(rows(tmp_path, "SELECT chat FROM messages"))) == 1


def rows(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(f"file:{path}/state.db?mode=ro", uri=True)) as db:
        return db.execute(query).fetchall()


def album_files(path: Path) -> list[str]:
    """The names of the files of the only message."""
    ((enclosures,),) = rows(path, "SELECT enclosures FROM messages")
    return [enclosure["name"] for enclosure in json.loads(enclosures)]


# Requests that are refused


async def test_only_telegrams_secret_comes_in_and_only_there(tmp_path: Path, api: BotApi) -> None:
    async with hooked(tmp_path, api) as hook:
        update, client = json.dumps(said(api, "x")), hook.client
        assert (await client.post(PATH, content=update)).status_code == 401
        for wrong in ("", "x", SECRET[SECRET_HEADER][:-1], SECRET[SECRET_HEADER].upper()):
            assert await hook.post(update.encode(), **{SECRET_HEADER: wrong}) == 403
        assert (await client.post(f"{PATH}/", content=update, headers=SECRET)).status_code == 404
        assert (await client.post("/", content=update, headers=SECRET)).status_code == 404
        for method in ("GET", "PUT", "DELETE", "HEAD"):
            assert (await client.request(method, PATH, headers=SECRET)).status_code == 405
        assert (await client.post("/metrics")).status_code == 405
        for nonsense in (b"", b"x", b"[]", b"{}", b'{"update_id": true}', b'{"update_id": -1}', b"[" * 9999):
            assert await hook.post(nonsense) == 400
        assert hook.stored() == []
        assert await hook.post(update.encode()) == 200


async def test_a_body_that_is_too_large_is_refused_announced_or_not(tmp_path: Path, api: BotApi) -> None:
    async with hooked(tmp_path, api) as hook:

        async def refused(header: str, pieces: list[bytes]) -> bool:
            async with await trio.open_tcp_stream("127.0.0.1", hook.listener.bound.port) as stream:
                with suppress(trio.BrokenResourceError):  # refused before all of it was sent
                    for piece in (f"{HEAD}{header}\r\n\r\n".encode(), *pieces):
                        await stream.send_all(piece)
                return (await stream.receive_some(1000)).startswith(b"HTTP/1.1 413 ")

        chunk = f"{50_000:x}\r\n".encode() + bytes(50_000) + b"\r\n"
        with trio.fail_after(30):
            assert await refused(f"Content-Length: {MOST_BYTES + 1}", [])
            assert await refused("Transfer-Encoding: chunked", [chunk] * (MOST_BYTES // 50_000 + 1))
        update = said(api, "fits")
        update["filler"] = "x" * (MOST_BYTES - len(json.dumps(update)) - 20)
        assert await hook.post(update) == 200


async def test_slow_and_many_connections_keep_no_update_out(
    tmp_path: Path, api: BotApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rumi.channels.http.routes.BODY_S", 1.0)
    monkeypatch.setattr("rumi.channels.http.server.IDLE_S", 1)
    async with hooked(tmp_path, api) as hook:
        port = hook.listener.bound.port
        slow = [socket.create_connection(("127.0.0.1", port), 5) for _ in range(MOST_CONNECTIONS + 20)]
        try:
            for connection in slow:
                connection.sendall(b"POST /telegram HTTP/1.1\r\nHost: x\r\nX-")
            assert await hook.post(said(api, "hello")) == 200
            half = socket.create_connection(("127.0.0.1", port), 5)
            slow.append(half)
            half.sendall(f"{HEAD}Content-Length: 100\r\n\r\n{{".encode())
            assert b" 408 " in await trio.to_thread.run_sync(half.recv, 100)
            for connection in slow[:-1]:  # those that did not give way already are ended by the time limit
                connection.settimeout(10)
                try:
                    while await trio.to_thread.run_sync(connection.recv, 1000):
                        pass
                except ConnectionError:
                    pass
        finally:
            for connection in slow:
                connection.close()
        assert hook.stored() == ["hello"]


# What cannot be stored now


async def test_on_a_full_disk_an_update_is_refused_and_delivered_when_there_is_room(
    small_disk: Path, api: BotApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.channels.telegram.test_full_disk import KEPT, fill

    monkeypatch.setattr(journal_module, "WATCH_S", 0.2)
    async with hooked(small_disk, api, delivers=True) as hook:
        api.say(api.people[ANA], "one")
        await hook.house.until(lambda: api.chats[ANA].texts == ["you said one"])
        filler = fill(small_disk)
        api.say(api.people[ANA], "two")
        await hook.house.until(lambda: any(text.startswith(KEPT) for text in api.chats[ANA].texts))
        assert 503 in api.account.answers
        ready = await hook.client.get("/readyz")
        assert (ready.status_code, ready.text) == (503, "The journal cannot be written: full.\n")
        filler.unlink()
        await hook.house.until(lambda: "you said two" in api.chats[ANA].texts, 60)
        assert hook.stored() == ["one", "two"]
        assert (await hook.client.get("/readyz")).text == "ready\n"


async def test_a_shutdown_stores_what_is_in_hand_and_refuses_what_comes_then(
    tmp_path: Path, api: BotApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk takes its time over the update in hand; the end waits for it."""
    commit, begun, go = Journal._commit, trio.Event(), trio.Event()

    async def slowly(self: Journal, *args: Any) -> None:
        begun.set()
        await go.wait()
        await commit(self, *args)

    async with hooked(tmp_path, api) as hook:
        statuses = list[int]()

        async def post(update: Any) -> None:
            statuses.append(await hook.post(update))

        in_hand, late = said(api, "in hand"), said(api, "late")
        monkeypatch.setattr(Journal, "_commit", slowly)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(post, in_hand)
            await begun.wait()
            nursery.start_soon(hook.house.telegram.stop_receiving)
            await hook.listener.stop_receiving()
            assert await hook.post(late) == 503
            assert (await hook.client.get("/readyz")).text == "The process is ending.\n"
            assert statuses == []
            go.set()
        assert statuses == [200]
        assert hook.stored() == ["in hand"]
        assert api.account.webhook, "the next process, or another one, gets the rest"


async def test_a_webhook_that_was_changed_is_set_again_and_a_poller_removes_it(
    tmp_path: Path, api: BotApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rumi.channels.telegram.receiving.webhook.LOOK_S", 0.1)
    async with hooked(tmp_path, api) as hook:
        ours = api.account.webhook
        api.account.webhook = "https://elsewhere.test/"
        await hook.until(lambda: api.account.webhook == ours)
        # An earlier version registered fewer kinds of update, at the same address.
        allowed, api.updates.allowed = api.updates.allowed, frozenset({"message", "callback_query"})
        await hook.until(lambda: api.updates.allowed == allowed)
    async with telegram_house(tmp_path, api):
        with trio.fail_after(30):
            while api.account.webhook:  # noqa: ASYNC110
                await trio.sleep(0.02)


# Health and metrics


async def test_health_says_that_the_loop_answers_and_readiness_why_not(tmp_path: Path, api: BotApi) -> None:
    async with hooked(tmp_path, api) as hook:
        health = await hook.client.get("/healthz")
        assert (health.status_code, health.text) == (200, "ok\n")
        await hook.until(lambda: hook.house.telegram._memory.me)
        assert (await hook.client.get("/readyz")).text == "ready\n"
        hook.house.telegram._memory.me = None
        ready = await hook.client.get("/readyz")
        assert ready.status_code == 503
        assert ready.text == ("The actor webhook is not ready: Telegram has not said yet who the bot is.\n")
        assert await hook.post(said(api, "too early")) == 503
        for answer in (health, ready):
            assert answer.headers["content-type"] == "text/plain; charset=utf-8"
            assert answer.headers["cache-control"] == "no-store"
