"""The Bot API of the tests over HTTP, with `telegram.Bot` as it is used: `HTTPXRequest` under trio."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import trio
from telegram import Bot, MessageEntity
from telegram.error import (
    BadRequest,
    Conflict,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
    TimedOut,
)
from telegram.request import HTTPXRequest

from tests.conftest import ROOT
from tests.fakes.bot_api import TOKEN, BotApi
from tests.fakes.bot_api_faults import Broken, Error, Fault, Flood, Reset, Silent, Slow, Truncated
from tests.fakes.bot_api_rates import UNLIMITED
from tests.fakes.telegram_exchange import until
from tests.fakes.telegram_server import TelegramServer, serve_telegram


@pytest.fixture(autouse=True)
def timedeltas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it a `RetryAfter` cannot even be made without a deprecation warning."""
    monkeypatch.setenv("PTB_TIMEDELTA", "1")


@asynccontextmanager
async def bot_of(server: TelegramServer, token: str = TOKEN, read_timeout: float = 5) -> AsyncIterator[Bot]:
    requests = [HTTPXRequest(read_timeout=read_timeout) for _ in range(2)]
    bot = Bot(
        token,
        base_url=server.base_url,
        base_file_url=server.base_file_url,
        request=requests[0],
        get_updates_request=requests[1],
    )
    try:
        yield bot
    finally:
        for request in requests:
            with trio.CancelScope(shield=True):
                await request.shutdown()


def fresh() -> BotApi:
    api = BotApi(trio.current_time, limits=UNLIMITED)
    api.user(1)
    return api


async def test_a_bot_reads_and_answers_over_one_connection_of_each_kind() -> None:
    api = fresh()
    said = api.say(api.people[1], "👍 hi\n")
    async with serve_telegram(api) as server, bot_of(server) as bot:
        [update] = await bot.get_updates(timeout=5)
        assert update.update_id == said.update_id
        sent = await bot.send_message(1, "hello 👍", entities=[MessageEntity("bold", 6, 2)])
        await bot.edit_message_text("hello & bye = 100 %", 1, sent.message_id)
        await bot.send_message_draft(1, 5, "…")
        await bot.send_chat_action(1, "typing")
        assert await bot.get_updates(offset=update.update_id + 1) == ()
        assert server.connections == 2
    assert api.chat(1).texts == ["hello & bye = 100 %"]
    assert api.chat(1).said[0].edits[0].entities == [{"type": "bold", "offset": 6, "length": 2}]
    assert api.confirmed == [said.update_id]


async def test_the_same_call_may_come_as_json_a_form_parts_or_a_query() -> None:
    api = fresh()
    async with serve_telegram(api) as server, httpx.AsyncClient() as client:
        url = f"{server.base_url}{TOKEN}/sendMessage"
        bold = {"type": "bold", "offset": 0, "length": 1}
        whole = {"chat_id": 1, "text": "é=1&", "entities": [bold]}
        plain = {"chat_id": "1", "text": "é=1&", "entities": json.dumps([bold])}
        await client.post(url, json=whole)
        await client.post(url, data=plain)
        await client.post(url, files={name: (None, value) for name, value in plain.items()})
        response = await client.get(url, params=plain)
        assert response.headers["content-type"] == "application/json"
        assert response.json()["ok"]
    assert [(message.text, message.entities) for message in api.chat(1).said] == [("é=1&", [bold])] * 4


async def test_files_go_up_and_down_whole() -> None:
    api = fresh()
    content = os.urandom(300_000) + b"\r\n--"
    async with serve_telegram(api) as server, bot_of(server) as bot:
        sent = await bot.send_document(1, content, filename='año "1".bin', caption="here")
        assert (sent.document.file_size, sent.document.file_name) == (len(content), 'año "1".bin')
        file = await bot.get_file(sent.document.file_id)
        assert bytes(await file.download_as_bytearray()) == content
    assert api.chat(1).said[0].document.content == content


async def test_more_than_fifty_megabytes_are_refused() -> None:
    api = fresh()
    async with serve_telegram(api) as server, bot_of(server) as bot:
        with pytest.raises(NetworkError, match="Request Entity Too Large"):
            await bot.send_document(1, bytes(50 * 1024 * 1024 + 1), filename="large.bin")
    assert api.chat(1).said == []


async def test_a_wrong_token_a_malformed_one_and_an_unknown_address() -> None:
    async with serve_telegram(fresh()) as server:
        async with bot_of(server, "7000000002:AAtest-token_0123456789abcdefghijkl") as bot:
            with pytest.raises(InvalidToken, match="Unauthorized"):
                await bot.get_me()
        async with bot_of(server, "nonsense") as bot:
            with pytest.raises(InvalidToken, match="Not Found"):
                await bot.get_me()
        async with httpx.AsyncClient() as client:
            for path in ("/", f"/bot{TOKEN}/fly", f"/file/bot{TOKEN}/documents/none.pdf"):
                assert (await client.get(server.root + path)).status_code == 404


async def test_a_long_poll_ends_when_somebody_says_something() -> None:
    api = fresh()
    async with serve_telegram(api) as server, bot_of(server) as bot, trio.open_nursery() as nursery:

        async def say() -> None:
            await until(api, lambda: api.updates.poll is not None)
            api.say(api.people[1], "there")

        nursery.start_soon(say)
        with trio.fail_after(30):
            [update] = await bot.get_updates(timeout=30)
        assert update.message.text == "there"


