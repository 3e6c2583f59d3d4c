"""The Bot API as the house opens it, over real HTTP on loopback."""

import gc
import logging
import re
import warnings
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
import trio
from telegram import Bot
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
    TimedOut,
)
from telegram.request import BaseRequest

from rumi.channels.telegram.api.bot import Me, TokenRefused, in_words, introduce, open_bot, wait_of
from rumi.channels.telegram.api.guarded import Guarded
from rumi.channels.telegram.api.refusals import refusal_of
from rumi.channels.telegram.receiving.updates import ends_in_album, raw_updates
from rumi.errors import ConfigError
from tests.fakes.bot_api import TOKEN, BotApi
from tests.fakes.bot_api_faults import Broken, Error, Flood, Reset, Silent, Truncated
from tests.fakes.telegram_server import TelegramServer, serve_telegram

WRONG = "1234567890:AAwrong-token_0123456789abcdefghijkl"


@pytest.fixture
def everything_logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    for name in ("httpx", "httpcore"):  # as the program's log has them
        caplog.set_level(logging.WARNING, logger=name)
    return caplog


def served() -> AbstractAsyncContextManager[TelegramServer]:
    return serve_telegram(BotApi(trio.current_time))


async def test_the_bot_introduces_itself() -> None:
    async with served() as server, open_bot(TOKEN, server.root) as bot:
        assert await introduce(bot) == Me(7_000_000_001, "rumi_test_bot", reads_groups=True)


async def test_a_slash_at_the_end_of_the_root_changes_nothing() -> None:
    async with served() as server, open_bot(TOKEN, f"{server.root}/") as bot:
        assert (await introduce(bot)).username == "rumi_test_bot"


async def test_files_are_fetched_below_the_same_root() -> None:
    async with served() as server, open_bot(TOKEN, server.root) as bot:
        server.api.send_document(server.api.user(11), "a.txt", b"content")
        (file_id,) = server.api.files
        file = await bot.get_file(file_id)
        assert bytes(await file.download_as_bytearray()) == b"content"


@pytest.mark.parametrize("token", [WRONG, "123:short"])
async def test_a_token_that_telegram_does_not_know_is_refused_with_advice(token: str) -> None:
    async with served() as server, open_bot(token, server.root) as bot:
        with pytest.raises(TokenRefused, match="@BotFather") as refused:
            await introduce(bot)
    assert refused.value.exit_code == 2
    assert token not in str(refused.value)


@pytest.mark.parametrize("token", ["", "secret", "123456:with space", "12/../34:abc", "123:abc\n"])
async def test_what_cannot_be_a_token_is_refused_before_anything_is_sent(token: str) -> None:
    with pytest.raises(TokenRefused) as refused:
        async with open_bot(token):
            pass
    assert not token or token not in str(refused.value)


@pytest.mark.parametrize(
    "root", ["localhost:8081", "ftp://localhost", "http://", "http://[::1", "http://h:99999", "http://h/?a=b"]
)
async def test_a_root_that_is_no_address_is_a_configuration_error(root: str) -> None:
    with pytest.raises(ConfigError, match="TELEGRAM_BASE_URL"):
        async with open_bot(TOKEN, root):
            pass


@pytest.mark.long
async def test_there_is_room_for_the_calls_of_hundreds_of_chats() -> None:
    async with served() as server, open_bot(TOKEN, server.root) as bot:
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                for _ in range(200):
                    nursery.start_soon(bot.get_me)
        assert len(server.api.calls) == 200


async def test_the_end_closes_all_connections_also_those_in_use() -> None:
    async with served() as server:
        with trio.move_on_after(0.2):
            async with open_bot(TOKEN, server.root) as bot:
                await introduce(bot)
                await raw_updates(bot, offset=None, wait_s=30, read_timeout_s=40)
        with trio.fail_after(30):
            await server.wait_idle()


