"""Workspaces that are stored at the end of a turn and made again on another machine."""

import json
import os
import random
import stat
import sys
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from rumi.platform.threads import Threads
from rumi.sandbox import packing as packing_module
from rumi.sandbox.carrying import WorkspaceCarrier
from rumi.sandbox.engine import SandboxLimits
from rumi.sandbox.lease import LeaseLostError
from rumi.sandbox.packing import PIECE_BYTES, PackLimits, SpoiltWorkspace, Unpackable, entries_of, pack
from rumi.store.journal.actor import AskJournal, open_journal
from rumi.store.journal.piece_store import JournalPieces
from rumi.store.journal.store import Store
from rumi.store.journal.workspaces import load_workspace
from tests.conftest import ROOT
from tests.fakes.engines import MakeEngine, cleaned_up
from tests.sandbox.desk import sandbox_desk

USER = (os.getuid(), os.getgid())
LIMITS = PackLimits(max_bytes=64 * PIECE_BYTES, max_files=2_000)
OLD_NS = 1_600_000_000_123_456_789


@pytest.fixture
async def ask(tmp_path: Path) -> AsyncIterator[AskJournal]:
    async with open_journal(tmp_path / "state.db") as asked:
        yield asked


def carrier(ask: AskJournal, folder: Path, limits: PackLimits = LIMITS) -> WorkspaceCarrier:
    """The carrier of a machine, whose workspaces are in this folder."""
    folder.mkdir(exist_ok=True)
    return WorkspaceCarrier(folder, USER, JournalPieces(ask), Threads(), limits)


def seen(folder: Path) -> dict[bytes, object]:
    """Everything in a folder, as its commands would compare it."""
    found: dict[bytes, object] = {}
    inodes: dict[int, bytes] = {}
    for path in sorted(os.fsencode(entry) for entry in folder.rglob("*")):
        status, name = os.lstat(path), os.path.relpath(path, os.fsencode(folder))
        content: object = None
        if stat.S_ISREG(status.st_mode):
            content = (Path(os.fsdecode(path)).read_bytes(), inodes.setdefault(status.st_ino, name))
        elif stat.S_ISLNK(status.st_mode):
            content = os.readlink(path)
        found[name] = (oct(status.st_mode), status.st_mtime_ns, content)
    return found


def hostile(files: Path, outside: Path) -> None:
    """Fill a workspace with what commands can make."""
    outside.write_text("not theirs")
    (files / "d" / "empty").mkdir(parents=True)
    (files / "d" / "x").write_text("deep")
    (files / "d" / "x").chmod(0o751)
    (files / "link").symlink_to(outside)
    (files / "folder").symlink_to(outside.parent)
    (files / "dangling").symlink_to("nothing\n")
    os.mkfifo(files / "pipe", 0o640)
    Path(os.fsdecode(os.fsencode(files) + b"/n\xff\n\x1b[1m")).write_text("a name with bytes")
    with (files / "sparse").open("wb") as file:
        file.truncate(1 << 34)
        file.seek(5 * PIECE_BYTES + 17)
        file.write(b"in the middle")
    (files / "zeros").write_bytes(bytes(3 * PIECE_BYTES + 1))
    (files / "large").write_bytes(random.Random(1).randbytes(2 * PIECE_BYTES + 77))
    (files / "one").write_text("with two names")
    os.link(files / "one", files / "d" / "two")
    (files / "setid").write_text("x")
    (files / "setid").chmod(0o6755)
    (files / "none").write_bytes(b"")
    os.utime(files / "d", ns=(OLD_NS, OLD_NS))