async def test_a_poll_whose_client_left_is_over_and_takes_nothing() -> None:
    api = fresh()
    async with serve_telegram(api) as server, bot_of(server) as bot:
        with trio.move_on_after(25) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lambda: bot.get_updates(timeout=30))
                await until(api, lambda: api.updates.poll is not None)
                nursery.cancel_scope.cancel()
            await until(api, lambda: api.updates.poll is None)
        assert not scope.cancelled_caught
        said = api.say(api.people[1], "after")
        [update] = await bot.get_updates(timeout=5)
        assert update.update_id == said.update_id
        assert api.pending == [said.update_id]


async def test_the_older_of_two_polls_ends_with_a_conflict() -> None:
    api = fresh()
    async with serve_telegram(api) as server, bot_of(server) as bot, trio.open_nursery() as nursery:

        async def older() -> None:
            with pytest.raises(Conflict, match="terminated by other getUpdates request"):
                await bot.get_updates(timeout=30)

        nursery.start_soon(older)
        await until(api, lambda: api.updates.poll is not None)
        async with bot_of(server) as newer:
            assert await newer.get_updates(timeout=1) == ()


async def test_telegram_goes_on_when_its_bot_is_gone() -> None:
    api = fresh()
    async with serve_telegram(api) as server:
        async with bot_of(server) as bot:
            await bot.send_message(1, "one")
        await server.wait_idle()
        api.say(api.people[1], "anyone?")
        async with bot_of(server) as bot:
            assert len(await bot.get_updates(timeout=5)) == 1


@pytest.mark.parametrize(
    ("fault", "kind", "words", "done"),
    [
        (Flood(7), RetryAfter, "0:00:07", False),
        (Broken(502), NetworkError, "Bad Gateway", False),
        (Broken(500), NetworkError, "Internal Server Error", False),
        (Error(401), InvalidToken, "Unauthorized", False),
        (Error(409, "Conflict: x"), Conflict, "Conflict: x", False),
        (Error(400, "Bad Request: PEER_FLOOD"), BadRequest, "Peer_flood", False),
        (Reset(), NetworkError, "ReadError|RemoteProtocolError", False),
        (Reset(after=True), NetworkError, "ReadError|RemoteProtocolError", True),
        (Silent(), TimedOut, "Timed out", False),
        (Silent(after=True), TimedOut, "Timed out", True),
        (Slow(3), TimedOut, "Timed out", True),
        (Truncated(), TelegramError, "Invalid server response", True),
    ],
)
async def test_what_goes_wrong_goes_wrong_once(
    fault: Fault, kind: type[TelegramError], words: str, done: bool
) -> None:
    api = fresh()
    async with serve_telegram(api) as server, bot_of(server, read_timeout=30) as bot:
        api.faults.next(fault, "sendMessage", chat=1)
        api.user(2)
        await bot.send_message(2, "not meant")
        with pytest.raises(kind, match=words):
            await bot.send_message(1, "one", read_timeout=0.3 if kind is TimedOut else 30)
        assert api.chat(1).texts == (["one"] if done else [])
        await bot.send_message(1, "two")
    assert [(one.method, one.chat, one.fault) for one in api.faults.injected] == [("sendMessage", 1, fault)]


async def test_by_hand_lines_are_said_and_what_the_bot_does_is_printed(tmp_path: Path) -> None:
    token = "123:AA-by-hand_0123456789abcdefghijklmnopq"
    command = [sys.executable, "-m", "tests.fakes.telegram_server", "--token", token]
    process = await trio.lowlevel.open_process(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        with trio.fail_after(30):
            root = (await line_of(process)).strip()
            note = tmp_path / "note.txt"
            note.write_text("hello")
            lines = f"12 hello there\n12@-100777/5 in the topic\n12 !file {note}\nnonsense\n"
            await process.stdin.send_all(lines.encode())
            assert (await line_of(process)).startswith("??")
            async with httpx.AsyncClient(base_url=f"{root}/bot{token}/") as client:
                updates = (await client.get("getUpdates")).json()["result"]
                messages = [update["message"] for update in updates]
                assert messages[0]["text"] == "hello there"
                assert (messages[1]["chat"]["id"], messages[1]["message_thread_id"]) == (-100777, 5)
                assert messages[2]["document"]["file_name"] == "note.txt"
                await client.post("sendMessage", json={"chat_id": 12, "text": "hi"})
                assert (await line_of(process)).startswith("[12] #")
                keys = {"inline_keyboard": [[{"text": "✅ Yes", "callback_data": "x:y"}]]}
                await client.post("sendMessage", json={"chat_id": 12, "text": "ok?", "reply_markup": keys})
                assert (await line_of(process)).endswith(": ok? [✅ Yes]\n")
                await process.stdin.send_all(b"12 !press no\n12 !press yes\n")
                assert (await line_of(process)).startswith("?? no button says 'no'")
                offset = updates[-1]["update_id"] + 1
                answer = await client.get("getUpdates", params={"offset": offset, "timeout": 10})
                [update] = answer.json()["result"]
                query = update["callback_query"]
                assert query["data"] == "x:y"
                told = {"callback_query_id": query["id"], "text": "good"}
                await client.post("answerCallbackQuery", json=told)
                assert await line_of(process) == "[12] (User 12 reads: good)\n"
            process.send_signal(signal.SIGTERM)
            await process.wait()
    finally:
        process.kill()
        await process.wait()
        await process.stdin.aclose()
        await process.stdout.aclose()


async def line_of(process: trio.Process) -> str:
    line = b""
    while not line.endswith(b"\n"):
        piece = await process.stdout.receive_some(1)
        assert piece, line
        line += piece
    return line.decode()
