"""How chats come to know of their messages: by a wake-up, by reading the journal, or by a fresh start."""

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from actors.testing import crash
from rumi.chats.recovery import CHATS_AT_ONCE, Recovery
from rumi.chats.session import ChatSession
from rumi.models.model import Emit, ModelRequest, Reply
from rumi.platform.texts.operating import gave_up
from rumi.platform.texts.replies import busy
from rumi.store.journal.inbox import accept_messages, begin_turn, open_messages
from rumi.store.journal.outbox import undelivered_replies
from rumi.store.journal.records import ChatRecord, Incoming
from rumi.store.journal.store import Store
from rumi.store.journal.transaction import JournalMessage
from tests.chats.house import House, echo, house, reply_to
from tests.store.journal.accepting import tg


class Bang(Exception):
    """What breaks a chat."""


async def fragile(request: ModelRequest, emit: Emit) -> Reply:
    if request.messages[-1].content.startswith("bang"):
        raise Bang
    return await echo(request, emit)


async def slow(request: ModelRequest, emit: Emit) -> Reply:
    await trio.sleep(100)
    return await echo(request, emit)


async def settled(home: House) -> None:
    with trio.fail_after(1000):
        await home.services.pending.all_replied()


async def replies(home: House, chat: str) -> list[tuple[tuple[int, ...], str]]:
    """The chat's replies, and the messages that share each of them."""
    return [
        (reply.messages, reply.text) for reply in await home.services.journal.ask(undelivered_replies(chat))
    ]


async def store(home: House, *texts: str) -> list[Incoming]:
    """Store messages of which no chat is told."""
    stored = await home.services.journal.ask(
        accept_messages(tuple(Incoming(chat="cli", text=text) for text in texts))
    )
    return [message for message in stored if message is not None]  # type: ignore[union-attr]


