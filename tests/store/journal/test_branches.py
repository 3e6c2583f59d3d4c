"""Branches of a session share its beginning and copy nothing: SQLite and PostgreSQL."""

from rumi.store.journal.branches import branch_session, find_branching
from rumi.store.journal.extraction import mark_extracted, read_unextracted
from rumi.store.journal.forgetting import ExpiryCursor, delete_chat, expire_rows
from rumi.store.journal.history import new_session, shorten_history, summarize
from rumi.store.journal.inbox import accept_messages, load_chat
from rumi.store.journal.parked import keep_parked, load_parked
from rumi.store.journal.reading import read_history, search_history
from rumi.store.journal.records import Incoming, Parked, Summary, Undone
from rumi.store.journal.reopening import list_sessions, reopen_session
from rumi.store.journal.undo import take_back
from tests.store.journal.conftest import Opening
from tests.store.journal.test_reopening import Journal


def branch(journal: Journal, message: int, text: str = "anew", chat: str = "a") -> int | None:
    """Say something in place of an earlier message; the number of the session that it begins."""
    (stored,) = journal.do(accept_messages((Incoming(chat=chat, text=text, branches=message),)))
    session = journal.do(branch_session(chat, stored.id))
    assert journal.do(branch_session(chat, stored.id)) == session, "idempotent"
    return session


def said(journal: Journal) -> list[str]:
    return [entry.message.content for entry in journal.do(load_chat("a", 100)).history]


def test_a_branch_shares_what_was_said_before_and_copies_nothing(opening: Opening) -> None:
    journal = Journal(opening)
    journal.turn("one")
    second = journal.turn("two")
    journal.turn("three")
    assert branch(journal, second) == 2
    assert said(journal) == ["one", "re one"]
    journal.turn("two, but better")
    journal.store = opening(lambda: journal.now)  # another process
    assert said(journal) == ["one", "re one", "two, but better", "re two, but better"]
    whole = [row.entry.message.content for row in journal.do(read_history("a"))]
    assert whole.count("one") == 1
    assert "three" in whole
    current = [row.entry.message.content for row in journal.do(read_history("a", going_on=True))]
    assert current == said(journal)
    assert len(journal.do(search_history("one")).entries) == 2
    assert next(m.content for m in journal.do(read_unextracted("a", 2)).messages) == "two, but better"
    assert [(one.number, one.messages, one.current) for one in journal.do(list_sessions("a", 9))] == [
        (2, 1, True), (1, 3, False),
    ]  # fmt: skip
    assert journal.do(load_chat("a", 100)).nano == 5, "what was shared is paid for once"
    assert journal.do(reopen_session("a", 1, journal.now + 100)) == 0
    assert said(journal) == ["one", "re one", "two", "re two", "three", "re three"]
    assert journal.do(reopen_session("a", 2, journal.now + 100)) == 0
    assert said(journal)[-1] == "re two, but better"


def test_a_branch_of_a_branch_shares_with_both_and_many_edits_stay_short(opening: Opening) -> None:
    journal = Journal(opening)
    journal.turn("one")
    number = journal.turn("two")
    for text in ("2", "II", "zwei"):
        branch(journal, number)
        number = journal.turn(text)
    last = journal.turn("three")
    branch(journal, last)
    assert said(journal) == ["one", "re one", "zwei", "re zwei"]
    rows = journal.store._db.execute("SELECT session, base FROM lineage ORDER BY session, base").fetchall()
    assert [tuple(row) for row in rows] == [(2, 1), (3, 1), (4, 1), (5, 1), (5, 4)]
    first = branch(journal, 1)
    assert (first, said(journal)) == (6, [])


def test_a_branch_has_the_taint_of_what_it_shares_and_no_other(opening: Opening) -> None:
    journal = Journal(opening)
    journal.turn("one")
    page = journal.turn("a page", tainted=True)
    after = journal.turn("after")
    branch(journal, page)
    assert not journal.do(load_chat("a", 100)).tainted
    branch(journal, after)
    assert journal.do(load_chat("a", 100)).tainted
    journal.do(new_session("a"))
    assert not journal.do(load_chat("a", 100)).tainted


