"""Sessions of other assistants: SQLite and PostgreSQL."""

from dataclasses import replace

from rumi.models.model import Message, ToolCall
from rumi.store.journal.extraction import read_unextracted
from rumi.store.journal.forgetting import delete_chat
from rumi.store.journal.inbox import load_chat
from rumi.store.journal.moving_in import (
    TurnFromOutside,
    move_schedule_in,
    move_session_in,
    schedules_moved_in,
    turns_moved_in,
)
from rumi.store.journal.records import ScheduleRecord
from rumi.store.journal.reopening import list_sessions
from rumi.store.journal.schedules import list_schedules
from rumi.store.journal.transcript import read_transcript
from tests.store.journal.conftest import Opening
from tests.store.journal.test_reopening import Journal

CALL = ToolCall("call_1", "exec", '{"command":"ls"}')


def turn(number: int, text: str) -> TurnFromOutside:
    entries = (
        (Message("user", text), 1000.0 + number),
        (Message("assistant", "", (CALL,)), 1001.0 + number),
        (Message("tool", "notes.md", tool_call_id="call_1"), 1002.0 + number),
        (Message("assistant", f"re {text}"), 1003.0 + number),
    )
    return TurnFromOutside(number, text, 1000.0 + number, entries, f"re {text}")


def test_a_session_is_stored_once_with_its_times_and_counts_as_from_outside(opening: Opening) -> None:
    journal = Journal(opening)
    turns = (turn(10, "one"), turn(20, "two"))
    assert journal.do(move_session_in("a", "import-x", "A title", turns)) == 2
    assert journal.do(move_session_in("a", "import-x", "A title", turns)) == 0
    assert journal.do(turns_moved_in("a", "import-x")) == {10, 20}
    first, second = journal.do(read_transcript("a"))
    assert (first.text, first.at, first.turn, first.reason) == (
        "one",
        1010.0,
        f"t{first.message}",
        "complete",
    )
    assert first.reply is not None
    assert (first.reply.text, first.reply.delivered) == ("re one", True)
    assert [one.entry.message.role for one in second.entries] == ["user", "assistant", "tool", "assistant"]
    (session,) = journal.do(list_sessions("a", 9))
    assert (session.current, session.tainted, session.at) == (True, True, 1023.0)
    chat = journal.do(load_chat("a", 100))
    assert [entry.message.content for entry in chat.history][-1] == "re two"
    assert all(entry.tainted for entry in chat.history)
    assert chat.open == (), "no turn of it runs again"
    assert journal.do(read_unextracted("a", 1)).messages == (), "and nothing is learned from it"


def test_a_session_that_grew_there_goes_on_in_the_same_one(opening: Opening) -> None:
    journal = Journal(opening)
    journal.do(move_session_in("a", "import-x", "", (turn(10, "one"),)))
    assert journal.do(move_session_in("a", "import-x", "", (turn(10, "one"), turn(20, "two")))) == 1
    assert [one.messages for one in journal.do(list_sessions("a", 9))] == [2]


def test_a_session_that_grew_on_both_sides_stays_apart(opening: Opening) -> None:
    journal = Journal(opening)
    journal.do(move_session_in("a", "import-x", "", (turn(10, "one"),)))
    journal.turn("here")
    assert journal.do(move_session_in("a", "import-x", "", (turn(10, "one"), turn(20, "two")))) == 1
    sessions = journal.do(list_sessions("a", 9))
    assert {(one.number, one.messages, one.current) for one in sessions} == {(1, 2, True), (2, 1, False)}
    assert [entry.message.content for entry in journal.do(load_chat("a", 100)).history][-1] == "re here"


def test_a_chat_that_was_deleted_can_be_imported_again(opening: Opening) -> None:
    journal = Journal(opening)
    journal.do(move_session_in("a", "import-x", "", (turn(10, "one"),)))
    while journal.do(delete_chat("a")):
        pass
    assert journal.do(turns_moved_in("a", "import-x")) == frozenset()
    assert journal.do(move_session_in("a", "import-x", "", (turn(10, "one"),))) == 1


def test_a_paused_schedule_is_stored_once(opening: Opening) -> None:
    journal = Journal(opening)
    new = ScheduleRecord(
        "local", "cli", "turn", "tea", '{"import": "x 1"}', "0 17 * * *", state="paused", instant=5e9
    )
    assert journal.do(move_schedule_in(new, 1)) == "new"
    assert journal.do(move_schedule_in(new, 1)) == "here"
    assert journal.do(move_schedule_in(replace(new, options='{"import": "x 2"}'), 1)) == "full"
    (stored,) = journal.do(list_schedules("local"))
    assert (stored.state, stored.instant) == ("paused", 5e9)
    assert journal.do(schedules_moved_in("local")) == {'{"import": "x 1"}'}
