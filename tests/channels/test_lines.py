"""A channel that no file of Rumi knows: over real sockets, with the real tree."""

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio

from rumi.app.app import App, open_app
from rumi.app.shutdown import wind_down
from rumi.errors import UsageError
from rumi.platform.config.cascade import load_settings
from rumi.platform.home import Home
from tests.channels.lines import TcpLines
from tests.fakes.containers import FakeEngine

WITHIN_S = 20


@dataclass
class Running:
    """A process with the channel."""

    app: App
    channel: TcpLines
    engine: FakeEngine

    @asynccontextmanager
    async def client(self, name: str) -> AsyncIterator["Client"]:
        stream = await trio.open_tcp_stream("127.0.0.1", self.channel.port)
        async with stream:
            client = Client(stream)
            await client.send(f"chat {name}")
            with trio.fail_after(WITHIN_S):
                yield client

    async def settled(self) -> None:
        """Wait until every message has its reply."""
        with trio.fail_after(WITHIN_S):
            while self.app.services.pending.unreplied:  # noqa: ASYNC110  # nobody tells
                await trio.sleep(0.01)

    async def at_work(self, program: str) -> None:
        """Wait until a command runs."""
        with trio.fail_after(WITHIN_S):
            while program not in [command for _, command in self.engine.commands]:  # noqa: ASYNC110
                await trio.sleep(0.01)


@dataclass
class Client:
    stream: trio.SocketStream
    came: bytes = b""
    lines: list[list[object]] = field(default_factory=list)

    async def send(self, *lines: str) -> None:
        await self.stream.send_all("".join(f"{line}\n" for line in lines).encode())

    async def next(self) -> tuple[str, list[object]]:
        """Return the next line: its word and its values."""
        while b"\n" not in self.came:
            more = await self.stream.receive_some()
            assert more, "the server ended the connection"
            self.came += more
        line, _, self.came = self.came.partition(b"\n")
        word, _, rest = line.decode().partition(" ")
        number, _, text = rest.partition(" ") if rest[0].isdigit() else ("", "", rest)
        return word, [json.loads(value) for value in (number, text) if value]

    async def next_of(self, wanted: str) -> list[object]:
        while True:
            word, values = await self.next()
            if word == wanted:
                return values

    async def acknowledged(self) -> str:
        """Return the next reply, and acknowledge it."""
        number, text = await self.next_of("reply")
        await self.send(f"ok {number}")
        return str(text)


@asynccontextmanager
async def running(path: Path) -> AsyncIterator[Running]:
    home = Home(path / "home").make()
    loaded = load_settings(home.root, {}, {"model.default": "offline", "language": "en"})
    engine, channel = FakeEngine(), TcpLines()
    async with open_app(home, loaded, engine, channels=(channel,)) as app:
        yield Running(app, channel, engine)


def stored(path: Path, what: str = "text") -> list[object]:
    db = sqlite3.connect(path / "home" / "state.db")
    try:
        return [value for (value,) in db.execute(f"SELECT {what} FROM messages ORDER BY id")]
    finally:
        db.close()


async def test_a_line_is_answered_in_a_chat_of_its_channel(tmp_path: Path) -> None:
    async with running(tmp_path) as process, process.client("ana") as ana, process.client("ben") as ben:
        await ana.send("1 run echo hi")
        assert await ana.next() == ("stored", [1])
        answer = await ana.acknowledged()
        assert answer == "Done. The command printed nothing."
        await ben.send("1 /help")
        assert "/stop" in await ben.acknowledged()
        names = [child.id for child in process.app.status.tree().children]
        assert names[names.index("chats") :] == ["chats", "schedules", "lines", "control"]
        with pytest.raises(UsageError, match="would be one of the line server's chats"):
            process.app.services.context.ids.check_chosen("lnana")
    assert stored(tmp_path, "chat") == ["lnana", "lnben"]


async def test_facts_belong_to_the_chat_of_the_channel(tmp_path: Path) -> None:
    async with running(tmp_path) as process, process.client("ana") as ana, process.client("ben") as ben:
        await ben.send("1 remember city = Rosario")
        await ben.acknowledged()
        for client, knows in ((ben, True), (ana, False)):
            await client.send("2 /memory")
            assert ("Rosario" in await client.acknowledged()) == knows
        assert process.app.services.context.ids.owner_of("lnben_topic") == "lnben"


