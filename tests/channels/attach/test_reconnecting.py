"""A chat that goes on in another process when the one that held the home has ended."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import trio
import trio.testing

from actors import ChildSpec, Supervisor
from rumi.channels.attach.client import DaemonGone, OpenRequest, attach
from rumi.channels.attach.reconnecting import ReconnectingChat
from rumi.channels.attach.wire import Wire
from rumi.channels.control.server import ControlServer
from rumi.channels.terminal.once import once
from rumi.channels.terminal.plain import PlainView
from rumi.channels.terminal.session import TerminalSession
from rumi.channels.terminal.words import Reader
from rumi.chats.events import Moved, Replied
from rumi.errors import RumiError
from rumi.platform.caller import TERMINAL
from tests.channels.attach.daemon import DAEMON, running_daemon
from tests.channels.terminal.scripted import Page, signals

READER = Reader("en")
REQUEST = OpenRequest("cli", True, "en")


async def test_what_is_sent_to_a_holder_that_ends_goes_to_the_next_one(tmp_path: Path) -> None:
    chat = ReconnectingChat("cli", "en")
    numbers: list[int] = []

    async def send() -> None:
        numbers.append(await chat.send("hello"))

    async with trio.open_nursery() as nursery:
        async with running_daemon(tmp_path) as first:
            async with attach(first.path, TERMINAL, REQUEST, DAEMON) as remote:
                chat.connect(remote)
                events = chat.subscribe()
                first.server.wind_down()
                nursery.start_soon(send)
                await trio.testing.wait_all_tasks_blocked(0.05)
                assert numbers == [], "the first one takes nothing any more"
                chat.disconnect("gone")
        async with (
            running_daemon(tmp_path) as second,
            attach(second.path, TERMINAL, REQUEST, DAEMON) as remote,
        ):
            chat.connect(remote, "back")
            told = []
            with trio.fail_after(60):
                while not told or not isinstance(told[-1], Replied):
                    told.append((await events.receive()).what)
            assert told[:2] == [Moved("gone", back=False), Moved("back", back=True)]
            assert isinstance(told[-1], Replied)
            assert (told[-1].messages, told[-1].text) == (tuple(numbers), "you said hello")


async def test_what_was_sent_when_the_holder_died_is_said_to_be_perhaps_lost(tmp_path: Path) -> None:
    async def dies_when_asked(caller: object, request: Mapping[str, object], wire: Wire) -> None:
        await wire.send({"opened": {}})
        await wire.receive()

    chat, path = ReconnectingChat("cli", "en"), tmp_path / "dying.sock"
    dying = Supervisor("dying")
    dying.add(ChildSpec("control", lambda: ControlServer(path, {}, {"window": dies_when_asked})))
    async with dying.running(), running_daemon(tmp_path) as next_one, trio.open_nursery() as nursery:

        async def take_over() -> None:
            async with attach(path, TERMINAL, REQUEST, DAEMON) as remote:
                chat.connect(remote)
                await remote.ended()
                chat.disconnect("gone")
            async with attach(next_one.path, TERMINAL, REQUEST, DAEMON) as remote:
                chat.connect(remote)
                await trio.sleep_forever()

        nursery.start_soon(take_over)
        with trio.fail_after(60), pytest.raises(RumiError, match="don't know whether this arrived: “hello”"):
            await chat.send("hello")
        assert await chat.send("hello") > 0, "the next one takes it"
        nursery.cancel_scope.cancel()


async def test_windows_that_move_to_another_process_take_no_reply_from_each_other(tmp_path: Path) -> None:
    """Two programs' and a person's, while one message is worked on and another one waits."""
    chats = [ReconnectingChat("cli", "en") for _ in range(3)]
    shown = [Page() for _ in chats]
    codes: list[int] = []

    async def sit(chat: ReconnectingChat, page: Page, text: str) -> None:
        session = TerminalSession(chat, PlainView(page, page, READER), READER, alone=bool(text))
        if not text:
            await session.run()
        codes.append(await once(session, text, signals(), reader=READER))

    async def look(chat: ReconnectingChat, path: Path, *, task_status: trio.TaskStatus[None]) -> None:
        wish = OpenRequest("cli", chat is chats[2], "en")
        async with attach(path, TERMINAL, wish, DAEMON) as remote:
            chat.connect(remote)
            task_status.started()
            await remote.ended()
        chat.disconnect("")

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            async with running_daemon(tmp_path, max_queued=5) as first:
                for place, text in enumerate(("sleep 600", "second", "")):
                    await nursery.start(look, chats[place], first.path)
                    nursery.start_soon(sit, chats[place], shown[place], text)
                    await first.until_running("cli", 1)
                while "Queued" not in shown[1].text:  # noqa: ASYNC110  # no event for it
                    await trio.sleep(0.01)
            async with running_daemon(tmp_path, max_queued=5) as second:
                for place in (2, 0, 1):
                    await nursery.start(look, chats[place], second.path)
                    while place != 1 and "“sleep 600”" not in shown[place].text:  # noqa: ASYNC110
                        await trio.sleep(0.01)
                while len(codes) < 2:  # noqa: ASYNC110
                    await trio.sleep(0.01)
                nursery.cancel_scope.cancel()
    assert codes == [130, 0], "what ran was interrupted, and what waited is worked on by the next process"
    found = [["“sleep 600”" in page.text, "you said second" in page.text] for page in shown]
    assert found == [[True, False], [False, True], [True, True]]


async def test_a_service_that_ends_takes_its_windows_along(tmp_path: Path) -> None:
    chat = ReconnectingChat("cli", "en")
    events = chat.subscribe()
    gone = DaemonGone("rumi telegram has ended, and this window with it.")
    chat.fail(gone)
    for call in (events.receive, chat.undelivered, lambda: chat.send("hello")):
        with pytest.raises(DaemonGone):
            await call()
