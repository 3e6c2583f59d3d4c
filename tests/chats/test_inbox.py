"""Batches from a source that repeats itself: stored once, brought in order, answered in their language."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
import trio
from trio.testing import MockClock

from rumi.errors import RumiError
from rumi.models.model import Emit, ModelRequest, Reply
from rumi.platform.texts.replies import busy, crashed, went_on
from rumi.platform.untrusted_text import untrusted_block
from rumi.store.journal.inbox import SEEN_LEAST
from rumi.store.journal.outbox import undelivered_replies
from rumi.store.journal.records import Attachment, Incoming, Update
from rumi.store.journal.store import JournalError
from tests.chats.house import House, InlineOffload, MemorySandboxes, house, reply_to
from tests.store.journal.accepting import tg

T = TypeVar("T")
REPORT = Attachment("file", "ref-1", "report.txt", "text/plain", 10)


async def slow(request: ModelRequest, emit: Emit) -> Reply:
    await trio.sleep(100)
    return Reply("finally")


def stored(path: Path, column: str) -> list[object]:
    rows = sqlite3.connect(path / "state.db").execute(f"SELECT {column} FROM messages ORDER BY id")
    return [value for (value,) in rows]


async def settled(home: House) -> None:
    with trio.fail_after(1000):
        await home.services.pending.all_replied()


async def replies(home: House, chat: str) -> list[str]:
    return [reply.text for reply in await home.services.journal.ask(undelivered_replies(chat))]


async def test_a_batch_is_stored_and_every_message_in_it_answered(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path) as home:
        batch = [Incoming(tg(n), f"tg{n % 3}", f"message {n}") for n in range(1, 10)]
        assert await home.inbox.accept_all(batch) == [True] * 9
        await settled(home)
        assert sorted(stored(tmp_path, "text")) == sorted(arrival.text for arrival in batch)  # type: ignore[type-var]
        for chat in ("tg0", "tg1", "tg2"):
            assert len(await replies(home, chat)) == 3


async def test_an_update_that_comes_again_is_not_done_again(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path) as home:
        assert await home.inbox.accept_all(
            [Incoming(tg(7), "tg1", "one"), Incoming(tg(7), "tg1", "one")]
        ) == [
            True,
            False,
        ]
        await settled(home)
    async with house(tmp_path) as home:
        assert await home.inbox.accept_all(
            [Incoming(tg(7), "tg1", "one"), Incoming(tg(8), "tg1", "two")]
        ) == [
            False,
            True,
        ]
        await settled(home)
        assert stored(tmp_path, "text") == ["one", "two"]


async def test_each_source_has_update_numbers_of_its_own(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with house(tmp_path, now=lambda: 1e9 + trio.current_time()) as home:
        lines = Incoming(Update("lines", 7), "tg1", "two")
        assert await home.inbox.accept_all([Incoming(tg(7), "tg1", "one"), lines]) == [True, True]
        await trio.sleep(49 * 3600)
        others = [Incoming(tg(number)) for number in range(100, 101 + SEEN_LEAST)]
        assert all(await home.inbox.accept_all(others))
        assert await home.inbox.accept_all([Incoming(tg(7), "tg1", "one"), lines]) == [True, False]
        await settled(home)


async def test_an_updates_number_may_be_used_again_after_two_days_and_many_others(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path, now=lambda: 1e9 + trio.current_time()) as home:
        assert await home.inbox.accept_all([Incoming(tg(7), "tg1", "one")]) == [True]
        await trio.sleep(47 * 3600)
        others = [Incoming(tg(number)) for number in range(100, 101 + SEEN_LEAST)]
        assert all(await home.inbox.accept_all(others))
        assert await home.inbox.accept_all([Incoming(tg(7), "tg1", "one")]) == [False]
        await trio.sleep(2 * 3600)
        assert await home.inbox.accept_all([Incoming(tg(7), "tg1", "another")]) == [True]
        await settled(home)


async def test_a_clock_that_jumps_ahead_lets_no_update_count_twice(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    ahead_s = 0.0
    async with house(tmp_path, now=lambda: 1e9 + trio.current_time() + ahead_s) as home:
        batch = [Incoming(tg(number), "tg1", f"message {number}") for number in range(1, 101)]
        assert all(await home.inbox.accept_all(batch))
        ahead_s = 30 * 86_400.0
        assert not any(await home.inbox.accept_all(batch))
        assert not any(await home.inbox.accept_all([*batch[:50], *batch[50:]]))
        await settled(home)


async def test_of_what_has_no_chat_only_the_updates_number_is_kept(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path) as home:
        assert await home.inbox.accept_all([Incoming(tg(7)), Incoming(tg(8))]) == [True, True]
        assert await home.inbox.accept_all([Incoming(tg(7))]) == [False]
        assert stored(tmp_path, "text") == []
        assert home.services.pending.unreplied == {}


async def test_an_answer_known_at_once_is_stored_with_its_message_and_starts_no_chat(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path) as home:
        with home.services.hub.listening("tg1") as events:
            assert await home.inbox.accept_all(
                [Incoming(tg(7), "tg1", "[sticker]", answer="no stickers")]
            ) == [True]
            assert await reply_to(events, 1) == "no stickers"
        assert home.inbox.chats.lookup("tg1") is None
        assert await replies(home, "tg1") == ["no stickers"]
        assert await home.inbox.accept_all([Incoming(tg(7), "tg1", "[sticker]", answer="no stickers")]) == [
            False
        ]
        assert await replies(home, "tg1") == ["no stickers"]
        await settled(home)


async def test_the_first_of_a_flood_is_worked_on_and_a_stop_at_its_end_stops_it(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path, slow) as home:
        flood = [Incoming(tg(n), "tg1", f"message {n}") for n in range(1, 301)]
        await home.inbox.accept_all([*flood, Incoming(tg(301), "tg1", "/stop")])
        started = trio.current_time()
        await settled(home)
        assert trio.current_time() - started < 50
        found = await replies(home, "tg1")
        assert found.count("⏹ Stopped.") == 1
        assert len(found) == 300  # the first message and the stop share theirs
        assert stored(tmp_path, "turn").count("t1") == 1


async def test_nothing_is_stored_or_kept_of_a_batch_that_the_disk_refuses(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    class Refusing(InlineOffload):
        broken = False

        async def __call__(self, work: Callable[[], T]) -> T:
            if self.broken:
                raise JournalError("full")
            return await super().__call__(work)

    disk = Refusing()
    async with house(tmp_path, offload=disk) as home:
        assert await home.ask("hello") == "you said hello"
        disk.broken = True
        with pytest.raises(RumiError, match="could not be stored"):
            await home.inbox.accept_all([Incoming(tg(1), "tg1", "lost"), Incoming(tg(2), "tg2", "lost")])
        disk.broken = False
        assert home.services.pending.unreplied == {}
        assert await home.inbox.accept_all([Incoming(tg(1), "tg1", "found")]) == [True]
        await settled(home)
        assert await replies(home, "tg1") == ["you said found"]


async def test_each_message_is_answered_in_its_senders_language(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path, slow) as home:
        await home.inbox.accept_all(
            [
                Incoming(tg(1), "tg1", "trabajá", language="es"),
                Incoming(tg(2), "tg1", "hello?", language="en"),
                Incoming(tg(3), "tg1", "¿hola?", language="es"),
                Incoming(tg(4), "tg1", "/stop", language="en"),
            ]
        )
        await settled(home)
        assert sorted(await replies(home, "tg1")) == [
            "⏳ Already working on something. Wait for it, or send /stop.",
            "⏳ Ya estoy trabajando en algo. Espera a que termine o envía /stop.",
            "⏹ Operación cancelada.",
        ]


async def test_after_a_restart_a_user_reads_in_their_language_that_the_turn_went_on(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    brought: list[str] = []

    async def bring(chat: str, attachment: Attachment) -> str:
        brought.append(attachment.name)
        await trio.sleep(100 if len(brought) == 1 else 0)
        return "the report says no"

    with trio.CancelScope() as killed:
        async with house(tmp_path, slow, bring=bring) as home:
            await home.inbox.accept_all([Incoming(tg(1), "tg1", "trabajá", language="es")])
            await home.inbox.accept_all([Incoming(tg(2), "tg2", "", language="en", attachments=(REPORT,))])
            await trio.sleep(1)
            killed.cancel()
    async with house(tmp_path, bring=bring) as home:
        with trio.fail_after(100):
            while await home.open_chats():  # noqa: ASYNC110  # nothing tells that earlier ones are settled
                await trio.sleep(1)
        (spanish,), (english,) = await replies(home, "tg1"), await replies(home, "tg2")
        assert spanish == f"you said trabajá\n\n{went_on('es')}"
        assert "the report says no" in english
        assert english.endswith(went_on("en"))
        assert brought == ["report.txt"] * 2


async def test_what_comes_with_a_message_is_fetched_in_its_turn_and_again_at_a_retry(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    fetched: list[tuple[str, str]] = []

    async def bring(chat: str, attachment: Attachment) -> str:
        fetched.append((chat, attachment.reference))
        if len(fetched) == 1:
            raise RumiError("The line was cut.")
        return "[saved as report.txt]"

    async with house(tmp_path, bring=bring) as home:
        await home.inbox.accept_all([Incoming(tg(1), "tg1", "sum it up", attachments=(REPORT,))])
        await settled(home)
        assert await replies(home, "tg1") == [
            "❌ I could not get what you sent: The line was cut. Send /retry to try again."
        ]
        await home.inbox.accept_all([Incoming(tg(2), "tg1", "/retry")])
        await settled(home)
        assert (await replies(home, "tg1"))[1] == "you said sum it up"
        assert fetched == [("tg1", "ref-1"), ("tg1", "ref-1")]
        said = [
            m.content
            for m in home.services.context.model_for("tg1", "en", "").requests[-1].messages
            if m.role == "user"
        ]  # type: ignore[attr-defined]
        saved = untrusted_block("a file that the user sent", "[saved as report.txt]")
        assert said[-3:] == [
            "[The user sends files.]",
            f"[The user hands this on.]\n{saved}",
            "sum it up",
        ]


async def test_a_stop_ends_the_fetching_of_what_came_with_a_message(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    ended: list[str] = []

    async def bring(chat: str, attachment: Attachment) -> str:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(chat)
        raise AssertionError

    async with house(tmp_path, bring=bring) as home:
        await home.inbox.accept_all([Incoming(tg(1), "tg1", attachments=(REPORT,))])
        await trio.sleep(5)
        await home.inbox.accept_all([Incoming(tg(2), "tg1", "/stop")])
        await settled(home)
        assert await replies(home, "tg1") == ["⏹ Stopped."]
        assert ended == ["tg1"]


async def test_a_caption_is_no_command(autojump_clock: MockClock, tmp_path: Path) -> None:
    async def bring(chat: str, attachment: Attachment) -> str:
        await trio.lowlevel.checkpoint()
        return "[saved]"

    async with house(tmp_path, bring=bring) as home:
        await home.inbox.accept_all([Incoming(tg(1), "tg1", "/help", attachments=(REPORT,))])
        await settled(home)
        assert await replies(home, "tg1") == ["you said /help"]


async def test_winding_down_lets_turns_finish_and_leaves_the_rest_to_the_next_process(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async def by_words(request: ModelRequest, emit: Emit) -> Reply:
        await trio.sleep(float(request.messages[-1].content))
        return Reply("done")

    async with house(tmp_path, by_words) as home:
        await home.inbox.accept_all([Incoming(tg(1), "tg1", "5"), Incoming(tg(2), "tg2", "500")])
        await trio.sleep(1)
        before = trio.current_time()
        await home.inbox.chats.wind_down(20, 10)
        assert 19 < trio.current_time() - before < 21
        assert await replies(home, "tg1") == ["done"]
        assert await replies(home, "tg2") == []
        assert stored(tmp_path, "reason") == ["complete", None], "the next process goes on with it"
        before = trio.current_time()
        await home.inbox.chats.wind_down(20, 10)
        assert trio.current_time() == before


async def test_a_chat_that_nobody_can_be_reached_in_ends_with_its_turn(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path, slow) as home:
        await home.inbox.accept_all([Incoming(tg(1), "tg1", "work"), Incoming(tg(2), "tg2", "work")])
        await trio.sleep(1)
        await home.inbox.chats.end("tg1")
        assert home.inbox.chats.lookup("tg1") is None
        assert await replies(home, "tg1") == ["⏹ Stopped."]
        assert home.inbox.chats.lookup("tg2") is not None
        await home.inbox.chats.end("nobody")
        await settled(home)


async def test_only_an_admin_is_shown_the_whole_house(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with house(tmp_path, whole_status=lambda: "the tree") as home:
        await home.inbox.accept_all(
            [Incoming(tg(1), "tg1", "/status", admin=True), Incoming(tg(2), "tg2", "/status", user=7)]
        )
        await settled(home)
        assert (await replies(home, "tg1"))[0].endswith("\n\nthe tree")
        assert "the tree" not in (await replies(home, "tg2"))[0]


async def test_a_stop_from_outside_leaves_the_shared_reply_to_the_chats_own_front_end(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path, slow) as home:
        await home.inbox.accept_all([Incoming(tg(1), "tg1", "work", origin=55)])
        await trio.sleep(1)
        assert await home.inbox.command("tg1", "/stop") == "⏹ Stopped."
        (reply,) = await home.services.journal.ask(undelivered_replies("tg1"))
        assert reply.origin == 55
        assert await home.inbox.command("tg1", "/stop") == "Nothing is running."
        assert len(await home.services.journal.ask(undelivered_replies("tg1"))) == 1


async def test_leaving_does_not_wait_forever_for_a_journal_that_does_not_answer(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    class Stalling:
        """A disk that stands still for a while."""

        def __init__(self) -> None:
            self.works = trio.Event()
            self.works.set()

        async def __call__(self, work: Callable[[], T]) -> T:
            with trio.CancelScope(shield=True):
                await self.works.wait()
            return work()

    disk = Stalling()
    async with house(tmp_path, offload=disk) as home:
        await trio.sleep(1)  # what the journal does at its start is done
        disk.works = trio.Event()
        with trio.move_on_after(1):
            await home.inbox.accept_all([Incoming(tg(1), "tg1", "hello")])
        assert trio.current_time() < 10
        assert not home.services.pending.unreplied
        # It was written all the same: then the chat works on it when it comes, and who listens hears of it.
        disk.works.set()
        with home.services.hub.listening("tg1") as events:
            await home.inbox.chats.open("tg1")
            assert await reply_to(events, 1) == "you said hello"


async def test_a_chat_that_ends_answers_what_still_comes(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with house(tmp_path, slow) as home, trio.open_nursery() as nursery:
        home.sandboxes.quiet_s = 1
        await home.inbox.accept_all([Incoming(tg(1), "tg1", "work")])
        await trio.sleep(1)
        nursery.start_soon(home.inbox.chats.end, "tg1")
        await trio.sleep(0.9)
        await home.inbox.accept_all([Incoming(tg(2), "tg1", "hello?")])
        await settled(home)
        assert trio.current_time() < 10
        assert sorted(await replies(home, "tg1")) == sorted([busy("en"), "⏹ Stopped."])


async def test_what_a_chat_that_ends_leaves_unanswered_is_answered_by_its_next_start(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path, slow) as home:
        home.sandboxes.quiet_s = 1000
        await home.inbox.accept_all([Incoming(tg(1), "tg1", "work")])
        await trio.sleep(1)
        await home.inbox.chats.end("tg1")
        home.sandboxes.quiet_s = 0
        await settled(home)
        assert await replies(home, "tg1") == [crashed("en")]


async def test_messages_are_withdrawn_with_the_turn_that_they_began_and_with_no_other(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async def slow(request: ModelRequest, emit: Emit) -> Reply:
        await trio.sleep(1000)
        return Reply("late")

    async with house(tmp_path, slow) as home:
        with home.services.hub.listening("cli") as events:
            first = await home.inbox.accept("cli", "hello")
            await trio.sleep(1)
            other = await home.inbox.accept("cli", "somebody else's")
            assert await reply_to(events, other) == busy("en")
            await home.inbox.chats.withdraw("cli", [other])
            await trio.sleep(1)
            assert first in home.services.pending.unreplied["cli"]
            await home.inbox.chats.withdraw("cli", [first])
            assert await reply_to(events, first) == "⏹ Stopped."
            await home.inbox.chats.withdraw("nobody", [first])


async def test_a_reply_that_was_written_when_the_disk_failed_is_told_also_where_no_chat_starts(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    class FailsAfterTheReply(InlineOffload):
        """A disk that fails once, right after it wrote a final reply."""

        failed = False

        async def __call__(self, work: Callable[[], T]) -> T:
            done = await super().__call__(work)
            if not self.failed and stored(tmp_path, "reply") != [None]:
                self.failed = True
                raise JournalError("it failed after it wrote")
            return done

    async with house(tmp_path, slow) as home:
        await home.inbox.accept_all([Incoming(tg(1), "tg1", "hello")])
        await trio.sleep(1)
    disk = FailsAfterTheReply()
    async with house(tmp_path, offload=disk) as home:
        with trio.fail_after(60):
            while not disk.failed:  # noqa: ASYNC110  # a disk tells nobody
                await trio.sleep(0.01)
            await home.services.pending.all_replied()
        assert home.services.pending.unreplied == {}
        (told,) = await replies(home, "tg1")
        assert told.endswith(went_on("en"))


@pytest.mark.parametrize("chat", ["cli", "tg1"])
async def test_a_command_from_outside_that_outlasts_its_caller_leaves_no_reply_waiting(
    autojump_clock: MockClock, tmp_path: Path, chat: str
) -> None:
    class Slow(MemorySandboxes):
        async def stop(self, chat_id: str) -> None:
            await trio.sleep(100)
            await super().stop(chat_id)

    async with house(tmp_path, sandboxes=Slow()) as home:
        with pytest.raises(RumiError, match="has not answered yet"):
            await home.inbox.command(chat, "/reset")
        await settled(home)
        assert await home.services.journal.ask(undelivered_replies(chat)) == ()
        assert await home.inbox.command(chat, "/stop") == "Nothing is running."
        assert await home.services.journal.ask(undelivered_replies(chat)) == ()


async def test_a_command_from_outside_that_stops_a_turn_leaves_the_reply_to_who_began_it(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path, slow) as home:
        await home.inbox.accept_all([Incoming(tg(1), "tg1", "work", origin=5)])
        await trio.sleep(1)
        assert await home.inbox.command("tg1", "/stop") == "⏹ Stopped."
        (reply,) = await home.services.journal.ask(undelivered_replies("tg1"))
        assert (reply.text, reply.origin, len(reply.messages)) == ("⏹ Stopped.", 5, 2)
