"""Functions that query processes through /proc. They block briefly."""

import contextlib
import os
import platform
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")


def descendants(ancestor: int) -> list[int]:
    """Return the pids of a process's descendants. This reads all processes of the machine."""
    parents: dict[int, int] = {}
    for pid in pids():
        with contextlib.suppress(OSError, ValueError, IndexError):
            status = (PROC / str(pid) / "stat").read_bytes()
            parents[pid] = int(status.rpartition(b")")[2].split()[1])
    found, generation = list[int](), {ancestor}
    while generation := {pid for pid, parent in parents.items() if parent in generation}:
        found.extend(generation)
    return found


def descendants_at_a_glance(ancestor: int) -> list[int]:
    """Return a process's descendants from the kernel's lists of children, for frequent calls.

    The cost depends on the number of descendants, not of all processes of the machine. While one descendant
    ends, another one may be missing from the result.
    """
    found, unseen = list[int](), [ancestor]
    while unseen:
        parent = unseen.pop()
        try:
            threads = os.listdir(PROC / str(parent) / "task")
        except OSError:  # it has ended
            continue
        for thread in threads:
            try:
                listed = (PROC / str(parent) / "task" / thread / "children").read_bytes()
            except FileNotFoundError:
                if parent == ancestor and (PROC / str(ancestor) / "task" / thread).exists():
                    return descendants(ancestor)  # a kernel without these lists
                continue
            except OSError:
                continue
            children = [int(pid) for pid in listed.split()]
            found += children
            unseen += children
    return found


def processes_holding(pipe: int) -> list[int]:
    """Return the pids of the processes, among those we may inspect, that have an end of the pipe open."""
    wanted = os.readlink(f"/proc/self/fd/{pipe}")
    found = []
    for pid in pids():
        with contextlib.suppress(OSError):
            folder = PROC / str(pid) / "fd"
            if any(os.readlink(folder / name) == wanted for name in os.listdir(folder)):
                found.append(pid)
    return found


def named(suffix: str) -> list[int]:
    """Return the pids of sandbox processes and keepers whose name ends with `suffix`."""
    found, ending = [], suffix.encode()
    for pid in pids():
        with contextlib.suppress(OSError):
            first, *others = (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
            keeper = any(word.startswith(b"name=rumi-runner-") and word.endswith(ending) for word in others)
            if keeper or first.endswith(ending):
                found.append(pid)
    return found


def counts_by_namespace() -> bool:
    """Return True if RLIMIT_NPROC counts in a user namespace instead of on the whole machine (Linux 5.14)."""
    numbers = platform.release().split("-")[0].split(".")
    with contextlib.suppress(ValueError, IndexError):
        return (int(numbers[0]), int(numbers[1])) >= (5, 14)
    return False


def pids() -> Iterator[int]:
    """Return an iterator over the pids of all processes that are visible to this one."""
    return (int(name) for name in os.listdir(PROC) if name.isdigit())
