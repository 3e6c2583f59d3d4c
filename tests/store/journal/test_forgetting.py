"""Deleting in slices: what a reset forgets, and what is older than it has to be kept."""

import itertools
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from actors import ChildSpec, Supervisor
from rumi.models.model import Message
from rumi.platform.threads import Threads
from rumi.store.journal import actor as actor_module
from rumi.store.journal.actor import Journal
from rumi.store.journal.filing import name_chat
from rumi.store.journal.forgetting import ExpiryCursor, delete_chat, expire_rows, sweep_forgotten
from rumi.store.journal.history import append_history, mark_files, new_session, summarize
from rumi.store.journal.inbox import (
    begin_turn,
    find_retriable,
    knows_chat,
    load_chat,
    open_chats,
    open_messages,
)
from rumi.store.journal.outbox import mark_delivered, settle, undelivered_replies
from rumi.store.journal.reading import list_chats
from rumi.store.journal.records import FinalReply, HistoryEntry, Summary
from rumi.store.journal.store import Store
from rumi.store.journal.transaction import SLICE, JournalMessage
from rumi.store.journal.voices import set_spoken_answers, spoken_answers
from tests.chats.house import InlineOffload
from tests.store.journal.accepting import accept

DAY = 86_400.0


def entry(turn: str, text: str = "said") -> HistoryEntry:
    return HistoryEntry(turn, Message("user", text))


class Book:
    """A journal at a time that the test sets."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = 1000 * DAY
        self.store = Store(path, lambda: self.now)
        self.messages = 0

    def do(self, *requests: JournalMessage) -> object:
        return self.store.run(requests)[-1]

    def turn(self, chat: str = "a", *, due_in: float = 3600.0, deliver: bool = True) -> int:
        """A whole turn, its number."""
        self.messages += 1
        number, turn = self.messages, f"t{self.messages}"
        session = self.do(load_chat(chat, 0)).session  # type: ignore[attr-defined]
        self.do(accept(chat, "hi"), begin_turn(chat, number, turn, session, (entry(turn),)))
        delivery = self.do(
            settle(chat, FinalReply((number,), "ok", "complete", session, (), self.now + due_in))
        )
        if deliver:
            self.do(mark_delivered(delivery))  # type: ignore[arg-type]
        self.store._db.execute("UPDATE sessions SET fresh = 0")
        return number

    def expire(self, days: float) -> int:
        """Delete what is older; how many slices that took."""
        slices, cursor = 0, ExpiryCursor()
        while isinstance(cursor, ExpiryCursor):
            cursor = self.do(expire_rows(self.now - days * DAY, cursor))  # type: ignore[assignment]
            slices += 1
        return slices

    def left(self, table: str) -> list[int]:
        return [row for (row,) in self.store._db.execute(f"SELECT rowid FROM {table} ORDER BY rowid")]


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book(tmp_path / "state.db")


# A reset


def test_a_reset_deletes_nothing_itself_and_each_sweep_a_bounded_slice(book: Book) -> None:
    for chat in ("a", "b"):
        session = book.do(load_chat(chat, 0)).session  # type: ignore[attr-defined]
        book.do(append_history(chat, session, tuple(entry(f"t{n}") for n in range(3 * SLICE + 7))))
    book.do(new_session("a", forget=True))
    sizes = [len(book.left("history"))]
    assert book.do(load_chat("a", 10)).history == ()  # type: ignore[attr-defined]
    while book.do(sweep_forgotten()):
        sizes.append(len(book.left("history")))
    sizes.append(len(book.left("history")))
    assert sizes[0] == 2 * (3 * SLICE + 7)
    assert sizes[-1] == 3 * SLICE + 7, "the other chat's stays"
    assert max(before - after for before, after in itertools.pairwise(sizes)) == SLICE
    assert not book.do(sweep_forgotten())


def test_many_small_sessions_are_swept_in_one_slice(book: Book) -> None:
    for _ in range(100):
        session = book.do(new_session("a"))
        book.do(append_history("a", session, (entry("t1"),)))  # type: ignore[arg-type]
    book.do(new_session("a", forget=True), sweep_forgotten())
    assert not book.left("history")


async def test_a_sweep_that_was_killed_goes_on_at_the_next_start(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    path = tmp_path / "state.db"
    store = Store(path)
    (record,) = store.run([load_chat("a", 0)])
    session = record.session  # type: ignore[attr-defined]
    store.run([append_history("a", session, tuple(entry(f"t{n}") for n in range(1000)))])
    store.run([new_session("a", forget=True), sweep_forgotten()])
    store.close()
    root = Supervisor("root")
    root.add(ChildSpec("journal", lambda: Journal(path, InlineOffload(), time.time)))
    async with root.running():
        await trio.sleep(10)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM history").fetchone() == (0,)
        assert db.execute("SELECT count(*) FROM sessions WHERE forget").fetchone() == (0,)


async def test_others_are_served_between_the_slices_and_the_log_stays_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In real time, with real threads; counted, not timed."""
    path = tmp_path / "state.db"
    store = Store(path)
    (record,) = store.run([load_chat("a", 0)])
    session = record.session  # type: ignore[attr-defined]
    store.run([append_history("a", session, tuple(entry(f"t{n}", "x" * 2000) for n in range(20_000)))])
    store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    store.close()
    batches: list[list[str]] = []
    run = Store.run

    def noted(self: Store, requests: list[JournalMessage]) -> list[object]:
        batches.append([request.step.name for request in requests])
        return run(self, requests)

    monkeypatch.setattr(Store, "run", noted)
    monkeypatch.setattr(actor_module, "SLICE_PAUSE_S", 0.0)
    root = Supervisor("root")
    journal = root.add(ChildSpec("journal", lambda: Journal(path, Threads(), time.time)))
    async with root.running():
        await journal.ask(new_session("a", forget=True))
        number = largest = 0
        while "sweep_forgotten" in [name for batch in batches[-20:] for name in batch]:
            number += 1
            await journal.ask(accept("b", "hi"))
            largest = max(largest, path.with_name("state.db-wal").stat().st_size)
    assert sum(batch.count("sweep_forgotten") for batch in batches) >= 20_000 / SLICE
    assert number > 20
    assert largest < 20_000_000
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM history").fetchone() == (0,)