def test_a_summary_is_taken_along_only_if_it_knows_nothing_of_what_was_left(opening: Opening) -> None:
    journal = Journal(opening)
    journal.turn("one")
    second = journal.turn("two")
    third = journal.turn("three")
    journal.do(shorten_history("a", 1, 2))
    journal.do(summarize("a", 1, Summary("t1", "about one", False, ())))
    branch(journal, third)
    record = journal.do(load_chat("a", 100))
    assert record.summary is not None
    assert (record.summary.text, said(journal)) == ("about one", ["two", "re two"])
    assert journal.do(summarize("a", 2, Summary(f"t{second}", "about both", False, ()))) is not None
    assert said(journal) == []
    branch(journal, second)
    record = journal.do(load_chat("a", 100))
    assert (record.summary and record.summary.text, said(journal)) == ("about one", [])
    branch(journal, 1)
    assert journal.do(load_chat("a", 100)).summary is None


def test_an_undone_turn_is_undone_in_branches_too(opening: Opening) -> None:
    journal = Journal(opening)
    first = journal.turn("one")
    second = journal.turn("two")
    journal.do(summarize("a", 1, Summary(f"t{first}", "about one", False, ())))
    branch(journal, second)
    (undo,) = journal.do(accept_messages((Incoming(chat="a", text="/undo"),)))
    journal.do(take_back("a", Undone(undo.id, f"t{first}", "one")))
    record = journal.do(load_chat("a", 100))
    assert (record.summary, record.history) == (None, ())


def test_calls_that_wait_in_what_is_left_are_withdrawn_but_those_of_schedules(opening: Opening) -> None:
    journal = Journal(opening)
    turns = [journal.turn(text) for text in ("one", "two", "three")]
    parked = [Parked(n, "bash {}", "Run it?", schedule=7 * (n == 3)) for n in (1, 2, 3)]
    for one, turn in zip(parked, turns, strict=True):
        journal.do(keep_parked("a", tuple(parked[: one.number]), f"t{turn}"))
    branch(journal, turns[1])
    assert [one.number for one in journal.do(load_parked("a")) if one.state == "waits"] == [1, 3]


def test_what_a_current_branch_shares_does_not_expire(opening: Opening) -> None:
    journal = Journal(opening)
    journal.turn("one")
    second = journal.turn("two")
    branch(journal, second)
    journal.now += 500
    journal.turn("anew")
    for session in (1, 2):
        journal.do(mark_extracted("a", session, 99))

    def expire() -> list[str]:
        cursor: ExpiryCursor | None = ExpiryCursor()
        while cursor is not None:
            cursor = journal.do(expire_rows(journal.now - 100, cursor))
        return said(journal)

    assert expire()[:2] == ["one", "re one"]
    journal.do(new_session("a"))
    expire()
    assert [row.entry.message.content for row in journal.do(read_history("a"))] == ["anew", "re anew"]


def test_only_what_a_person_said_in_a_stored_turn_can_be_branched_from(opening: Opening) -> None:
    journal = Journal(opening)
    first = journal.turn("one")
    other = journal.turn("other", chat="b")
    waits, fired = journal.do(
        accept_messages((Incoming(chat="a", text="waits"), Incoming(chat="a", text="x", schedule=3)))
    )
    for message in (0, 99, other, waits.id, fired.id):
        assert journal.do(find_branching("a", message)) is None
        before = journal.do(load_chat("a", 100)).session
        if message != waits.id:
            assert branch(journal, message) is None
        assert journal.do(load_chat("a", 100)).session == before
    found = journal.do(find_branching("a", first))
    assert found is not None
    assert found.text == "one"
    journal.do(new_session("a", forget=True))
    assert journal.do(find_branching("a", first)) is None
    assert branch(journal, first) is None, "a reset has taken it"
    while journal.do(delete_chat("a")):
        pass
    assert journal.store._db.execute("SELECT count(*) FROM lineage").fetchone()[0] == 0
