"""Entries that a disk has spoilt: those are lost, and nothing else."""

import sqlite3
from pathlib import Path

import pytest

from rumi.models.model import Message
from rumi.store.journal.extraction import read_unextracted
from rumi.store.journal.history import UNREADABLE, append_history
from rumi.store.journal.inbox import begin_turn, load_chat
from rumi.store.journal.outbox import settle
from rumi.store.journal.records import FinalReply, HistoryEntry
from rumi.store.journal.store import Store
from tests.store.journal.accepting import accept


@pytest.mark.parametrize("spoilt", [b"x", b"{}", b'{"role":"user","content":"h\xff"', b"[1]"])
def test_an_entry_that_cannot_be_read_is_one_entry(tmp_path: Path, spoilt: bytes) -> None:
    store = Store(tmp_path / "state.db")
    asked, answer = (
        HistoryEntry("t1", Message("user", "hello")),
        HistoryEntry("t1", Message("assistant", "hi")),
    )
    store.run([accept("a", "hello"), begin_turn("a", 1, "t1", 1, (asked,)), append_history("a", 1, (asked,))])
    store.run([settle("a", FinalReply((1,), "hi", "complete", 1, (answer,), 10.0))])
    store.close()
    with sqlite3.connect(tmp_path / "state.db") as db:
        query = "UPDATE history SET message = CAST(? AS TEXT), links = 'x' WHERE id = 2"
        assert db.execute(query, (spoilt,)).rowcount == 1
    db.close()
    store = Store(tmp_path / "state.db")
    (record,) = store.run([load_chat("a", 10)])
    said = [entry.message.content for entry in record.history]  # type: ignore[attr-defined]
    assert said == ["hello", UNREADABLE, "hi"]
    store.run([read_unextracted("a", 1)])
    store.close()


@pytest.mark.parametrize("spoilt", ["{", "5", '[{"a":1}]'])
def test_a_message_whose_enclosures_cannot_be_read_is_one_without(tmp_path: Path, spoilt: str) -> None:
    store = Store(tmp_path / "state.db")
    store.run([accept("a", "hello")])
    with sqlite3.connect(tmp_path / "state.db") as db:
        db.execute("UPDATE messages SET enclosures = ?", (spoilt,))
    db.close()
    (record,) = store.run([load_chat("a", 10)])
    (message,) = record.open  # type: ignore[attr-defined]
    assert (message.text, message.attachments) == ("hello", ())
    store.close()
