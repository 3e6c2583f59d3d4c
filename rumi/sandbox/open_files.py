"""Files that have no name any more and still take space: a process holds them open."""

import contextlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, runtime_checkable

BLOCK_BYTES = 512  # of st_blocks, whatever the file system's own blocks are


@runtime_checkable
class ShowsProcesses(Protocol):
    """A box whose processes this machine can see."""

    def processes(self) -> list[int]:
        """The pids on this machine of all that runs in the box; empty where they are out of sight.

        Called from a worker thread; it may block for some milliseconds.
        """
        ...


def nameless_bytes(processes: Iterable[int], folder: Path) -> int:
    """What the open files without a name take that lie on the folder's file system, each counted once.

    `open, unlink, write` would otherwise fill the disk unseen by whoever measures folders. Processes that
    may not be looked at, and those that end meanwhile, count nothing. Blocking for some milliseconds.
    """
    found: dict[int, int] = {}
    device = folder.stat().st_dev
    for process in processes:
        with contextlib.suppress(OSError), os.scandir(f"/proc/{process}/fd") as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    status = os.stat(entry.path)
                    if status.st_nlink == 0 and status.st_dev == device and stat.S_ISREG(status.st_mode):
                        found[status.st_ino] = status.st_blocks * BLOCK_BYTES
    return sum(found.values())
