"""Steps of standing approvals: nothing is set on what has changed, and an undo restores none."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rumi.store.journal.inbox import accept_messages
from rumi.store.journal.records import Incoming, ScheduleRecord, Undone
from rumi.store.journal.schedules import add_schedule, delete_schedule, load_schedule
from rumi.store.journal.standing import edit_schedule, language_of_chat, set_approval
from rumi.store.journal.store import Store
from rumi.store.journal.undo import take_back

NEW = ScheduleRecord("local", "cli", "turn", "Brief me", cron="0 9 * * *", instant=1.0, user=5)


class Steps:
    def __init__(self, path: Path) -> None:
        self.store = Store(path / "state.db")

    def __call__(self, request: Any) -> Any:
        (answer,) = self.store.run([request])
        return answer


@pytest.fixture
def do(tmp_path: Path) -> Any:
    steps = Steps(tmp_path)
    yield steps
    steps.store.close()


@pytest.mark.parametrize(
    "change",
    [
        {"text": "Other"},
        {"options": '{"a": 1}'},
        {"kind": "research"},
        {"owner": "tg5"},
        {"chat": "work"},
        {"user": 6},
        {"user": None},
        {"approval": "{}"},
        {"id": 9},
    ],
)
def test_an_approval_is_set_only_on_the_schedule_that_was_seen(do: Any, change: dict[str, Any]) -> None:
    added = do(add_schedule(NEW, 9))
    assert not do(set_approval(replace(added, **change), "new"))
    assert do(load_schedule(1)).approval == ""
    assert do(set_approval(added, "new"))
    assert not do(set_approval(added, "newer")), "it was seen before the new one"
    assert do(load_schedule(1)).approval == "new"


def test_an_edit_replaces_text_and_approval_together_and_keeps_the_time(do: Any) -> None:
    added = do(add_schedule(replace(NEW, tainted=True), 9))
    assert do(set_approval(added, "new"))
    assert not do(edit_schedule(added, "Other", "")), "its approval was given meanwhile"
    seen = do(load_schedule(1))
    assert do(edit_schedule(seen, "Other", ""))
    found = do(load_schedule(1))
    assert (found.text, found.approval, found.tainted) == ("Other", "", False)
    assert (found.cron, found.instant, found.next_at) == (seen.cron, seen.instant, seen.next_at)


def test_an_undo_brings_a_deleted_schedule_back_without_its_approval(do: Any) -> None:
    (message,) = do(accept_messages((Incoming(chat="cli", text="delete it"),)))
    added = do(add_schedule(NEW, 9))
    assert do(set_approval(added, "new"))
    assert message.id == 1
    assert do(delete_schedule(1, "t1", "cli"))
    undone = do(take_back("cli", Undone(2, "t1")))
    assert (undone.schedules, undone.approvals) == ((1,), (1,))
    assert do(load_schedule(1)).approval == ""


def test_the_language_of_a_chat_is_that_of_its_last_message(do: Any) -> None:
    assert do(language_of_chat("cli")) == ""
    do(accept_messages((Incoming(chat="cli", text="a", language="es"), Incoming(chat="cli", text="b"))))
    assert do(language_of_chat("cli")) == "es"
