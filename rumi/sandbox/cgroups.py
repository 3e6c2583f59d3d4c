"""Control groups of the embedded engine: common limits for all processes of a chat (memory, pids, cpu).

There are three kinds; the first that works here is used: the hierarchies of version 1 and of version 2, if
their files can be written (by root, or by a service to which systemd delegates its group), and a scope of the
user's own systemd. If none works, `Cgroups.kind` is `none`, and the engine reports which guarantees it cannot
give.

All chats' groups are in one parent group, so that the kernel gives all commands together only as much
processor time as one other program. So Rumi always gets enough processor time to pause commands, regardless
of their number.

A control group is a folder; reading and writing its files never blocks.
"""

import contextlib
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import trio

from rumi.sandbox.engine import SandboxError, SandboxLimits

Kind: TypeAlias = Literal["v1", "v2", "scope", "none"]
CONTROLLERS = ("memory", "pids", "cpu")
PERIOD_US = 100_000
SOCKETS = "memory.kmem.tcp.limit_in_bytes"
TRIES = 20
OWN_PROCESSES = 2
"""Number of bubblewrap's own processes, its monitor and its first process; they count against the limit."""
KEEPERS = 2
"""Number of the keeper's processes. A scope includes them, so they count against its limit."""

REMOVAL_S = 2.0


@dataclass(frozen=True, slots=True)
class Cgroup:
    """The control group of one chat: one folder per hierarchy."""

    folders: tuple[Path, ...]

    def open_members(self) -> list[int]:
        """Return descriptors for the caller to close; a process that writes `0` to each joins the group."""
        opened: list[int] = []
        try:
            for folder in self.folders:
                opened.append(os.open(folder / "cgroup.procs", os.O_WRONLY))  # noqa: PERF401 - closed if one fails
        except OSError:
            for fd in opened:
                os.close(fd)
            raise
        return opened

    def members(self) -> set[int]:
        """Return the pids of the processes in the group."""
        found: set[int] = set()
        for folder in self.folders:
            with contextlib.suppress(OSError):
                found.update(int(line) for line in (folder / "cgroup.procs").read_text().split())
        return found

    async def remove(self) -> None:
        """Kill the group's processes and remove the group. Idempotent.

        Raises:
            SandboxError: The group still exists after two seconds.
        """
        with trio.move_on_after(REMOVAL_S):
            while not self._removed():
                for pid in self.members():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                await trio.sleep(0.01)
            return
        raise SandboxError(
            "The control group {name} cannot be removed.", "Try again later.", name=self.folders[0].name
        )

    def _removed(self) -> bool:
        for folder in self.folders:
            try:
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                return False
            with contextlib.suppress(OSError):  # not empty: it contains other chats' groups
                folder.parent.rmdir()
        return True


