"""Which sessions are to be learned from, what of them, and what becomes of their history then."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from rumi.models.model import Message, ToolCall
from rumi.store.journal.extraction import (
    find_due_sessions,
    mark_extracted,
    postpone_extraction,
    read_unextracted,
    request_extraction,
    skip_extraction,
)
from rumi.store.journal.forgetting import sweep_forgotten
from rumi.store.journal.history import append_history, left_out, new_session, shorten_history, summarize
from rumi.store.journal.inbox import begin_turn, load_chat
from rumi.store.journal.outbox import settle
from rumi.store.journal.records import FinalReply, HistoryEntry, SessionExcerpt, Summary
from tests.store.journal.accepting import accept
from tests.store.journal.conftest import Opening


@dataclass
class Book:
    """A journal on a disk, at a time that the test sets."""

    opening: Opening
    now: float = 1000.0

    def __post_init__(self) -> None:
        self.store = self.opening(lambda: self.now)
        self.messages = 0

    def do(self, *requests: object) -> object:
        """Do what is asked, and what the journal's actor does behind it."""
        answer = self.store.run(list(requests))[-1]  # type: ignore[arg-type]
        while self.store.run([sweep_forgotten()])[0]:
            pass
        return answer

    def turn(self, text: str, *between: HistoryEntry, chat: str = "a", due: float | None = 2000.0) -> int:
        """A whole turn in the chat's session, which is due then; the session's number."""
        self.messages += 1
        number, turn = self.messages, f"t{self.messages}"
        session = self.do(load_chat(chat, 0)).session  # type: ignore[attr-defined]
        asked = HistoryEntry(turn, Message("user", text))
        self.do(accept(chat, text), begin_turn(chat, number, turn, session, (asked,)))
        self.do(
            append_history(chat, session, tuple(HistoryEntry(turn, e.message, e.tainted) for e in between))
        )
        answer = HistoryEntry(turn, Message("assistant", f"re: {text}"), any(e.tainted for e in between))
        self.do(settle(chat, FinalReply((number,), "ok", "complete", session, (answer,), due)))
        return int(session)

    def due(self, chat: str | None = None) -> list[tuple[str, int]]:
        return list(self.do(find_due_sessions(chat)).now)  # type: ignore[attr-defined]

    def study(self, chat: str = "a", session: int = 1) -> SessionExcerpt:
        excerpt = self.do(read_unextracted(chat, session))
        assert isinstance(excerpt, SessionExcerpt)
        return excerpt

    def said(self, chat: str = "a", session: int = 1) -> list[str]:
        return [message.content for message in self.study(chat, session).messages]

    def mark_extracted(self, chat: str = "a", session: int = 1) -> None:
        self.do(mark_extracted(chat, session, self.study(chat, session).upto))

    def rows(self, query: str) -> list[tuple[object, ...]]:
        return self.store._db.execute(query).fetchall()


@pytest.fixture
def book(opening: Opening) -> Iterator[Book]:
    book = Book(opening)
    yield book
    book.store.close()


def test_a_session_is_due_when_its_time_is_over_and_not_before(book: Book) -> None:
    book.turn("I live in Rosario")
    assert book.do(find_due_sessions()).next == 2000.0  # type: ignore[attr-defined]
    assert book.due() == []
    book.now = 2000.0
    assert book.due() == [("a", 1)]
    assert book.said() == ["I live in Rosario", "re: I live in Rosario"]


def test_a_session_that_ended_is_due_at_once(book: Book) -> None:
    book.turn("hi")
    book.do(new_session("a"))
    assert book.due() == [("a", 1)]
    assert book.due("a") == [("a", 1)]
    assert book.due("b") == []


def test_what_was_learned_from_is_not_due_again_until_something_is_said(book: Book) -> None:
    book.turn("one")
    book.do(request_extraction("a"))
    assert book.due() == [("a", 1)]
    book.mark_extracted()
    assert book.due() == []
    assert book.do(find_due_sessions()).next == math.inf  # type: ignore[attr-defined]
    book.turn("two")
    assert book.due() == []  # it was asked for once
    book.now = 5000.0
    assert book.due() == [("a", 1)]
    assert book.said() == ["two", "re: two"]


def test_what_was_said_while_it_was_learned_from_is_left_for_the_next_time(book: Book) -> None:
    book.turn("one")
    excerpt = book.study()
    book.turn("two")
    book.do(mark_extracted("a", 1, excerpt.upto), new_session("a"))
    assert book.due() == [("a", 1)]
    assert book.said() == ["two", "re: two"]


