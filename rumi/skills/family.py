"""Ending the processes that a skill has started, also those that have left its group or their parents."""

import ctypes
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

_PR_SET_CHILD_SUBREAPER: Final = 36
MOST_S: Final = 2.0
PAUSE_S: Final = 0.005


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own, so that all of them are found."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_descendants(pid: int) -> None:
    """Kill what descends from a process, until nothing does; for `MOST_S` at the most. Blocks."""
    begun = time.monotonic()
    while kill_descendants(pid) and time.monotonic() < begun + MOST_S:
        time.sleep(PAUSE_S)


def kill_descendants(pid: int) -> bool:
    """Kill what descends from a process now; whether there was anything."""
    found = descendants(pid)
    for each in found:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(each, signal.SIGKILL)
    return bool(found)


def descendants(pid: int) -> list[int]:
    """What descends from a process and is no zombie."""
    children: dict[int, list[int]] = {}
    dead: set[int] = set()
    for number in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with suppress(OSError):
            stat = Path(f"/proc/{number}/stat").read_text("utf-8", "replace")
            state, parent = stat.rpartition(")")[2].split()[:2]
            children.setdefault(int(parent), []).append(number)
            if state in "ZX":
                dead.add(number)
    found, waiting = [], [pid]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            waiting.append(child)
            if child not in dead:
                found.append(child)
    return found
