"""`state.db`: what is stored, what survives, and what is refused."""

import os
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rumi.models.model import Message, ToolCall
from rumi.store.journal.forgetting import sweep_forgotten
from rumi.store.journal.history import append_history, dump_message, load_message, mark_files, new_session
from rumi.store.journal.inbox import (
    accept_messages,
    begin_turn,
    count_messages,
    find_retriable,
    load_chat,
    open_chats,
    record_preview,
)
from rumi.store.journal.outbox import (
    mark_delivered,
    mark_part_sent,
    mark_undeliverable,
    settle,
    undelivered_chats,
    undelivered_replies,
)
from rumi.store.journal.records import Attachment, FinalReply, HistoryEntry, Incoming
from rumi.store.journal.store import JournalError, Store
from tests.store.journal.accepting import accept, do, tg
from tests.store.journal.earlier import SCHEMAS


def test_the_file_is_wal_fully_synchronous_and_its_owners_alone(tmp_path: Path) -> None:
    store = Store(tmp_path / "state.db")
    assert store._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)
    assert stat.S_IMODE(Path(store.location).stat().st_mode) == 0o600


def test_an_accepted_message_is_open_until_it_is_settled(store: Store) -> None:
    do(store, accept("a", "hi"), accept("b", "ho"))
    assert do(store, open_chats()) == ("a", "b")
    do(store, settle("a", FinalReply((1,), "bye")))
    assert do(store, open_chats()) == ("b",)
    assert do(store, load_chat("b", 10)).open[0].text == "ho"  # type: ignore[attr-defined]


def test_a_message_has_one_reply_however_often_it_is_settled(store: Store) -> None:
    do(store, accept("a", "hi"))
    first = do(store, settle("a", FinalReply((1,), "once")))
    assert do(store, settle("a", FinalReply((1,), "twice"))) == first
    assert [reply.text for reply in do(store, undelivered_replies("a"))] == ["once"]  # type: ignore[attr-defined]


def test_replies_wait_in_order_until_someone_has_them(store: Store) -> None:
    do(store, accept("a", "1"), accept("a", "2"), accept("a", "/stop"))
    do(store, settle("a", FinalReply((1, 3), "stopped")), settle("a", FinalReply((2,), "busy")))
    first, second = do(store, undelivered_replies("a"))  # type: ignore[misc]
    assert (first.messages, second.messages) == ((1, 3), (2,))
    do(store, mark_delivered(first.delivery))
    assert do(store, undelivered_replies("a")) == (second,)


def test_a_transaction_that_fails_does_nothing(store: Store) -> None:
    do(store, accept("a", "hi"))
    with pytest.raises(AttributeError):
        store.run([settle("a", FinalReply((1,), "bye")), settle("a", FinalReply((2,), object()))])  # type: ignore[arg-type]
    assert do(store, open_chats()) == ("a",)


def test_only_the_current_session_is_loaded_and_forgetting_deletes_all(store: Store) -> None:
    session = do(store, new_session("a"))
    do(store, append_history("a", session, (HistoryEntry("t1", Message("user", "old")),)))  # type: ignore[arg-type]
    newer = do(store, new_session("a"))
    do(store, append_history("a", newer, (HistoryEntry("t2", Message("user", "new")),)))  # type: ignore[arg-type]
    assert [e.message.content for e in do(store, load_chat("a", 10)).history] == ["new"]  # type: ignore[attr-defined]
    assert store._db.execute("SELECT count(*) FROM history").fetchone() == (2,)
    do(store, new_session("a", forget=True), sweep_forgotten())
    assert store._db.execute("SELECT count(*) FROM history").fetchone() == (0,)


def test_what_can_be_retried_is_the_last_turn_that_did_not_complete(store: Store) -> None:
    session = do(store, new_session("a"))
    assert isinstance(session, int)
    for number, reason in enumerate(("stopped", "complete", None), start=1):
        do(store, accept("a", f"text {number}"), begin_turn("a", number, f"t{number}", session))
        do(store, settle("a", FinalReply((number,), "…", reason, session)))  # type: ignore[arg-type]
    assert do(store, find_retriable("a")).id == 1  # type: ignore[attr-defined]
    do(store, accept("a", "/retry"), begin_turn("a", 4, "t4", session, retries=1))
    do(store, settle("a", FinalReply((4,), "…", "model_error", session)))
    again = do(store, find_retriable("a"))
    assert (again.id, again.text) == (4, "text 1")  # type: ignore[attr-defined]
    do(store, new_session("a"))
    assert do(store, find_retriable("a")) is None


def test_a_turn_is_not_retried_after_many_others_completed(store: Store) -> None:
    session = do(store, new_session("a"))
    assert isinstance(session, int)
    found = []
    for number, reason in enumerate(("stopped", *["complete"] * 4), start=1):
        do(store, accept("a", f"text {number}"), begin_turn("a", number, f"t{number}", session))
        do(store, settle("a", FinalReply((number,), "…", reason, session)))  # type: ignore[arg-type]
        found.append(do(store, find_retriable("a")))
    assert [message and message.id for message in found] == [1, 1, 1, 1, None]  # type: ignore[attr-defined]