async def test_a_hostile_workspace_is_the_same_on_another_machine(ask: AskJournal, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    (one / "cli").mkdir(parents=True)
    hostile(one / "cli", tmp_path / "secret")
    first, second = carrier(ask, one), carrier(ask, other)
    assert (await first.fetch("cli", 1)).files == 0
    stored = await first.store("cli", 1)
    assert stored.bytes < 4 * PIECE_BYTES, "holes and zeros are not stored"
    assert (await second.fetch("cli", 2)).pieces == stored.pieces
    (one / "cli" / "setid").chmod(0o755)  # the bits that no workspace keeps
    (one / "cli" / "sparse").unlink()  # read apart: it is large
    assert (other / "cli" / "sparse").stat().st_size == 1 << 34
    assert (other / "cli" / "sparse").stat().st_blocks * 512 <= 2 * PIECE_BYTES
    with (other / "cli" / "sparse").open("rb") as file:
        file.seek(5 * PIECE_BYTES + 17)
        assert file.read(13) == b"in the middle"
    (other / "cli" / "sparse").unlink()
    assert seen(other / "cli") == seen(one / "cli")
    assert (tmp_path / "secret").read_text() == "not theirs"
    assert {entry.name for entry in other.iterdir()} <= {"cli", ".carried"}


async def test_only_what_changed_is_read_and_sent(
    ask: AskJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tmp_path / "one" / "cli"
    files.mkdir(parents=True)
    for number in range(50):
        (files / f"f{number}").write_bytes(random.Random(number).randbytes(5000))
    await trio.sleep(0.1)  # the times of files are settled
    first = carrier(ask, tmp_path / "one")
    await first.fetch("cli", 1)
    assert (await first.store("cli", 1)).pieces == 50
    hashed: list[int] = []
    key_of = packing_module.key_of

    def counted(piece: bytes) -> str:
        hashed.append(len(piece))
        return key_of(piece)

    monkeypatch.setattr(packing_module, "key_of", counted)
    assert (await first.store("cli", 1)).pieces == 0
    assert hashed == []
    (files / "f7").write_bytes(b"new")
    (files / "f8").unlink()
    assert (await first.store("cli", 1)).bytes == 3
    assert sum(hashed) == 6, "once to name the piece, and once when it is read to be sent"
    second = carrier(ask, tmp_path / "other")
    assert (await second.fetch("cli", 2)).files == 49
    (tmp_path / "other" / "cli" / "f9").write_bytes(b"theirs")
    await second.store("cli", 2)
    assert (await first.fetch("cli", 3)).bytes == 6, "the first machine has the rest"
    assert seen(files) == seen(tmp_path / "other" / "cli")
    db = Store(tmp_path / "state.db")
    assert db._db.execute("SELECT count(*) FROM pieces").fetchone() == (49,), "no garbage is left"
    db.close()


async def test_an_owner_that_lost_its_lease_stores_nothing(ask: AskJournal, tmp_path: Path) -> None:
    first, second = carrier(ask, tmp_path / "one"), carrier(ask, tmp_path / "other")
    (tmp_path / "one" / "cli").mkdir()
    (tmp_path / "one" / "cli" / "a").write_text("first")
    await first.fetch("cli", 1)
    await first.store("cli", 1)
    await second.fetch("cli", 2)
    (tmp_path / "one" / "cli" / "a").write_text("late")
    with pytest.raises(LeaseLostError):
        await first.store("cli", 1)
    with pytest.raises(LeaseLostError):
        await first.fetch("cli", 1)
    (tmp_path / "other" / "cli" / "a").write_text("second")
    await second.store("cli", 2)
    await first.fetch("cli", 3)
    assert (tmp_path / "one" / "cli" / "a").read_text() == "second", "what it did without a lease is gone"


async def test_what_is_too_much_is_refused_with_a_reason_and_the_stored_files_stay(
    ask: AskJournal, tmp_path: Path
) -> None:
    files = tmp_path / "one" / "cli"
    files.mkdir(parents=True)
    (files / "a").write_text("fine")
    first = carrier(ask, tmp_path / "one", PackLimits(max_bytes=2 * PIECE_BYTES, max_files=20))
    await first.fetch("cli", 1)
    await first.store("cli", 1)
    before = await ask(load_workspace("cli", 1))
    for number in range(30):
        (files / f"f{number}").touch()
    with pytest.raises(Unpackable, match="more than 20"):
        await first.store("cli", 1)
    for number in range(30):
        (files / f"f{number}").unlink()
    (files / "large").write_bytes(b"x" * (2 * PIECE_BYTES + 1))
    with pytest.raises(Unpackable, match="larger than 2 MB"):
        await first.store("cli", 1)
    assert await ask(load_workspace("cli", 1)) == before


def test_a_file_that_changes_all_the_time_is_refused_and_not_stored_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "busy").write_bytes(b"x" * 100)
    key_of = packing_module.key_of

    def changing(piece: bytes) -> str:
        with (tmp_path / "busy").open("ab") as file:
            file.write(b"y")
        return key_of(piece)

    monkeypatch.setattr(packing_module, "key_of", changing)
    with pytest.raises(Unpackable) as refused:
        pack(tmp_path, LIMITS, {})
    assert refused.value.cause == "changing"


@pytest.mark.parametrize(
    "entries",
    [
        [["../x", "file", 0o644, 0, "", 0]],
        [["/etc/x", "file", 0o644, 0, "", 0]],
        [["a", "link", 0o777, 0, "/etc", 0], ["a/passwd", "file", 0o644, 0, "", 0]],
        [["a", "folder", 0o755, 0, "", 0], ["a/..", "folder", 0o755, 0, "", 0]],
        [["a", "name", 0o644, 0, "/etc/passwd", 0]],
        [["a", "device", 0o644, 0, "", 0]],
        [["a", "file", 0o644, 0, "00", 0]],
        [["a", "file", 0o644, 0, "", 0], ["a", "link", 0o777, 0, "x", 0]],
        [["a"]],
    ],
)
def test_a_list_that_leads_outside_is_refused(entries: list[object]) -> None:
    with pytest.raises(SpoiltWorkspace):
        entries_of(zlib.compress(json.dumps({"entries": entries}).encode()), USER)


async def test_stored_files_that_are_damaged_change_nothing_here(ask: AskJournal, tmp_path: Path) -> None:
    first, second = carrier(ask, tmp_path / "one"), carrier(ask, tmp_path / "other")
    (tmp_path / "one" / "cli").mkdir()
    (tmp_path / "one" / "cli" / "a").write_text("fine")
    await first.fetch("cli", 1)
    await first.store("cli", 1)
    (tmp_path / "other" / "cli").mkdir()
    (tmp_path / "other" / "cli" / "b").write_text("here")
    before = seen(tmp_path / "other" / "cli")
    db = Store(tmp_path / "state.db")
    for change in ("UPDATE pieces SET content = x'00'", "DELETE FROM pieces"):
        db._db.execute(change)
        with pytest.raises(SpoiltWorkspace):
            await second.fetch("cli", 2)
        assert seen(tmp_path / "other" / "cli") == before
        assert list((tmp_path / "other" / ".carried").iterdir()) == []
    db.close()


@pytest.mark.bubblewrap
async def test_a_sandbox_goes_on_with_the_files_of_a_sandbox_on_another_machine(
    ask: AskJournal, make_bubblewrap: MakeEngine, new_installation: str, tmp_path: Path
) -> None:
    engine = make_bubblewrap(SandboxLimits(), new_installation)
    made = "mkdir -p a/b; echo one > a/b/c; cp a/b/c run; touch -d @1600000000 run; ls -l > list; mv list a"
    async with cleaned_up(engine):
        for number, script in enumerate(
            (made, "cat a/b/c run; stat -c '%y %U' run; rm run; echo two > a/b/c")
        ):
            home = tmp_path / f"machine-{number}"
            (home / "workspace").mkdir(parents=True)
            here = WorkspaceCarrier(home / "workspace", engine.user, JournalPieces(ask), Threads(), LIMITS)
            await here.fetch("one", number + 1)
            async with sandbox_desk(engine, SandboxLimits(), home) as desk:
                said = await desk.sh(script)
                await desk.sandboxes.quiet("one")
                stored = await here.store("one", number + 1)
    assert said.split()[:2] == ["one", "one"]
    assert "2020-09-13" in said
    assert "runner" in said, "the files are those of the commands' user"
    assert (stored.files, stored.bytes) == (4, 4)


@contextmanager
def two_versions(tmp_path: Path) -> Iterator[tuple[Path, dict[bytes, object], dict[bytes, object]]]:
    old, new = tmp_path / "old", tmp_path / "new"
    for folder, text in ((old, "old"), (new, "new")):
        (folder / "d").mkdir(parents=True)
        (folder / "d" / "a").write_text(text)
        (folder / text).write_text("x" * 3000)
        for path in (folder / "d" / "a", folder / text, folder / "d"):
            os.utime(path, ns=(OLD_NS, OLD_NS))
    yield tmp_path, seen(old), seen(new)


@pytest.mark.long
async def test_kill_9_at_every_step_leaves_the_former_workspace_or_the_new_one(tmp_path: Path) -> None:
    """In the store and in the folder; the next owner completes what was left."""
    with two_versions(tmp_path) as (_, old, new):
        words = [sys.executable, "-m", "tests.sandbox.killed_carrying", str(tmp_path)]
        done = await trio.run_process(words, capture_stdout=True, cwd=ROOT)
        told = [line.split() for line in done.stdout.decode().splitlines()]
        stored: list[bool] = []
        for number, what in told:
            place = tmp_path / f"{what}-{number}"
            async with open_journal(place / "state.db") as asked:
                if what == "store":
                    await carrier(asked, place / "next").fetch("cli", 2)
                    found = seen(place / "next" / "cli")
                    assert found in (old, new)
                    stored.append(found == new)
                else:
                    assert not (place / "one" / "cli").exists() or seen(place / "one" / "cli") in (old, new)
                    await carrier(asked, place / "one").fetch("cli", 3)
                    assert seen(place / "one" / "cli") == new
        assert stored == sorted(stored), "once it is stored, it stays"
        assert stored[-1]
        assert len(told) > 20
