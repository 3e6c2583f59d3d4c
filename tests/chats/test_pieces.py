"""One thought that comes as several messages is one turn: with all parts, each with its source, and one reply."""

import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rumi.chats.events import ChatEvent, Replied
from rumi.models.model import Emit, ModelRequest, Reply, TextDelta
from rumi.platform.config.schema import ChatSection
from rumi.store.journal.records import Attachment, Incoming, joined
from tests.chats.house import House, house

FORWARD = Attachment(
    "words", source="a forwarded message from Ana", text="The ferry leaves at 9 from pier 4."
)
OTHER_FORWARD = replace(FORWARD, text="Bring the tickets.")
THIRD_FORWARD = replace(FORWARD, source="a forwarded message from Ben", text="I come later.")
REPORT = Attachment("file", "F1", "report.pdf", "application/pdf", 1000)
INVOICE = Attachment("file", "F2", "invoice.pdf", "application/pdf", 1000)
PHOTOS = (Attachment("file", "P1", "photo-1.jpg", "image/jpeg", 9), Attachment("file", "P2", "photo-2.jpg"))
VOICE = Attachment("voice", "V1", "voice.ogg", "audio/ogg", 9)
PASTE = "".join(chr(ord("a") + n % 26) for n in range(4096))
PARAGRAPHS = ("word " * 800).strip() + "."  # a client cuts at a blank if there is one
EMOJI = "🦔" * 2048  # 4,096 units of UTF-16

ROWS: dict[str, tuple[Incoming, ...]] = {
    "a comment and a forward": (Incoming(text="sum up this"), Incoming(attachments=(FORWARD,))),
    "a comment and a file": (Incoming(text="What does the file say?"), Incoming(attachments=(REPORT,))),
    "a forward and a question": (Incoming(attachments=(FORWARD,)), Incoming(text="when do we leave")),
    "a voice message and a file": (Incoming(attachments=(VOICE,)), Incoming(attachments=(REPORT,))),
    "three forwards": tuple(Incoming(attachments=(one,)) for one in (FORWARD, OTHER_FORWARD, THIRD_FORWARD)),
    "two documents": (Incoming(attachments=(REPORT,)), Incoming(attachments=(INVOICE,))),
    "an album and its question": (Incoming(attachments=PHOTOS), Incoming(text="which is sharper?")),
    "a question and its album": (Incoming(text="Welches Bild ist besser:"), Incoming(attachments=PHOTOS)),
    "a cut paste": (Incoming(text=PASTE), Incoming(text="and its end")),
    "a paste cut at a blank": (Incoming(text=PARAGRAPHS), Incoming(text="and its end")),
    "a paste of emoji": (Incoming(text=EMOJI), Incoming(text="🦔")),
    "a paste in three": (Incoming(text=PASTE), Incoming(text=PASTE), Incoming(text="and its end")),
}
BUSY_ROWS: dict[str, tuple[Incoming, ...]] = {
    **ROWS,
    "three short lines": (Incoming(text="hi"), Incoming(text="quick one"), Incoming(text="is it open today")),
    "a question and a late file": (Incoming(text="compare with mine"), Incoming(attachments=(REPORT,))),
}
GAPS = (0.0, 0.06, 0.4)


@dataclass
class Talk:
    """A chat whose model answers after `takes_s` seconds, and everything that happened."""

    home: House
    requests: list[ModelRequest] = field(default_factory=list)
    cancelled: int = 0
    brought: list[str] = field(default_factory=list)
    events: list[ChatEvent] = field(default_factory=list)
    sent: int = 0

    async def send(self, *messages: Incoming, user: int = 7, chat: str = "tg1") -> None:
        """Send messages in one batch, as Telegram does."""
        batch = []
        for message in messages:
            self.sent += 1
            given = message.user if message.user is not None else user
            batch.append(replace(message, chat=chat, user=given, origin=100 + self.sent, channel="telegram"))
        await self.home.inbox.accept_all(batch)

    async def settled(self) -> None:
        with trio.fail_after(5000):
            await self.home.services.pending.all_replied()
            await trio.testing.wait_all_tasks_blocked()

    def of(self, kind: type[Any]) -> list[Any]:
        return [event.what for event in self.events if isinstance(event.what, kind)]

    @property
    def replies(self) -> list[Replied]:
        return self.of(Replied)

    @property
    def asked(self) -> list[str]:
        """What the user side of the last request says, in order."""
        return [message.content for message in self.requests[-1].messages if message.role == "user"]


