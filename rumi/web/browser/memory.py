"""The memory of a browser's processes."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rumi.sandbox.confined.child import processes

_PAGE_BYTES: Final = os.sysconf("SC_PAGESIZE")


def memory_below(pid: int) -> int:
    """Return the memory of a process's descendants that is not shared with others, in bytes."""
    return sum(map(_own_memory, _descendants(pid)))


def _descendants(pid: int) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for one, (_, parent, _) in processes().items():
        children.setdefault(parent, []).append(one)
    waiting = [pid]
    while waiting:
        found = children.get(waiting.pop(), [])
        yield from found
        waiting += found


def _own_memory(pid: int) -> int:
    try:
        _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * _PAGE_BYTES
