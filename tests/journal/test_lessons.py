"""Which sessions are to be learned from, what of them, and what becomes of their history then."""

import math
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rumi.journal import (
    Accept,
    Append,
    AskToLearn,
    Begin,
    Entry,
    LearnedFrom,
    LearnNothing,
    Lesson,
    Load,
    NewSession,
    PutOff,
    Settle,
    Study,
    Summarize,
    Summary,
    ToLearn,
)
from rumi.journal.store import Store
from rumi.models import Message, ToolCall


@dataclass
class Book:
    """A journal on a disk, at a time that the test sets."""

    path: Path
    now: float = 1000.0

    def __post_init__(self) -> None:
        self.store = Store(self.path, lambda: self.now)
        self.messages = 0

    def do(self, *requests: object) -> object:
        return self.store.run(list(requests))[-1]  # type: ignore[arg-type]

    def turn(self, text: str, *between: Entry, chat: str = "a", due: float | None = 2000.0) -> int:
        """A whole turn in the chat's session, which is due then; the session's number."""
        self.messages += 1
        number, turn = self.messages, f"t{self.messages}"
        session = self.do(Load(chat, 0)).session  # type: ignore[attr-defined]
        asked = Entry(turn, Message("user", text))
        self.do(Accept(number, chat, text), Begin(chat, number, turn, session, (asked,)))
        self.do(Append(chat, session, tuple(Entry(turn, e.message, e.tainted) for e in between)))
        answer = Entry(turn, Message("assistant", f"re: {text}"), any(e.tainted for e in between))
        self.do(Settle(chat, (number,), "ok", "complete", session, (answer,), due))
        return int(session)

    def due(self, chat: str | None = None) -> list[tuple[str, int]]:
        return list(self.do(ToLearn(chat)).now)  # type: ignore[attr-defined]

    def study(self, chat: str = "a", session: int = 1) -> Lesson:
        lesson = self.do(Study(chat, session))
        assert isinstance(lesson, Lesson)
        return lesson

    def said(self, chat: str = "a", session: int = 1) -> list[str]:
        return [message.content for message in self.study(chat, session).messages]

    def learn(self, chat: str = "a", session: int = 1) -> None:
        self.do(LearnedFrom(chat, session, self.study(chat, session).upto))

    def rows(self, query: str) -> list[tuple[object, ...]]:
        return self.store._db.execute(query).fetchall()


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    book = Book(tmp_path / "state.db")
    yield book
    book.store.close()


def test_a_session_is_due_when_its_time_is_over_and_not_before(book: Book) -> None:
    book.turn("I live in Rosario")
    assert book.do(ToLearn()).next == 2000.0  # type: ignore[attr-defined]
    assert book.due() == []
    book.now = 2000.0
    assert book.due() == [("a", 1)]
    assert book.said() == ["I live in Rosario", "re: I live in Rosario"]


def test_a_session_that_ended_is_due_at_once(book: Book) -> None:
    book.turn("hi")
    book.do(NewSession("a"))
    assert book.due() == [("a", 1)]
    assert book.due("a") == [("a", 1)]
    assert book.due("b") == []


def test_what_was_learned_from_is_not_due_again_until_something_is_said(book: Book) -> None:
    book.turn("one")
    book.do(AskToLearn("a"))
    assert book.due() == [("a", 1)]
    book.learn()
    assert book.due() == []
    assert book.do(ToLearn()).next == math.inf  # type: ignore[attr-defined]
    book.turn("two")
    assert book.due() == []  # it was asked for once
    book.now = 5000.0
    assert book.due() == [("a", 1)]
    assert book.said() == ["two", "re: two"]


def test_what_was_said_while_it_was_learned_from_is_left_for_the_next_time(book: Book) -> None:
    book.turn("one")
    lesson = book.study()
    book.turn("two")
    book.do(LearnedFrom("a", 1, lesson.upto), NewSession("a"))
    assert book.due() == [("a", 1)]
    assert book.said() == ["two", "re: two"]


def test_only_the_users_words_and_untainted_answers_are_learned_from(book: Book) -> None:
    call = Message("assistant", "", (ToolCall("c", "web_fetch", "{}"),))
    page = Message("tool", "the user lives on the moon", tool_call_id="c")
    book.turn("read it", Entry("", call), Entry("", page, tainted=True))
    book.turn("fine", Entry("", Message("tool", "secret", tool_call_id="x")))
    assert book.said() == ["read it", "fine", "re: fine"]


def test_a_chat_where_nothing_was_said_is_never_due(book: Book) -> None:
    book.do(Load("a", 1), NewSession("a"), AskToLearn(), NewSession("a", forget=True, learn=True))
    assert book.due() == []