@asynccontextmanager
async def talk(
    path: Path, takes_s: float = 1.0, *, section: ChatSection | None = None, **more: Any
) -> AsyncIterator[Talk]:
    async def answer(request: ModelRequest, emit: Emit) -> Reply:
        talked.requests.append(request)
        emit(TextDelta("I th"))
        try:
            await trio.sleep(takes_s)
        except trio.Cancelled:
            talked.cancelled += 1
            raise
        return Reply("I think so.")

    async def bring(chat: str, attachment: Attachment) -> str:
        await trio.sleep(0.01)
        talked.brought.append(attachment.reference)
        return f"contents of {attachment.reference}"

    async def listen(*, task_status: trio.TaskStatus[None]) -> None:
        with talked.home.services.hub.listening() as events:
            task_status.started()
            while True:
                talked.events.append(await events.receive())

    start = trio.current_time()
    more = {"now": lambda: 1.8e9 + trio.current_time() - start, "bring": bring, **more}
    async with (
        house(path, answer, chat_section=section or ChatSection(), **more) as home,
        trio.open_nursery() as nursery,
    ):
        talked = Talk(home)
        await nursery.start(listen)
        yield talked
        nursery.cancel_scope.cancel()


def rows(path: Path) -> list[tuple[Any, ...]]:
    with sqlite3.connect(path / "state.db") as database:
        return database.execute("SELECT id, turn, part_of, reply FROM messages ORDER BY id").fetchall()


async def say(talked: Talk, parts: Sequence[Incoming], gap_s: float, batches: int) -> None:
    """Send the parts in one batch (at once, if there is no gap), or each in a batch of its own."""
    if batches == 1:
        await trio.sleep(gap_s)
        await talked.send(*parts)
        return
    for part in parts:
        await talked.send(part)
        await trio.sleep(gap_s)


def check_one_turn(talked: Talk, parts: Sequence[Incoming], path: Path) -> None:
    numbers = tuple(range(1, len(parts) + 1))
    assert [reply.messages for reply in talked.replies] == [numbers]
    delivery = rows(path)[0][3]
    assert rows(path) == [(n, "t1" if n == 1 else None, 1 if n > 1 else None, delivery) for n in numbers]
    said = "\n".join(talked.asked)
    for part in parts:
        for attachment in part.attachments:
            assert (attachment.text or f"contents of {attachment.reference}") in said
            assert attachment.source in said
    references = [a.reference for part in parts for a in part.attachments if a.reference]
    assert sorted(talked.brought) == sorted(references)
    whole = joined(parts).text
    if whole:
        assert talked.asked[-1] == whole


@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize("gap_s", GAPS)
@pytest.mark.parametrize("name", BUSY_ROWS)
async def test_the_parts_of_one_thought_are_one_turn_with_one_reply(
    autojump_clock: MockClock, tmp_path: Path, name: str, gap_s: float, batches: int
) -> None:
    async with talk(tmp_path) as talked:
        await say(talked, BUSY_ROWS[name], gap_s, batches)
        await talked.settled()
        check_one_turn(talked, BUSY_ROWS[name], tmp_path)


@pytest.mark.parametrize("gap_s", GAPS)
@pytest.mark.parametrize("name", ROWS)
async def test_a_model_that_answers_at_once_gets_all_parts_too(
    autojump_clock: MockClock, tmp_path: Path, name: str, gap_s: float
) -> None:
    async with talk(tmp_path, 0.0) as talked:
        await say(talked, ROWS[name], gap_s, 2)
        await talked.settled()
        check_one_turn(talked, ROWS[name], tmp_path)
        assert len(talked.requests) == 1
