"""The Docker engine: creates, finds and removes the containers of this installation."""

import contextlib
import json
import logging
import os
from collections.abc import Collection
from pathlib import Path

import trio

from rumi.sandbox.cgroups import bound_sockets
from rumi.sandbox.docker.api import HUNG, ApiError, EngineApi, Json
from rumi.sandbox.docker.container import DockerContainer, EndedAtOnceError
from rumi.sandbox.docker.init import Init, InitListener
from rumi.sandbox.docker.spec import (
    LABEL_CHAT,
    LABEL_INIT,
    LABEL_INSTALLATION,
    LABEL_OWNER,
    ContainerSpec,
    is_rumis,
)
from rumi.sandbox.docker.watched import Watched
from rumi.sandbox.engine import ContainerInfo, EngineKind, SandboxError, SandboxLimits, skills_folder
from rumi.sandbox.identity import sandbox_user
from rumi.sandbox.lease import Lease, Leases, is_lost, no_leases, require
from rumi.sandbox.leftovers import end_leftovers
from rumi.texts import Text, os_error
from runner.init import VERSION

log = logging.getLogger("rumi.sandbox")

CREATE_S = 600.0
"""Maximum wait for the answer to a create. It is long, because only the answer tells if a container exists.
Callers stop waiting earlier, while the call continues: see `rumi.sandbox.registry`.
"""
REMOVE_S = 20.0
FORCED = {"force": "true", "v": "true"}

_LACKING = {
    "MemoryLimit": Text("Docker on this machine cannot bound a chat's memory."),
    "SwapLimit": Text("Docker on this machine cannot bound a chat's swap; switch swap off."),
    "PidsLimit": Text("Docker on this machine cannot bound a chat's number of processes."),
    "CpuCfsQuota": Text("Docker on this machine cannot bound a chat's share of the processors."),
}


