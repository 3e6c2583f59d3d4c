"""Files that have no name any more and still take space: a process holds them open, or has them mapped."""

import contextlib
import os
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

BLOCK_BYTES = 512  # of st_blocks, whatever the file system's own blocks are
LOOK_S = 0.5
"""How long a look may take; a command that has more open than that is said to hide some of it."""
CHUNK_BYTES = 1 << 20

_MAPPED = re.compile(
    rb"^([0-9a-f]+)-([0-9a-f]+) \S+ [0-9a-f]+ ([0-9a-f]+:[0-9a-f]+) ([0-9]+) [^\n]* \(deleted\)$",
    re.MULTILINE,
)
"""A line of /proc/PID/maps about a file that was deleted: from, to, device, inode."""


@runtime_checkable
class ShowsProcesses(Protocol):
    """A box whose processes this machine can see."""

    def processes(self) -> list[int]:
        """The pids on this machine of all that runs in the box; empty where they are out of sight.

        What keeps the box itself alive is not among them. Called from a worker thread; it may block for
        some milliseconds.
        """
        ...


@dataclass(frozen=True, slots=True)
class Nameless:
    """What files without a name take, each counted once.

    `hidden`: there may be more, in processes that may not be looked into, in mappings of which only root
    learns the size, or beyond the time that a look has.
    """

    bytes: int
    files: int
    hidden: bool


def nameless(processes: Iterable[int], folder: Path) -> Nameless:
    """Count the nameless files of the folder's file system that the processes hold.

    `open, unlink, write` would otherwise fill the disk unseen by a count of folders. Looks at each thread: it
    may have open files of its own, and outlive its process's first one. Processes that end meanwhile count
    nothing. Blocking, for `LOOK_S` at most.
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
        base = f"/proc/{task}"  # also of a thread: not listed there, and found all the same
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
        except PermissionError:  # following it is root's alone
            self.hidden = True


def _runs(base: str) -> bool:
    """Whether a process is there and not a zombie, of which no more can be seen and which holds nothing."""
    try:
        with open(f"{base}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (OSError, IndexError):
        return False


def _device_in_maps(folder: Path) -> bytes:
    """The file system's device as /proc/PID/maps has it, which for some (btrfs) is another than stat's."""
    opened = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with open(f"/proc/self/fdinfo/{opened}") as file:
            mount = next(line.split()[1] for line in file if line.startswith("mnt_id:"))
        with open("/proc/self/mountinfo") as file:
            numbers = next(words[2] for words in map(str.split, file) if words[0] == mount)
        major, minor = map(int, numbers.split(":"))
    except (OSError, StopIteration, ValueError, IndexError):
        device = os.fstat(opened).st_dev
        major, minor = os.major(device), os.minor(device)
    finally:
        os.close(opened)
    return b"%02x:%02x" % (major, minor)
