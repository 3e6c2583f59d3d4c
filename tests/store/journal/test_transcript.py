"""What a chat has shown, read by the numbers of its messages: whole, once, and within bounds."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rumi.models.model import Message, ToolCall
from rumi.store.journal import transcript as steps_of_transcripts
from rumi.store.journal.forgetting import sweep_forgotten
from rumi.store.journal.history import append_history, new_session
from rumi.store.journal.inbox import accept_messages, begin_turn
from rumi.store.journal.outbox import mark_delivered, settle
from rumi.store.journal.records import Attachment, FinalReply, HistoryEntry, Incoming, Undone
from rumi.store.journal.shown import CallFigures, CallWithin, ShownCall, ShownQuestion, ShownReply
from rumi.store.journal.store import Store
from rumi.store.journal.transcript import StoredMessage, read_messages, read_transcript
from rumi.store.journal.undo import take_back
from tests.store.journal.conftest import Opening

CHAT = "cli"
SHOWN = ShownCall(
    False,
    "beginning\0 “é” \ud83d"[:14],
    True,
    0,
    0,
    True,
    "-a\n+b",
    ("a.png", "b"),
    3,
    (ShownQuestion("q", "May I?", "May I all?", "expired"), ShownQuestion()),
    (
        CallWithin("c1.1", "bash", "$ ls", ShownCall(True, "inner", exit=1)),
        CallWithin("c1.2", "", "", ShownCall(False)),
    ),
)
FIGURES = ShownReply(
    CallFigures("m", 1, 2, 3, 4, 5, 6, "thought", 7, 8), (CallWithin("x", "x", "", ShownCall(True)),)
)


class Book:
    """A journal with its answers, one request at a time."""

    def __init__(self, opening: Opening) -> None:
        self.now = 1000.0
        self.store: Store = opening(lambda: self.now)
        self.do(new_session(CHAT))

    def do(self, request: Any) -> Any:
        self.now += 1
        return self.store.run([request])[0]

    def say(self, text: str, chat: str = CHAT, **more: Any) -> int:
        (stored,) = self.do(accept_messages((Incoming(chat=chat, text=text, **more),)))
        return int(stored.id)

    def begin(
        self, number: int, *entries: HistoryEntry, session: int = 1, parts: tuple[int, ...] = ()
    ) -> None:
        said = HistoryEntry(f"t{number}", Message("user", "as the model reads it"))
        self.do(begin_turn(CHAT, number, f"t{number}", session, (said, *entries), None, parts))

    def turn(
        self, text: str, *entries: HistoryEntry, silent: bool = False, session: int = 1, **more: Any
    ) -> int:
        number = self.say(text, **more)
        self.begin(number, *entries, session=session)
        end = HistoryEntry(f"t{number}", Message("assistant", f"to {text}"))
        self.do(settle(CHAT, FinalReply((number,), f"to {text}", "complete", session, (end,), silent=silent)))
        return number

    def read(self, **given: Any) -> tuple[StoredMessage, ...]:
        found = self.do(read_transcript(CHAT, **given))
        assert isinstance(found, tuple)
        return found

    def texts(self, **given: Any) -> list[str]:
        return [one.text for one in self.read(**given)]


@pytest.fixture
def book(opening: Opening) -> Book:
    return Book(opening)


def entry(number: int, message: Message, **more: Any) -> HistoryEntry:
    return HistoryEntry(f"t{number}", message, **more)


def test_each_message_and_each_reply_comes_once_with_what_people_saw(book: Book) -> None:
    file = Attachment("file", "r", "a.txt")
    first = book.say("look", attachments=(file,), model="m:1", channel="page")
    part, other = book.say("here"), book.say("unseen", "other")
    calls = Message("assistant", "I look.", (ToolCall("c1", "ls", "{}"),))
    book.begin(first, entry(first, calls, shown=FIGURES), parts=(part,))
    book.do(append_history(CHAT, 1, (entry(first, Message("system", "a note to the model")),)))
    result = Message("tool", "beginning of it", tool_call_id="c1")
    book.do(append_history(CHAT, 1, (entry(first, result, shown=SHOWN),)))
    open_ = book.read()
    assert [(one.message, one.turn, one.part_of, one.answered) for one in open_] == [
        (first, f"t{first}", 0, False),
        (part, "", first, False),
    ]
    stop = book.say("/stop")
    end = entry(first, Message("assistant", "stopped"))
    asked = (ShownQuestion("q", "?", "", "no"),)
    reply = FinalReply((first, part, stop), "Stopped.", "stopped", 1, (end,), note="1 file", questions=asked)
    delivery = book.do(settle(CHAT, reply))
    told, later, last = book.read()
    assert (told.text, told.attachments, told.model, told.channel) == ("look", (file,), "m:1", "page")
    assert (told.reason, told.session, later.reply, last.reply) == ("stopped", 1, None, None)
    assert [(row.entry.message.role, row.entry.shown) for row in told.entries] == [
        ("user", None),
        ("assistant", FIGURES),
        ("tool", SHOWN),
        ("assistant", None),
    ]
    assert told.reply is not None
    assert (told.reply.delivery, told.reply.messages, told.reply.note) == (
        delivery,
        (first, part, stop),
        "1 file",
    )
    assert (told.reply.text, told.reply.questions, told.reply.delivered) == ("Stopped.", asked, False)
    assert told.reply.created == book.now - 1
    book.do(mark_delivered(delivery))
    assert book.read()[0].reply.delivered  # type: ignore[union-attr]
    assert book.do(read_messages(CHAT, (part, other, 99))) == (later,)
    assert book.do(read_messages(CHAT, ())) == ()


def test_what_people_did_not_see_is_left_out_also_when_pages_are_short(book: Book) -> None:
    seen = book.turn("seen")
    for _ in range(5):
        book.turn("silent", silent=True, schedule=3)
    running = book.say("of a schedule that runs", schedule=3)
    book.begin(running)
    book.turn("loud", schedule=3)
    corrected = book.say("helo", origin=5, user=1)
    book.do(accept_messages((Incoming(chat=CHAT, text="hello", origin=5, user=1, corrects=True),)))
    assert book.texts() == ["seen", "loud", "hello"]
    assert book.texts(limit=2) == ["loud", "hello"]
    assert book.texts(before=running, limit=1) == ["seen"]
    assert book.texts(before=seen) == []
    book.begin(corrected)
    book.do(settle(CHAT, FinalReply((corrected, corrected + 1), "hi", "complete", 1)))
    assert [(one.text, one.reply is not None) for one in book.read()[2:]] == [("hello", True)]
    late = book.do(accept_messages((Incoming(chat=CHAT, text="hey", origin=5, user=1, corrects=True),)))
    assert late[0].id
    assert book.texts()[2:] == ["hello", "hey"]


def test_the_result_of_a_task_and_a_reply_to_a_command_come_without_a_turn(book: Book) -> None:
    result, command = book.say("It is 42.", task=7), book.say("/status")
    note = entry(result, Message("user", "[The task 7 has ended. Its result follows.]"))
    said = entry(result, Message("assistant", "It is 42."))
    delivery = book.do(settle(CHAT, FinalReply((result,), "It is 42.", session=1, entries=(note, said))))
    book.do(settle(CHAT, FinalReply((command,), "All is well.")))
    found = [(one.task, one.turn, one.entries, one.reply) for one in book.read()]
    assert [(task, turn, entries) for task, turn, entries, _ in found] == [(7, "", ()), (0, "", ())]
    texts = [reply.text for *_, reply in found if reply is not None]
    assert texts == ["It is 42.", "All is well."]
    assert found[0][3] is not None
    assert (found[0][3].delivery, found[0][3].task) == (delivery, 7)


def test_a_page_is_read_by_indexes(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "state.db")) as store:
        asked: list[str] = []
        store._db.set_trace_callback(asked.append)  # type: ignore[attr-defined]
        store.run([accept_messages((Incoming(chat=CHAT, text="a"),)), begin_turn(CHAT, 1, "t1", 1)])
        store.run(
            [settle(CHAT, FinalReply((1,), "b", "complete", 1, (entry(1, Message("assistant", "b")),)))]
        )
        asked.clear()
        (found,) = store.run([read_transcript(CHAT)])
        store._db.set_trace_callback(None)  # type: ignore[attr-defined]
        assert len(found) == 1  # type: ignore[arg-type]
        reads = [sql for sql in asked if sql.startswith("SELECT") and "count(*)" not in sql]
        plans = [row[3] for sql in reads for row in store._db.execute(f"EXPLAIN QUERY PLAN {sql}")]
    assert len(reads) == 4
    assert not [step for step in plans if step.startswith("SCAN") or "TEMP B-TREE" in step], plans


def test_an_undone_turn_is_marked_and_a_forgotten_session_is_gone_before_and_after_its_sweep(
    book: Book,
) -> None:
    gone = book.turn("taken back")
    undo = book.say("/undo")
    book.do(take_back(CHAT, Undone(undo, f"t{gone}")))
    book.do(settle(CHAT, FinalReply((undo,), "Undone.")))
    assert [(one.text, one.undone) for one in book.read()] == [("taken back", True), ("/undo", False)]
    reset = book.say("/reset")
    book.do(new_session(CHAT, True))
    queued = book.say("next")
    for _ in range(2):
        assert book.texts() == ["/reset", "next"]
        book.do(sweep_forgotten())
    book.do(settle(CHAT, FinalReply((reset,), "Forgotten.")))
    book.begin(queued, session=2)
    assert book.texts() == ["/reset", "next"]


def test_a_huge_turn_is_cut_to_its_end_and_a_page_ends_early(
    book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps_of_transcripts, "MOST_ROWS", 250)
    monkeypatch.setattr(steps_of_transcripts, "PAGE_CHARS", 300_000)
    number = book.say("go")
    long = Message("tool", "y" * 9_000, tool_call_id="c")
    book.begin(
        number, *(entry(number, Message("assistant", f"{n}")) for n in range(300)), entry(number, long)
    )
    book.turn("short")
    found = book.read()
    assert [one.text for one in found] == ["go", "short"]
    rows = found[0].entries
    assert (len(rows), found[0].cut, found[1].cut) == (250, True, False)
    assert (rows[0].entry.message.content, rows[-2].entry.message.content) == ("51", "299")
    assert (len(rows[-1].entry.message.content), rows[-1].cut, rows[-2].cut) == (8_000, True, False)
    words = Message("assistant", "z" * 150_000)
    book.do(append_history(CHAT, 1, tuple(entry(number, words) for _ in range(4))))
    (only,) = book.do(read_messages(CHAT, (number,)))
    assert (len(only.entries), only.cut) == (2, True)
    book.turn("new")
    assert book.texts() == ["go", "short", "new"]
    assert book.texts(before=number + 1) == ["go"]
    book.turn("big", *(entry(number + 9, Message("assistant", "w" * 150_000)) for _ in range(2)))
    big = book.say("wide " * 80_000)
    assert book.texts(before=big + 1)[0][:5] == "wide ", "a page has one message at least"
    assert len(book.read(before=big + 1)) == 1
