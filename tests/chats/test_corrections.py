"""An edited message corrects what waits, and a turn that has done nothing; otherwise it comes too late."""

import sqlite3
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rumi.models.model import Emit, ModelRequest, Reply, ToolCall
from rumi.platform.texts.waiting import too_late
from rumi.store.journal.records import Incoming, Update
from tests.chats.test_pieces import FORWARD, REPORT, Talk, rows, talk

LATE = too_late("en")


async def edit(talked: Talk, origin: int, text: str, *, user: int = 7, number: int | None = None) -> None:
    """Send the update of an edit, as Telegram does, which repeats what it has sent after a failure."""
    correction = Incoming(
        chat="tg1", text=text, origin=origin, user=user, channel="telegram", corrects=True,
        update=None if number is None else Update("telegram", number),
    )  # fmt: skip
    await talked.home.inbox.accept_all([correction])


def texts(path: Path) -> list[str]:
    with sqlite3.connect(path / "state.db") as database:
        return [text for (text,) in database.execute("SELECT text FROM messages ORDER BY id")]


async def test_an_edit_of_a_message_whose_turn_has_done_nothing_begins_it_again(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with talk(tmp_path, 2.0) as talked:
        await talked.send(Incoming(text="weather in Londn"))
        await trio.sleep(1)
        await edit(talked, 101, "weather in London")
        await talked.settled()
        assert talked.answered("tg1") == [(1, 2)]
        assert talked.asked("tg1") == ["weather in London"]
        assert texts(tmp_path)[0] == "weather in London"
        assert talked.cancelled == 1


@pytest.mark.parametrize("gap_s", [0.0, 5.0])
async def test_an_edit_of_a_message_that_waits_changes_it(
    autojump_clock: MockClock, tmp_path: Path, gap_s: float
) -> None:
    async with talk(tmp_path, 10.0) as talked:
        await talked.send(Incoming(text="first"))
        await trio.sleep(1)
        await talked.send(Incoming(text="sum it up in Frnch", attachments=(FORWARD,)))
        await trio.sleep(gap_s)
        await edit(talked, 102, "sum it up in French")
        await talked.settled()
        assert talked.answered("tg1") == [(1,), (2, 3)]
        assert talked.asked("tg1")[-1] == "sum it up in French"
        assert FORWARD.text in talked.asked("tg1")[-2]


async def test_an_edit_of_one_part_changes_this_part(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with talk(tmp_path, 2.0) as talked:
        await talked.send(
            Incoming(text="compare this"), Incoming(text="with last yaer", attachments=(REPORT,))
        )
        await edit(talked, 102, "with last year")
        await talked.settled()
        assert talked.answered("tg1") == [(1, 2, 3)]
        assert talked.asked("tg1")[-1] == "compare this\nwith last year"
        assert len(talked.brought) == 1


async def test_an_edit_after_a_step_was_taken_comes_too_late(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async def acts(request: ModelRequest, emit: Emit) -> Reply:
        await trio.sleep(1)
        if request.messages[-1].role == "tool":
            return Reply("done")
        return Reply("", (ToolCall("c1", "bash", '{"command": "true"}'),))

    async with talk(tmp_path, model=acts) as talked:
        await talked.send(Incoming(text="send 10 to Ana"))
        await trio.sleep(1.5)
        await edit(talked, 101, "send 20 to Ana")
        await talked.settled()
        assert [(reply.messages, reply.text) for reply in talked.replies] == [((2,), LATE), ((1,), "done")]


async def test_an_edit_of_an_answered_message_is_told_only_for_the_last_turn(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with talk(tmp_path) as talked:
        for text in ("one", "two"):
            await talked.send(Incoming(text=text))
            await talked.settled()
        await edit(talked, 101, "one more")
        await edit(talked, 102, "two more")
        await edit(talked, 999, "unknown")
        await edit(talked, 102, "of another person", user=8)
        await talked.settled()
        assert [(reply.messages, reply.text) for reply in talked.replies[2:]] == [((3,), LATE)]
        assert len(rows(tmp_path)) == 3


@pytest.mark.parametrize("when_s", [0.0, 5.0])
async def test_an_edit_that_changes_no_text_is_ignored(
    autojump_clock: MockClock, tmp_path: Path, when_s: float
) -> None:
    """Telegram reports a link preview, a reaction and a moved live location as an edit."""
    async with talk(tmp_path) as talked:
        await talked.send(Incoming(text="see https://a.example"))
        await trio.sleep(when_s)
        await edit(talked, 101, "see https://a.example")
        await talked.settled()
        assert talked.answered("tg1") == [(1,)]
        assert talked.cancelled == 0


async def test_an_edit_that_is_delivered_twice_is_applied_once(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with talk(tmp_path, 3.0) as talked:
        await talked.send(Incoming(text="a"))
        for text in ("b", "c", "b"):  # the first is repeated after the second
            await trio.sleep(0.5)
            await edit(talked, 101, text, number=500 + ord(text))
        await talked.settled()
        assert talked.asked("tg1") == ["c"]
        assert talked.answered("tg1") == [(1, 2, 3)]


@pytest.mark.parametrize("text", ["/stop", "/reset", "/nonsense"])
async def test_an_edit_makes_no_command_of_a_message(
    autojump_clock: MockClock, tmp_path: Path, text: str
) -> None:
    async with talk(tmp_path) as talked:
        await talked.send(Incoming(text="hello"))
        await edit(talked, 101, text)
        await talked.settled()
        assert [(reply.messages, reply.text) for reply in talked.replies] == [
            ((2,), LATE),
            ((1,), "I think so."),
        ]


async def test_a_killed_process_leaves_the_corrected_text(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with talk(tmp_path, 10.0) as talked:
        await talked.send(Incoming(text="weather in Londn"))
        await trio.sleep(1)
        await edit(talked, 101, "weather in London")
        with sqlite3.connect(tmp_path / "state.db") as kept, sqlite3.connect(tmp_path / "killed.db") as copy:
            kept.backup(copy)
        await talked.settled()
    later = tmp_path / "later"
    later.mkdir()
    (tmp_path / "killed.db").rename(later / "state.db")
    async with talk(later) as talked:
        await talked.settled()
        assert len({reply for *_, reply in rows(later)}) == 1
        await talked.send(Incoming(text="/retry"))
        await talked.settled()
        assert talked.asked("tg1")[-1] == "weather in London"
