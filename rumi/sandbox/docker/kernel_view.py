"""The kernel's facts about a container, if the daemon is on this machine.

These files are the kernel's memory: reading them does not wait, so it needs no thread.
"""

from pathlib import Path

PF_EXITING = 0x4  # among the flags in /proc/PID/stat; see proc(5)


def lives(pid: int) -> bool:
    """Return True if a process of this machine exists and is not ending.

    The first process of a container begins to end before any other does, and has ended after all of them.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] not in "ZX" and not int(fields[6]) & PF_EXITING


def is_filtered(pid: int) -> bool:
    """Return True if a process of this machine has a system call filter, which a command gets last."""
    try:
        return "\nSeccomp:\t2\n" in Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
    except OSError:
        return False


def tasks_file(pid: int, container_id: str) -> Path | None:
    """Return the file in which the kernel counts the container's tasks; None if the daemon is elsewhere.

    The process must be known here to belong to that very container: with a daemon on another machine, or seen
    from inside a container, the number means another process or none.
    """
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text("utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if container_id not in path:
            continue
        root = {"": "/sys/fs/cgroup", "pids": "/sys/fs/cgroup/pids"}.get(controllers)
        if root is not None and (found := Path(f"{root}{path}/pids.current")).exists():
            return found
    return None
