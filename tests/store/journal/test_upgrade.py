"""Files of earlier programs: brought up to date whole, or left as they were; newer ones are refused."""

import contextlib
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import pytest

from rumi.platform.chat_ids import BUILT_IN
from rumi.store.journal.inbox import accept_messages, moved_groups
from rumi.store.journal.parked import load_parked
from rumi.store.journal.records import Incoming, Update
from rumi.store.journal.schedules import list_schedules
from rumi.store.journal.schema import SCHEMA_VERSION
from rumi.store.journal.store import JournalError, Store
from tests.cli.program import Program
from tests.conftest import ROOT
from tests.store.journal.earlier import SCHEMAS, kept, make, shape

MORE = (pytest.mark.long, pytest.mark.more)


def test_there_is_a_file_of_each_earlier_schema() -> None:
    assert set(SCHEMAS) == set(range(1, SCHEMA_VERSION))


@pytest.mark.parametrize("version", SCHEMAS)
def test_a_file_of_an_earlier_schema_becomes_what_a_new_one_is_and_a_copy_stays(
    tmp_path: Path, version: int
) -> None:
    path = tmp_path / "state.db"
    make(path, version)
    _, content = kept(path)
    Store(path).close()
    Store(tmp_path / "new.db").close()
    assert kept(path) == (SCHEMA_VERSION, content)
    assert shape(path) == shape(tmp_path / "new.db")
    copy = tmp_path / f"state.db.before-{SCHEMA_VERSION}"
    assert kept(copy) == (version, content)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert {entry.name for entry in tmp_path.iterdir()} == {"state.db", "new.db", copy.name}


