"""The configuration of a container in the embedded engine, and the arguments of its keeper process."""

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from rumi.sandbox.engine import SandboxLimits, environment
from rumi.sandbox.lease import Lease, nanoseconds
from rumi.sandbox.processes import counts_by_namespace

_IN_NAMESPACE = re.compile(r"/proc/([1-9][0-9]*)/root(/.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """The configuration of a container, the same for each of its starts."""

    name: str
    chat_id: str
    rootfs: Path
    workspace: Path
    skills: Path
    uid: int
    gid: int
    limits: SandboxLimits
    bwrap: Path
    libcap: Path | None
    init: Path
    """The program of the first process: Rumi's own, or a shell if the host cannot compile Rumi's own."""
    compiled: bool
    seccomp: bytes
    lease: Lease | None = None

    def words(self, fds: "Inherited", bounded: Collection[str], groups: Sequence[Path]) -> list[str]:
        """Return the keeper's arguments.

        Control groups limit the resources in `bounded`; the keeper sets process limits for other resources.
        `groups` are the folders of the control group, which the keeper removes when it ends.
        """
        holder, workspace = in_namespace(os.path.abspath(self.workspace))
        settings: dict[str, object] = {
            "name": self.name,
            "uid": self.uid,
            "gid": self.gid,
            "parent": os.getpid(),
            "rootfs": self.rootfs,
            "workspace": workspace,
            "holder": holder,
            "skills": os.path.abspath(self.skills),
            "bwrap": self.bwrap,
            "libcap": self.libcap or "",
            "init": self.init,
            "compiled": 1 if self.compiled else "",
            "environment": "\n".join(f"{key}={value}" for key, value in environment(self.limits).items()),
            "tmp_bytes": self.limits.tmp_bytes,
            "file_bytes": self.limits.file_bytes,
            "process_bytes": "" if "memory" in bounded else self.limits.memory_bytes,
            "processes": self.limits.pids + 1 if counts_by_namespace() else "",
            "nice": 0 if "cpu" in bounded else 10,
            "lease_ns": nanoseconds(self.lease.length_s) if self.lease else "",
            "until_ns": nanoseconds(self.lease.valid_until()) if self.lease else "",
            "socket_fd": fds.requests,
            "life_fd": fds.life,
            "seccomp_fd": "" if fds.seccomp is None else fds.seccomp,
            "groups": "\n".join(map(str, groups)),
        }
        return [f"{key}={value}" for key, value in settings.items()]


def in_namespace(path: str) -> tuple[str, str]:
    """Split the path of a folder that is mounted in another process's namespace: /proc/PID/root/PATH.

    Return the process's id, empty for a folder of this namespace, and the path there.
    """
    found = _IN_NAMESPACE.fullmatch(path)
    return (found[1], found[2]) if found else ("", path)


@dataclass(frozen=True, slots=True)
class Inherited:
    """The file descriptors that a keeper inherits."""

    requests: int
    life: int
    """The write end of a pipe that is open as long as the keeper or a process of the container exists."""
    seccomp: int | None

    def all(self) -> list[int]:
        """Return all descriptors."""
        return [self.requests, self.life, *([] if self.seccomp is None else [self.seccomp])]