def test_the_log_is_cut_when_it_was_merged(book: Book) -> None:
    assert book.store._db.execute("PRAGMA journal_size_limit").fetchone() == (4_000_000,)


# What is looked up


def plan(book: Book, sql: str, *values: object) -> str:
    rows = book.store._db.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
    return "\n".join(row[-1] for row in rows)


@pytest.mark.parametrize(
    "request_", [find_retriable("a"), load_chat("a", 40), open_messages("a", 3), accept("a", "hi")]
)
def test_no_look_up_of_a_chat_reads_all_of_its_messages(book: Book, request_: JournalMessage) -> None:
    """By SQLite's own plans for every statement, with a hundred thousand rows of this chat."""
    db = book.store._db
    book.do(load_chat("a", 0))
    db.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)"
        " INSERT INTO messages (id, chat, text, received, session, turn, reason, reply)"
        " SELECT i, 'a', '', 0, 1, 't', 'complete', i FROM n"
    )
    db.execute(
        "INSERT INTO history (chat, session, turn, message, tainted, created)"
        " SELECT 'a', 1, 't', '{}', 0, 0 FROM messages"
    )
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    db.set_progress_handler(count, 1000)  # called every thousand instructions of SQLite's machine
    book.do(request_)
    db.set_progress_handler(None, 0)
    assert steps < 10


# What is older than it has to be kept


def test_what_is_over_and_old_is_deleted_and_what_is_young_stays(book: Book) -> None:
    old = book.turn()
    book.now += 10 * DAY
    book.do(new_session("a"))
    young = book.turn()
    book.expire(5)
    assert book.left("messages") == [young]
    assert len(book.left("history")) == len(book.left("outbox")) == 1
    assert old < young


