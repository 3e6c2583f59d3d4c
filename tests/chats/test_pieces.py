"""One thought that comes as several messages is one turn, with all parts and their sources, and one reply."""

import json
import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock, wait_all_tasks_blocked

from rumi.agent.events import ToolStarted
from rumi.chats.chat import HandOver
from rumi.chats.events import ChatEvent, Queued, Replied, TurnRestarted, TurnStarted, TurnState
from rumi.chats.pieces import hold_s, points, regrouped
from rumi.models.model import Emit, Model, ModelRequest, Reply, TextDelta, ToolCall
from rumi.platform.config.schema import ChatSection
from rumi.store.journal.records import Attachment, Incoming, joined
from tests.chats.house import Answer, FunctionModel, House, house
from tests.chats.test_chat import node_of

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
    "a comment in two, and a forward": (
        Incoming(text="sum up this"),
        Incoming(text="in one line"),
        Incoming(attachments=(FORWARD,)),
    ),
    "a forward and a question": (Incoming(attachments=(FORWARD,)), Incoming(text="when do we leave")),
    "a voice message and a file": (Incoming(attachments=(VOICE,)), Incoming(attachments=(REPORT,))),
    "three forwards": tuple(Incoming(attachments=(one,)) for one in (FORWARD, OTHER_FORWARD, THIRD_FORWARD)),
    "two documents": (Incoming(attachments=(REPORT,)), Incoming(attachments=(INVOICE,))),
    "an album and its question": (Incoming(attachments=PHOTOS), Incoming(text="which is sharper?")),
    "a question and its album": (Incoming(text="Welches Bild ist besser:"), Incoming(attachments=PHOTOS)),
    "a location and a question": (Incoming(text="location 40.4168, -3.7038"), Incoming(text="where to eat?")),
    "a poll and a question": (Incoming(text="poll: Pizza?\n- yes\n- no"), Incoming(text="your vote?")),
    "a sticker and a question": (Incoming(text="sticker 🎉"), Incoming(text="who drew it?")),
    "a verb without its object": (
        Incoming(text="Translate to German please"),
        Incoming(attachments=(FORWARD,)),
    ),
    "a comparison before an album": (Incoming(text="which is newer?"), Incoming(attachments=PHOTOS)),
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
    requests: list[tuple[str, ModelRequest]] = field(default_factory=list)
    cancelled: int = 0
    brought: list[tuple[str, str]] = field(default_factory=list)
    events: list[ChatEvent] = field(default_factory=list)
    sent: int = 0

    async def send(self, *messages: Incoming, user: int = 7, chat: str = "tg1") -> None:
        """Send messages in one batch, as Telegram does."""
        batch = []
        for message in messages:
            self.sent += 1
            given = message.user if message.user is not None else user
            origin = 100 + self.sent if message.origin is None else None
            batch.append(replace(message, chat=chat, user=given, origin=origin, channel="telegram"))
        await self.home.inbox.accept_all(batch)

    async def settled(self) -> None:
        with trio.fail_after(5000):
            await self.home.services.pending.all_replied()
            await wait_all_tasks_blocked()

    def of(self, kind: type[Any]) -> list[Any]:
        return [what for what in self.whats if isinstance(what, kind)]

    @property
    def replies(self) -> list[Replied]:
        return self.of(Replied)

    @property
    def whats(self) -> list[Any]:
        return [event.what for event in self.events]

    def answered(self, chat: str) -> list[tuple[int, ...]]:
        """The messages of each reply in the chat, in order."""
        return [
            event.what.messages
            for event in self.events
            if event.chat == chat and isinstance(event.what, Replied)
        ]

    def asked(self, chat: str) -> list[str]:
        """What the user's side of the last request in the chat says, in order."""
        last = next(request for of, request in reversed(self.requests) if of == chat)
        return [message.content for message in last.messages if message.role == "user"]


