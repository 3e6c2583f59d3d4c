"""The use of a workspace, and its consequences for the next command."""

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
"""How many files a command that frees space may itself make meanwhile."""

_FREEING = (
    "rm rmdir ls du df find stat wc cat head tail sort grep pwd basename dirname realpath echo test [ true"
    " [[ : cd printf read false"
)
FREEING = frozenset(_FREEING.split())
"""The programs that may run while the workspace is over its limit: they free space, or help to find it.
Those that still write (`find -exec`) are watched like any other command.
"""


class Use(Protocol):
    """The use of a workspace."""

    @property
    def bytes(self) -> int:
        """Bytes on the disk."""
        ...

    @property
    def files(self) -> int:
        """Entries of any kind, and files without a name."""
        ...

    @property
    def hidden(self) -> bool:
        """True if it may take more space than could be counted."""
        ...


Processes: TypeAlias = Callable[[], Sequence[int]]
Measure: TypeAlias = Callable[[Path, Processes], Awaitable[Use]]
"""Measures a folder, and the nameless files that the processes hold open in it."""


def nobody() -> Sequence[int]:
    """Return no processes, for a container that does not show them."""
    return ()


def over_limits(use: Use, limits: SandboxLimits, needed_bytes: int = 0) -> bool:
    """Return True if a workspace exceeds its limits, or would with another file of `room` bytes."""
    return (
        use.bytes + needed_bytes > limits.workspace_bytes
        or use.files + (needed_bytes > 0) > limits.workspace_files
    )


def only_frees(argv: Sequence[str]) -> bool:
    """Return True if a command may run while its workspace is over the limit.

    A line for bash may run if all its programs may, and it writes only empty files (`true > FILE`).
    """
    if (read := read_of(argv)) is None:
        return argv[0] in FREEING
    if any(base_name(start.name) not in FREEING and not start.wraps for start in read.starts):
        return False
    return all(
        redirection.program in ("", ":", "true") for redirection in read.redirections if writes(redirection)
    )


def limits_for_freeing(limits: SandboxLimits, before: Use) -> SandboxLimits:
    """Return the limits for a command that frees space: the present use, and a little to work with."""
    return replace(
        limits,
        workspace_bytes=max(limits.workspace_bytes, before.bytes) + GROWTH_BYTES,
        workspace_files=max(limits.workspace_files, before.files) + GROWTH_FILES,
    )


ROUNDS = 20
"""How often newly started processes are looked for."""


def signal_all(processes: Processes, number: signal.Signals) -> bool:
    """Send a signal to every process of a container, including those that are started meanwhile.

    Return False if new ones kept coming. This proves nothing: a container's `kill_all` does. Blocking, for
    some milliseconds.
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
            # A process that ended before its handle was opened may have left its number to a stranger, who is
            # not in the container: only what is still listed gets the signal, by its handle.
            for pid in set(processes()) & handles.keys():
                with contextlib.suppress(OSError):
                    signal.pidfd_send_signal(handles[pid], number)
        done |= new
    return False
