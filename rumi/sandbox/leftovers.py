"""What a killed process of this installation left on this machine, of either engine: found by what it holds.

A name that is recorded somewhere can be lost, and a process of a sandbox may have none yet. But a process
that can reach a chat's files has them mounted, and one that is bounded is in a control group of this
installation.

Only for the process that holds the home: a living Rumi's sandboxes hold the same things.
"""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path

import trio

from rumi.platform.openat import opened
from rumi.sandbox.cgroups import groups_of
from rumi.sandbox.engine import SandboxError
from rumi.sandbox.processes import PROC, named, pids

END_S = 2.0
"""How long the processes may take to end."""
SEEN_AS = (b"workspace", b"mcp")
"""The last part of the path at which sandboxes have a folder of the home: a chat's, or a server's of tools.
Others may mount them elsewhere."""


def processes_left(home: Path, installation: str, known: Collection[str] = ()) -> list[int]:
    """Return the pids of what sandboxes of this installation left. Blocking: it reads all of /proc.

    Those in the `known` containers are left out: the containers are removed as a whole.
    """
    found = {*named(f"-{installation}"), *_with_mounts_of(home)} - {os.getpid()}
    for group in groups_of(installation):
        found |= group.members()
    return sorted(pid for pid in found if not _is_in(pid, known))


def _is_in(pid: int, containers: Collection[str]) -> bool:
    """Return True if a process is in one of the containers, which are named by their full ids."""
    with contextlib.suppress(OSError):
        groups = (PROC / str(pid) / "cgroup").read_text("utf-8", "replace")
        return any(container in groups for container in containers)
    return False


async def end_leftovers(home: Path, installation: str, known: Collection[str] = ()) -> list[str]:
    """End the processes and remove the control groups, and name them. Cancelled, call it again."""
    find = partial(processes_left, home, installation, known)
    removed = [f"process {pid}" for pid in await trio.to_thread.run_sync(_end, find)]
    for group in await trio.to_thread.run_sync(groups_of, installation):
        with contextlib.suppress(SandboxError):
            await group.remove()
            removed.append(f"control group {group.folders[0].name}")
    return removed


def _end(find: Callable[[], list[int]]) -> list[int]:
    """Kill what `find` returns, until it returns nothing or the time is over; return the pids that ended."""
    ended, until = set[int](), time.monotonic() + END_S
    while found := find():
        with contextlib.ExitStack() as stack:
            handles = dict[int, int]()
            for pid in found:
                with contextlib.suppress(OSError):  # it has ended
                    handles[pid] = stack.enter_context(opened(os.pidfd_open(pid)))
            # One that ended before its handle was opened may have left its number to a stranger.
            killed = [handles[pid] for pid in set(find()) & handles.keys() if _kill(handles[pid])]
            gone = set(_ended(killed, until))
            ended |= {pid for pid, handle in handles.items() if handle in gone}
        if not gone or time.monotonic() > until:
            break
    return sorted(ended)


def _kill(handle: int) -> bool:
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except ProcessLookupError:
        return True
    except OSError:  # another user's
        return False
    return True


def _ended(handles: list[int], until: float) -> Iterator[int]:
    """Yield the handles whose processes end in time."""
    for handle in handles:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        if poll.poll(max(0, until - time.monotonic()) * 1000):
            yield handle


def _with_mounts_of(home: Path) -> Iterator[int]:
    """Yield the pids of processes that have a workspace of this home, which this process has not."""
    with contextlib.suppress(OSError, StopIteration):
        device, folder = _mount_location(home)
        own = {*_workspaces(PROC / "self/mountinfo", device, folder)}
        here = os.readlink(PROC / "self/ns/mnt")
        for pid in pids():
            with contextlib.suppress(OSError):
                with contextlib.suppress(PermissionError):  # its mounts can be read nevertheless
                    if os.readlink(PROC / str(pid) / "ns/mnt") == here:
                        continue
                if {*_workspaces(PROC / str(pid) / "mountinfo", device, folder)} - own:
                    yield pid


def _workspaces(mounts: Path, device: bytes, folder: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield (folder in its file system, mount point) of the workspaces among the mounts of a process."""
    content = mounts.read_bytes()
    if folder not in content:
        return
    for line in content.splitlines():
        _, _, of, root, point, *_ = line.split(b" ", 5)
        if of == device and root.startswith(folder + b"/") and point.rpartition(b"/")[2] in SEEN_AS:
            yield root, point


def _mount_location(folder: Path) -> tuple[bytes, bytes]:
    """Return a folder's device and its path in that file system, as in mountinfo. Raises OSError."""
    folder = folder.resolve(strict=True)
    with opened(os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as descriptor:
        lines = (PROC / f"self/fdinfo/{descriptor}").read_bytes().splitlines()
    mount = next(line.split()[1] for line in lines if line.startswith(b"mnt_id:"))
    for line in (PROC / "self/mountinfo").read_bytes().splitlines():
        number, _, device, root, point, *_ = line.split(b" ", 5)
        if number == mount:
            below = _escaped(folder)[len(point.rstrip(b"/")) :]
            return device, (root.rstrip(b"/") + below).rstrip(b"/")
    raise FileNotFoundError(folder)


def _escaped(path: Path) -> bytes:
    """Return a path as mountinfo writes it."""
    text = os.fsencode(path)
    for special in b"\\ \t\n":
        text = text.replace(bytes([special]), b"\\%03o" % special)
    return text
