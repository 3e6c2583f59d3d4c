"""A file that cannot be written for a while: a full disk, another program's lock, a file that was replaced.

The disk is a real small one, and the lock is a real one.
"""

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import get_args

import pytest
import trio
from trio.testing import MockClock

from actors import ActorRef, ChildSpec, Supervisor
from rumi.models.model import Message
from rumi.platform.disk_reserve import Reserve, free_bytes
from rumi.store import backend as store_module
from rumi.store.journal import actor as actor_module
from rumi.store.journal.actor import Journal, JournalState
from rumi.store.journal.deliveries import Taken, accept_event
from rumi.store.journal.history import append_history
from rumi.store.journal.inbox import accept_messages, count_messages, load_chat, open_chats
from rumi.store.journal.outbox import settle
from rumi.store.journal.records import FinalReply, HistoryEntry, Incoming, NotStored
from rumi.store.journal.store import JournalError, Store, Unwritable
from rumi.store.journal.transaction import JournalMessage
from rumi.store.protocol import Trouble
from rumi.texts import translate
from tests.chats.house import InlineOffload
from tests.conftest import ROOT
from tests.store.journal.accepting import accept, tg


@asynccontextmanager
async def journal_at(
    path: Path, state: JournalState | None = None
) -> AsyncIterator[tuple[ActorRef[JournalMessage], Supervisor]]:
    """A journal that has written something already."""
    root = Supervisor("root")
    spec = ChildSpec("journal", lambda: Journal(path, InlineOffload(), time.time, state))
    journal = root.add(spec)
    async with root.running():
        await journal.ask(load_chat("a", 1))
        yield journal, root


def fill(disk: Path) -> Path:
    """Fill the disk to the last byte."""
    filler = disk / "filler"
    with filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    return filler


def entry(number: int, size: int = 3000) -> HistoryEntry:
    return HistoryEntry(f"t{number}", Message("user", f"{number} " + "x" * size))


def metrics(root: Supervisor) -> dict[str, object]:
    return dict(root.status().children[0].metrics)


async def until(condition: Callable[[], object]) -> None:
    with trio.fail_after(3600):
        while not condition():  # noqa: ASYNC110  # nothing tells of a disk
            await trio.sleep(0.1)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt does not wait for a lock by itself: that would take real time."""
    monkeypatch.setattr(store_module, "LOCKED_S", 0.001)


# A full disk


async def test_work_in_hand_is_finished_on_a_full_disk_by_means_of_the_reserve(
    autojump_clock: MockClock, small_disk: Path
) -> None:
    seen: list[Trouble | None] = []
    state = JournalState(Reserve(small_disk / "reserve"), seen.append)
    async with journal_at(small_disk / "state.db", state) as (journal, root):
        await journal.ask(accept("a", "hi"))
        await until((small_disk / "reserve").exists)
        filler = fill(small_disk)
        for number in range(5):  # more than the last page of the log has room for
            await journal.ask(append_history("a", 1, (entry(number, 300),)))
        await journal.ask(settle("a", FinalReply((1,), "done")))
        assert seen == ["full"]
        assert not (small_disk / "reserve").exists()
        assert metrics(root)["trouble"] == "full"
        assert root.status().children[0].restarts == 0
        filler.unlink()
        await until(lambda: seen == ["full", None])
        assert (small_disk / "reserve").stat().st_blocks > 0
        assert await journal.ask(accept("a", "again")) != NotStored("full")


async def test_new_messages_are_refused_at_once_while_the_disk_is_full(
    autojump_clock: MockClock, small_disk: Path
) -> None:
    state = JournalState(Reserve(small_disk / "reserve"))
    async with journal_at(small_disk / "state.db", state) as (journal, _):
        await until((small_disk / "reserve").exists)
        filler = fill(small_disk)
        number = 1
        while await journal.ask(accept("a", "x" * 5000)) != NotStored("full"):
            number += 1
        begun = trio.current_time()
        assert await journal.ask(accept_messages((Incoming(tg(7), "a", "hi"),))) == NotStored("full")
        event = accept_event(Incoming(chat="a", text="look", trigger="deploy"), "d1", 60)
        assert await journal.ask(event) == NotStored("full")
        assert (await journal.ask(count_messages())).last_message == number - 1
        assert trio.current_time() - begun < 1
        filler.unlink()
        await until(lambda: state.trouble is None)
        assert await journal.ask(accept_messages((Incoming(tg(7), "a", "hi"),))) != NotStored("full")
        taken = await journal.ask(event)
        assert isinstance(taken, Taken)
        assert taken.message is not None, "the refused delivery was not recorded either"


async def test_without_a_reserve_what_is_to_be_written_waits_until_there_is_room(
    autojump_clock: MockClock, small_disk: Path
) -> None:
    async with journal_at(small_disk / "state.db") as (journal, root), trio.open_nursery() as nursery:
        filler = fill(small_disk)
        for number in range(200):
            nursery.start_soon(journal.ask, append_history("a", 1, (entry(number),)))
        await trio.sleep(60)
        assert metrics(root)["trouble"] == "full"
        assert len((await journal.ask(load_chat("a", 1000))).history) < 200, "what is read can be read"
        filler.unlink()
    store = Store(small_disk / "state.db")
    (record,) = store.run([load_chat("a", 1000)])
    store.close()
    assert sorted(stored_entry.turn for stored_entry in record.history) == sorted(f"t{n}" for n in range(200))  # type: ignore[attr-defined]
    assert root.status().children[0].restarts == 0


async def test_a_refused_message_is_not_stored_later(autojump_clock: MockClock, small_disk: Path) -> None:
    async with journal_at(small_disk / "state.db") as (journal, _):
        filler = fill(small_disk)
        number = 0
        while await journal.ask(accept("a", "x" * 5000)) != NotStored("full"):
            number += 1
        filler.unlink()
        await trio.sleep(60)
        assert (await journal.ask(count_messages())).last_message == number


FILLED = """
import os, sys, time, trio
from pathlib import Path
from actors import ChildSpec, Supervisor
from rumi.store.journal.inbox import load_chat
from rumi.store.journal.history import append_history
from rumi.store.journal.records import HistoryEntry
from rumi.store.journal.actor import Journal, JournalState
from rumi.platform.threads import Threads
from rumi.models.model import Message
from rumi.platform.disk_reserve import Reserve

