"""Tests for the properties that Rumi requires of a folder for workspaces, possibly on a network disk.

The tests block, for at most a second if the disk answers, and remove the files that they create.
"""

import errno
import fcntl
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rumi.platform.atomic_write import fsync_path
from rumi.platform.openat import opened
from rumi.sandbox.disk import free_on
from rumi.texts import Text, os_error

LOCK_S: Final = 10.0
REPLACE_ROUNDS: Final = 40
"""Number of replacements of a file while another thread reads it."""

_TRY_LOCKS: Final = """
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
for lock in (fcntl.flock, fcntl.lockf):
    try:
        lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("free", end=" ")
    except BlockingIOError:
        print("taken", end=" ")
    except OSError:
        print("none", end=" ")
"""


@dataclass(frozen=True, slots=True)
class Fault:
    """A property that a folder lacks, and how to fix it."""

    found: str
    fix: str


def faults(folder: Path, user: tuple[int, int], reserve_bytes: int | None = None) -> list[Fault]:
    """Return the properties that a folder for chat files lacks. `user` is the uid and gid of commands."""
    try:
        status = os.lstat(folder)
    except OSError as error:
        return [
            Fault(
                Text("{folder} is not there: {reason}.", folder=folder, reason=os_error(error)),
                Text("Make it, or mount the disk that has it."),
            )
        ]
    if not stat.S_ISDIR(status.st_mode):
        return [
            Fault(
                f"{folder} is not a folder.",
                Text("Name the folder itself in [store] workspaces, not a link."),
            )
        ]
    if status.st_uid != os.geteuid():
        found = Text(
            "{folder} belongs to user {owner}, and this is user {user}.",
            folder=folder,
            owner=status.st_uid,
            user=os.geteuid(),
        )
        return [Fault(found, Text("As root: chown {user} {folder}", user=os.geteuid(), folder=folder))]
    if status.st_mode & 0o077:
        found = Text(
            "{folder} is open to other users (mode {st_mode}).",
            folder=folder,
            st_mode=f"{stat.S_IMODE(status.st_mode):o}",
        )
        return [Fault(found, f"chmod 700 {folder}")]
    try:
        probe = Path(tempfile.mkdtemp(prefix=".probe-", dir=folder))
    except OSError as error:
        return [
            Fault(
                Text("{folder} cannot be written: {reason}.", folder=folder, reason=os_error(error)),
                Text("Mount its disk for writing."),
            )
        ]
    try:
        return list(_faults(folder, probe, user, reserve_bytes))
    finally:
        shutil.rmtree(probe, ignore_errors=True)


def _faults(folder: Path, probe: Path, user: tuple[int, int], reserve_bytes: int | None) -> Iterator[Fault]:
    tests: tuple[tuple[Callable[[Path], bool], str, str], ...] = (
        (
            _syncs,
            "cannot write a file to the disk so that it stays (fsync).",
            Text("Mount it with another file system."),
        ),
        (
            _replaces,
            "does not replace a file in one step (rename).",
            Text("Mount it with a file system that renames as a local disk does, such as NFS or CephFS."),
        ),
        (
            _keeps_modes,
            "does not keep the mode of a file.",
            Text("Mount it with a file system of Unix, without options that set all modes."),
        ),
        (
            _keeps_names,
            "does not keep symbolic links, or names that are not UTF-8.",
            Text("Mount it with a file system of Unix, without options that translate links or names."),
        ),
        (
            lambda place: _keeps_owners(place, user),
            "does not keep the owner of a file.",
            Text("Export it without root_squash, or run Rumi as an ordinary user."),
        ),
        (
            _locks,
            "does not keep two processes from taking the same lock (flock, fcntl).",
            Text("Mount it with locks: NFS without nolock and local_lock."),
        ),
    )
    for test, what, fix in tests:
        try:
            works = test(probe)
        except (OSError, subprocess.SubprocessError):
            works = False
        if not works:
            yield Fault(f"The file system of {folder} {what}", fix)
    if free_on(folder, reserve_bytes).low:
        yield Fault(
            Text("The disk of {folder} has no more than its reserve free.", folder=folder),
            Text("Make room on it."),
        )


def _syncs(folder: Path) -> bool:
    path = folder / "synced"
    with opened(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)) as file:
        os.write(file, b"content")
        os.fsync(file)
    fsync_path(folder)
    return path.read_bytes() == b"content"


def _replaces(folder: Path) -> bool:
    """Return True if a reader always sees a complete file while the file is repeatedly replaced."""
    path, drafts = folder / "replaced", (folder / "one", folder / "two")
    path.write_bytes(b"first")
    missed: list[object] = []
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            try:
                if path.read_bytes() not in (b"first", b"other"):
                    missed.append("a part")
            except OSError as error:
                if error.errno != errno.ESTALE:  # NFS reports it when another machine has replaced the file
                    missed.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(REPLACE_ROUNDS):
            draft = drafts[number % 2]
            draft.write_bytes(b"other")
            os.replace(draft, path)
    finally:
        over.set()
        reader.join()
    return not missed and not drafts[0].exists() and path.read_bytes() == b"other"


def _keeps_modes(folder: Path) -> bool:
    path = folder / "mode"
    path.touch()
    for mode in (0o751, 0o640, 0o500):
        path.chmod(mode)
        if stat.S_IMODE(path.stat().st_mode) != mode:
            return False
    return True


def _keeps_names(folder: Path) -> bool:
    link, target = folder / "link", os.fsdecode(b"nowhere\xff")
    os.symlink(target, link)
    named = folder / os.fsdecode(b"name\xff")
    named.touch()
    return os.readlink(link) == target and named.name in os.listdir(folder)


def _keeps_owners(folder: Path, user: tuple[int, int]) -> bool:
    path = folder / "owner"
    path.touch()
    if os.geteuid() != 0:
        return path.stat().st_uid == os.geteuid()
    os.chown(path, *user)
    return (path.stat().st_uid, path.stat().st_gid) == user


def _locks(folder: Path) -> bool:
    path = folder / "locked"
    path.touch()
    with opened(os.open(path, os.O_RDWR | os.O_CLOEXEC)) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        fcntl.lockf(file, fcntl.LOCK_EX)
        taken = _seen_by_another(path)
        fcntl.lockf(file, fcntl.LOCK_UN)
        fcntl.flock(file, fcntl.LOCK_UN)
        return taken == ["taken", "taken"] and _seen_by_another(path) == ["free", "free"]


def _seen_by_another(path: Path) -> list[str]:
    """Return the state of each lock on the file, as seen by another process."""
    words = [sys.executable, "-I", "-S", "-c", _TRY_LOCKS, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=LOCK_S)
    return done.stdout.split()
