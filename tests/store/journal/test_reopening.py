"""Sessions are listed and reopened in one transaction, and keep their taint: SQLite and PostgreSQL."""

from typing import TypeVar, cast

from rumi.models.model import Message
from rumi.store.journal.extraction import find_due_sessions, mark_extracted, read_unextracted
from rumi.store.journal.forgetting import ExpiryCursor, expire_rows
from rumi.store.journal.history import new_session
from rumi.store.journal.inbox import accept_messages, begin_turn, find_retriable, load_chat
from rumi.store.journal.outbox import settle, undelivered_replies
from rumi.store.journal.records import FinalReply, HistoryEntry, Incoming, Reason
from rumi.store.journal.reopening import find_session, list_sessions, reopen_session
from rumi.store.journal.store import Store
from rumi.store.steps import Run
from tests.store.journal.conftest import Opening

R = TypeVar("R")


class Journal:
    """A journal at a time that the test sets."""

    def __init__(self, opening: Opening) -> None:
        self.now = 1000.0
        self._opening = opening
        self.store: Store = opening(lambda: self.now)

    def do(self, request: Run[R]) -> R:
        return cast(R, self.store.run((request,))[-1])

    def turn(self, text: str, *, tainted: bool = False, reason: Reason = "complete", chat: str = "a") -> int:
        """A whole turn; its message's number."""
        self.now += 1
        (stored,) = self.do(accept_messages((Incoming(chat=chat, text=text),)))
        number, session = stored.id, self.do(load_chat(chat, 100)).session
        turn = f"t{number}"
        self.do(
            begin_turn(chat, number, turn, session, (HistoryEntry(turn, Message("user", text), tainted),))
        )
        answer = HistoryEntry(turn, Message("assistant", f"re {text}"), tainted)
        self.do(
            settle(chat, FinalReply((number,), "ok", reason, session, (answer,), self.now + 3600, nano=5))
        )
        return number


def test_a_session_is_reopened_together_with_the_reply_that_says_so(opening: Opening) -> None:
    journal = Journal(opening)
    journal.turn("one apple", tainted=True)
    journal.do(new_session("a"))
    journal.turn("two pears")
    (asked,) = journal.do(accept_messages((Incoming(chat="a", text="/sessions 1"),)))
    delivery = journal.do(reopen_session("a", 1, 9000.0, FinalReply((asked.id,), "reopened")))
    journal.store = opening(lambda: journal.now)  # another process
    record = journal.do(load_chat("a", 100))
    assert (record.session, record.due, record.tainted, record.nano) == (1, 9000.0, True, 5)
    assert [entry.message.content for entry in record.history] == ["one apple", "re one apple"]
    assert record.open == ()
    assert delivery in [reply.delivery for reply in journal.do(undelivered_replies("a"))]
    assert [(one.number, one.text, one.messages, one.current, one.tainted)
            for one in journal.do(list_sessions("a", 9))] == [
        (2, "two pears", 1, False, False), (1, "one apple", 1, True, True),
    ]  # fmt: skip
    assert journal.do(new_session("a")) == 3, "numbers are never given twice"


def test_what_cannot_be_reopened_leaves_all_as_it_was(opening: Opening) -> None:
    journal = Journal(opening)
    journal.turn("one")
    journal.do(new_session("a"))
    journal.turn("other", chat="b")
    before = journal.do(load_chat("a", 100))
    assert journal.do(reopen_session("a", 9, 1.0)) is None
    assert journal.do(reopen_session("a", 2, 1.0)) is None, "nothing was said in it"
    assert journal.do(reopen_session("c", 1, 1.0)) is None
    assert journal.do(find_session("b", 2)) is None, "the sessions of a chat are its own"
    assert journal.do(load_chat("a", 100)) == before
    journal.do(new_session("a", forget=True))
    assert journal.do(reopen_session("a", 1, 1.0)) is None, "a reset has taken it"
    assert journal.do(list_sessions("a", 9)) == ()


def test_a_session_stays_tainted_when_what_tainted_it_has_expired(opening: Opening) -> None:
    journal = Journal(opening)
    journal.turn("a page", tainted=True)
    journal.now += 500
    journal.turn("what it said, in other words")
    journal.do(new_session("a"))
    journal.turn("new")
    for session in (1, 2):
        journal.do(mark_extracted("a", session, 99))
    cursor: ExpiryCursor | None = ExpiryCursor()
    while cursor is not None:
        cursor = journal.do(expire_rows(journal.now - 100, cursor))
    found = journal.do(find_session("a", 1))
    assert found is not None
    assert found.tainted
    assert journal.do(reopen_session("a", 1, journal.now + 100)) == 0
    record = journal.do(load_chat("a", 100))
    assert [entry.message.content for entry in record.history][:1] == ["what it said, in other words"]
    assert record.tainted
    other = journal.do(find_session("a", 2))
    assert other is not None
    assert not other.tainted


def test_facts_of_a_reopened_session_are_drawn_only_from_what_is_new(opening: Opening) -> None:
    journal = Journal(opening)
    journal.turn("one")
    journal.do(new_session("a"))
    excerpt = journal.do(read_unextracted("a", 1))
    journal.do(mark_extracted("a", 1, excerpt.upto))
    journal.turn("two")
    journal.do(reopen_session("a", 1, journal.now + 100))
    assert ("a", 1) not in journal.do(find_due_sessions()).now
    journal.turn("three")
    assert [m.content for m in journal.do(read_unextracted("a", 1)).messages] == ["three", "re three"]


def test_a_retry_in_a_reopened_session_is_of_its_own_turns(opening: Opening) -> None:
    journal = Journal(opening)
    first = journal.turn("one", reason="timeout")
    journal.do(new_session("a"))
    journal.turn("two", reason="timeout")
    journal.do(reopen_session("a", 1, journal.now + 100))
    found = journal.do(find_retriable("a"))
    assert found is not None
    assert found.id == first