def test_updates_and_moves_of_an_earlier_file_are_telegrams(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    make(path, 5)
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("INSERT INTO updates VALUES (7, ?)", (time.time(),))
        db.execute("INSERT INTO moved VALUES (-6, -1006), (-5, -1005), (-5, -2005)")
    store = Store(path)
    assert store.run([moved_groups()]) == [
        (("tg-6", "tg-1006"), ("tg-5", "tg-1005"), ("tg-5", "tg-2005")),
    ]
    again, other = Update("telegram", 7), Update("lines", 7)
    ((first, second),) = store.run(
        [accept_messages((Incoming(again, "tg1", "x"), Incoming(other, "a", "x")))]
    )  # type: ignore[misc]
    assert (first, second.text) == (None, "x")
    store.close()


def test_schedules_of_other_chats_that_were_the_terminals_are_their_chats_owners(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    make(path, 17)
    chats = ("tg5", "tgwork-7", "tg-100_3", "tg-100777", "cli", "work_2", "tasks", "TG5", "tgwork--100_12")
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.execute("DELETE FROM schedules")
        db.executemany(
            "INSERT INTO schedules (owner, chat, kind, text, options, cron, zone, instant, next_at, state,"
            " language, model, tainted, created, touched)"
            " VALUES ('local', ?, 'turn', 'x', '{}', '', 'UTC', 0, 0, 'active', 'en', '', 0, 0, 0)",
            [(chat,) for chat in chats],
        )
        db.execute("DELETE FROM parked")
        db.execute("DELETE FROM messages")
        db.execute(
            "INSERT INTO messages (id, chat, text, received, turn, schedule)"
            " VALUES (7, 'cli', 'x', 5, 't7', 3)"
        )
        db.executemany(
            "INSERT INTO parked (chat, number, call, question, state, asked, turn) VALUES"
            " ('cli', ?, 'x', 'x', 'waits', 1, ?)",
            [(1, "t7"), (2, "t8"), (3, "")],
        )
    store = Store(path)
    (listed,) = store.run([list_schedules(None)])
    assert {schedule.chat: schedule.owner for schedule in listed} == {
        chat: BUILT_IN.owner_of(chat) for chat in chats
    }
    (waiting,) = store.run([load_parked("cli")])
    assert [(one.schedule, one.at, one.offer) for one in waiting] == [
        (3, 5.0, ""),
        (0, 0.0, ""),
        (0, 0.0, ""),
    ]
    store.close()


def test_the_copy_of_an_earlier_upgrade_goes_when_another_has_succeeded(tmp_path: Path) -> None:
    make(tmp_path / "state.db", 2)
    (tmp_path / "state.db.before-2").write_bytes(b"of long ago")
    Store(tmp_path / "state.db").close()
    assert [entry.name for entry in tmp_path.glob("*.before-*")] == [f"state.db.before-{SCHEMA_VERSION}"]


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory: what a killed process has written is there, also where nothing reached a disk."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK) or shutil.disk_usage(memory).free < 500_000_000:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory, prefix="rumi-tests-") as folder:
        yield Path(folder)


@pytest.mark.parametrize(
    "version",
    [
        SCHEMA_VERSION - 1,
        pytest.param(1, marks=pytest.mark.long),
        *(pytest.param(version, marks=MORE) for version in range(2, SCHEMA_VERSION - 1)),
    ],
)
def test_an_upgrade_that_is_killed_at_any_step_leaves_the_file_as_it_was_or_as_it_will_be(
    in_memory: Path, version: int
) -> None:
    tmp_path, one_of = in_memory, 1 if version in (1, SCHEMA_VERSION - 1) else 7  # the first does all steps
    make(tmp_path / "before.db", version)
    _, content = kept(tmp_path / "before.db")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.store.journal.killed_upgrade",
            str(tmp_path),
            str(version),
            str(one_of),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=ROOT,
    )
    versions = []
    for number in range(1, int(done.stdout) + 1):
        path = tmp_path / str(number) / "state.db"
        found, still = kept(path)
        versions.append(found)
        assert (found in (version, SCHEMA_VERSION), still) == (True, content)
        Store(path).close()
        assert kept(path) == (SCHEMA_VERSION, content), "the next start does what was left"
        assert kept(path.with_name(f"state.db.before-{SCHEMA_VERSION}")) == (version, content)
        assert len(list(path.parent.iterdir())) == 2, "and nothing of the one before is left"
    assert versions == sorted(versions), "once it is there, it stays"
    assert versions.count(version) > 15 // one_of
    assert versions[-1] == SCHEMA_VERSION or one_of > 1


def test_without_room_for_the_copy_nothing_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.db"
    make(path, 1)
    usage = namedtuple("usage", "total used free")(1, 1, 1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(JournalError, match=r"has 1 MB free\. Make room"):
        Store(path)
    assert kept(path)[0] == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.db"]


def test_on_a_disk_that_gets_full_at_any_moment_of_it_the_file_is_as_it_was_or_as_it_will_be(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "rumi.store.sqlite.require_free_space", lambda *_: None
    )  # somebody else fills it meanwhile
    path, filler = small_disk / "state.db", small_disk / "filler"
    make(small_disk / "before.db", 1)
    _, content = kept(small_disk / "before.db")
    versions = []
    for free in range(0, 500_000, 25_000):
        shutil.copyfile(small_disk / "before.db", path)
        filler.write_bytes(bytes(shutil.disk_usage(small_disk).free - free))
        with contextlib.suppress(JournalError):
            Store(path).close()
        filler.unlink()
        found, still = kept(path)
        versions.append(found)
        assert (found in (1, SCHEMA_VERSION), still) == (True, content)
        Store(path).close()
        assert kept(path) == (SCHEMA_VERSION, content), "with room again it goes on"
        for entry in small_disk.glob("*state.db*"):
            entry.unlink()
    assert versions == sorted(versions)
    assert 3 < versions.count(1) < len(versions)


def test_a_file_of_a_newer_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    db.close()
    before = path.read_bytes()
    with pytest.raises(JournalError, match=f"newer Rumi .schema {SCHEMA_VERSION + 1}.*Use the newer program"):
        Store(path)
    assert path.read_bytes() == before


@pytest.mark.bubblewrap
def test_a_conversation_of_an_earlier_program_goes_on_and_one_of_a_newer_is_refused(
    tmp_path: Path,
) -> None:
    bubblewrap = Program(tmp_path / "home", {"RUMI_SANDBOX__BACKEND": "bubblewrap"})
    bubblewrap.home.mkdir(mode=0o700)
    make(bubblewrap.home / "state.db", 1)
    said = bubblewrap.run("chat", "-p", "run echo it goes on")
    assert "it goes on" in said.stdout
    assert kept(bubblewrap.home / "state.db")[0] == SCHEMA_VERSION
    with sqlite3.connect(bubblewrap.home / "state.db") as db:
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    db.close()
    said = bubblewrap.run("chat", "-p", "run echo it goes on", code=1)
    assert "Use the newer program, or another RUMI_HOME." in said.stderr.splitlines()[-1]
    assert said.stdout == ""