def test_only_the_users_words_and_untainted_answers_are_learned_from(book: Book) -> None:
    call = Message("assistant", "", (ToolCall("c", "web_fetch", "{}"),))
    page = Message("tool", "the user lives on the moon", tool_call_id="c")
    book.turn("read it", HistoryEntry("", call), HistoryEntry("", page, tainted=True))
    book.turn("fine", HistoryEntry("", Message("tool", "secret", tool_call_id="x")))
    assert book.said() == ["read it", "fine", "re: fine"]


def test_a_chat_where_nothing_was_said_is_never_due(book: Book) -> None:
    book.do(
        load_chat("a", 1),
        new_session("a"),
        request_extraction(None),
        new_session("a", forget=True, extract_first=True),
    )
    assert book.due() == []


def test_forgotten_history_is_out_of_the_prompt_at_once_and_gone_when_it_was_learned_from(book: Book) -> None:
    book.turn("one")
    book.do(summarize("a", 1, Summary("t1", "so far")))
    book.do(new_session("a", forget=True, extract_first=True))
    assert book.do(load_chat("a", 10)).history == ()  # type: ignore[attr-defined]
    assert book.rows("SELECT count(*) FROM history") == [(2,)]
    assert book.said() == ["one", "re: one"]
    book.mark_extracted()
    assert book.rows("SELECT count(*) FROM history") == [(0,)]
    assert book.rows("SELECT count(*) FROM summaries") == [(0,)]
    assert book.due() == []


def test_forgotten_history_goes_at_once_where_nothing_is_learned(book: Book) -> None:
    book.turn("one")
    book.do(new_session("a", forget=True))
    assert book.rows("SELECT count(*) FROM history") == [(0,)]
    assert book.due() == []


def test_to_forget_takes_the_sessions_before_along_and_other_chats_keep_theirs(book: Book) -> None:
    book.turn("one")
    book.turn("other", chat="b")
    book.mark_extracted()
    book.do(new_session("a"))
    book.turn("two")
    book.do(new_session("a", forget=True, extract_first=True))
    assert book.rows("SELECT DISTINCT chat, session FROM history ORDER BY 1, 2") == [("a", 2), ("b", 1)]
    book.mark_extracted("a", 2)
    assert book.rows("SELECT DISTINCT chat, session FROM history ORDER BY 1, 2") == [("b", 1)]


def test_what_failed_is_due_again_only_later(book: Book) -> None:
    book.turn("one")
    book.do(new_session("a"), postpone_extraction("a", 1, 1060.0))
    assert book.due() == []
    assert book.do(find_due_sessions()).next == 1060.0  # type: ignore[attr-defined]
    book.now = 1060.0
    assert book.due() == [("a", 1)]
    assert book.study().tries == 1


def test_nothing_to_learn_forgets_what_is_to_be_forgotten(book: Book) -> None:
    book.turn("one")
    book.do(new_session("a", forget=True, extract_first=True))
    book.turn("two")
    book.do(skip_extraction())
    assert book.rows("SELECT session FROM history GROUP BY 1") == [(2,)]
    book.now = 9000.0
    assert book.due() == [("a", 2)]
    book.do(skip_extraction(ever=True))
    assert book.due() == []
    assert book.rows("SELECT session FROM history GROUP BY 1") == [(2,)]


def test_the_language_is_that_of_the_last_message(book: Book) -> None:
    book.turn("hola")
    book.store._db.execute("UPDATE messages SET language = 'es'")
    assert book.study().language == "es"
    assert book.study().began == 1000.0
    assert book.study("b", 1) == SessionExcerpt(0, (), began=1000.0)


def test_a_summary_stands_for_what_it_sums_up_also_after_a_restart(book: Book) -> None:
    for text in ("one", "two", "three"):
        book.turn(text)
    summary = Summary("t2", "they spoke of one and two", tainted=True, links=("http://a.example/",))
    assert book.do(summarize("a", 1, summary)) == summary
    book.store.close()
    book.store = book.opening(lambda: book.now)
    record = book.do(load_chat("a", 100))
    assert record.summary == summary  # type: ignore[attr-defined]
    assert [e.turn for e in record.history] == ["t3", "t3"]  # type: ignore[attr-defined]
    later = Summary("t3", "and of three")
    assert book.do(summarize("a", 1, later)) == later
    record = book.do(load_chat("a", 100))
    assert (record.summary, record.history) == (later, ())  # type: ignore[attr-defined]
    assert book.said()[0] == "one"  # it is the user's own words that are learned from


