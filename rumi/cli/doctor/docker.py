"""Checks of Docker: the daemon, its image, and the limits inside a chat's container."""

import os
import pwd
import secrets
import shutil
import tempfile
from pathlib import Path

import httpx
import trio

from rumi.app.engine import close_engine, find_engine, image_state, sandbox_limits, who_starts_commands
from rumi.cli.doctor.check import Check
from rumi.platform.config.cascade import Loaded
from rumi.platform.home import Home
from rumi.sandbox.engine import Command, Engine, SandboxError, SandboxLimits
from rumi.texts import Text, joined

REMOVAL_S = 25.0
REBUILD = Text("Rebuild it: rumi debug sandbox build")
BOUNDS = {
    "memory": ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
    "pids": ("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"),
}
"""The files in which a container sees the limits on itself, for control groups v2 and v1."""

SELF_VIEW = (
    "cat /proc/self/status; cat /proc/net/dev; "
    'touch /never 2>/dev/null && echo "Root: writable"; '
    'touch /workspace/probe 2>/dev/null && echo "Workspace: writable"; '
    + "".join(
        f'if [ -r {file} ]; then echo "Bound-{what}: $(cat {file})"; fi; '
        for what, files in BOUNDS.items()
        for file in files
    )
    + "echo Seen: all"
)
"""The command that, run in a sandbox, prints the limits that the sandbox sees."""


async def docker(home: Home, loaded: Loaded) -> list[Check]:
    """Check the Docker daemon, and whether a chat's container enforces the limits that Rumi promises."""
    try:
        engine = await find_engine(home, loaded, "docker")
        try:
            return await _examined(engine, home, loaded)
        finally:
            await close_engine(engine)
    except SandboxError as error:
        return [why_not(error, loaded)]


async def _examined(engine: Engine, home: Home, loaded: Loaded) -> list[Check]:
    checks = [Check("docker", "ok", Text("the daemon answers"))]
    fix = Text("Change that in the kernel's settings (cgroups, swap): docs/operations.md, Docker.")
    checks += [Check("docker", "warning", Text("degraded: {why}", why=why), fix) for why in engine.degraded]
    image = await _image(engine, loaded)
    checks.append(image)
    if image.verdict == "ok":
        checks += await _container(engine, home, sandbox_limits(loaded))
        checks.append(Check("commands", "ok", await who_starts_commands(engine)))
    return checks


def why_not(error: SandboxError, loaded: Loaded) -> Check:
    """Explain why Docker cannot be used: it is missing, forbidden, hanging, or of an unsupported kind."""
    address, cause = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock", error.__cause__
    if isinstance(cause, httpx.ConnectError) and "Permission denied" in str(cause):
        found = Text("this user may not use the daemon at {address}", address=address)
        fix = Text(
            "As root: usermod -aG docker {user}, then log in again. That gives root's power: "
            "docs/operations.md.",
            user=_user(),
        )
    elif isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout):
        found = Text("no daemon answers at {address}", address=address)
        fix = Text("Install Docker, or start its daemon: systemctl start docker.")
        if loaded.settings.sandbox.backend != "docker":
            fix = joined((fix, Text("Without Docker bubblewrap is used.")))
    elif cause is not None:
        found = Text("the daemon does not answer in time")
        fix = Text("Restart the daemon if this lasts: systemctl restart docker")
    else:
        found, fix = error.message, error.advice
    return Check("docker", "warning", found, fix)


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


async def _image(engine: Engine, loaded: Loaded) -> Check:
    """Check the image. A missing or old image is only a warning, because the first chat builds a new one.

    An image that has the same name but was not built by Rumi is a failure.
    """
    image = await image_state(engine, loaded)
    if image.own and not image.fault:
        return Check("image", "ok", Text("{image}, your own", image=image.image))
    if image.own:
        return Check(
            "image",
            "failure",
            Text("the image {image} is not there", image=image.image),
            Text("Pull it, or make it with docker."),
        )
    if not image.image_id:
        found = Text("the image {image} is not there", image=image.image)
        return Check(
            "image", "warning", found, Text("The first chat builds it. At once: rumi debug sandbox build")
        )
    if image.fault and not image.source:
        return Check(
            "image", "failure", Text("Rumi did not make the image {image}", image=image.image), REBUILD
        )
    if image.fault:
        return Check(
            "image",
            "warning",
            Text("another version of Rumi made the image {image}", image=image.image),
            REBUILD,
        )
    source = Text("runner/Dockerfile") if image.source == "alpine" else Text("this host's own programs")
    return Check("image", "ok", Text("{image}, made of {source}", image=image.image, source=source))