async def test_a_call_may_be_cancelled_in_the_middle_of_sending() -> None:
    async with trio.open_nursery() as nursery:

        async def never_read(stream: trio.SocketStream) -> None:
            await trio.sleep_forever()

        listeners = await nursery.start(trio.serve_tcp, never_read, 0)
        port = listeners[0].socket.getsockname()[1]
        async with open_bot(TOKEN, f"http://127.0.0.1:{port}") as bot:
            with trio.move_on_after(0.3) as scope:
                await bot.send_document(11, b"x" * 20_000_000)
        assert scope.cancelled_caught
        gc.collect()  # whatever is left open is told now, as an error
        nursery.cancel_scope.cancel()


async def test_updates_come_as_they_are_in_order_and_what_is_below_the_offset_comes_no_more() -> None:
    async with served() as server, open_bot(TOKEN, server.root) as bot:
        ana = server.api.user(11)
        for text in ("one", "two", "three"):
            server.api.say(ana, text)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            updates = await raw_updates(bot, offset=None, wait_s=0, read_timeout_s=5)
        assert [update["message"]["text"] for update in updates] == ["one", "two", "three"]
        left = await raw_updates(bot, offset=updates[1]["update_id"], wait_s=0, read_timeout_s=5, limit=1)
        assert [update["message"]["text"] for update in left] == ["two"]
        assert server.api.confirmed == [updates[0]["update_id"]]


async def test_polls_have_connections_of_their_own() -> None:
    polls = GuardedScript(200, b'{"ok": true, "result": []}')
    bot = Bot(TOKEN, request=GuardedScript(500, b"{}"), get_updates_request=polls)
    assert await raw_updates(bot, offset=None, wait_s=30, read_timeout_s=40) == []


# What servers send


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (Error(401), InvalidToken, "does not accept the bot's token"),
        (Error(404), InvalidToken, "does not accept the bot's token"),
        (Error(403, "Forbidden: bot was blocked"), Forbidden, "refuses: Forbidden: bot was blocked"),
        (Error(400, "Bad Request: chat not found"), BadRequest, "refuses: Chat not found"),
        (Error(409, "Conflict: terminated by other"), Conflict, "another program polls"),
        (Error(409, "Conflict: webhook is active"), Conflict, "webhook"),
        (Flood(7), RetryAfter, "to wait for 7 s"),
        (Broken(502), NetworkError, "Bad Gateway"),
        (Broken(599), NetworkError, "599"),
        (Reset(), NetworkError, "cannot be reached"),
        (Truncated(), NetworkError, "cannot be read"),
        (Silent(), TimedOut, "in time"),
    ],
    ids=str,
)
async def test_what_goes_wrong_has_a_kind_and_a_sentence(
    fault: Any, kind: type[TelegramError], words: str, everything_logged: pytest.LogCaptureFixture
) -> None:
    async with served() as server, open_bot(TOKEN, server.root) as bot:
        server.api.user(11)
        server.api.faults.next(fault)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(kind) as raised:
                await bot.send_message(11, "a secret", read_timeout=0.5 if kind is TimedOut else 30)
    assert type(raised.value) is kind
    assert re.search(words, in_words(raised.value))
    for place in (in_words(raised.value), str(raised.value), repr(raised.value), everything_logged.text):
        assert TOKEN not in place
        assert "secret" not in place


async def test_a_group_that_became_a_supergroup_says_so() -> None:
    async with served() as server, open_bot(TOKEN, server.root) as bot:
        ana = server.api.user(11)
        group = server.api.group(-5, basic=True, members=[ana])
        server.api.migrate(group, -1005)
        with pytest.raises(ChatMigrated) as migrated:
            await bot.send_message(-5, "hello")
    assert migrated.value.new_chat_id == -1005


def test_a_server_that_cannot_be_reached_is_no_secret_but_its_address_is() -> None:
    error = NetworkError("httpx.ConnectError: http://h/bot123:secret")
    error.__cause__ = OSError("http://h/bot123:secret")
    assert in_words(error) == "Telegram cannot be reached (OSError)"
    assert in_words(ValueError("http://h/bot123:secret")) == "ValueError"
    assert TOKEN not in in_words(BadRequest(f"no such thing: {TOKEN}"))


class Scripted(BaseRequest):
    """Answers with what a test wants, as no server should."""

    __slots__ = ("_answer",)

    def __init__(self, code: int, body: bytes) -> None:
        self._answer = (code, body)

    @property
    def read_timeout(self) -> float | None:
        return 1.0

    async def initialize(self) -> None:
        pass

    async def shutdown(self) -> None:
        pass

    async def do_request(self, url: str, *args: Any, **kwargs: Any) -> tuple[int, bytes]:
        await trio.lowlevel.checkpoint()
        return self._answer


