"""Windows whose chat another worker takes over: they open once more, and lose and repeat nothing."""

from pathlib import Path
from typing import Any

import pytest
import trio

from rumi.channels.attach.reconnecting import RoutedChat
from rumi.chats.events import VERSION, Moved, Replied, from_json
from rumi.errors import NotServed
from rumi.platform.caller import TERMINAL
from rumi.store.journal.inbox import accept_messages
from rumi.store.journal.outbox import settle
from rumi.store.journal.records import FinalReply, Incoming, NotStored
from rumi.store.ownership import partition_of
from tests.channels.attach.daemon import DaemonHouse, running_daemon


async def hand_over(daemon: DaemonHouse, chat: str = "cli") -> None:
    await daemon.server.hand_over(frozenset({partition_of(chat)}), 0.0)


async def test_a_window_ends_with_its_last_event_and_knows_that_the_chat_moves(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon, daemon.attached() as client:
        await client.send("hi")
        await daemon.home.services.pending.all_replied("cli")
        await hand_over(daemon)
        assert (await client.until(Replied)).text == "you said hi"
        with trio.fail_after(10):
            await client.remote.ended()
        assert client.remote.moved
        assert client.remote.final_error() is None, "the process is still there, so the window comes back"


async def test_windows_on_other_chats_stay(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon, daemon.attached("other") as client:
        await hand_over(daemon)
        assert await client.ask("hi") == "you said hi"


async def test_the_windows_of_a_process_that_ends_stay_until_its_end(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon, daemon.attached() as client:
        daemon.server.wind_down()
        await hand_over(daemon)
        assert await client.remote.undelivered() == []
        assert not client.remote.moved


async def test_a_reached_chat_goes_on_when_it_has_moved(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon, trio.open_nursery() as nursery:
        chat = RoutedChat(daemon.path, TERMINAL, "cli")
        events = chat.subscribe()
        nursery.start_soon(chat.keep_attached)

        async def until(kind: type) -> Any:
            with trio.fail_after(20):
                while not isinstance(what := (await events.receive()).what, kind):
                    pass
            return what

        assert (await until(Moved)).back
        await daemon.home.inbox.accept("cli", "first")
        assert (await until(Replied)).text == "you said first"
        await hand_over(daemon)
        assert not (await until(Moved)).back
        assert (await until(Moved)).back
        await daemon.home.inbox.accept("cli", "second")
        assert (await until(Replied)).text == "you said second"
        nursery.cancel_scope.cancel()


async def test_a_chat_of_a_worker_that_is_not_reached_is_answered_once(tmp_path: Path) -> None:
    """The window reads the replies from the journal, whichever process told them."""

    async def gone_from(chat: str, worker: str) -> None:
        await trio.sleep_forever()

    async with running_daemon(tmp_path) as daemon:
        daemon.server._until_other_worker = gone_from
        async with daemon.stream("window", **open_request(away="worker-1")) as wire:
            opened = (await wire.receive())["opened"]
            assert any("worker-1" in note for note in opened["notes"])  # type: ignore[index]
            ask = daemon.home.services.journal.ask
            stored = await ask(accept_messages((Incoming(chat="cli", text="hi"),)))
            assert not isinstance(stored, NotStored)
            (message,) = stored
            assert message is not None
            await ask(settle("cli", FinalReply((message.id,), "you said hi")))
            replies = []

            async def hear() -> None:
                while True:
                    message: Any = await wire.receive()
                    what = from_json(message["event"]).what
                    if isinstance(what, Replied):
                        replies.append((what.messages, what.text))
                        return

            with trio.fail_after(30):
                await hear()
            with trio.move_on_after(1):
                await hear()
            assert replies == [((message.id,), "you said hi")]


async def test_a_window_on_a_chat_that_is_handed_over_is_told_to_come_again(tmp_path: Path) -> None:
    async def gone_from(chat: str, worker: str) -> None:
        await trio.sleep_forever()

    async with running_daemon(tmp_path) as daemon:
        daemon.server._until_other_worker = gone_from
        daemon.home.services.pending.serve_as("me")  # and serves nothing
        async with daemon.stream("window", **open_request(passed=True)) as wire:
            answer = await wire.receive()
        assert answer["later"] is True


async def test_files_and_commands_of_a_chat_that_is_handed_over_are_refused(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        daemon.home.services.pending.serve_as("me")
        with pytest.raises(NotServed):
            await daemon.home.inbox.chats.taint_files("cli")
        await daemon.home.inbox.chats.open("cli")
        assert daemon.home.inbox.chats.lookup("cli") is None, "no chat of another worker may begin here"


def open_request(**more: object) -> dict[str, object]:
    return {"version": VERSION, "chat": "cli", "person": True, "language": "en", **more}
