"""Detection of deleted files that still use disk space, because a process has them open or mapped."""

import contextlib
import os
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from rumi.platform.openat import opened
from rumi.sandbox.workspace import BLOCK_BYTES

LOOK_S = 0.5
"""Time limit of a scan in seconds; a command whose open files take longer counts as hiding some."""
CHUNK_BYTES = 1 << 20

_MAPPED = re.compile(
    rb"^([0-9a-f]+)-([0-9a-f]+) \S+ [0-9a-f]+ ([0-9a-f]+:[0-9a-f]+) ([0-9]+) [^\n]* \(deleted\)$",
    re.MULTILINE,
)
"""Matches a line of /proc/PID/maps for a deleted file; the groups are start, end, device and inode."""


@runtime_checkable
class ShowsProcesses(Protocol):
    """Protocol of containers whose processes are visible on this machine."""

    def processes(self) -> list[int]:
        """Return the pids on this machine of all processes in the container; empty if they are not visible.

        The processes that keep the container itself alive are left out. May block for some milliseconds, and
        is called from a worker thread.
        """
        ...


@dataclass(frozen=True, slots=True)
class Nameless:
    """The disk use of files without a name (deleted but still open), each counted once.

    `hidden` is True if there may be more such files: a process could not be inspected, the size of a mapping
    could not be read without root, or the time limit was exceeded.
    """

    bytes: int
    files: int
    hidden: bool


def nameless(processes: Iterable[int], folder: Path) -> Nameless:
    """Count the files without a name, on the folder's file system, that the processes hold open.

    Without this count, a command could fill the disk by `open, unlink, write`, because a deleted file is in
    no folder. Every thread is checked, because a thread may have its own open files and outlive the main
    thread of its process. Processes that end during the count are skipped. Blocks for at most `LOOK_S`.
    """
    look = _Look(folder)
    for process in processes:
        with contextlib.suppress(OSError):  # it has ended
            for task in os.listdir(f"/proc/{process}/task"):
                if time.monotonic() > look.until:
                    return Nameless(sum(look.found.values()), len(look.found), hidden=True)
                look.into(task)
    return Nameless(sum(look.found.values()), len(look.found), look.hidden)


class _Look:
    def __init__(self, folder: Path) -> None:
        self.until = time.monotonic() + LOOK_S
        self.found: dict[int, int] = {}
        self.hidden = False
        self._device = folder.stat().st_dev
        self._mapped_device = _device_in_maps(folder)

    def into(self, task: str) -> None:
        base = f"/proc/{task}"  # works for a thread's id too, although /proc does not list it
        try:
            for name in ("exe", "cwd"):
                self._count(f"{base}/{name}")
            with os.scandir(f"{base}/fd") as entries:
                for entry in entries:
                    self._count(entry.path)
            self._maps(base)
        except PermissionError:
            self.hidden = self.hidden or _runs(base)
        except OSError:
            return  # it has ended

    def _count(self, path: str) -> None:
        try:
            status = os.stat(path)
        except PermissionError:
            raise
        except OSError:
            return
        if status.st_nlink == 0 and status.st_dev == self._device:
            self.found[status.st_ino] = status.st_blocks * BLOCK_BYTES

    def _maps(self, base: str) -> None:
        rest = b""
        with open(f"{base}/maps", "rb", buffering=0) as file:
            while chunk := file.read(CHUNK_BYTES):
                lines, _, rest = (rest + chunk).rpartition(b"\n")
                for found in _MAPPED.finditer(lines):
                    first, last, device, inode = found.groups()
                    if device == self._mapped_device and int(inode) not in self.found:
                        self._mapping(base, int(first, 16), int(last, 16))
                if time.monotonic() > self.until:
                    self.hidden = True
                    return

    def _mapping(self, base: str, first: int, last: int) -> None:
        try:
            self._count(f"{base}/map_files/{first:x}-{last:x}")
        except PermissionError:  # only root may follow it
            self.hidden = True


def _runs(base: str) -> bool:
    """Return True if a process exists and is not a zombie, which can't be inspected but holds no files."""
    try:
        with open(f"{base}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (OSError, IndexError):
        return False


def _device_in_maps(folder: Path) -> bytes:
    """Return the file system's device as /proc/PID/maps shows it; on btrfs it differs from stat's."""
    with opened(os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as descriptor:
        try:
            with open(f"/proc/self/fdinfo/{descriptor}") as file:
                mount = next(line.split()[1] for line in file if line.startswith("mnt_id:"))
            with open("/proc/self/mountinfo") as file:
                numbers = next(words[2] for words in map(str.split, file) if words[0] == mount)
            major, minor = map(int, numbers.split(":"))
        except (OSError, StopIteration, ValueError, IndexError):
            device = os.fstat(descriptor).st_dev
            major, minor = os.major(device), os.minor(device)
    return b"%02x:%02x" % (major, minor)