class DockerEngine:
    """Engine for containers of one Docker daemon. Create and close it inside one trio run."""

    def __init__(
        self,
        installation: str,
        limits: SandboxLimits,
        *,
        image: str = "rumi-runner:latest",
        address: str | None = None,
        home: Path | None = None,
        user: tuple[int, int] | None = None,
        leases: Leases = no_leases,
    ) -> None:
        """Create the engine without connecting. `address` has the format of DOCKER_HOST.

        `home` is RUMI_HOME. It contains the files that name the user in containers, the skills, and the
        sockets to which the first processes connect. Without a home, the user has no name, only an id, and
        Docker's exec starts the commands. `user` is the uid and gid of commands, by default the result of
        `sandbox_user`. `leases` returns the lease whose expiry ends a chat's container.

        Raises:
            SandboxError: The address is not supported, or no user can run commands.
        """
        self._api = EngineApi(address)
        names = home.absolute() / "run" if home is not None else None
        self._spec = ContainerSpec(
            installation,
            image,
            user or sandbox_user(installation, home),
            limits,
            names,
            skills_folder(home.absolute()) if home is not None else None,
        )
        self._degraded: tuple[str, ...] = ()
        self.missing_programs: tuple[str, ...] = ()
        self.packages: tuple[str, ...] = ()
        """Allowed programs that the image lacks; set by the code that has inspected the image."""
        self._inits: dict[str, Init] = {}
        self._leases = leases
        self._leased: dict[str, tuple[str, Lease]] = {}
        """For each chat whose container has a lease: the container's id and the lease."""
        self._by_exec = "" if names is not None else Text("there is no home for its socket")
        self._home = home
        self._watched = Watched(self._api.address)
        self._ended = home is None
        """True once the leftover processes of a killed Rumi have been ended."""
        self._swept = False
        self._sweeping = trio.Lock()

    @property
    def kind(self) -> EngineKind:
        """Return the kind of engine."""
        return "docker"

    @property
    def user(self) -> tuple[int, int]:
        """Return the uid and gid of commands."""
        return self._spec.user

    @property
    def degraded(self) -> tuple[str, ...]:
        """Return the guarantees that the daemon cannot give, one sentence each. Known after `examine`."""
        return self._degraded

    @property
    def api(self) -> EngineApi:
        """Return the API client, for the code that maintains the image."""
        return self._api

    async def examine(self) -> None:
        """Ask the daemon which limits it supports.

        Raises:
            SandboxError: The daemon does not answer, or cannot run the sandbox safely.
        """
        info = await self._api.call("GET", "/info")
        options = " ".join(info.get("SecurityOptions") or ())
        if "name=rootless" in options or "name=userns" in options:
            raise SandboxError(
                "This Docker daemon maps users (rootless, or userns-remap), so commands could not "
                "use the files of their workspace.",
                "Use the machine's ordinary daemon, or set [sandbox] backend to bubblewrap.",
            )
        if "name=seccomp" not in options:
            raise SandboxError(
                "This Docker daemon cannot filter system calls (no seccomp).",
                "Use a kernel and a Docker with seccomp, or set [sandbox] backend to bubblewrap.",
            )
        lacking = [text for key, text in _LACKING.items() if info.get(key) is False]
        if info.get("CgroupVersion") == "1" and os.geteuid() != 0:  # see `bound_sockets`
            lacking.append(Text("Docker on this machine cannot bound the memory of a chat's sockets."))
        self._degraded = tuple(lacking)

    async def starts_by_exec(self) -> str:
        """Return why Docker's exec, not INIT, starts the commands of new containers; "" if INIT starts them.

        Raises:
            SandboxError: The daemon does not answer.
        """
        if not self._api.address.startswith("unix://"):
            return Text("the daemon is on another machine")
        if self._by_exec:
            return self._by_exec
        try:
            found = await self._api.call("GET", f"/images/{self._spec.image}/json")
        except ApiError as error:
            raise self._advised(error) from error
        if (found["Config"].get("Labels") or {}).get(LABEL_INIT) != VERSION:
            return Text("the image has no program for it")
        return ""

    async def create(self, chat_id: str, workspace: Path) -> DockerContainer:
        """Create and start the chat's container; remove an existing one with its name first.

        The workspace's folder must exist. If cancelled, the container may exist: the caller then calls
        `remove`, but only after the daemon has answered the create request, because the container may appear
        until then.

        Raises:
            LeaseLostError: The chat needs a lease, and that lease has expired.
            SandboxError: The container cannot be created; the advice says what to do.
        """
        lease = self._leases(chat_id)
        require(lease)
        try:
            self._spec.write_names()
        except OSError as error:
            raise SandboxError(
                "{names} cannot be written: {reason}.",
                names=self._spec.names,
                reason=os_error(error),
            ) from error
        self._let_go(chat_id)
        with contextlib.ExitStack() as stack:
            listener = None
            if not await self.starts_by_exec() and (listener := self._listen(chat_id)) is not None:
                stack.callback(listener.close)
            if listener is None:
                if lease is not None:
                    raise await self._no_lease_here()
                return await self._started(chat_id, workspace, None)
            with contextlib.suppress(EndedAtOnceError):
                container = await self._started(chat_id, workspace, listener, lease)
                if container.local_pid:
                    container.init = await listener.accept(container.local_pid, lease)
                await container.beat()
                if container.init is not None:
                    self._inits[chat_id] = container.init
                    return container
        if lease is not None:
            await self.remove(chat_id)
            require(lease)
            raise SandboxError("The container's first process did not connect in time.", HUNG)
        # Remembered, so that later containers do not wait for a connection in vain.
        self._by_exec = Text("a container's first process did not connect")
        log.warning("Docker's exec starts the commands, because %s.", self._by_exec)
        await self.remove(chat_id)
        return await self._started(chat_id, workspace, None)

    async def _no_lease_here(self) -> SandboxError:
        why = await self.starts_by_exec()
        return SandboxError(
            "A container that Docker's exec works in cannot end with the lease of its chat: {why}.",
            "Make the image again with: rumi debug sandbox build",
            why=why,
        )

    def _listen(self, chat_id: str) -> InitListener | None:
        assert self._spec.names is not None
        try:
            return InitListener(self._spec.names, self._spec.name(chat_id), self.user)
        except OSError as error:
            self._by_exec = Text(
                "no socket can be made in {names}: {reason}",
                names=self._spec.names,
                reason=os_error(error),
            )
            log.warning("Docker's exec starts the commands, because %s.", self._by_exec)
            return None

    def _let_go(self, chat_id: str) -> None:
        """Close the connection to a container's first process, which ends the container."""
        if (init := self._inits.pop(chat_id, None)) is not None:
            init.close()

    async def _started(
        self, chat_id: str, workspace: Path, listener: InitListener | None, lease: Lease | None = None
    ) -> DockerContainer:
        name = self._spec.name(chat_id)
        socket = listener.path if listener else None
        request = self._spec.request(chat_id, workspace, socket, lease, self._watched.owner)
        created = None
        for _ in range(3):
            # Before the create is sent: if Rumi is killed in between, the watcher knows the name.
            self._watched.begin(name)
            try:
                created = await self._api.call(
                    "POST", "/containers/create", params={"name": name}, body=request, timeout_s=CREATE_S
                )
                self._watched.answered(name)
                break
            except ApiError as error:
                self._watched.answered(name)
                if error.status != 409:
                    raise self._advised(error) from error
                # The name is in use: by a leftover of a killed process, or during a container's removal.
                await self.remove(chat_id)
        if created is None:
            raise SandboxError("Another container keeps the name {name}.", "Remove it.", name=name)
        container = DockerContainer(self._api, created["Id"], self.user)
        if lease is not None:
            self._leased[chat_id] = (container.container_id, lease)
        try:
            await self._api.call("POST", f"/containers/{container.container_id}/start")
        except ApiError as error:
            raise self._advised(error) from error
        await container.entered()
        if not _sees(container.local_pid, workspace):
            raise SandboxError(
                "Docker does not see the mount of {workspace}: it runs on another machine, or in another "
                "mount namespace.",
                "Use this machine's daemon, or bubblewrap: [sandbox] backend.",
                workspace=workspace,
            )
        if container.local_pid:
            bound_sockets(container.local_pid, self._spec.limits)
        return container

    async def remove(self, chat_id: str) -> None:
        """Remove the chat's container; return only when no container has its name. Idempotent.

        If the chat's lease was lost, remove only the container that this process created.

        Raises:
            SandboxError: The daemon did not confirm the removal; call this again later.
        """
        self._let_go(chat_id)
        name, (made, lease) = self._spec.name(chat_id), self._leased.get(chat_id, ("", None))
        # After the lease has expired, the name may belong to a container of another process.
        path = f"/containers/{made if is_lost(lease) else name}"
        with trio.move_on_after(REMOVE_S):
            pause = 0.02
            while True:
                try:
                    await self._api.call("DELETE", path, params=FORCED)
                except ApiError as error:
                    if error.status == 404:
                        self._leased.pop(chat_id, None)
                        return
                    if error.status != 409:  # 409: another process is removing it already
                        raise
                    await trio.sleep(pause)
                    pause = min(pause * 2, 1.0)
                # Repeat: only the answer "no such container" proves that the container is gone.
        raise SandboxError("Docker did not remove the container {name} in time.", HUNG, name=name)

    async def sweep(self) -> list[str]:
        """Remove leftovers of a killed process of this installation; return their names.

        Leftovers are processes and control groups of either engine, and containers that have a workspace of
        this home mounted but a name that Rumi did not give them. Other leftover containers are not removed
        here; `containers` lists them. Only the first call has an effect.

        Raises:
            SandboxError: The daemon does not answer.
        """
        async with self._sweeping:
            removed: list[str] = []
            try:
                ours, strangers = await self.left()
            except SandboxError:
                await self._end_processes(())
                raise
            removed += await self._end_processes(
                [container.container_id for container in (*ours, *strangers)]
            )
            for stranger in () if self._swept else strangers:
                with contextlib.suppress(ApiError):  # it is gone already
                    path = f"/containers/{stranger.container_id}"
                    await self._api.call("DELETE", path, params=FORCED)
                removed.append(stranger.name)
            self._swept = True
        return removed

    async def _end_processes(self, known: Collection[str]) -> list[str]:
        """End the leftover processes. Later calls do nothing: they might end this Rumi's own."""
        if self._ended or self._home is None:
            return []
        removed = await end_leftovers(self._home, self._spec.installation, known)
        self._ended = True
        return removed

    async def left(self) -> tuple[list[ContainerInfo], list[ContainerInfo]]:
        """Return this installation's containers, and other containers with a workspace of this home mounted.

        Raises:
            SandboxError: The daemon does not answer.
        """
        listed = await self._api.call("GET", "/containers/json", params={"all": "true"})
        ours = [info for entry in listed if (info := self._ours(entry)) is not None]
        if self._home is None:
            return ours, []
        home, known = self._home.resolve(), {container.container_id for container in ours}
        return ours, [
            ContainerInfo((entry["Names"] or [entry["Id"]])[0].lstrip("/"), "", entry["Id"], entry["State"])
            for entry in listed
            if entry["Id"] not in known and (entry["Labels"] or {}).get(LABEL_OWNER) != self._watched.owner
            if any(_is_workspace(mount, home) for mount in entry.get("Mounts") or ())
        ]

    async def containers(self) -> list[ContainerInfo]:
        """Return all containers with this installation's label, running or not.

        Raises:
            SandboxError: The daemon does not answer.
        """
        wanted = {"label": [f"{LABEL_INSTALLATION}={self._spec.installation}"]}
        listed = await self._api.call(
            "GET", "/containers/json", params={"all": "true", "filters": json.dumps(wanted)}
        )
        return [info for entry in listed if (info := self._ours(entry)) is not None]

    def _ours(self, entry: Json) -> ContainerInfo | None:
        """Return a listed container if it belongs to this installation, otherwise None.

        Its name must match too: a container to which someone copied the labels must not be removed.
        """
        labels, names = entry["Labels"] or {}, entry["Names"] or [""]
        chat, name = labels.get(LABEL_CHAT), names[0].lstrip("/")
        if not chat or labels.get(LABEL_INSTALLATION) != self._spec.installation:
            return None
        return (
            ContainerInfo(name, chat, entry["Id"], entry["State"]) if name == self._spec.name(chat) else None
        )

    async def aclose(self) -> None:
        """Close the connections. The caller removes the containers."""
        for chat_id in tuple(self._inits):
            self._let_go(chat_id)
        await self._watched.aclose()
        await self._api.aclose()

    def _advised(self, error: ApiError) -> SandboxError:
        text = str(error)
        own = not is_rumis(self._spec.image)
        if own and '"bash"' in text and "executable file not found" in text:
            return SandboxError(
                "The image {image} has no bash, with which Rumi starts a container.",
                "Add bash and sleep to it, or take another one: [sandbox] image.",
                image=self._spec.image,
            )
        if "No such image" in text:
            return SandboxError(
                "The sandbox's image {image} is not there.",
                "Make it with: rumi debug sandbox build",
                image=self._spec.image,
            )
        if "bind source path does not exist" in text:
            return SandboxError(
                "The Docker daemon does not see the workspace's folder: it runs on another machine "
                "or in another container.",
                "Use this machine's daemon, or mount RUMI_HOME under the same path there.",
            )
        if "seccomp" in text:
            return SandboxError(
                "Docker cannot filter system calls here. {message}", "Use bubblewrap.", message=error.message
            )
        return error


def _sees(pid: int, workspace: Path) -> bool:
    """Return False if the folder is a mount, and a container has at /workspace what lies beneath it."""
    if not os.path.ismount(workspace):
        return True
    try:
        return pid > 0 and os.path.samestat(os.stat(f"/proc/{pid}/root/workspace"), workspace.stat())
    except OSError:
        return False


def _is_workspace(mount: Json, home: Path) -> bool:
    """Return True if a mount is a folder of the home at /workspace."""
    return mount.get("Destination") == "/workspace" and home in Path(mount.get("Source") or "/").parents