async def test_a_line_that_comes_again_is_not_answered_again(tmp_path: Path) -> None:
    async with running(tmp_path) as process:
        async with process.client("ana") as ana:
            await ana.send("1 run echo hi", "1 run echo hi")
            await ana.acknowledged()
        async with process.client("ana") as ana:
            await ana.send("1 run echo hi", "2 /help")
            assert await ana.next() == ("stored", [1])
            assert "/stop" in await ana.acknowledged()
        async with process.client("ben") as ben:
            await ben.send("1 /help")
            await ben.acknowledged()
    assert stored(tmp_path) == ["run echo hi", "/help", "/help"]


async def test_a_stop_ends_the_turn_and_both_lines_share_a_reply(tmp_path: Path) -> None:
    async with running(tmp_path) as process, process.client("ana") as ana:
        await ana.send("1 run sleep 600")
        await process.at_work("sleep")
        await ana.send("2 /stop")
        assert "Stopped" in await ana.acknowledged()
    assert len(set(stored(tmp_path, "reply"))) == 1


async def test_a_question_is_a_line_and_a_line_answers_it(tmp_path: Path) -> None:
    async with running(tmp_path) as process, process.client("ana") as ana:
        files = process.app.home.workspaces / "lnana"
        files.mkdir(parents=True)
        (files / "notes.txt").write_text("mine")
        await ana.send("1 /reset files")
        (question,) = await ana.next_of("ask")
        assert "files" in str(question)
        await ana.send("2 yes")
        assert "Session reset" in await ana.acknowledged()
        assert not list(files.iterdir())


async def test_a_reply_comes_until_it_is_acknowledged_and_then_no_more(tmp_path: Path) -> None:
    async with running(tmp_path) as process:
        async with process.client("ana") as ana:
            await ana.send("1 run echo hi")
            await ana.next_of("stored")
        await process.settled()
    async with running(tmp_path) as process:
        async with process.client("ana") as ana:
            unacknowledged = await ana.next_of("reply")
        async with process.client("ben") as ben:
            await ben.send(f"ok {unacknowledged[0]}")
            assert (await ben.next())[0] == "error"
        async with process.client("ana") as ana:
            await ana.send("1 run echo hi")
            assert {word for word, _ in (await ana.next(), await ana.next())} == {"reply", "stored"}
            await ana.send(f"ok {unacknowledged[0]}", "2 /help")
            await ana.acknowledged()
    async with running(tmp_path) as process, process.client("ana") as ana:
        await ana.send("3 /help")
        number, _ = await ana.next_of("reply")
        assert number != unacknowledged[0]
    assert stored(tmp_path) == ["run echo hi", "/help", "/help"]


async def test_a_turn_that_a_restart_cut_off_is_told_and_not_run_again(tmp_path: Path) -> None:
    async with running(tmp_path) as process, process.client("ana") as ana:
        await ana.send("1 run sleep 600")
        await process.at_work("sleep")
        await ana.stream.aclose()
    async with running(tmp_path) as process, process.client("ana") as ana:
        await ana.send("1 run sleep 600")
        assert "I was restarted while working on" in await ana.acknowledged()
        await process.settled()
        assert process.engine.commands == []


async def test_a_process_that_winds_down_stores_no_more_lines(tmp_path: Path) -> None:
    async with running(tmp_path) as process, process.client("ana") as ana:
        await ana.send("1 /help")
        await ana.acknowledged()
        await wind_down((process.channel,), process.app.inbox.chats, process.app.services.fact_extraction)
        await ana.send("2 /help", "nonsense")
        assert (await ana.next())[0] == "error", "the line before it got no answer"
    async with running(tmp_path) as process, process.client("ana") as ana:
        await ana.send("2 /help")
        assert await ana.next() == ("stored", [2])
        await ana.acknowledged()


@pytest.mark.parametrize("line", ["17 hello", "chat", "chat a b", "chat " + "x" * 63, ""])
async def test_a_client_that_names_no_chat_is_told_how(tmp_path: Path, line: str) -> None:
    async with running(tmp_path) as process:
        with trio.fail_after(WITHIN_S):
            stream = await trio.open_tcp_stream("127.0.0.1", process.channel.port)
            await stream.send_all(line.encode() + b"\n")
            came = b"".join([some async for some in stream])
            await stream.aclose()
        assert came == b'error "Begin with: chat NAME"\n'
    assert stored(tmp_path) == []
