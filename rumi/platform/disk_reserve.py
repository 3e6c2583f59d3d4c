"""The disk reserve: a file in the home. When the disk is full, it is deleted so that running work can finish.

The file occupies its full size on the disk. After the file was deleted, it is created again as soon as twice
its size is free. All functions block.
"""

import contextlib
import os
import shlex
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rumi.platform.openat import opened

MOST_BYTES = 16_000_000
LEAST_BYTES = 64_000
SHARE = 32
"""The reserve takes 1/`SHARE` of the disk, but at least `LEAST_BYTES` and at most `MOST_BYTES`."""

WORTH_BYTES = 500_000
"""Minimum size of a file that is suggested for deletion, in bytes: deleting a smaller one does not help."""

LOOK_S = 2.0
"""Time limit of the search for large files, in seconds."""


class Reserve:
    """The reserve file at `path`. Its methods never raise `OSError`, even if the disk cannot be written."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def size(self) -> int:
        """The size that the reserve should have on this disk, in bytes."""
        total = 0
        with contextlib.suppress(OSError):
            found = os.statvfs(self.path.parent)
            total = found.f_blocks * found.f_frsize
        return min(MOST_BYTES, max(LEAST_BYTES, total // SHARE))

    @property
    def wanted(self) -> int:
        """The number of bytes that must be free before the reserve is created."""
        # Twice its size: with less, creating the reserve would fill the disk again.
        return 2 * self.size

    def give_back(self) -> bool:
        """Delete the reserve file. Return True if this has freed disk space."""
        try:
            found = self.path.lstat()
            freed = found.st_blocks > 0
            try:
                self.path.unlink()
            except OSError:  # some file systems need space to delete, and less to truncate
                if not stat.S_ISREG(found.st_mode):
                    raise
                os.truncate(self.path, 0)
        except OSError:
            return False
        return freed

    def make(self) -> bool:
        """Create the reserve if it does not exist. Return False if this was not possible."""
        draft = self.path.with_name(f".{self.path.name}")
        try:
            size = self.size
            with contextlib.suppress(FileNotFoundError):
                found = self.path.lstat()
                if stat.S_ISREG(found.st_mode) and found.st_blocks * 512 >= size:
                    return True
            if free_bytes(self.path.parent) < self.wanted:
                return False
            allocate(draft, size)
            draft.replace(self.path)
        except OSError:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
            return False
        return True


def allocate(path: Path, size: int) -> None:
    """Create a file of `size` bytes, replacing an existing one, and allocate its blocks on the disk.

    Raises:
        OSError: The disk has too little space, or cannot be written.
    """
    path.unlink(missing_ok=True)
    with opened(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)) as handle:
        # Not `truncate`: a sparse file would reserve no blocks.
        os.posix_fallocate(handle, 0, size)


def free_bytes(folder: Path) -> int:
    """Return the number of bytes that an unprivileged user can still write to the folder's disk."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


@dataclass(frozen=True, slots=True)
class Large:
    """A large file or folder in the home, and a shell command that frees its space."""

    path: Path
    bytes: int
    command: str


def largest(home: Path, most: int = 3) -> list[Large]:
    """Return the largest deletable files and folders of the home: chats' files, clones, old logs, copies.

    Links are not followed. The search stops after `LOOK_S` seconds; if it was not complete by then, sizes may
    be too small.
    """
    deadline = time.monotonic() + LOOK_S
    found: list[Large] = []
    for folder in (*_folders(home / "workspace"), *_folders(home / "cache")):
        command = f"find {shlex.quote(str(folder))} -mindepth 1 -delete"
        found.append(Large(folder, sum(_entries(folder, deadline)), command))
    for folder, pattern in ((home / "logs", "*.jsonl.*"), (home, "*.before-*"), (home, "*.damaged*")):
        files = sorted(folder.glob(pattern))
        if files:
            used = sum(_blocks(path) for path in files)
            command = f"rm {' '.join(shlex.quote(str(path)) for path in files)}"
            found.append(Large(files[0] if len(files) == 1 else folder / pattern, used, command))
    return sorted(
        (candidate for candidate in found if candidate.bytes >= WORTH_BYTES),
        key=lambda candidate: -candidate.bytes,
    )[:most]


def _folders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _blocks(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.lstat().st_blocks * 512
    return 0


def _entries(folder: Path, deadline: float) -> Iterator[int]:
    """Yield the bytes that each file below the folder occupies on the disk; stop at the deadline."""
    folders = [os.fspath(folder)]
    while folders and time.monotonic() < deadline:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        yield entry.stat(follow_symlinks=False).st_blocks * 512
        except OSError:
            continue