class Cgroups:
    """The control groups that this process may use on this machine, detected in about a millisecond.

    `root` is the mount point of the hierarchies. `own` is the file that lists this process's groups.
    """

    def __init__(
        self, installation: str, *, root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
    ) -> None:
        self._installation = installation
        self._together = f"rumi-{installation}"
        self._prefix = _prefix(installation)
        self._root = root
        self.parents: dict[str, Path] = {}
        self.kind: Kind = "none"
        memberships = _memberships(own)
        if parents := _first_version(root, memberships):
            self.kind, self.parents = "v1", parents
        elif parent := _second_version(root, memberships):
            self.kind, self.parents = "v2", {name: parent for name in CONTROLLERS if name in _enabled(parent)}
        elif controllers := _scope_controllers(root):
            self.kind, self.parents = "scope", dict.fromkeys(controllers, root)

    @property
    def bounded(self) -> frozenset[str]:
        """Return those of the controllers `memory`, `pids` and `cpu` that can limit chats on this machine."""
        return frozenset(self.parents)

    def group(self, name: str) -> Cgroup | None:
        """Return the chat's group, even if it does not exist yet; None if `create` creates no group."""
        if self.kind not in ("v1", "v2"):
            return None
        parents = {parent / self._together for parent in self.parents.values()}
        return Cgroup(tuple(sorted(parent / f"{self._prefix}{name}" for parent in parents)))

    def create(self, name: str, limits: SandboxLimits) -> Cgroup | None:
        """Create the group and set its limits; return None without control groups, or if a scope is used.

        Raises:
            SandboxError: The group cannot be created.
        """
        if (cgroup := self.group(name)) is None:
            return None
        groups = {parent: parent / self._together for parent in self.parents.values()}
        try:
            for folder in cgroup.folders:
                self._make(folder)
            for controller, parent in self.parents.items():
                for file, value in self._settings(controller, limits):
                    path = groups[parent] / f"{self._prefix}{name}" / file
                    # Not every kernel accounts for swap or sockets, and then these files are missing.
                    if path.exists() or not any(part in file for part in ("sw", "tcp")):
                        path.write_text(value)
        except OSError as error:
            cgroup._removed()
            raise SandboxError(
                "A control group cannot be made: {error}.", "Look at `rumi doctor`.", error=error
            ) from error
        return cgroup

    def scope(self, name: str, limits: SandboxLimits) -> list[str]:
        """Return the words that run a command in a scope of the user's systemd; empty if no scope is used."""
        if self.kind != "scope":
            return []
        properties = ["OOMPolicy=continue", f"TasksMax={limits.pids + OWN_PROCESSES + KEEPERS}"]
        properties += [
            f"MemoryMax={limits.memory_bytes}",
            "MemorySwapMax=0",
            f"CPUQuota={limits.cpus * 100:.0f}%",
        ]
        unit = f"--unit={self._prefix}{name}.scope"
        words = ["systemd-run", "--user", "--scope", "--quiet", "--collect", "--slice=rumi.slice", unit]
        return [*words, *(word for value in properties for word in ("-p", value)), "--"]

    def leftovers(self) -> list[Cgroup]:
        """Return this installation's groups; until a container is made, those are leftovers."""
        return groups_of(self._installation, self._root)

    def _make(self, folder: Path) -> None:
        """Create a group's folder; retry if the removal of another chat's group deletes the empty parent."""
        for attempt in range(TRIES):
            folder.parent.mkdir(exist_ok=True)
            try:
                if self.kind == "v2":
                    _enable(folder.parent)
                folder.mkdir(exist_ok=True)
            except FileNotFoundError:
                if attempt == TRIES - 1:
                    raise
            else:
                return

    def _settings(self, controller: str, limits: SandboxLimits) -> Iterator[tuple[str, str]]:
        memory, quota = str(limits.memory_bytes), int(limits.cpus * PERIOD_US)
        pids = str(limits.pids + OWN_PROCESSES)
        match controller, self.kind:
            case "memory", "v1":
                yield from (("memory.limit_in_bytes", memory), ("memory.memsw.limit_in_bytes", memory))
                yield (SOCKETS, str(limits.socket_bytes))
            case "memory", _:
                yield from (("memory.max", memory), ("memory.swap.max", "0"))
            case "pids", _:
                yield ("pids.max", pids)
            case "cpu", "v1":
                yield from (("cpu.cfs_period_us", str(PERIOD_US)), ("cpu.cfs_quota_us", str(quota)))
            case "cpu", _:
                yield ("cpu.max", f"{quota} {PERIOD_US}")


def bound_sockets(pid: int, limits: SandboxLimits, root: Path = Path("/sys/fs/cgroup")) -> None:
    """Bound the buffers of sockets in a process's group of version 1, which Docker does not, if this is root.

    Version 2 counts them as memory of the group.
    """
    if group := _memberships(Path(f"/proc/{pid}/cgroup")).get("memory"):
        with contextlib.suppress(OSError):
            (root / "memory" / group.lstrip("/") / SOCKETS).write_text(str(limits.socket_bytes))