@asynccontextmanager
async def talk(
    path: Path,
    takes_s: float = 1.0,
    *,
    section: ChatSection | None = None,
    model: Answer | None = None,
    **more: Any,
) -> AsyncIterator[Talk]:
    def model_of(chat: str, language: str, chosen: str) -> Model:
        async def answer(request: ModelRequest, emit: Emit) -> Reply:
            talked.requests.append((chat, request))
            emit(TextDelta("I th"))
            try:
                await trio.sleep(takes_s)
            except trio.Cancelled:
                talked.cancelled += 1
                raise
            return Reply("I think so.")

        return FunctionModel(model or answer)

    async def bring(chat: str, attachment: Attachment) -> str:
        await trio.sleep(0.01)
        talked.brought.append((chat, attachment.reference))
        return f"contents of {attachment.reference}"

    async def listen(*, task_status: trio.TaskStatus[None]) -> None:
        with talked.home.services.hub.listening() as events:
            task_status.started()
            while True:
                talked.events.append(await events.receive())

    start = trio.current_time()
    more = {"now": lambda: 1.8e9 + trio.current_time() - start, "bring": bring, **more}
    async with (
        house(path, model_for=model_of, chat_section=section or ChatSection(), **more) as home,
        trio.open_nursery() as nursery,
    ):
        talked = Talk(home)
        await nursery.start(listen)
        yield talked
        nursery.cancel_scope.cancel()


def rows(path: Path, chat: str = "tg1") -> list[tuple[Any, ...]]:
    with sqlite3.connect(path / "state.db") as database:
        query = "SELECT id, turn, part_of, reply FROM messages WHERE chat = ? ORDER BY id"
        return database.execute(query, (chat,)).fetchall()


async def say(talked: Talk, parts: Sequence[Incoming], gap_s: float, batches: int, chat: str) -> None:
    """Send the parts in one batch after the gap, or each in a batch of its own with gaps between."""
    if batches == 1:
        await trio.sleep(gap_s)
        await talked.send(*parts, chat=chat)
        return
    for part in parts:
        await talked.send(part, chat=chat)
        await trio.sleep(gap_s)


async def say_all(
    talked: Talk, thoughts: Mapping[str, Sequence[Incoming]], gap_s: float, batches: int
) -> dict[str, Sequence[Incoming]]:
    """Say each of the thoughts in a chat of its own, all at the same time; return them by chat."""
    chats = {f"tg{n}": parts for n, parts in enumerate(thoughts.values(), 1)}
    async with trio.open_nursery() as nursery:
        for chat, parts in chats.items():
            nursery.start_soon(say, talked, parts, gap_s, batches, chat)
    await talked.settled()
    return chats


def check_one_turn(talked: Talk, parts: Sequence[Incoming], path: Path, chat: str) -> None:
    stored = rows(path, chat)
    numbers = tuple(number for number, *_ in stored)
    first, turn, delivery = numbers[0], f"t{numbers[0]}", stored[0][3]
    assert talked.answered(chat) == [numbers]
    assert stored == [
        (n, turn if n == first else None, None if n == first else first, delivery) for n in numbers
    ]
    asked = talked.asked(chat)
    said = "\n".join(asked)
    for part in parts:
        for attachment in part.attachments:
            assert (attachment.text or f"contents of {attachment.reference}") in said
            assert attachment.source in said
    references = [a.reference for part in parts for a in part.attachments if a.reference]
    assert sorted(ref for to, ref in talked.brought if to == chat) == sorted(references)
    whole = joined(parts).text
    if whole:
        assert asked[-1] == whole


@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize("gap_s", GAPS)
async def test_the_parts_of_one_thought_are_one_turn_with_one_reply(
    autojump_clock: MockClock, tmp_path: Path, gap_s: float, batches: int
) -> None:
    async with talk(tmp_path) as talked:
        for chat, parts in (await say_all(talked, BUSY_ROWS, gap_s, batches)).items():
            check_one_turn(talked, parts, tmp_path, chat)


@pytest.mark.parametrize("gap_s", GAPS)
async def test_a_model_that_answers_at_once_gets_all_parts_too(
    autojump_clock: MockClock, tmp_path: Path, gap_s: float
) -> None:
    async with talk(tmp_path, 0.0) as talked:
        for chat, parts in (await say_all(talked, ROWS, gap_s, 2)).items():
            check_one_turn(talked, parts, tmp_path, chat)
        assert len(talked.requests) == len(ROWS)  # nothing was asked for a part alone


PLAIN = (
    "What time is it in Lima?",
    "hola",
    "Wie wird das Wetter?",
    "merci beaucoup",
    "🙂",
    "https://a.example/x",
)