class GuardedScript(Guarded, Scripted):
    __slots__ = ()


def scripted(code: int, body: bytes) -> Bot:
    request = GuardedScript(code, body)
    return Bot(TOKEN, request=request, get_updates_request=request)


BODIES = [
    b"",
    b"<html>",
    b"null",
    b"[]",
    b"7",
    b"{}",
    b'{"ok": true}',
    b'{"ok": true, "result": 5}',
    b'{"ok": true, "result": null}',
    b'{"ok": true, "result": {"id": "x"}}',
    b'{"ok": true, "result": [{"id": 1}]}',
    b'{"ok": true, "result": [null, 1, "x", {"update_id": true}, {"update_id": 1e3}]}',
    b'{"ok": false, "description": 5, "parameters": []}',
    b'{"ok": false, "description": null, "parameters": {"retry_after": "soon"}}',
    b'{"ok": false, "parameters": {"retry_after": -1, "migrate_to_chat_id": "x"}}',
    b'{"ok": false, "parameters": {"retry_after": 1e300}}',
    b"[" * 100_000,
    b"\xff\xfe\x00",
    b'{"ok": true, "result": ' + b"9" * 5000 + b"}",
]


@pytest.mark.parametrize("code", [200, 204, 302, 400, 403, 404, 409, 429, 500, 502, 999])
async def test_whatever_a_server_sends_is_an_answer_or_a_telegram_error(
    code: int, everything_logged: pytest.LogCaptureFixture
) -> None:
    for body in BODIES:
        bot = scripted(code, body)
        with pytest.raises((TelegramError, TokenRefused)):
            await introduce(bot)
        with pytest.raises(TelegramError) as raised:
            await raw_updates(bot, offset=None, wait_s=1, read_timeout_s=2)
        assert len(in_words(raised.value)) < 400
        if isinstance(raised.value, RetryAfter):
            assert 0 < wait_of(raised.value) <= 3600
    assert not everything_logged.records


@pytest.mark.parametrize("body", [b"", b"<html>403 Forbidden</html>", b'{"ok": false, "error_co', b"[]"])
@pytest.mark.parametrize("code", [400, 403])
async def test_a_refusal_that_cannot_be_read_is_trouble_on_the_way(code: int, body: bytes) -> None:
    with pytest.raises(NetworkError) as raised:
        await scripted(code, body).send_message(11, "hello")
    assert type(raised.value) is NetworkError
    assert refusal_of(raised.value) is None


async def test_a_server_that_repeats_the_token_does_not_get_it_into_an_error() -> None:
    description = f"no such method /bot{TOKEN}/getMe\n" + "x" * 1000
    bot = scripted(400, b'{"description": "%s"}' % description.encode().replace(b"\n", b"\\n"))
    with pytest.raises(BadRequest) as raised:
        await introduce(bot)
    assert TOKEN not in str(raised.value)
    assert len(str(raised.value)) <= 300
    bot = scripted(502, TOKEN.encode())
    with pytest.raises(NetworkError) as broken:
        await introduce(bot)
    assert TOKEN not in str(broken.value)


async def test_one_update_without_a_number_does_not_take_the_others_along() -> None:
    bot = scripted(200, b'{"ok": true, "result": [{"update_id": 8}, 5, {"x": 1}, {"update_id": 7}]}')
    assert await raw_updates(bot, offset=None, wait_s=1, read_timeout_s=2) == [
        {"update_id": 7},
        {"update_id": 8},
    ]


def test_an_album_at_the_end_is_seen_whatever_stands_there() -> None:
    assert not ends_in_album([])
    assert not ends_in_album([{"update_id": 1}])
    assert not ends_in_album([{"update_id": 1, "message": 5}])
    assert not ends_in_album([{"update_id": 1, "message": {"media_group_id": "7"}}, {"update_id": 2}])
    assert ends_in_album([{"update_id": 2, "message": {"media_group_id": "7"}}])
