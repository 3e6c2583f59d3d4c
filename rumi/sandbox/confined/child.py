"""The child's side of a confined process: it ends with its parent and has limited resources.

`rumi.sandbox.confined.parent` is the other side, which starts it. This module imports only the standard
library, so that a child that needs nothing else starts quickly.
"""

import ctypes
import fcntl
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

LENGTH_BYTES: Final = 4
_PR_SET_CHILD_SUBREAPER: Final = 36
_END_DESCENDANTS_S: Final = 2.0
PAUSE_S: Final = 0.005


def framed(content: bytes) -> bytes:
    """Return a frame for the pipe between parent and child: the length in four bytes, then the content."""
    return len(content).to_bytes(LENGTH_BYTES, "big") + content


def framed_json(what: object) -> bytes:
    """Encode a value as JSON and return it as a frame."""
    return framed(json.dumps(what).encode())


class ParentProcess:
    """The connection to the parent process, over standard input and output. Reading frames blocks.

    Create it before anything else: it makes this process end with its parent, permanently sets the limits
    `bounds` (keys: `RLIMIT_…`), and hides both pipes from other code, whose output then goes to standard
    error. With `family`, this process may start other processes, which end with it. The command line's
    argument is the read end of a pipe; when the parent's end is closed, the kernel ends this process.
    """

    def __init__(self, bounds: Mapping[int, int], *, nice: int = 0, family: bool = False) -> None:
        _live_as_long_as(int(sys.argv[1]), whole_group=family)
        if family:
            become_reaper()
        os.nice(nice)
        for kind, bound in {resource.RLIMIT_CORE: 0, **bounds}.items():
            _, hard = resource.getrlimit(kind)
            most = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
            resource.setrlimit(kind, (most, most))  # the hard limit too, so that no code can raise it again
        self.requests, self.answers = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)

    def ready(self) -> None:
        """Report to the parent that this process accepts requests."""
        self.send({})

    def send(self, what: object) -> None:
        """Send a frame of JSON to the parent."""
        frame = memoryview(framed_json(what))
        while frame:
            frame = frame[os.write(self.answers, frame) :]

    def hear(self) -> Any:
        """Return the next frame, decoded from JSON; exit this process at the end of the input."""
        return json.loads(self.receive())

    def receive(self) -> bytes:
        """Return the next frame; exit this process at the end of the input."""
        return self._exactly(int.from_bytes(self._exactly(LENGTH_BYTES), "big"))

    def _exactly(self, size: int) -> bytes:
        got = bytearray()
        while len(got) < size:
            more = os.read(self.requests, min(size - len(got), 1 << 18))
            if not more:
                os._exit(0)
            got += more
        return bytes(got)


def _live_as_long_as(life: int, *, whole_group: bool) -> None:
    """Make this process, or its whole group, end when the other end of the pipe `life` is closed."""
    fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp() if whole_group else os.getpid())
    # SIGIO ends a process by default, which needs no Python code.
    fcntl.fcntl(life, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    # The parent may have ended before O_ASYNC was set, and then no signal comes.
    if select.select([life], [], [], 0)[0]:
        sys.exit(0)


def become_reaper() -> None:
    """Make orphaned descendants children of this process, so that all of them can be found."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_descendants() -> None:
    """Kill all descendants of this process. Blocks for at most `_END_DESCENDANTS_S`."""
    begun = time.monotonic()
    while kill_descendants(os.getpid()) and time.monotonic() < begun + _END_DESCENDANTS_S:
        time.sleep(PAUSE_S)


def kill_descendants(pid: int) -> bool:
    """Kill a process's descendants, even outside of its process group; return True if there were any."""
    table = processes()
    children: dict[int, list[int]] = {}
    for child_pid, (_, parent, _) in table.items():
        children.setdefault(parent, []).append(child_pid)
    found, waiting = False, [pid]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            waiting.append(child)
            if table[child][0] not in "ZX":
                found = True
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(child, signal.SIGKILL)
    return found


def processes() -> dict[int, tuple[str, int, int]]:
    """Return the state, parent and process group of every process of this machine, by pid."""
    table = {}
    for number in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            stat = Path(f"/proc/{number}/stat").read_text("utf-8", "replace")
            state, parent, group = stat.rpartition(")")[2].split()[:3]
            table[int(number)] = (state, int(parent), int(group))
    return table