@pytest.mark.parametrize("text", PLAIN)
async def test_a_plain_message_does_not_wait(autojump_clock: MockClock, tmp_path: Path, text: str) -> None:
    async with talk(tmp_path, 0.0) as talked:
        await talked.send(Incoming(text=text))
        began = trio.current_time()
        await talked.settled()
        assert trio.current_time() == began
        assert len(talked.requests) == 1


FEW = (Incoming(text="hi"), Incoming(text="quick one"))
APART: dict[str, tuple[Incoming, ...]] = {
    "of two people": (replace(FEW[0], user=7), replace(FEW[1], user=8)),
    "sent hours apart, read together": (replace(FEW[0], sent=1.7e9), replace(FEW[1], sent=1.7e9 + 7200)),
    "for two models": (replace(FEW[0], model="a"), replace(FEW[1], model="b")),
    "of a terminal, which has no numbers": (replace(FEW[0], origin=-1), replace(FEW[1], origin=-1)),
    "of a schedule and a person": (replace(FEW[0], schedule=3), FEW[1]),
    "of a program and a person": (replace(FEW[0], tainted=True), FEW[1]),
    "a forward each": (
        Incoming(attachments=(FORWARD,), user=7),
        Incoming(attachments=(OTHER_FORWARD,), user=8),
    ),
}


@pytest.mark.parametrize("name", APART)
async def test_messages_that_do_not_belong_together_are_turns_of_their_own(
    autojump_clock: MockClock, tmp_path: Path, name: str
) -> None:
    async with talk(tmp_path) as talked:
        await talked.send(*APART[name])
        await talked.settled()
        assert talked.answered("tg1") == [(1,), (2,)]
        assert [part_of for _, _, part_of, _ in rows(tmp_path)] == [None, None]


