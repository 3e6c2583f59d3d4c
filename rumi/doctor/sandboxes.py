"""What commands run in: the daemon, its image, a container's own view of itself, and what was left over."""

import os
import secrets
import shutil
import tempfile
from pathlib import Path

import trio

from rumi.building import find_engine, image_state, sandbox_limits
from rumi.config import Loaded
from rumi.doctor.check import Check
from rumi.home import Home
from rumi.sandbox import Command, Engine, Limits, SandboxError, sandbox_user

REBUILD = "Make it anew: rumi sandbox build"
REMOVAL_S = 25.0
SELF_VIEW = (
    "cat /proc/self/status; cat /proc/net/dev; "
    'touch /never 2>/dev/null && echo "Root: writable"; echo Seen: all'
)
"""What a command in the sandbox says about itself."""

DEGRADED_MEND = "Use Docker, or let Rumi make control groups: as a service, with Delegate=yes in its unit."


async def docker(home: Home, loaded: Loaded) -> list[Check]:
    """The daemon, and whether a container as chats get it is what was promised.

    Raises:
        SandboxError: no daemon answers.
    """
    engine = await find_engine(home, loaded, "docker")
    try:
        checks = [Check("docker", "ok", "the daemon answers")]
        checks += [
            Check("docker", "warning", f"degraded: {why}", "See docs/operations.md, Docker.")
            for why in engine.degraded
        ]
        image = await image_state(engine, loaded)
        if not image.image_id:
            return [*checks, Check("image", "warning", image.fault, "It is built at the first chat.")]
        if image.fault:
            return [*checks, Check("image", "warning", image.fault, REBUILD)]
        checks.append(Check("image", "ok", f"{image.image}, made of {image.made_of}"))
        return [*checks, await _container(engine, home, sandbox_limits(loaded))]
    finally:
        with trio.move_on_after(5, shield=True):
            await engine.aclose()


async def _container(engine: Engine, home: Home, limits: Limits) -> Check:
    """Start one as chats do, let it look at itself, and remove it."""
    chat = f"doctor-{secrets.token_hex(4)}"
    workspace = Path(tempfile.mkdtemp(prefix="probe-", dir=home.run))
    said = bytearray()
    try:
        if os.geteuid() == 0:
            os.chown(workspace, *sandbox_user())
        box = await engine.create(chat, workspace)
        code = await box.execute(Command(("sh", "-c", SELF_VIEW)), said.extend, said.extend)
    except SandboxError as error:
        return Check(
            "container", "failure", f"none can be used: {error.message.rstrip('.')}", error.advice or REBUILD
        )
    finally:
        with trio.move_on_after(REMOVAL_S, shield=True):
            await engine.remove(chat)
        shutil.rmtree(workspace, ignore_errors=True)
    text = said.decode("utf-8", "replace")
    if code != 0 or "Seen: all" not in text:
        first = next(iter(text.strip().splitlines()), "nothing")
        return Check("container", "failure", f"commands do not run in it (exit {code}, {first})", REBUILD)
    missing = broken_promises(text)
    if missing:
        mend = "Commands are not held as promised: do not use it. Look at the daemon's version and settings."
        return Check("container", "failure", "; ".join(missing), mend)
    found = "no capabilities, no new privileges, system calls filtered, no network, root read-only"
    return Check("container", "ok", f"{found}; {limits.memory_bytes // 2**20} MB, {limits.pids} processes")


def broken_promises(text: str) -> list[str]:
    """What the container's own view lacks. `text` has /proc/self/status and /proc/net/dev in it."""
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    status = {name.strip(): value.split() for name, value in fields.items()}
    wanted = [
        (
            "it has capabilities",
            all(set(status.get(f"Cap{kind}", ["?"])[0]) == {"0"} for kind in ("Eff", "Prm", "Bnd")),
        ),
        ("commands may gain privileges", status.get("NoNewPrivs") == ["1"]),
        ("system calls are not filtered", status.get("Seccomp") == ["2"]),
        ("commands run as root", status.get("Uid", ["0"])[0] != "0"),
        ("its root can be written", "Root" not in status),
        ("it has a network", not any(name.startswith(("eth", "en", "wl")) for name in status)),
    ]
    return [what for what, kept in wanted if not kept]


async def bubblewrap(home: Home, loaded: Loaded) -> list[Check]:
    """Whether a sandbox starts, and what it cannot bound here.

    Raises:
        SandboxError: none starts.
    """
    engine = await find_engine(home, loaded, "bubblewrap")
    try:
        checks = [Check("bubblewrap", "ok", "a sandbox starts")]
        # Where Docker is used, this is only what would be without it.
        checks += [
            Check("bubblewrap", "warning", f"degraded: {why}", DEGRADED_MEND) for why in engine.degraded
        ]
        return checks
    finally:
        with trio.move_on_after(5, shield=True):
            await engine.aclose()


async def leftovers(home: Home) -> list[Check]:
    """Containers, processes and control groups of this installation, while nobody is there to use them."""
    from rumi.sandbox.bubblewrap.cgroups import Cgroups
    from rumi.sandbox.bubblewrap.processes import named

    if home.holder():
        return [Check("leftovers", "ok", "what there is belongs to the running Rumi")]
    installation = home.installation()
    found = [f"process {pid}" for pid in named(f"-{installation}")]
    found += [f"control group {group.folders[0].name}" for group in Cgroups(installation).leftovers()]
    found += await _containers(installation)
    if found:
        return [Check("leftovers", "warning", ", ".join(found), "rumi sandbox clean")]
    return [Check("leftovers", "ok", "nothing of this installation is left over")]


async def _containers(installation: str) -> list[str]:
    """Names of its containers, as far as a daemon answers: that it does not is another check's finding."""
    from rumi.sandbox.docker.engine import DockerEngine

    try:
        engine = DockerEngine(installation, Limits())
    except SandboxError:
        return []
    try:
        await engine.api.ping(2)
        return [f"container {box.name}" for box in await engine.boxes()]
    except SandboxError:
        return []
    finally:
        with trio.move_on_after(5, shield=True):
            await engine.aclose()