async def _container(engine: Engine, home: Home, limits: SandboxLimits) -> list[Check]:
    """Start a container like a chat's, let it report the limits that it sees, and remove it."""
    chat = f"doctor-{secrets.token_hex(4)}"
    workspace = Path(tempfile.mkdtemp(prefix="probe-", dir=home.run))
    said = bytearray()
    try:
        if os.geteuid() == 0:
            os.chown(workspace, *engine.user)
        container = await engine.create(chat, workspace)
        code = await container.execute(Command(("sh", "-c", SELF_VIEW)), said.extend, said.extend)
    except SandboxError as error:
        found = Text("none can be used: {message}", message=error.message)
        return [Check("container", "failure", found, error.advice or REBUILD)]
    finally:
        # Shielded, so that a check that ran out of time or was cancelled leaves no container behind.
        with trio.move_on_after(REMOVAL_S, shield=True):
            await engine.remove(chat)
        shutil.rmtree(workspace, ignore_errors=True)
    text = said.decode("utf-8", "replace")
    if code != 0 or "Seen: all" not in text:
        first = next(iter(text.strip().splitlines()), "-")
        found = Text("commands do not run in it (exit {code}: {first})", code=code, first=first)
        return [Check("container", "failure", found, REBUILD)]
    missing = broken_promises(text, limits)
    if missing:
        held = Text(
            "Docker does not keep the promised limits: do not use it. Look at the daemon's version "
            "and settings."
        )
        return [Check("container", "failure", limit, held) for limit in missing]
    if "Workspace: writable" not in text:
        found = Text("commands cannot write their chat's files (/workspace)")
        fix = Text("Does the daemon run on another machine, or map users? docs/operations.md, Docker.")
        return [Check("container", "failure", found, fix)]
    found = Text(
        "no capabilities, no new privileges, system calls filtered, no network, root read-only; "
        "{memory_bytes} MB, {pids} processes",
        memory_bytes=limits.memory_bytes // 2**20,
        pids=limits.pids,
    )
    return [Check("container", "ok", found)]


def broken_promises(text: str, limits: SandboxLimits) -> list[str]:
    """Return the promised limits that are not enforced, according to `text`, the output of `SELF_VIEW`.

    A limit that the container cannot see is not checked: the Docker daemon itself reports limits that it
    cannot enforce.
    """
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    status = {name.strip(): value.split() for name, value in fields.items()}
    wanted = [
        (
            Text("it has capabilities"),
            all(set(status.get(f"Cap{kind}", ["?"])[0]) == {"0"} for kind in ("Eff", "Prm", "Bnd")),
        ),
        (Text("commands may gain privileges"), status.get("NoNewPrivs") == ["1"]),
        (Text("system calls are not filtered"), status.get("Seccomp") == ["2"]),
        (Text("commands run as root"), status.get("Uid", ["0"])[0] != "0"),
        (Text("its root can be written"), "Root" not in status),
        (Text("it has a network"), not any(name.startswith(("eth", "en", "wl")) for name in status)),
        (Text("its memory is not bounded"), _within(status.get("Bound-memory"), limits.memory_bytes)),
        (Text("its processes are not bounded"), _within(status.get("Bound-pids"), limits.pids)),
    ]
    return [what for what, holds in wanted if not holds]


def _within(seen: list[str] | None, most: int) -> bool:
    """Return True if a limit is enforced. The value "max" means that there is no limit."""
    return seen is None or (seen[:1] != [] and seen[0].isdigit() and int(seen[0]) <= most)