def test_completed_retries_do_not_age_what_can_be_retried(store: Store) -> None:
    session = do(store, new_session("a"))
    assert isinstance(session, int)
    for number in range(1, 7):
        do(store, accept("a", f"text {number}"), begin_turn("a", number, f"t{number}", session))
        do(store, settle("a", FinalReply((number,), "…", "interrupted", session)))
    for number in range(7, 12):
        do(store, accept("a", "/retry"), begin_turn("a", number, f"t{number}", session, retries=13 - number))
        do(store, settle("a", FinalReply((number,), "…", "complete", session)))
    assert do(store, find_retriable("a")).id == 1  # type: ignore[attr-defined]


def test_a_newer_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    with pytest.raises(JournalError, match="newer Rumi"):
        Store(path)
    assert path.read_bytes()[:100] == before[:100]


def test_a_file_that_is_no_database_is_refused_with_advice(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"this is no database, whatever its name says" * 100)
    with pytest.raises(JournalError, match=r"cannot be used"):
        Store(tmp_path / "state.db")


def test_a_file_whose_inside_is_spoilt_is_refused_with_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    Store(path).close()
    spoilt = bytearray(path.read_bytes())
    spoilt[8192::7] = bytes(byte ^ 0x55 for byte in spoilt[8192::7])
    path.write_bytes(spoilt)
    with pytest.raises(JournalError, match=r"cannot be used: .*malformed"):
        Store(path)


texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(texts, texts, texts)
def test_messages_come_back_as_they_were(content: str, name: str, arguments: str) -> None:
    for message in (
        Message("user", content),
        Message("assistant", content, (ToolCall("1", name, arguments),)),
        Message("tool", content, tool_call_id=name),
    ):
        assert load_message(dump_message(message)) == message


def test_what_a_model_thought_on_the_way_is_not_stored() -> None:
    stored = dump_message(Message("assistant", "x", reasoning="because"))
    assert "because" not in stored
    assert load_message(stored) == Message("assistant", "x")


WRITER = """
import sys
from pathlib import Path
from rumi.store.journal.inbox import accept_messages
from rumi.store.journal.outbox import settle
from rumi.store.journal.records import FinalReply, Incoming
from rumi.store.journal.store import Store
store = Store(Path(sys.argv[1]))
first = int(sys.argv[2])
for number in range(first, first + 100_000):
    store.run([accept_messages((Incoming(chat="a", text="hi"),))])
    print("accepted", number, flush=True)
    store.run([settle("a", FinalReply((number,), f"reply to {number}"))])
    print("settled", number, flush=True)
"""


