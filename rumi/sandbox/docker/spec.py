"""The request that creates a chat's container; it defines the security boundary in one place."""

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from rumi.platform.atomic_write import atomic_write
from rumi.sandbox.engine import SandboxLimits, environment
from rumi.sandbox.lease import Lease, nanoseconds
from rumi.sandbox.seccomp import docker_profile
from runner.rootfs import names

FIRST_PROCESS = "/usr/lib/rumi/first"
"""A copy of `sleep` in the image that no user may read. The kernel denies processes of the same user access
to the memory, the OOM score and the /proc files of a process started from such a file. So a command cannot
take over the first process, which survives every kill.
"""

INIT = "/usr/lib/rumi/init"
"""The program, in images that have it, that starts and ends commands for Rumi (`runner/init.c`)."""
CONNECTION = "/run/rumi"
"""Path, inside the container, of the socket to which `INIT` connects."""

SLEEP = (
    f"trap '' CHLD; if [ -x {FIRST_PROCESS} ]; then exec -a sleep {FIRST_PROCESS} infinity; fi; "
    "exec sleep infinity"
)
"""The script of the first process in images without `INIT`. It ignores SIGCHLD, so that orphans leave no
zombies, and sleeps.

Ignored signals survive `exec` in bash; dash resets them. An image without the unreadable copy of `sleep` uses
the ordinary one.
"""

PATH = "PATH=/usr/local/bin:/usr/bin:/bin"
RESOLVER = "options timeout:1 attempts:1\n"
"""Without a server: musl then asks one at 127.0.0.1, which there is not, and should not wait for it long."""
INODES_PER_TMP = 16_384
OPEN_FILES = 1024
CPU_SHARES = 256
"""CPU weight: a quarter of the default, so that Rumi always gets processor time to pause containers."""

# Docker's default lists, because naming any path replaces them, plus message queues and shared memory: these
# would outlive the command that wrote them, and no program of the sandbox needs them.
MASKED = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/dev/mqueue",
    "/dev/shm",
)
READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")

LABEL_INSTALLATION = "rumi.installation"
LABEL_CHAT = "rumi.chat"
LABEL_OWNER = "rumi.owner"
LABEL_INIT = "rumi.runner.init"
"""Label of an image: the version of its `INIT`."""


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """The properties that all containers of this installation have in common."""

    installation: str
    image: str
    user: tuple[int, int]
    """uid and gid of commands, never 0."""
    limits: SandboxLimits
    names: Path | None = None
    """A folder with the files of /etc that name the user and hosts, because installations may share an image,
    and Docker replaces the image's hosts. None: the user has only a number.
    """
    skills: Path | None = None
    """The folder that is mounted as /skills."""

    def name(self, chat_id: str) -> str:
        """Return the container's name, always the same for a chat, so that it can be found after a crash."""
        return f"rumi-runner-{chat_id}-{self.installation}"

    def write_names(self) -> None:
        """Write the files of `names`, if missing or outdated. Blocks briefly. Raise OSError."""
        if self.skills is not None:
            self.skills.mkdir(parents=True, exist_ok=True)
        if self.names is None:
            return
        self.names.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, text in self._etc().items():
            path = self.names / name
            with contextlib.suppress(FileNotFoundError):
                if path.read_text("utf-8", "replace") == text:
                    continue
            atomic_write(path, text.encode(), mode=0o644)

    def request(
        self,
        chat_id: str,
        workspace: Path,
        init_socket: Path | None = None,
        lease: Lease | None = None,
        owner: str = "",
    ) -> dict[str, object]:
        """Return the body of the request that creates the container.

        `init_socket` is the socket to which the first process connects, if `INIT` starts the commands. With a
        `lease`, the first process ends the container when the lease expires. `owner` identifies the creating
        engine.
        """
        first = [INIT, CONNECTION, *([str(nanoseconds(lease.length_s))] if lease else [])]
        limits, user = self.limits, f"{self.user[0]}:{self.user[1]}"
        tmp = f"rw,nosuid,nodev,noexec,size={limits.tmp_bytes},nr_inodes={INODES_PER_TMP},mode=1777"
        return {
            "Image": self.image,
            "Hostname": "rumi",
            "User": user,
            "WorkingDir": "/workspace",
            # The user's own image keeps its PATH, because its programs may be elsewhere.
            "Env": [
                *([PATH] if is_rumis(self.image) else []),
                "TERM=dumb",
                *(f"{name}={value}" for name, value in environment(limits).items()),
            ],
            "Entrypoint": [],
            "Cmd": first if init_socket else ["bash", "-c", SLEEP],
            "Healthcheck": {"Test": ["NONE"]},
            "Tty": False,
            "OpenStdin": False,
            "AttachStdin": False,
            "AttachStdout": False,
            "AttachStderr": False,
            "NetworkDisabled": True,
            "StopSignal": "SIGKILL",
            "Labels": {
                LABEL_INSTALLATION: self.installation,
                LABEL_CHAT: chat_id,
                LABEL_OWNER: owner or str(os.getpid()),
            },
            "HostConfig": {
                "NetworkMode": "none",
                "ReadonlyRootfs": True,
                "Privileged": False,
                "CapDrop": ["ALL"],
                "SecurityOpt": ["no-new-privileges:true", f"seccomp={json.dumps(docker_profile())}"],
                "IpcMode": "private",
                "PidsLimit": limits.pids,
                "Memory": limits.memory_bytes,
                "MemorySwap": limits.memory_bytes,
                "NanoCpus": int(limits.cpus * 1_000_000_000),
                "CpuShares": CPU_SHARES,
                "Mounts": [
                    _bound(workspace.resolve(), "/workspace"),
                    *self._names_mounted(),
                    *self._skills_mounted(),
                    *([_bound(init_socket, CONNECTION, ReadOnly=True)] if init_socket else []),
                ],
                "Tmpfs": {"/tmp": tmp},
                "Sysctls": {"net.ipv4.ip_unprivileged_port_start": "0"},
                "ShmSize": 1024 * 1024,
                "MaskedPaths": list(MASKED),
                "ReadonlyPaths": list(READ_ONLY),
                "Ulimits": [
                    _same("core", 0),
                    _same("nofile", OPEN_FILES),
                    _same("fsize", limits.file_bytes),
                ],
                # A process can write to /proc/1/fd/1, and the daemon would store all of it.
                "LogConfig": {"Type": "none", "Config": {}},
                "RestartPolicy": {"Name": "no"},
                # The first process ends with its connection; then the daemon removes the container, even if
                # Rumi was killed.
                "AutoRemove": init_socket is not None,
                "Init": False,
            },
        }

    def _skills_mounted(self) -> list[dict[str, object]]:
        return [_bound(self.skills.resolve(), "/skills", ReadOnly=True)] if self.skills is not None else []

    def _names_mounted(self) -> list[dict[str, object]]:
        if self.names is None:
            return []
        folder = self.names.resolve()
        return [_bound(folder / name, f"/etc/{name}", ReadOnly=True) for name in self._etc()]

    def _etc(self) -> dict[str, str]:
        return {**names(*self.user), "resolv.conf": RESOLVER}


def is_rumis(image: str) -> bool:
    """Return True if Rumi makes images of this name; every other image is the user's own."""
    return image.rpartition("/")[2].startswith("rumi")


def _bound(source: Path, target: str, **more: object) -> dict[str, object]:
    options = {"Propagation": "rprivate"}
    return {"Type": "bind", "Source": str(source), "Target": target, "BindOptions": options, **more}


def _same(name: str, value: int) -> dict[str, object]:
    return {"Name": name, "Soft": value, "Hard": value}
