"""The Docker engine: makes, finds and removes the containers of this installation."""

import json
from pathlib import Path

import trio

from rumi.sandbox.docker.api import ApiError, EngineApi
from rumi.sandbox.docker.box import DockerBox
from rumi.sandbox.docker.spec import LABEL_CHAT, LABEL_INSTALLATION, BoxSpec
from rumi.sandbox.identity import sandbox_user
from rumi.sandbox.types import BoxInfo, EngineKind, Limits, SandboxError

CREATE_S = 600.0
"""A create that was sent is listened to for this long: only its answer says whether there is a container.
Callers that cannot wait stop waiting, not the call; see `rumi.sandbox.intents`."""
REMOVE_S = 20.0

_LACKING = {
    "MemoryLimit": "Docker on this machine cannot bound a chat's memory.",
    "SwapLimit": "Docker on this machine cannot bound a chat's swap; switch swap off.",
    "PidsLimit": "Docker on this machine cannot bound a chat's number of processes.",
    "CpuCfsQuota": "Docker on this machine cannot bound a chat's share of the processors.",
}


class DockerEngine:
    """Boxes as containers of one Docker daemon. Make and close it inside one trio run."""

    def __init__(
        self,
        installation: str,
        limits: Limits,
        *,
        image: str = "rumi-runner:latest",
        address: str | None = None,
        home: Path | None = None,
        user: tuple[int, int] | None = None,
    ) -> None:
        """Connects to nothing yet. `address` is as DOCKER_HOST.

        `home` is RUMI_HOME, which has the files that name the user inside; without it the user has only a
        number there. `user` is the uid and gid of commands, by default as `sandbox_user` says.

        Raises:
            SandboxError: an address that is not understood, or there is no user for commands.
        """
        self._api = EngineApi(address)
        names = home.absolute() / "run" if home is not None else None
        self._spec = BoxSpec(installation, image, user or sandbox_user(installation, home), limits, names)
        self._degraded: tuple[str, ...] = ()

    @property
    def kind(self) -> EngineKind:
        """Which engine it is."""
        return "docker"

    @property
    def user(self) -> tuple[int, int]:
        """The uid and gid that commands run as."""
        return self._spec.user

    @property
    def degraded(self) -> tuple[str, ...]:
        """Promises that the daemon cannot keep, a sentence each. Known after `examine`."""
        return self._degraded

    @property
    def api(self) -> EngineApi:
        """The client, for whoever looks after the image."""
        return self._api

    async def examine(self) -> None:
        """Ask the daemon what it can bound.

        Raises:
            SandboxError: it does not answer, or is of a kind in which the sandbox would not hold.
        """
        info = await self._api.call("GET", "/info")
        options = " ".join(info.get("SecurityOptions") or ())
        if "name=rootless" in options or "name=userns" in options:
            raise SandboxError(
                "This Docker daemon maps users (rootless, or userns-remap), so commands could not use the "
                "files of their workspace.",
                "Use the machine's ordinary daemon, or set [sandbox] backend to bubblewrap.",
            )
        if "name=seccomp" not in options:
            raise SandboxError(
                "This Docker daemon cannot filter system calls (no seccomp).",
                "Use a kernel and a Docker with seccomp, or set [sandbox] backend to bubblewrap.",
            )
        self._degraded = tuple(text for key, text in _LACKING.items() if info.get(key) is False)

    async def create(self, chat_id: str, workspace: Path) -> DockerBox:
        """Make the chat's container and start it. A container that has its name already is removed first.

        The workspace's folder must exist. Cancelled half-way it may have created: the caller then calls
        `remove`, after the answer to the create came, or nobody knows what to remove.

        Raises:
            SandboxError: with what to do about it.
        """
        try:
            self._spec.write_names()
        except OSError as error:
            raise SandboxError(f"{self._spec.names} cannot be written: {error.strerror}.") from error
        request = self._spec.request(chat_id, workspace)
        created = None
        for _ in range(3):
            try:
                created = await self._api.call(
                    "POST",
                    "/containers/create",
                    params={"name": self._spec.name(chat_id)},
                    body=request,
                    timeout_s=CREATE_S,
                )
                break
            except ApiError as error:
                if error.status != 409:
                    raise self._advised(error) from error
                # Left by a process that was killed, or on its way out.
                await self.remove(chat_id)
        if created is None:
            raise SandboxError(f"Another container keeps the name {self._spec.name(chat_id)}.", "Remove it.")
        box = DockerBox(self._api, created["Id"])
        try:
            await self._api.call("POST", f"/containers/{box.container_id}/start")
        except ApiError as error:
            raise self._advised(error) from error
        await box.entered()
        return box

    async def remove(self, chat_id: str) -> None:
        """Remove the chat's container by its name and return only when nothing has that name. Idempotent.

        Raises:
            SandboxError: the daemon did not confirm it; call it again later.
        """
        path = f"/containers/{self._spec.name(chat_id)}"
        with trio.move_on_after(REMOVE_S):
            pause = 0.02
            while True:
                try:
                    await self._api.call("DELETE", path, params={"force": "true", "v": "true"})
                except ApiError as error:
                    if error.status == 404:
                        return
                    if error.status != 409:  # 409: somebody is removing it already
                        raise
                    await trio.sleep(pause)
                    pause = min(pause * 2, 1.0)
                # Once more: only "there is none" ends this.
        raise SandboxError(
            f"Docker did not remove the container {self._spec.name(chat_id)} in time.",
            "Restart the Docker daemon (systemctl restart docker) if this lasts.",
        )

    async def boxes(self) -> list[BoxInfo]:
        """All containers that carry this installation's label, running or not.

        Raises:
            SandboxError: the daemon does not answer.
        """
        wanted = {"label": [f"{LABEL_INSTALLATION}={self._spec.installation}"]}
        listed = await self._api.call(
            "GET", "/containers/json", params={"all": "true", "filters": json.dumps(wanted)}
        )
        return [
            BoxInfo(entry["Names"][0].lstrip("/"), entry["Labels"][LABEL_CHAT], entry["Id"], entry["State"])
            for entry in listed
            # The name too: a container that someone copied the label onto is not ours to remove.
            if entry["Names"] and entry["Labels"].get(LABEL_CHAT)
            if entry["Names"][0].lstrip("/") == self._spec.name(entry["Labels"][LABEL_CHAT])
        ]

    async def aclose(self) -> None:
        """Close connections. Containers are the caller's to remove."""
        await self._api.aclose()

    def _advised(self, error: ApiError) -> SandboxError:
        text = str(error)
        if "No such image" in text:
            return SandboxError(
                f"The sandbox's image {self._spec.image} is not there.", "Make it with: rumi sandbox build"
            )
        if "bind source path does not exist" in text:
            return SandboxError(
                "The Docker daemon does not see the workspace's folder: it runs on another machine or in "
                "another container.",
                "Use this machine's daemon, or mount RUMI_HOME under the same path there.",
            )
        if "seccomp" in text:
            return SandboxError(f"Docker cannot filter system calls here. {error.message}", "Use bubblewrap.")
        return error
