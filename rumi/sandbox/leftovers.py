"""Leftover processes and control groups of this installation's killed Rumi, whichever engine it used.

They are found by the resources that they hold: a recorded name can be lost, and a new process may have none
yet. But a process that can access a chat's files has them mounted, and a process with limits is in a control
group of this installation.

Only the daemon, which holds the lock of the home, may use this module, because the sandboxes of a running
Rumi hold the same resources.
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
from rumi.texts import Text

END_S = 2.0
"""Maximum wait for the end of killed processes."""
SEEN_AS = (b"workspace", b"mcp")
"""The last part of the mount points at which sandboxes have a folder of the home: a chat's workspace, or the
folder of an MCP server. Other programs may mount these folders elsewhere."""


def processes_left(home: Path, installation: str, known: Collection[str] = ()) -> list[int]:
    """Return the pids of leftover sandbox processes of this installation. Blocking: it reads all of /proc.

    Processes in the `known` containers are left out, because these containers are removed as a whole.
    """
    found = {*named(f"-{installation}"), *_with_mounts_of(home)} - {os.getpid()}
    for group in groups_of(installation):
        found |= group.members()
    return sorted(pid for pid in found if not _is_in(pid, known))


def _is_in(pid: int, containers: Collection[str]) -> bool:
    """Return True if a process is in one of the containers, given by their full ids."""
    with contextlib.suppress(OSError):
        groups = (PROC / str(pid) / "cgroup").read_text("utf-8", "replace")
        return any(container in groups for container in containers)
    return False


async def end_leftovers(home: Path, installation: str, known: Collection[str] = ()) -> list[str]:
    """End leftover processes and remove control groups; return their names. If cancelled, call again."""
    find = partial(processes_left, home, installation, known)
    removed: list[str] = [Text("process {pid}", pid=pid) for pid in await trio.to_thread.run_sync(_end, find)]
    for group in await trio.to_thread.run_sync(groups_of, installation):
        with contextlib.suppress(SandboxError):
            await group.remove()
            removed.append(Text("control group {name}", name=group.folders[0].name))
    return removed


def _end(find: Callable[[], list[int]]) -> list[int]:
    """Kill the pids that `find` returns, until it returns none or the time is over; return the ended pids."""
    ended, until = set[int](), time.monotonic() + END_S
    while found := find():
        with contextlib.ExitStack() as stack:
            handles = dict[int, int]()
            for pid in found:
                with contextlib.suppress(OSError):  # it has ended
                    handles[pid] = stack.enter_context(opened(os.pidfd_open(pid)))
            # A process may have ended before its pidfd was opened, and its pid may have been reused by now:
            # only pids that `find` still returns are killed, through their pidfd.
            killed = [handles[pid] for pid in set(find()) & handles.keys() if _kill(handles[pid])]
            ended_handles = set(_ended(killed, until))
            ended |= {pid for pid, handle in handles.items() if handle in ended_handles}
        if not ended_handles or time.monotonic() > until:
            break
    return sorted(ended)


def _kill(handle: int) -> bool:
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except ProcessLookupError:
        return True
    except OSError:  # a process of another user
        return False
    return True


def _ended(handles: list[int], until: float) -> Iterator[int]:
    """Yield each pidfd whose process ends before the time `until`."""
    for handle in handles:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        if poll.poll(max(0, until - time.monotonic()) * 1000):
            yield handle


def _with_mounts_of(home: Path) -> Iterator[int]:
    """Yield the pids of processes with a mount of this home's workspaces that this process does not have."""
    with contextlib.suppress(OSError, StopIteration):
        device, folder = _mount_location(home)
        own = {*_workspaces(PROC / "self/mountinfo", device, folder)}
        here = os.readlink(PROC / "self/ns/mnt")
        for pid in pids():
            with contextlib.suppress(OSError):
                with contextlib.suppress(PermissionError):  # its mountinfo may be readable
                    if os.readlink(PROC / str(pid) / "ns/mnt") == here:
                        continue
                if {*_workspaces(PROC / str(pid) / "mountinfo", device, folder)} - own:
                    yield pid


def _workspaces(mounts: Path, device: bytes, folder: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the workspaces in a mountinfo file, as (folder in its file system, mount point)."""
    content = mounts.read_bytes()
    if folder not in content:
        return
    for line in content.splitlines():
        _, _, of, root, point, *_ = line.split(b" ", 5)
        if of == device and root.startswith(folder + b"/") and point.rpartition(b"/")[2] in SEEN_AS:
            yield root, point


def _mount_location(folder: Path) -> tuple[bytes, bytes]:
    """Return a folder's device and its path in that file system, as in mountinfo. Raise OSError."""
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
    """Escape a path as mountinfo does."""
    text = os.fsencode(path)
    for special in b"\\ \t\n":
        text = text.replace(bytes([special]), b"\\%03o" % special)
    return text