async def test_a_stop_costs_no_read_of_the_journal(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[JournalMessage] = []
    run = Store.run

    def counted(self: Store, requests: list[JournalMessage]) -> list[object]:
        reads.extend(request for request in requests if request.step is open_messages)
        return run(self, requests)

    monkeypatch.setattr(Store, "run", counted)
    async with house(tmp_path, slow) as home:
        await home.inbox.chats.open("cli")
        with home.services.hub.listening("cli") as events:
            first = await home.inbox.accept("cli", "work")
            await home.inbox.accept("cli", "hello?")
            await home.inbox.accept("cli", "/stop")
            assert await reply_to(events, first) == "⏹ Stopped."
    assert reads == []


async def test_a_flood_that_fills_the_mailbox_is_judged_in_its_order(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path, slow) as home:
        await home.inbox.chats.open("cli")
        flood = [Incoming(tg(n), "cli", f"message {n}") for n in range(1, 301)]
        await home.inbox.accept_all([*flood, Incoming(tg(301), "cli", "/stop")])
        await settled(home)
        found = await replies(home, "cli")
        assert [answer for answer in found if answer[1] == busy("en")] == [
            ((number,), busy("en")) for number in range(2, 301)
        ]
        assert [answer for answer in found if answer[1] != busy("en")] == [((1, 301), "⏹ Stopped.")]


async def test_a_message_whose_wake_up_comes_behind_a_later_one_is_judged_before_it(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path, slow) as home:
        await home.inbox.chats.open("cli")
        first, second, third = await store(home, "first", "second", "third")
        home.inbox.chats.wake(third)
        home.inbox.chats.wake(first)
        await trio.sleep(1)
        home.inbox.chats.wake(second)
        await settled(home)
        assert await replies(home, "cli") == [
            ((second.id,), busy("en")),
            ((third.id,), busy("en")),
            ((first.id,), "you said first"),
        ]


async def test_a_message_of_which_its_chat_was_not_told_is_judged_before_the_next(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path) as home:
        assert await home.ask("before") == "you said before"
        (lost,) = await store(home, "lost")
        await home.inbox.accept("cli", "/help")
        await settled(home)
        assert [messages for messages, _ in await replies(home, "cli")][1:] == [(lost.id + 1,), (lost.id,)]


async def test_a_message_that_is_stored_while_its_chat_starts_is_judged(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path) as home, trio.open_nursery() as nursery:
        for chat in range(20):
            nursery.start_soon(home.inbox.chats.open, f"tg{chat}")
            for _ in range(chat):
                await trio.lowlevel.checkpoint()
            nursery.start_soon(home.inbox.accept, f"tg{chat}", "hello")
        await settled(home)
        for chat in range(20):
            assert [text for _, text in await replies(home, f"tg{chat}")] == ["you said hello"]


async def test_behind_the_restart_limit_what_was_not_judged_is_answered(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rumi.chats import chat as module

    parse = module.parse_chat_command

    def judge(text: str) -> object:
        if text == "bang":
            raise Bang
        return parse(text)

    monkeypatch.setattr(module, "parse_chat_command", judge)
    async with house(tmp_path) as home:
        await home.inbox.chats.open("cli")
        await home.inbox.accept_all([Incoming(tg(n), "cli", "bang") for n in (1, 2, 3, 4)])
        await home.inbox.accept_all([Incoming(tg(5), "cli", "hello")])
        await settled(home)
        told = dict(await replies(home, "cli"))
        assert told[(4,)] == gave_up("en")
        assert told[(5,)] == "you said hello"
        assert not home.inbox.chats.failed


async def test_a_message_that_is_withdrawn_before_its_chat_is_up_is_stopped(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path, slow) as home:
        number = await home.inbox.accept("cli", "work")
        assert home.inbox.chats.lookup("cli") is None
        await home.inbox.chats.withdraw("cli", [number])
        await settled(home)
        assert await replies(home, "cli") == [((number,), "⏹ Stopped.")]
        assert trio.current_time() < 50


async def test_a_chat_that_cannot_start_has_its_messages_answered(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rumi.chats import chat as module

    class Broken(module.Worker):
        def __init__(self, *services: object) -> None:
            raise Bang

    monkeypatch.setattr(module, "Worker", Broken)
    async with house(tmp_path) as home:
        number = await home.inbox.accept("cli", "hello")
        await settled(home)
        ((messages, text),) = await replies(home, "cli")
        assert messages == (number,)
        assert text.startswith("❌ Something failed and was restarted.")


async def test_an_idle_chat_leaves_nothing_in_memory(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with house(tmp_path, fragile) as home:
        assert (await home.ask("bang")).startswith("❌")
        assert await home.ask("hello") == "you said hello"
        await trio.sleep(1000)
        assert home.inbox.chats.lookup("cli") is None
        assert home.services.pending.cursors == {}
        assert home.services.pending.unreplied == {}
        assert await home.ask("again") == "you said again"


async def test_a_stop_does_not_wait_while_other_chats_start(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = ChatSession.load

    async def slowly(self: ChatSession) -> ChatRecord:
        if self.chat.startswith("slow"):
            await trio.sleep(100)
        return await load(self)

    monkeypatch.setattr(ChatSession, "load", slowly)
    async with house(tmp_path) as home:
        for number in range(CHATS_AT_ONCE):
            await home.inbox.accept(f"slow{number}", "hello")
        began = trio.current_time()
        await home.inbox.accept("behind", "hello")
        with trio.fail_after(50):
            assert await home.ask("/stop", "behind") == "⏹ Stopped."
        assert trio.current_time() - began < 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(home.ask, "hello", "later")
            await trio.sleep(50)
            assert home.inbox.chats.lookup("later") is None, "so many chats start at once, and no more"


@pytest.mark.long
async def test_a_chat_that_is_ended_while_it_restarts_leaves_no_message_behind(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """No task was told of the message: the journal crashed with its commit on the disk. The end comes at each
    step of the restart."""
    async with house(tmp_path) as home:
        for steps in range(60):
            await home.inbox.chats.open("cli")
            await store(home, "hello")
            crash(home.services.journal)
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            await home.inbox.chats.end("cli")
            await trio.sleep(10)
            assert len(await replies(home, "cli")) == steps + 1


async def test_a_yes_shares_the_reply_of_the_last_question_before_it_and_of_no_other(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path) as home:
        stored = await store(home, "/reset files", "hello", "/reset files", "yes", "/help")
    async with house(tmp_path) as home:
        await trio.sleep(5)
        one, two, three, yes, four = (message.id for message in stored)
        said = await replies(home, "cli")
        assert sorted(messages for messages, _ in said) == [(one,), (two,), (three, yes), (four,)]


async def test_a_chat_that_is_ended_while_it_starts_leaves_nothing_in_memory(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(self: ChatSession) -> ChatRecord:
        await trio.sleep_forever()
        raise AssertionError

    monkeypatch.setattr(ChatSession, "load", never)
    async with house(tmp_path) as home:
        with trio.move_on_after(1):
            await home.inbox.chats.open("cli")
        assert list(home.services.pending.cursors) == ["cli"]
        await home.inbox.chats.end("cli")
        assert home.services.pending.cursors == {}


async def test_a_chat_that_is_woken_before_recovery_is_up_begins_no_turn_again(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a task of an earlier process does, whose end wakes its chat."""
    database = Store(tmp_path / "state.db")
    database.run([accept_messages((Incoming(chat="cli", text="hello"),)), begin_turn("cli", 1, "t1", 1)])
    database.close()
    started = Recovery.started

    async def late(self: Recovery) -> None:
        self._pending.cursor("cli").missed = 1
        await started(self)

    monkeypatch.setattr(Recovery, "started", late)
    async with house(tmp_path, echo) as home:
        await trio.sleep(10)
        await settled(home)
        ((messages, text),) = await replies(home, "cli")
    assert messages == (1,)
    assert "hello" in text
    assert text.startswith("⚠️")