async def main(disk):
    root = Supervisor("root")
    shelf = JournalState(Reserve(disk / "reserve"))
    journal = root.add(ChildSpec("journal", lambda: Journal(disk / "state.db", Threads(), time.time, shelf)))
    async with root.running():
        await journal.ask(load_chat("a", 1))
        while not (disk / "reserve").exists():
            await trio.sleep(0.01)
        with (disk / "filler").open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass
        for number in range(1000):
            entry = HistoryEntry(f"t{number}", Message("user", "x" * 3000))
            await journal.ask(append_history("a", 1, (entry,)))
            print(number, flush=True)

trio.run(main, Path(sys.argv[1]))
"""


def test_a_kill_on_a_full_disk_loses_nothing(
    small_disk: Path,
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", FILLED, str(small_disk)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    written = [int(process.stdout.readline()) for _ in range(3)]
    time.sleep(0.5)  # by now the reserve is used up as well, and the rest waits
    process.send_signal(signal.SIGKILL)
    written += [int(line) for line in process.stdout]
    process.wait()
    process.stdout.close()
    assert free_bytes(small_disk) < 100_000
    assert not (small_disk / "reserve").exists()
    with contextlib.suppress(Unwritable):  # a clear refusal, or it works: never damage
        Store(small_disk / "state.db").close()
    (small_disk / "filler").unlink()
    store = Store(small_disk / "state.db")
    (record,) = store.run([load_chat("a", 5000)])
    store.close()
    assert [stored_entry.turn for stored_entry in record.history][: len(written)] == [
        f"t{n}" for n in written
    ]  # type: ignore[attr-defined]


def test_a_start_on_a_full_disk_is_one_clear_refusal(small_disk: Path) -> None:
    fill(small_disk)
    with pytest.raises(Unwritable, match="disk is full") as refused:
        Store(small_disk / "state.db")
    assert refused.value.exit_code == 2


# Another program's lock


async def test_a_lock_of_another_program_is_waited_for(
    autojump_clock: MockClock, tmp_path: Path, impatient: None
) -> None:
    seen: list[Trouble | None] = []
    async with journal_at(tmp_path / "state.db", JournalState(observe=seen.append)) as (journal, root):
        other = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(journal.ask, accept("a", "hi"))
            await trio.sleep(30)
            assert metrics(root)["trouble"] == "locked"
            assert await journal.ask(open_chats()) == ()
            nursery.start_soon(journal.ask, append_history("a", 1, (entry(1),)))
            await trio.sleep(20)
            other.execute("ROLLBACK")
        assert seen == ["locked", None]
        assert await journal.ask(open_chats()) == ("a",)
        assert root.status().children[0].restarts == 0
        other.close()


@pytest.mark.long
async def test_a_lock_that_stays_refuses_new_messages_and_work_in_hand_goes_on_waiting(
    autojump_clock: MockClock, tmp_path: Path, impatient: None
) -> None:
    answers: list[object] = []
    async with journal_at(tmp_path / "state.db") as (journal, _):
        other = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")

        async def ask(request: JournalMessage) -> None:
            answers.append(await journal.ask(request))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, append_history("a", 1, (entry(1),)))
            nursery.start_soon(ask, accept("a", "hi"))
            await trio.sleep(actor_module.LOCKED_S - 5)
            assert answers == []
            await trio.sleep(10)
            assert answers == [NotStored("locked")]
            begun = trio.current_time()
            await ask(accept("a", "hi"))
            assert answers == [NotStored("locked")] * 2
            assert trio.current_time() == begun
            await trio.sleep(3600)
            other.execute("ROLLBACK")
        assert answers[2:] == [None]
        assert len((await journal.ask(load_chat("a", 10))).history) == 1
        assert await journal.ask(open_chats()) == ()
        other.close()


async def test_a_message_whose_sender_left_before_it_could_be_written_is_not_stored(
    autojump_clock: MockClock, tmp_path: Path, impatient: None
) -> None:
    async with journal_at(tmp_path / "state.db") as (journal, _):
        other = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with trio.move_on_after(5):
            await journal.ask(accept("a", "hi"))
        other.execute("ROLLBACK")
        other.close()
        await trio.sleep(10)
        assert await journal.ask(open_chats()) == ()


async def test_a_start_waits_for_a_lock_and_says_so_in_the_end(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "OPEN_S", 0.001)
    monkeypatch.setattr(actor_module, "LOCKED_S", 3.0)
    Store(tmp_path / "state.db").close()
    other = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(Unwritable, match="locked by another program"):
        async with journal_at(tmp_path / "state.db"):
            pass
    other.close()


# A file that is not there any more


@pytest.mark.parametrize("how", ["deleted", "replaced", "its log deleted"])
async def test_a_file_that_is_deleted_or_replaced_is_noticed_within_a_minute(
    autojump_clock: MockClock, tmp_path: Path, how: str
) -> None:
    seen: list[Trouble | None] = []
    path = tmp_path / "state.db"
    async with journal_at(path, JournalState(observe=seen.append)) as (journal, root):
        await journal.ask(accept("a", "hi"))
        await trio.sleep(120)
        assert seen == []
        if how == "replaced":
            shutil.copyfile(path, tmp_path / "copy")
            os.replace(tmp_path / "copy", path)
        else:
            path.with_name("state.db-wal" if how == "its log deleted" else "state.db").unlink()
        await trio.sleep(60)
        assert seen == ["replaced"]
        assert await journal.ask(accept("a", "into the void")) == NotStored("replaced")
        with trio.move_on_after(600) as waits:
            await journal.ask(settle("a", FinalReply((1,), "into the void")))
        assert waits.cancelled_caught
        assert await journal.ask(open_chats()) == ("a",)
        assert metrics(root)["trouble"] == "replaced"
    assert path.exists() == (how != "deleted")


async def test_a_journal_that_restarts_does_not_take_another_file_for_its_own(
    autojump_clock: MockClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, state = tmp_path / "state.db", JournalState()

    def broken(self: Store, requests: list[object]) -> list[object]:
        path.unlink(missing_ok=True)
        raise JournalError("something else")

    monkeypatch.setattr(actor_module, "Store", Store)
    with pytest.raises(BaseException, match="restart") as ended:
        async with journal_at(path, state) as (journal, _):
            monkeypatch.setattr(Store, "run", broken)
            with contextlib.suppress(Exception):
                await journal.ask(settle("a", FinalReply((1,), "x")))
            await trio.sleep(60)
    assert isinstance(ended.value.__cause__, Unwritable)
    assert ended.value.__cause__.trouble == "replaced"
    assert not path.exists()


@pytest.mark.parametrize("trouble", get_args(Trouble))
def test_each_trouble_is_a_sentence_and_an_advice_in_both_languages(trouble: Trouble) -> None:
    error = Unwritable(Path("/home/state.db"), trouble, "disk I/O error")
    assert "/home/state.db" in translate("es", error.message) != error.message
    assert translate("es", error.advice) != error.advice
    assert error.exit_code == 2