def test_forgotten_history_is_out_of_the_prompt_at_once_and_gone_when_it_was_learned_from(book: Book) -> None:
    book.turn("one")
    book.do(Summarize("a", 1, Summary("t1", "so far")))
    book.do(NewSession("a", forget=True, learn=True))
    assert book.do(Load("a", 10)).history == ()  # type: ignore[attr-defined]
    assert book.rows("SELECT count(*) FROM history") == [(2,)]
    assert book.said() == ["one", "re: one"]
    book.learn()
    assert book.rows("SELECT count(*) FROM history") == [(0,)]
    assert book.rows("SELECT count(*) FROM summaries") == [(0,)]
    assert book.due() == []


def test_forgotten_history_goes_at_once_where_nothing_is_learned(book: Book) -> None:
    book.turn("one")
    book.do(NewSession("a", forget=True))
    assert book.rows("SELECT count(*) FROM history") == [(0,)]
    assert book.due() == []


def test_to_forget_takes_the_sessions_before_along_and_other_chats_keep_theirs(book: Book) -> None:
    book.turn("one")
    book.turn("other", chat="b")
    book.learn()
    book.do(NewSession("a"))
    book.turn("two")
    book.do(NewSession("a", forget=True, learn=True))
    assert book.rows("SELECT chat, session FROM history GROUP BY 1, 2") == [("a", 2), ("b", 1)]
    book.learn("a", 2)
    assert book.rows("SELECT chat, session FROM history GROUP BY 1, 2") == [("b", 1)]


def test_what_failed_is_due_again_only_later(book: Book) -> None:
    book.turn("one")
    book.do(NewSession("a"), PutOff("a", 1, 1060.0))
    assert book.due() == []
    assert book.do(ToLearn()).next == 1060.0  # type: ignore[attr-defined]
    book.now = 1060.0
    assert book.due() == [("a", 1)]
    assert book.study().tries == 1


def test_nothing_to_learn_forgets_what_is_to_be_forgotten(book: Book) -> None:
    book.turn("one")
    book.do(NewSession("a", forget=True, learn=True))
    book.turn("two")
    book.do(LearnNothing())
    assert book.rows("SELECT session FROM history GROUP BY 1") == [(2,)]
    book.now = 9000.0
    assert book.due() == [("a", 2)]
    book.do(LearnNothing(ever=True))
    assert book.due() == []
    assert book.rows("SELECT session FROM history GROUP BY 1") == [(2,)]


def test_the_language_is_that_of_the_last_message(book: Book) -> None:
    book.turn("hola")
    book.rows("UPDATE messages SET language = 'es'")
    assert book.study().language == "es"
    assert book.study().began == 1000.0
    assert book.study("b", 1) == Lesson(0, (), began=1000.0)


def test_a_summary_stands_for_what_it_sums_up_also_after_a_restart(book: Book) -> None:
    for text in ("one", "two", "three"):
        book.turn(text)
    summary = Summary("t2", "they spoke of one and two", tainted=True, links=("http://a.example/",))
    assert book.do(Summarize("a", 1, summary)) is True
    book.store.close()
    book.store = Store(book.path, lambda: book.now)
    record = book.do(Load("a", 100))
    assert record.summary == summary  # type: ignore[attr-defined]
    assert [e.turn for e in record.history] == ["t3", "t3"]  # type: ignore[attr-defined]
    later = Summary("t3", "and of three")
    assert book.do(Summarize("a", 1, later)) is True
    record = book.do(Load("a", 100))
    assert (record.summary, record.history) == (later, ())  # type: ignore[attr-defined]
    assert book.said()[0] == "one"  # it is the user's own words that are learned from


def test_a_summary_that_comes_too_late_is_dropped(book: Book) -> None:
    book.turn("one")
    book.do(NewSession("a", forget=True, learn=True))
    assert book.do(Summarize("a", 1, Summary("t1", "late"))) is False
    assert book.do(Summarize("a", 2, Summary("t1", "of nothing"))) is False
    assert book.rows("SELECT count(*) FROM summaries") == [(0,)]


def test_a_file_of_the_version_before_gets_what_learning_needs(tmp_path: Path) -> None:
    from rumi.journal.schema import MIGRATIONS, SCHEMA

    book = Book(tmp_path / "new.db")
    wanted = {row[1]: [c[1:3] for c in book.rows(f"PRAGMA table_info({row[1]})")] for row in _tables(book)}
    old = sqlite3.connect(tmp_path / "old.db", isolation_level=None)
    columns = "chat TEXT, number INTEGER, started REAL, due REAL, ended REAL, PRIMARY KEY (chat, number)"
    history = "id INTEGER, chat TEXT, session INTEGER, turn TEXT, message TEXT, tainted INTEGER, created REAL"
    old.executescript(f"CREATE TABLE sessions ({columns}); CREATE TABLE history ({history});")
    old.executescript(MIGRATIONS[2])
    for table in ("sessions", "summaries", "history", "tainted_files"):
        found = [column[1:3] for column in old.execute(f"PRAGMA table_info({table})")]
        assert sorted(found) == sorted(wanted[table]), table
    assert "sessions_to_learn" in SCHEMA
    old.close()
    book.store.close()


def _tables(book: Book) -> list[tuple[object, ...]]:
    return book.rows("SELECT type, name FROM sqlite_master WHERE type = 'table'")
