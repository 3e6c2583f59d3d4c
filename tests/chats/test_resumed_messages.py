"""Turns that go on after a kill: what the model gets of the message, its files, its edits and its age."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rumi.platform.texts.replies import went_on
from rumi.store.journal.records import Attachment, Incoming
from tests.chats.test_corrections import edit
from tests.chats.test_pieces import FORWARD, REPORT, killed, talk


async def test_an_edit_before_a_kill_reaches_the_model_and_the_turn_goes_on(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with talk(tmp_path, 10.0) as talked:
        await talked.send(Incoming(text="weather in Londn"))
        await trio.sleep(1)
        await edit(talked, 101, "weather in London")
        later = killed(tmp_path)
        await talked.settled()
    async with talk(later) as talked:
        await trio.sleep(20)
        await talked.settled()
        assert talked.asked("tg1") == ["weather in London"]
        print(talked.replies)
        (reply,) = talked.replies
        assert reply.text.endswith(went_on("en"))
        assert "Send /retry" not in reply.text


@pytest.mark.parametrize(
    "message",
    [
        Incoming(text="sum it up", attachments=(REPORT,)),
        Incoming(attachments=(REPORT,)),
        Incoming(text="sum it up", attachments=(FORWARD, REPORT)),
        Incoming(text="and this?", attachments=(replace(FORWARD, answered=1), REPORT)),
    ],
    ids=["a file", "a file alone", "a forward and a file", "a reply with a file"],
)
@pytest.mark.parametrize("late_s", [0.0, 1000.0])
async def test_a_kill_while_a_file_is_fetched_loses_neither_file_nor_words(
    autojump_clock: MockClock, tmp_path: Path, message: Incoming, late_s: float
) -> None:
    """Also for a message that has waited: a line that says so stands before it."""

    async def slow(chat: str, attachment: Attachment) -> str:
        await trio.sleep(100)
        return "?"

    async with talk(tmp_path, bring=slow) as talked:
        await talked.send(replace(message, sent=1.8e9 - late_s))
        await trio.sleep(20)
        later = killed(tmp_path)
    async with talk(later) as talked:
        await trio.sleep(20)
        asked = talked.asked("tg1")
        assert sum("contents of F1" in said for said in asked) == 1
        assert asked.count(message.text) == bool(message.text)
        assert sum(FORWARD.text in said for said in asked) == (FORWARD.text in str(message.attachments))
        (reply,) = talked.replies
        assert reply.text.endswith(went_on("en"))


async def test_a_reply_to_the_last_exchange_is_not_fetched_twice_after_a_kill(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with talk(tmp_path, 10.0) as talked:
        await talked.send(Incoming(text="hello"))
        await trio.sleep(30)
        answered = Attachment("words", source="your message", text="I think so.", answered=102)
        await talked.send(Incoming(text="are you sure", attachments=(answered, REPORT)))
        await trio.sleep(5)
        later = killed(tmp_path)
    async with talk(later) as talked:
        await trio.sleep(20)
        asked = talked.asked("tg1")
        assert sum("contents of F1" in said for said in asked) == 1
        assert asked.count("are you sure") == 1


HOUR = 3600.0


@pytest.mark.parametrize(
    ("away_s", "goes_on"), [(60.0, True), (0.9 * HOUR, True), (1.1 * HOUR, False), (200 * HOUR, False)]
)
async def test_a_turn_of_long_ago_is_not_gone_on_with_unasked(
    autojump_clock: MockClock, tmp_path: Path, away_s: float, goes_on: bool
) -> None:
    async with talk(tmp_path, 10.0) as talked:
        await talked.send(Incoming(text="remind Ana"))
        await trio.sleep(1)
        later = killed(tmp_path)
    start = trio.current_time() - away_s
    async with talk(later, now=lambda: 1.8e9 + trio.current_time() - start) as talked:
        await trio.sleep(20)
        (reply,) = talked.replies
        assert len(talked.requests) == goes_on
        assert reply.text.endswith(went_on("en")) == goes_on
        assert ("Send /retry" in reply.text) == (not goes_on)
        if not goes_on:
            await talked.send(Incoming(text="/retry"))
            await trio.sleep(20)
        said = [message.content for message in talked.requests[-1][1].messages]
        (line,) = [text for text in said if "This message was written at" in text] or [""]
        assert bool(line) == (away_s > 300)
        assert not line or said.index(line) < len(said) - 1 - said[::-1].index("remind Ana")


@pytest.mark.parametrize("text", ["think", "what is open?"])
async def test_a_message_of_long_ago_that_began_nothing_is_answered_and_dated(
    autojump_clock: MockClock, tmp_path: Path, text: str
) -> None:
    async with talk(tmp_path, 50.0) as talked:
        await talked.send(Incoming(text="first"))
        await trio.sleep(5)
        await talked.send(Incoming(text=text))
        await trio.sleep(5)
        later = killed(tmp_path)
    start = trio.current_time() - 170 * HOUR
    async with talk(later, now=lambda: 1.8e9 + trio.current_time() - start) as talked:
        await trio.sleep(200)
        assert [reply.text.split(".")[0] for reply in talked.replies][1:] == ["I think so"]
        said = [message.content for message in talked.requests[-1][1].messages]
        assert "7 days ago.]" in said[said.index(text) - 1]


@pytest.mark.parametrize(("age_s", "begins"), [(60.0, True), (0.9 * HOUR, True), (1.1 * HOUR, False)])
async def test_a_yes_of_long_ago_begins_nothing(
    autojump_clock: MockClock, tmp_path: Path, age_s: float, begins: bool
) -> None:
    async with talk(tmp_path) as talked:
        await talked.send(Incoming(text="hello"))
        await talked.settled()
    with closing(sqlite3.connect(tmp_path / "state.db")) as db, db:
        columns = "chat, text, received, user, channel"
        db.execute(
            f"INSERT INTO messages ({columns}) VALUES ('tg1', '/yes 1', ?, 7, 'telegram')", (1.8e9 - age_s,)
        )
    async with talk(tmp_path) as talked:
        await trio.sleep(20)
        (reply,) = talked.replies
        assert ("restarted before /yes 1 was done" in reply.text) == (not begins)