def test_what_is_open_or_undelivered_is_never_deleted(book: Book) -> None:
    undelivered = book.turn("a", deliver=False)
    book.messages += 1
    waits = book.messages
    book.do(accept("b", "still open"))
    book.now += 100 * DAY
    last = book.turn("c")
    book.expire(5)
    assert book.left("messages") == [undelivered, waits, last]
    assert len(book.left("outbox")) == 2


def test_a_session_that_goes_on_is_kept_whole_and_one_that_is_overdue_is_not(book: Book) -> None:
    goes_on = book.turn("a", due_in=200 * DAY)
    book.turn("b")
    book.do(summarize("b", 1, Summary("t2", "in short")))
    book.now += 100 * DAY
    last = book.turn("c")
    book.expire(5)
    assert book.left("messages") == [goes_on, last]
    assert not book.left("summaries")
    assert [stored_entry.turn for stored_entry in book.do(load_chat("a", 10)).history] == ["t1"]  # type: ignore[attr-defined]


def test_what_is_still_to_be_learned_from_is_kept(book: Book) -> None:
    number = book.turn()
    book.store._db.execute("UPDATE sessions SET fresh = 1")
    book.now += 100 * DAY
    last = book.turn("b")
    book.store._db.execute("UPDATE sessions SET fresh = 1 WHERE chat = 'a'")
    book.expire(5)
    assert book.left("messages") == [number, last]
    assert len(book.left("history")) == 2


def test_numbers_go_on_behind_a_message_that_was_deleted(book: Book) -> None:
    last = max(book.turn() for _ in range(3))
    book.now += 100 * DAY
    book.expire(5)
    assert book.left("messages") == [last]


def test_an_expiry_looks_at_a_slice_at_a_time_also_at_what_stays(book: Book) -> None:
    db = book.store._db
    for number in range(1, 4 * SLICE):
        db.execute("INSERT INTO messages (id, chat, text, received) VALUES (?, 'a', 'open', 0)", (number,))
    assert book.expire(5) >= 4
    assert len(book.left("messages")) == 4 * SLICE - 1


@pytest.mark.parametrize(("days", "left"), [(0, 2), (30, 1)])
async def test_the_journal_deletes_what_is_old_only_where_it_is_asked_to(
    autojump_clock: MockClock, tmp_path: Path, days: int, left: int
) -> None:
    book = Book(tmp_path / "state.db")
    book.turn()
    book.now += 100 * DAY
    book.do(new_session("a"))
    book.turn()
    book.store.close()
    now: Callable[[], float] = lambda: book.now + trio.current_time()  # noqa: E731
    root = Supervisor("root")
    root.add(
        ChildSpec(
            "journal",
            lambda: Journal(book.path, InlineOffload(), now, retention_s=days * DAY),
        )
    )
    async with root.running():
        await trio.sleep(7200)
    with closing(sqlite3.connect(book.path)) as db:
        assert db.execute("SELECT count(*) FROM messages").fetchone() == (left,)


def test_a_deleted_chat_leaves_nothing_and_no_number_is_used_twice(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "state.db", lambda: 1000.0)) as store:
        for number, chat in enumerate(("a", "b", "a"), 1):
            store.run([accept(chat, f"to {chat}"), append_history(chat, 1, (entry("t"),) * 300)])
            store.run(
                [
                    settle(chat, FinalReply((number,), "said")),
                    name_chat(chat, "a title"),
                    mark_files(chat, True),
                    set_spoken_answers(chat, "always"),
                ]
            )
        slices = 1
        while store.run([delete_chat("a")]) == [True]:
            slices += 1
        assert slices == 3
        assert store.run([knows_chat("a"), knows_chat("b"), open_chats(), undelivered_replies("a")]) == [
            False,
            True,
            (),
            (),
        ]
        assert store.run([spoken_answers("a"), spoken_answers("b")]) == ["", "always"]
        (chats,) = store.run([list_chats()])
        assert isinstance(chats, tuple)
        assert [stored_chat.chat for stored_chat in chats] == ["b"]
        store.run([accept("a", "again")])
        assert store.run([open_messages("a", 3)]) == store.run([open_messages("a", 0)]) != [()]
