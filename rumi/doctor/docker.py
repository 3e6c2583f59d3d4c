"""Docker: the daemon, its image, and a container as chats get it, looked at from inside."""

import os
import pwd
import secrets
import shutil
import tempfile
from pathlib import Path

import httpx
import trio

from rumi.building import find_engine, image_state, sandbox_limits
from rumi.config import Loaded
from rumi.doctor.check import Check
from rumi.home import Home
from rumi.sandbox import Command, Engine, Limits, SandboxError
from rumi.texts import Language
from rumi.texts import doctor_sandbox as words
from rumi.texts.doctor import Sentence

REMOVAL_S = 25.0
BOUNDS = {
    "memory": ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
    "pids": ("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"),
}
"""Where a container sees its own bounds, by version 2 of control groups and by version 1."""

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
"""What a command in the sandbox says about itself."""


async def docker(home: Home, loaded: Loaded, language: Language) -> list[Check]:
    """The daemon, and whether a container as chats get it is what was promised."""
    try:
        engine = await find_engine(home, loaded, "docker")
        try:
            return await _examined(engine, home, loaded, language)
        finally:
            with trio.move_on_after(5, shield=True):
                await engine.aclose()
    except SandboxError as error:
        return [why_not(error, loaded, language)]


async def _examined(engine: Engine, home: Home, loaded: Loaded, language: Language) -> list[Check]:
    checks = [Check("docker", "ok", words.DOCKER.said(language))]
    mend = words.MEND_DOCKER_DEGRADED.said(language)
    checks += [
        Check("docker", "warning", words.DEGRADED.said(language, why=why), mend) for why in engine.degraded
    ]
    image = await _image(engine, loaded, language)
    checks.append(image)
    if image.verdict == "ok":
        checks.append(await _container(engine, home, sandbox_limits(loaded), language))
    return checks


def why_not(error: SandboxError, loaded: Loaded, language: Language) -> Check:
    """There is none, it is not ours to use, it hangs, or it is of a kind that cannot be used."""
    address, cause = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock", error.__cause__
    if isinstance(cause, httpx.ConnectError) and "Permission denied" in str(cause):
        found = words.NOT_ALLOWED.said(language, address=address)
        mend = words.MEND_DOCKER_GROUP.said(language, user=_user())
    elif isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout):
        found = words.NO_DAEMON.said(language, address=address)
        mend = words.MEND_NO_DAEMON.said(language)
        if loaded.settings.sandbox.backend != "docker":
            mend += words.OTHERWISE_BUBBLEWRAP.said(language)
    elif cause is not None:
        found, mend = words.DOCKER_HANGS.said(language), words.MEND_DOCKER_HANGS.said(language)
    else:
        found, mend = error.message.rstrip("."), error.advice
    return Check("docker", "warning", found, mend)


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


async def _image(engine: Engine, loaded: Loaded, language: Language) -> Check:
    """One that is missing or old is made at the first chat; what is not ours was put there by somebody."""
    image = await image_state(engine, loaded)
    if not image.image_id:
        found = words.NO_IMAGE.said(language, image=image.image)
        return Check("image", "warning", found, words.MEND_NO_IMAGE.said(language))
    rebuild = words.REBUILD.said(language)
    if image.fault and not image.source:
        return Check("image", "failure", words.FOREIGN_IMAGE.said(language, image=image.image), rebuild)
    if image.fault:
        return Check("image", "warning", words.OLD_IMAGE.said(language, image=image.image), rebuild)
    source = "runner/Dockerfile" if image.source == "alpine" else words.FROM_HOST.said(language)
    return Check("image", "ok", words.IMAGE.said(language, image=image.image, source=source))


async def _container(engine: Engine, home: Home, limits: Limits, language: Language) -> Check:
    """Start one as chats do, let it look at itself, and remove it."""
    chat = f"doctor-{secrets.token_hex(4)}"
    workspace = Path(tempfile.mkdtemp(prefix="probe-", dir=home.run))
    said = bytearray()
    rebuild = words.REBUILD.said(language)
    try:
        if os.geteuid() == 0:
            os.chown(workspace, *engine.user)
        box = await engine.create(chat, workspace)
        code = await box.execute(Command(("sh", "-c", SELF_VIEW)), said.extend, said.extend)
    except SandboxError as error:
        found = words.UNUSABLE.said(language, error=error.message.rstrip("."))
        return Check("container", "failure", found, error.advice or rebuild)
    finally:
        with trio.move_on_after(REMOVAL_S, shield=True):
            await engine.remove(chat)
        shutil.rmtree(workspace, ignore_errors=True)
    text = said.decode("utf-8", "replace")
    if code != 0 or "Seen: all" not in text:
        first = next(iter(text.strip().splitlines()), "-")
        found = words.NOTHING_RUNS.said(language, code=code, said=first)
        return Check("container", "failure", found, rebuild)
    missing = broken_promises(text, limits)
    if missing:
        found = "; ".join(each.said(language) for each in missing)
        return Check("container", "failure", found, words.MEND_PROMISES.said(language))
    if "Workspace: writable" not in text:
        found, mend = words.NO_FILES.said(language), words.MEND_NO_FILES.said(language)
        return Check("container", "failure", found, mend)
    bounds = {"memory": limits.memory_bytes // 2**20, "pids": limits.pids}
    return Check("container", "ok", words.CONTAINER.said(language, **bounds))


def broken_promises(text: str, limits: Limits) -> list[Sentence]:
    """What the container's own view lacks. `text` has what `SELF_VIEW` prints.

    A bound that it does not see is not judged: the daemon says itself which ones it cannot keep.
    """
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    status = {name.strip(): value.split() for name, value in fields.items()}
    wanted = [
        (
            words.CAPABILITIES,
            all(set(status.get(f"Cap{kind}", ["?"])[0]) == {"0"} for kind in ("Eff", "Prm", "Bnd")),
        ),
        (words.PRIVILEGES, status.get("NoNewPrivs") == ["1"]),
        (words.NO_FILTER, status.get("Seccomp") == ["2"]),
        (words.ROOT_USER, status.get("Uid", ["0"])[0] != "0"),
        (words.ROOT_WRITABLE, "Root" not in status),
        (words.NETWORK, not any(name.startswith(("eth", "en", "wl")) for name in status)),
        (words.MEMORY_UNBOUND, _within(status.get("Bound-memory"), limits.memory_bytes)),
        (words.PIDS_UNBOUND, _within(status.get("Bound-pids"), limits.pids)),
    ]
    return [what for what, kept in wanted if not kept]


def _within(seen: list[str] | None, most: int) -> bool:
    """Whether a bound holds. "max" is none."""
    return seen is None or (seen[:1] != [] and seen[0].isdigit() and int(seen[0]) <= most)