@pytest.mark.long
def test_what_was_said_to_be_stored_survives_a_kill_at_any_step(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    first = 1
    for lines in (1, 2, 3, 8, 21):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(first)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        said = [writer.stdout.readline().split() for _ in range(lines)]
        os.kill(writer.pid, signal.SIGKILL)
        said += [line.split() for line in writer.stdout.read().splitlines(keepends=True) if line[-1] == "\n"]
        writer.wait()
        writer.stdout.close()
        store = Store(path)
        stored = dict(store._db.execute("SELECT id, reply FROM messages"))
        for what, number in said:
            assert int(number) in stored
            assert what == "accepted" or stored[int(number)] is not None
        assert store._db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        first = store.run([count_messages()])[0].last_message + 1  # type: ignore[attr-defined]
        store.close()


def test_what_comes_with_a_message_is_kept_for_its_turn_and_for_a_retry(store: Store) -> None:
    report = Attachment("file", "ref", "report \ud800.pdf", "application/pdf", 12)
    do(
        store,
        accept_messages((Incoming(tg(5), "a", "look", "es", attachments=(report,), user=7, admin=True),)),
    )
    (found,) = do(store, load_chat("a", 10)).open  # type: ignore[attr-defined]
    assert (found.language, found.attachments[0].reference, found.user, found.admin) == ("es", "ref", 7, True)
    do(
        store,
        begin_turn("a", 1, "t1", 1),
        settle("a", FinalReply((1,), "no", "model_error", 1)),
        accept("a", "/retry"),
    )
    assert do(store, find_retriable("a")).attachments == found.attachments  # type: ignore[attr-defined]
    do(
        store,
        begin_turn("a", 2, "t2", 1, (), retries=1),
        settle("a", FinalReply((2,), "no", "model_error", 1)),
    )
    again = do(store, find_retriable("a"))
    assert (again.id, again.text, again.attachments) == (2, "look", found.attachments)  # type: ignore[attr-defined]


def test_words_of_others_are_kept_with_their_message_and_with_its_retry(store: Store) -> None:
    words = Attachment("words", source="standard input", text="theirs", cut=True)
    do(store, accept("a", "mine", words))
    (found,) = do(store, load_chat("a", 10)).open  # type: ignore[attr-defined]
    assert (found.text, found.attachments) == ("mine", (words,))
    do(store, begin_turn("a", 1, "t1", 1), settle("a", FinalReply((1,), "no", "crashed", 1)))
    assert do(store, find_retriable("a")).attachments == (words,)  # type: ignore[attr-defined]


def test_what_an_earlier_version_stored_with_a_message_is_read(store: Store) -> None:
    do(store, accept("a", "look"))
    earlier = '[{"kind":"voice","reference":"r","name":"v.ogg","media_type":"","size_bytes":null}]'
    store._db.execute("UPDATE messages SET enclosures = ?", (earlier,))
    (found,) = do(store, load_chat("a", 10)).open  # type: ignore[attr-defined]
    assert found.attachments == (Attachment("voice", "r", "v.ogg"),)
    assert not found.attachments[0].tainted


def test_a_reply_knows_what_its_messages_are_called_and_how_far_it_got(store: Store) -> None:
    do(
        store,
        accept_messages((Incoming(tg(5), "a", "hi", origin=70), Incoming(tg(6), "a", "/stop", origin=71))),
    )
    do(store, record_preview(1, 900), settle("a", FinalReply((1, 2), "long")))
    (reply,) = do(store, undelivered_replies("a"))  # type: ignore[misc]
    assert (reply.origin, reply.preview, reply.parts) == (70, 900, 0)
    do(store, mark_part_sent(reply.delivery, 2), record_preview(1, None))
    (reply,) = do(store, undelivered_replies("a"))  # type: ignore[misc]
    assert (reply.preview, reply.parts) == (None, 2)


def test_replies_that_can_reach_nobody_wait_no_longer_and_say_why(store: Store) -> None:
    do(store, accept("a", "1"), accept("a", "2"), accept("b", "3"))
    first = do(store, settle("a", FinalReply((1,), "one")))
    do(store, settle("a", FinalReply((2,), "two")), settle("b", FinalReply((3,), "three")))
    do(store, mark_undeliverable("a", "too long", first))  # type: ignore[arg-type]
    assert [reply.text for reply in do(store, undelivered_replies("a"))] == ["two"]  # type: ignore[attr-defined]
    do(store, mark_undeliverable("a", "blocked"))
    assert do(store, undelivered_chats()) == ("b",)
    failures = store._db.execute("SELECT failure FROM outbox ORDER BY id").fetchall()
    assert failures == [("too long",), ("blocked",), (None,)]


def test_taint_outlives_the_part_of_the_history_that_is_read(tmp_path: Path) -> None:
    store = Store(tmp_path / "state.db")
    first = HistoryEntry("t1", Message("tool", "page", tool_call_id="c"), True, ("http://x/",))
    later = tuple(HistoryEntry(f"t{n}", Message("user", "hi")) for n in range(2, 9))
    do(store, append_history("a", 1, (first, *later)))
    record = do(store, load_chat("a", 3))
    assert [entry.tainted for entry in record.history] == [False] * 3  # type: ignore[attr-defined]
    assert record.tainted  # type: ignore[attr-defined]
    assert do(store, load_chat("a", 99)).history[0].links == ("http://x/",)  # type: ignore[attr-defined]
    do(store, new_session("a"))
    assert not do(store, load_chat("a", 99)).tainted  # type: ignore[attr-defined]
    store.close()


def test_the_mark_of_files_outlives_sessions_and_belongs_to_one_chat(tmp_path: Path) -> None:
    store = Store(tmp_path / "state.db")
    do(store, mark_files("a", True), mark_files("a", True), new_session("a", forget=True))
    assert do(store, load_chat("a", 1)).files_tainted  # type: ignore[attr-defined]
    assert not do(store, load_chat("b", 1)).files_tainted  # type: ignore[attr-defined]
    do(store, mark_files("a", False))
    assert not do(store, load_chat("a", 1)).files_tainted  # type: ignore[attr-defined]
    store.close()


def test_a_file_of_the_first_schema_is_taken_over_with_all_that_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    old = sqlite3.connect(path)
    old.executescript(f"{SCHEMAS[1]}PRAGMA user_version = 1;")
    old.execute("INSERT INTO messages (id, chat, text, received) VALUES (4, 'cli', 'hello', 1.0)")
    old.commit()
    old.close()
    store = Store(path)
    assert do(store, open_chats()) == ("cli",)
    assert do(store, load_chat("cli", 10)).open[0].text == "hello"  # type: ignore[attr-defined]
    do(store, accept_messages((Incoming(tg(9), "tg1", "new", "es"),)), settle("cli", FinalReply((4,), "bye")))
    columns = {
        table: {row[1] for row in store._db.execute(f"PRAGMA table_info({table})")}
        for table in ("messages", "outbox", "updates", "history", "tainted_files")
    }
    fresh = Store(tmp_path / "fresh.db")
    for table, names in columns.items():
        assert names == {row[1] for row in fresh._db.execute(f"PRAGMA table_info({table})")}
    fresh.close()
    store.close()