def groups_of(installation: str, root: Path = Path("/sys/fs/cgroup")) -> list[Cgroup]:
    """Return all groups of this installation, of any process. Blocking: it reads all groups of the machine.

    Scopes of systemd are left out: systemd removes them after their last process.
    """
    found: dict[str, list[Path]] = {}
    for top in [root / name for name in CONTROLLERS if (root / name).exists()] or [root]:
        for folder in _folders(top, _prefix(installation)):
            if folder.suffix != ".scope":
                found.setdefault(folder.name, []).append(folder)
    return [Cgroup(tuple(sorted(folders))) for _, folders in sorted(found.items())]


def _prefix(installation: str) -> str:
    return f"rumi-runner-{installation}-"


def _memberships(own: Path) -> dict[str, str]:
    """Map controllers to groups: `4:memory:/a` and (version 2) `0::/b` give {"memory": "/a", "": "/b"}."""
    found = {}
    with contextlib.suppress(OSError):
        for line in own.read_text("utf-8").splitlines():
            _, names, group = line.split(":", 2)
            found.update(dict.fromkeys(names.split(","), group))
    return found


def _first_version(root: Path, memberships: dict[str, str]) -> dict[str, Path]:
    """Return the parent folder of each controller: this process's group if possible, so its limits apply."""
    parents = {}
    for controller in CONTROLLERS:
        for group in (memberships.get(controller, "/"), "/"):
            folder = root / controller / group.lstrip("/")
            if (folder / "tasks").exists() and _writable(folder):
                parents[controller] = folder
                break
    return parents


def _second_version(root: Path, memberships: dict[str, str]) -> Path | None:
    if not (root / "cgroup.controllers").exists() or "" not in memberships:
        return None
    own = root / memberships[""].lstrip("/")
    if _delegated(own) or (_writable(root) and _enable(root)):
        return own if _enable(own) else root
    return None


def _delegated(own: Path) -> bool:
    """Return True if this process is the only member of its group, as in a service with `Delegate=yes`.

    A group with members cannot have child groups with limits, so the process moves into a child group.
    """
    try:
        if not _writable(own) or (own / "cgroup.procs").read_text().split() != [str(os.getpid())]:
            return False
        inner = own / "rumi"
        inner.mkdir(exist_ok=True)
        (inner / "cgroup.procs").write_text("0")
    except OSError:
        return False
    return True


def _enable(parent: Path) -> bool:
    """Enable the controllers for the child groups of `parent`; return True if at least memory is limited."""
    with contextlib.suppress(OSError):
        available = (parent / "cgroup.controllers").read_text().split()
        for name in CONTROLLERS:
            if name in available:
                (parent / "cgroup.subtree_control").write_text(f"+{name}")
    return "memory" in _enabled(parent)


def _enabled(parent: Path) -> tuple[str, ...]:
    with contextlib.suppress(OSError):
        return tuple((parent / "cgroup.subtree_control").read_text().split())
    return ()


def _scope_controllers(root: Path) -> tuple[str, ...]:
    """Return the controllers of the user's own systemd, if `systemd-run` can reach one."""
    uid = os.getuid()
    delegated = root / f"user.slice/user-{uid}.slice/user@{uid}.service/cgroup.controllers"
    bus = Path(os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{uid}")) / "bus"
    if uid == 0 or not shutil.which("systemd-run") or not bus.exists():
        return ()
    with contextlib.suppress(OSError):
        available = delegated.read_text().split()
        return tuple(name for name in CONTROLLERS if name in available) if "memory" in available else ()
    return ()


def _writable(folder: Path) -> bool:
    """Try to create a group and return True if that works: the mount may be read-only even for root."""
    probe = folder / f"rumi-probe-{os.getpid()}"
    try:
        probe.mkdir()
        probe.rmdir()
    except OSError:
        return False
    return True


def _folders(top: Path, prefix: str) -> Iterator[Path]:
    ignore: Callable[[OSError], None] = lambda _: None  # a group that is removed while we look  # noqa: E731
    for folder, names, _ in os.walk(top, onerror=ignore):
        yield from (Path(folder, name) for name in names if name.startswith(prefix))