async def test_what_comes_after_the_window_is_a_turn_of_its_own(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with talk(tmp_path, 5.0) as talked:
        await talked.send(FEW[0])
        await trio.sleep(0.7)
        await talked.send(FEW[1])
        await talked.settled()
        assert talked.answered("tg1") == [(1,), (2,)]
        assert talked.cancelled == 0


@pytest.mark.parametrize("text", ["/status", "/help", "/nonsense", "yes"])
async def test_commands_and_answers_are_no_parts(
    autojump_clock: MockClock, tmp_path: Path, text: str
) -> None:
    async with talk(tmp_path) as talked:
        await talked.send(Incoming(attachments=(FORWARD,)), Incoming(text=text))
        await talked.settled()
        assert sorted(talked.answered("tg1")) == [(1,), (2,)]
        (_, first), *_ = talked.requests
        assert text not in [message.content for message in first.messages]


async def test_a_stop_ends_what_is_held(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with talk(tmp_path) as talked:
        await talked.send(Incoming(attachments=(FORWARD,)), Incoming(text="/stop"))
        await talked.settled()
        assert talked.answered("tg1") == [(1, 2)]
        assert talked.requests == []


async def test_a_step_that_was_taken_is_not_taken_back(autojump_clock: MockClock, tmp_path: Path) -> None:
    """A turn that has called a tool does not begin again: a part that comes then waits its turn."""

    async def acts(request: ModelRequest, emit: Emit) -> Reply:
        await trio.sleep(0.1)
        if request.messages[-1].role == "tool":
            await trio.sleep(1)
            return Reply("done")
        return Reply("", (ToolCall("c1", "bash", '{"command": "true"}'),))

    async with talk(tmp_path, model=acts) as talked:
        await talked.send(FEW[0])
        await trio.sleep(0.3)
        await talked.send(FEW[1])
        await talked.settled()
        assert talked.answered("tg1") == [(1,), (2,)]
        assert len(talked.of(ToolStarted)) == 2


async def test_text_that_was_shown_is_void_when_the_turn_begins_again(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with talk(tmp_path) as talked:
        await talked.send(FEW[0])
        await trio.sleep(0.3)
        await talked.send(FEW[1])
        await trio.lowlevel.checkpoint()
        await talked.settled()
        (restarted,) = talked.of(TurnRestarted)
        assert (restarted.text, restarted.messages) == ("hi\nquick one", (1, 2))
        state = TurnState()
        for event in talked.events[: talked.whats.index(restarted) + 1]:
            state = state.apply(event)
        assert state.words == ""
        assert state.started is not None
        assert state.started.what.text == "hi\nquick one"
        assert talked.cancelled == 1


async def test_a_retry_runs_all_parts_again(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with talk(tmp_path) as talked:
        await talked.send(*ROWS["a comment and a forward"])
        await trio.sleep(1)
        await talked.send(Incoming(text="/stop"))
        await talked.settled()
        await talked.send(Incoming(text="/retry"))
        await trio.sleep(0.5)
        await talked.send(Incoming(text="/stop"))
        await talked.settled()
        first = talked.asked("tg1")
        await talked.send(Incoming(text="/retry"))  # of a retry
        await talked.settled()
        assert [text for text in talked.asked("tg1") if not text.startswith("[")][-1] == "sum up this"
        assert sum(FORWARD.text in text for text in talked.asked("tg1")) == 3
        assert first == talked.asked("tg1")[: len(first)]


async def test_nothing_is_joined_with_the_setting_off(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with talk(tmp_path, section=ChatSection(together_s=0.0)) as talked:
        began = trio.current_time()
        await talked.send(*ROWS["three forwards"])
        await talked.settled()
        assert talked.answered("tg1") == [(1,), (2,), (3,)]
        assert trio.current_time() == began + 3


async def test_messages_that_wait_and_came_together_are_one_turn(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with talk(tmp_path, 10.0) as talked:
        await talked.send(Incoming(text="a long task"))
        await trio.sleep(5)
        await talked.send(*ROWS["three forwards"])
        await trio.sleep(2)
        await talked.send(Incoming(text="and then that"))
        await talked.settled()
        assert talked.answered("tg1") == [(1,), (2, 3, 4), (5,)]
        assert len(talked.of(Queued)) == 2


def killed(path: Path) -> Path:
    """Return a folder with the journal as a kill of the process leaves it now."""
    later = path / "later"
    later.mkdir()
    with sqlite3.connect(path / "state.db") as kept, sqlite3.connect(later / "state.db") as copy:
        kept.backup(copy)
    return later


async def test_an_end_of_the_process_loses_no_part_that_is_held(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    """The parts lie in the journal: the next process begins one turn with all of them."""
    async with talk(tmp_path) as talked:
        await talked.send(*ROWS["three forwards"])
        later = killed(tmp_path)
        await talked.settled()
    async with talk(later) as talked:
        await trio.sleep(10)
        assert {reply for *_, reply in rows(later)} == {1}
        said = "\n".join(talked.asked("tg1"))
        assert all(one.text in said for one in (FORWARD, OTHER_FORWARD, THIRD_FORWARD))
        assert len(talked.of(TurnStarted)) == 1


@pytest.mark.parametrize("takes_s", [0.0, 1.0])
@pytest.mark.parametrize(("apart_s", "turns"), [(0, 1), (1, 1), (10, 2), (3600, 2)])
async def test_a_part_that_an_end_of_the_process_delayed_joins_what_was_held(
    autojump_clock: MockClock, tmp_path: Path, apart_s: float, turns: int, takes_s: float
) -> None:
    first, second = (replace(part, sent=1000.0) for part in ROWS["a comment and a forward"])
    async with talk(tmp_path) as talked:
        await talked.send(first)
        later = killed(tmp_path)
        await talked.settled()
    await trio.sleep(20)
    async with talk(later, takes_s) as talked:
        talked.sent = 1
        await trio.sleep(0.2)
        await talked.send(replace(second, sent=1000.0 + apart_s))
        await talked.settled()
        assert len(talked.replies) == turns
        assert FORWARD.text in "\n".join(talked.asked("tg1"))


@pytest.mark.parametrize("row", ["a comment and a file", "two documents", "a comment and a forward"])
async def test_a_part_that_an_end_of_the_process_delayed_joins_a_turn_that_had_done_nothing(
    autojump_clock: MockClock, tmp_path: Path, row: str
) -> None:
    first, second = (replace(part, sent=1000.0) for part in ROWS[row])
    async with talk(tmp_path, 10.0) as talked:
        await talked.send(first)
        await trio.sleep(3)
        later = killed(tmp_path)
        await talked.settled()
    async with talk(later, 5.0) as talked:
        talked.sent = 1
        await trio.sleep(0.5)
        await talked.send(second)
        await talked.settled()
        (reply,) = talked.replies
        assert reply.messages == (1, 2)
        asked = "\n".join(talked.asked("tg1"))
        for part in (first, second):
            (said,) = [one.text or f"contents of {one.reference}" for one in part.attachments] or [part.text]
            assert asked.count(said) == 1


async def test_the_parts_and_the_history_of_a_turn_that_began_again_are_stored_at_once(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with talk(tmp_path, 5.0) as talked:
        await talked.send(Incoming(text="look at it", attachments=(REPORT,)))
        await trio.sleep(0.4)
        await talked.send(Incoming(text="and at that", attachments=(FORWARD,)))
        await trio.sleep(0.4)
        later = killed(tmp_path)
        with sqlite3.connect(later / "state.db") as database:
            stored = [
                json.loads(text) for (text,) in database.execute("SELECT message FROM history ORDER BY id")
            ]
        await talked.settled()
    users = [message["content"] for message in stored if message["role"] == "user"]
    assert users == talked.asked("tg1")
    assert users[-1] == "look at it\nand at that"
    assert sum("contents of F1" in text for text in users) == 1
    assert [part_of for _, _, part_of, _ in rows(later)] == [None, 1]
    async with talk(later) as talked:
        await trio.sleep(10)
        assert {reply for *_, reply in rows(later)} == {1}


def test_stored_messages_are_grouped_by_their_turn_and_by_their_time() -> None:
    def row(number: int, **more: Any) -> Incoming:
        given = {
            "chat": "tg1",
            "origin": number,
            "text": f"m{number}",
            "user": 7,
            "received": 1e9 + 100 * number,
        }
        return Incoming(**{**given, "id": number, **more})

    messages = [
        row(1, turn="t1"),
        row(2, user=8),
        row(3, part_of=1),
        row(4),
        row(5, received=1e9 + 400.3),
        row(6, received=1e9 + 400.7, text="/stop"),
        row(7),
    ]
    grouped = [[message.id for message in group] for group in regrouped(messages, 0.5)]
    assert grouped == [[1, 3], [2], [4, 5], [6], [7]]


POINTS = {
    "en": "Please sum up this", "es": "Resume esto, por favor", "pt": "o que diz este ficheiro?",
    "de": "Fasse das Folgende zusammen", "fr": "Résume ceci", "it": "riassumi questo", "ru": "переведи это",
    "zh": "总结这个", "ja": "これを要約して", "ko": "이거 요약해줘", "ar": "لخص هذا", "hi": "इसे समझाओ",
    "open": "Translate into Dutch:", "hand": "read 👇",
}  # fmt: skip


@pytest.mark.parametrize("language", POINTS)
def test_a_text_that_points_at_something_waits_for_it(language: str) -> None:
    assert points(POINTS[language])
    assert 0.4 < hold_s(Incoming(text=POINTS[language], origin=1), 0.5) <= 0.5


@pytest.mark.parametrize("text", PLAIN)
def test_a_text_that_is_complete_does_not_wait(text: str) -> None:
    assert not points(text)
    assert hold_s(Incoming(text=text, origin=1), 0.5) == 0


async def test_a_handover_leaves_what_is_held_open_for_the_next_worker(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with talk(tmp_path) as talked:
        await talked.send(*ROWS["three forwards"])
        await wait_all_tasks_blocked()
        actor = talked.home.inbox.chats.lookup("tg1")
        assert actor is not None
        assert await actor.ask(HandOver())
        await trio.sleep(5)
        assert [reply for *_, reply in rows(tmp_path)] == [None] * 3
        assert not talked.home.services.pending.unreplied.get("tg1")
        assert talked.requests == []


async def test_the_end_of_a_turn_is_the_end_of_what_is_held_too(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with talk(tmp_path) as talked:
        await talked.send(*ROWS["two documents"])
        await wait_all_tasks_blocked()
        await talked.home.inbox.chats.end_turn("tg1", "stopped")
        await talked.settled()
        assert talked.answered("tg1") == [(1, 2)]
        assert talked.requests == []


async def test_the_activity_says_that_a_turn_waits_for_more(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with talk(tmp_path) as talked:
        await talked.send(*ROWS["two documents"])
        await wait_all_tasks_blocked()
        assert node_of(talked.home, "tg1").activity == "turn t1: waiting for more parts"
        await talked.settled()
        assert node_of(talked.home, "tg1").activity == ""
