"""The disk use of a workspace, and the limits on the next command that follow from the disk use."""

import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeAlias

from rumi.sandbox.engine import SandboxLimits
from rumi.sandbox.policy import read_of, writes
from rumi.sandbox.starters import base_name

GROWTH_BYTES = 1024 * 1024
GROWTH_FILES = 64
"""The growth in bytes and files that a command may need in order to free space."""

_FREEING = (
    "rm rmdir ls du df find stat wc cat head tail sort grep pwd basename dirname realpath echo test [ true"
    " [[ : cd printf read false"
)
FREEING = frozenset(_FREEING.split())
"""Programs that may run while the workspace exceeds its limit, because they free space or help to find what
to delete. The watch also stops these commands if they write (`find -exec`).
"""


class Use(Protocol):
    """A measurement of a workspace."""

    @property
    def bytes(self) -> int:
        """Return the disk space that the workspace uses, in bytes."""
        ...

    @property
    def files(self) -> int:
        """Return the number of entries of any kind, plus files that were deleted but are still open."""
        ...

    @property
    def hidden(self) -> bool:
        """Return True if the workspace may use more space than could be counted."""
        ...


Processes: TypeAlias = Callable[[], Sequence[int]]
Measure: TypeAlias = Callable[[Path, Processes], Awaitable[Use]]
"""A function that measures a folder, and the files without a name that the processes hold open in it."""


def nobody() -> Sequence[int]:
    """Return no pids; used for a container whose processes are not visible on this machine."""
    return ()


def over_limits(use: Use, limits: SandboxLimits, needed_bytes: int = 0) -> bool:
    """Return True if a workspace exceeds its limits, or would with one more file of `needed_bytes`."""
    return (
        use.bytes + needed_bytes > limits.workspace_bytes
        or use.files + (needed_bytes > 0) > limits.workspace_files
    )


def only_frees(argv: Sequence[str]) -> bool:
    """Return True if a command only frees space, so that it may run in a workspace over its limits.

    A shell line may run if all its programs may, and if it writes only empty files (`true > FILE`).
    """
    if (read := read_of(argv)) is None:
        return argv[0] in FREEING
    if any(base_name(start.name) not in FREEING and not start.wraps for start in read.starts):
        return False
    return all(
        redirection.program in ("", ":", "true") for redirection in read.redirections if writes(redirection)
    )


def limits_for_freeing(limits: SandboxLimits, before: Use) -> SandboxLimits:
    """Return the limits for a command that frees space: at least the current use, plus a small growth."""
    return replace(
        limits,
        workspace_bytes=max(limits.workspace_bytes, before.bytes) + GROWTH_BYTES,
        workspace_files=max(limits.workspace_files, before.files) + GROWTH_FILES,
    )


ROUNDS = 20
"""Maximum number of searches for newly started processes."""


def signal_all(processes: Processes, number: signal.Signals) -> bool:
    """Send a signal to every process of a container, including those that start while it is sent.

    Return False if new processes kept appearing. True does not prove that every process got the signal;
    only a container's `kill_all` proves that none is left. Blocks for some milliseconds.
    """
    done = set[int]()
    for _ in range(ROUNDS):
        new = set(processes()) - done
        if not new:
            return True
        with contextlib.ExitStack() as opened:
            handles = dict[int, int]()
            for pid in new:
                with contextlib.suppress(OSError):  # it has ended
                    handles[pid] = os.pidfd_open(pid)
                    opened.callback(os.close, handles[pid])
            # A process may have ended before its pidfd was opened, and a process outside of the container may
            # have its pid by now. So only pids that are still listed get the signal, through their pidfd.
            for pid in set(processes()) & handles.keys():
                with contextlib.suppress(OSError):
                    signal.pidfd_send_signal(handles[pid], number)
        done |= new
    return False
