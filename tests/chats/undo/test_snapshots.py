"""Snapshots of a workspace that others control: what they hold, their bounds, and their way back."""

import os
import stat
from pathlib import Path

import pytest

from rumi.chats.undo.restoring import Restoring
from rumi.chats.undo.snapshots import Snapshots, Unrestorable
from rumi.platform.config.schema import UndoSection
from rumi.platform.home import Home

BYTES = b"n\xff\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    workspace = tmp_path / "workspace" / "cli"
    workspace.mkdir(parents=True, mode=0o700)
    return workspace


def seen(folder: Path) -> dict[bytes, object]:
    """Everything below a folder, as a person would compare it."""
    found: dict[bytes, object] = {}
    for path in sorted(os.fsencode(entry) for entry in folder.rglob("*")):
        status = os.lstat(path)
        kind: object = stat.S_IFMT(status.st_mode)
        if stat.S_ISREG(status.st_mode):
            kind = Path(os.fsdecode(path)).read_bytes()
        elif stat.S_ISLNK(status.st_mode):
            kind = os.readlink(path)
        times = () if stat.S_ISLNK(status.st_mode) else (stat.S_IMODE(status.st_mode), status.st_mtime_ns)
        found[os.path.relpath(path, os.fsencode(folder))] = (kind, times)
    return found


def restore(tmp_path: Path, turn: str, snapshots: Snapshots | None = None) -> None:
    restoring = Restoring(snapshots or Snapshots(tmp_path))
    assert restoring.build("cli", turn) is not None
    restoring.commit("cli")


def test_a_hostile_workspace_is_restored_as_it_was(tmp_path: Path, files: Path) -> None:
    outside = tmp_path / "secret"
    outside.write_text("not theirs")
    (files / "d" / "e").mkdir(parents=True)
    (files / "d" / "e" / "x").write_text("deep")
    (files / "d" / "e").chmod(0o500)
    (files / "link").symlink_to(outside)
    (files / "folder").symlink_to(tmp_path)
    os.mkfifo(files / "pipe", 0o640)
    Path(os.fsdecode(os.fsencode(files) + b"/" + BYTES)).write_text("a name with bytes")
    with (files / "sparse").open("wb") as file:
        file.truncate(50_000_000)
    (files / "one").write_text("with two names")
    os.link(files / "one", files / "two")
    before = seen(files)
    Snapshots(tmp_path).take("cli", "t1", tainted=True)
    (files / "d" / "e").chmod(0o700)
    for path in (files / "d" / "e" / "x", files / "link", files / "pipe", files / "two"):
        path.unlink()
    (files / "one").write_text("another")
    (files / "new").write_text("new")
    restore(tmp_path, "t1")
    assert seen(files) == before
    assert outside.read_text() == "not theirs"
    assert (files / "one").stat().st_ino == (files / "two").stat().st_ino
    assert (files / "sparse").stat().st_blocks * 512 < 1_000_000


def test_what_is_written_in_place_does_not_change_a_snapshot(tmp_path: Path, files: Path) -> None:
    (files / "a").write_text("before")
    Snapshots(tmp_path).take("cli", "t1", tainted=False)
    with (files / "a").open("r+") as file:
        file.write("AFTER!")
    restore(tmp_path, "t1")
    assert (files / "a").read_text() == "before"


def test_a_file_is_copied_once_for_each_of_its_versions(tmp_path: Path, files: Path) -> None:
    for name in "abc":
        (files / name).write_text(name)
        os.utime(files / name, (1, 1))
    snapshots = Snapshots(tmp_path)
    snapshots.take("cli", "t1", tainted=False)
    settled = os.stat(files / "a").st_ctime_ns + 60_000_000
    while True:  # the change time of a file is the clock's: this waits for its next steps
        (files / "probe").touch()
        if (files / "probe").stat().st_ctime_ns > settled:
            break
    (files / "probe").unlink()
    snapshots.take("cli", "t2", tainted=False)  # the first one did not trust times as new as these
    (files / "b").write_text("B")
    snapshots.take("cli", "t3", tainted=False)
    objects = sorted(entry.name for entry in (tmp_path / "undo" / "cli" / "objects").iterdir())
    assert [name for name in objects if name.startswith("t3")] == ["t3-1"]
    restore(tmp_path, "t3", snapshots)
    assert (files / "b").read_text() == "B"
    restore(tmp_path, "t1", snapshots)
    assert [(files / name).read_text() for name in "abc"] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("limits", "cause"), [(UndoSection(max_mb=1), "bytes"), (UndoSection(max_files=2), "files")]
)
def test_what_is_too_much_cannot_be_restored_and_says_why(
    tmp_path: Path, files: Path, limits: UndoSection, cause: str
) -> None:
    for name in "abc":
        (files / name).write_bytes(b"x" * 500_000)
    snapshots = Snapshots(tmp_path, limits)
    snapshots.take("cli", "t1", tainted=False)
    with pytest.raises(Unrestorable) as caught:
        snapshots.of("cli", "t1")
    assert caught.value.cause == cause
    assert not list((tmp_path / "undo" / "cli" / "objects").iterdir())


def test_the_snapshots_of_the_last_turns_are_kept_and_no_more(tmp_path: Path, files: Path) -> None:
    snapshots = Snapshots(tmp_path, UndoSection(turns=2))
    for number in range(1, 5):
        (files / "a").write_text(str(number))
        snapshots.take("cli", f"t{number}", tainted=False)
    assert snapshots.of("cli", "t2") is None
    place = tmp_path / "undo" / "cli"
    assert [entry.name for entry in sorted(place.glob("*.json"))] == ["00000003-t3.json", "00000004-t4.json"]
    assert len(list((place / "objects").iterdir())) == 2
    snapshots.forget("cli")
    assert not place.exists()


def test_a_snapshot_that_lost_its_content_changes_nothing(tmp_path: Path, files: Path) -> None:
    (files / "a").write_text("before")
    Snapshots(tmp_path).take("cli", "t1", tainted=False)
    (files / "a").write_text("after")
    for entry in (tmp_path / "undo" / "cli" / "objects").iterdir():
        entry.write_text("")
    with pytest.raises(Unrestorable) as caught:
        Restoring(Snapshots(tmp_path)).build("cli", "t1")
    assert caught.value.cause == "lost"
    assert (files / "a").read_text() == "after"


def test_a_set_id_bit_does_not_come_back(tmp_path: Path, files: Path) -> None:
    (files / "a").write_text("x")
    (files / "a").chmod(0o6755)
    Snapshots(tmp_path).take("cli", "t1", tainted=False)
    (files / "a").unlink()
    restore(tmp_path, "t1")
    assert stat.S_IMODE((files / "a").stat().st_mode) == 0o755


def test_a_workspace_that_was_not_there_is_not_there_again(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    Snapshots(tmp_path).take("cli", "t1", tainted=False)
    (tmp_path / "workspace" / "cli").mkdir()
    restore(tmp_path, "t1")
    assert not (tmp_path / "workspace" / "cli").exists()


def test_files_in_a_folder_of_their_own_are_restored_there(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", tmp_path / "files")
    files = home.workspaces / "cli"
    files.mkdir(parents=True)
    (files / "a").write_text("before")
    snapshots = Snapshots(home)
    snapshots.take("cli", "t1", tainted=False)
    (files / "a").write_text("after")
    restoring = Restoring(snapshots)
    assert restoring.build("cli", "t1") is not None
    restoring.commit("cli")
    assert (files / "a").read_text() == "before"
    assert not home.root.exists()