def test_a_summary_within_a_turn_leaves_its_last_entries_in_prompts(book: Book) -> None:
    book.do(load_chat("a", 1))
    for turn, text in (("t1", "m1"), ("t2", "m2"), ("t2", "m3"), ("t2", "m4"), ("t3", "m5")):
        book.do(append_history("a", 1, (said(turn, text),)))
    assert book.do(summarize("a", 1, Summary("t2", "one", kept=2))) == Summary("t2", "one", kept=2)
    record = book.do(load_chat("a", 100))
    assert words(record.history) == ["m3", "m4", "m5"]  # type: ignore[attr-defined]
    cut = book.do(summarize("a", 1, Summary("t2", ""), leave_out=True))
    assert cut == Summary("t2", "one", gap=True)
    assert words(book.do(left_out("a", 1, 1000))) == ["m3", "m4"]
    assert book.do(summarize("a", 1, Summary("t2", "late", kept=9))) is None


def test_a_summary_that_comes_too_late_is_dropped(book: Book) -> None:
    book.turn("one")
    book.do(new_session("a", forget=True, extract_first=True))
    assert book.do(summarize("a", 1, Summary("t1", "late"))) is None
    assert book.do(summarize("a", 2, Summary("t1", "of nothing"))) is None
    assert book.rows("SELECT count(*) FROM summaries") == [(0,)]


def test_what_prompts_leave_out_is_there_for_a_later_summary(opening: Opening) -> None:
    book = Book(opening)
    book.do(load_chat("a", 1))
    for number in range(1, 7):
        book.do(append_history("a", 1, (said(f"t{number}", f"m{number}"),)))
    assert book.do(summarize("a", 1, Summary("t2", "", True, ("http://x/",)), leave_out=True)) == Summary(
        "t2", "", True, ("http://x/",), gap=True
    )
    assert words(book.do(left_out("a", 1, 1000))) == ["m1", "m2"]
    assert book.do(summarize("a", 1, Summary("t1", "one"))) == Summary("t2", "one", gap=True)
    assert words(book.do(left_out("a", 1, 1000))) == ["m2"]
    assert book.do(summarize("a", 1, Summary("t4", ""), leave_out=True)) == Summary("t4", "one", gap=True)
    assert words(book.do(left_out("a", 1, 8))) == ["m4"]
    record = book.do(load_chat("a", 100))
    assert (record.summary, words(record.history)) == (Summary("t4", "one", gap=True), ["m5", "m6"])  # type: ignore[attr-defined]
    assert book.do(summarize("a", 1, Summary("t3", ""), leave_out=True)) is None
    assert book.do(summarize("a", 1, Summary("t4", "all"))) == Summary("t4", "all")
    assert book.do(left_out("a", 1, 1000)) == ()
    assert book.do(summarize("a", 1, Summary("t3", "late"))) is None
    book.store.close()


def test_results_that_prompts_show_shortened_are_loaded_so_and_stay_whole_in_the_file(
    opening: Opening,
) -> None:
    book = Book(opening)
    book.do(load_chat("a", 1))
    results = [Message("tool", f"{number}" * 2000, tool_call_id="c") for number in range(4)]
    for number, result in enumerate(results):
        book.do(append_history("a", 1, (HistoryEntry(f"t{number}", result),)))
    book.do(shorten_history("a", 1, 2))
    book.do(shorten_history("a", 1, 3))  # never back
    lengths = [len(entry.message.content) for entry in book.do(load_chat("a", 10)).history]  # type: ignore[attr-defined]
    assert max(lengths[:2]) < 600
    assert lengths[2:] == [2000, 2000]
    assert book.rows("SELECT min(length(message)) FROM history")[0][0] > 2000
    book.store.close()


def test_no_more_is_loaded_than_takes_so_many_tokens_and_the_rest_waits_for_a_summary(
    opening: Opening,
) -> None:
    book = Book(opening)
    book.do(load_chat("a", 1))
    for number in range(9):
        turn = f"t{number // 3}"
        book.do(append_history("a", 1, (said(turn, f"m{number} " + "x" * 300),)))
    for most, first, gap in ((10_000, "m0", None), (600, "m6", "t1"), (10, "m8", "t1"), (10_000, "m6", "t1")):
        record: Any = book.do(load_chat("a", 100, most))
        assert words(record.history)[0].startswith(first)
        assert (record.summary and record.summary.turn) == gap
    assert [text[:2] for text in words(book.do(left_out("a", 1, 350)))] == ["m3", "m4", "m5"]
    book.store.close()


def said(turn: str, text: str) -> HistoryEntry:
    return HistoryEntry(turn, Message("user", text))


def words(entries: Any) -> list[str]:
    return [entry.message.content for entry in entries]
