"""Preparation of the sandbox engine: builds its image or root file system, and describes its state."""

import contextlib
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import trio

from rumi.errors import ConfigError, UsageError
from rumi.platform.config.cascade import Loaded
from rumi.platform.home import Home
from rumi.sandbox.chat_files import ChatFiles
from rumi.sandbox.choose import Backend, choose_engine
from rumi.sandbox.disk import free_on
from rumi.sandbox.engine import Engine, SandboxError, SandboxLimits
from rumi.sandbox.folders.linked import LinkedFolders
from rumi.sandbox.folders.views import Views
from rumi.sandbox.lease import Leases, no_leases
from rumi.sandbox.project.tree import ProjectLimits
from rumi.sandbox.shared import Fault, faults
from rumi.texts import Text
from runner.programs import Selection, package_name

if TYPE_CHECKING:
    from rumi.sandbox.docker.image import ImageState

Progress = Callable[[str], None]

OFFICE_MB, PACKAGES_MB, CORE_MB = 450, 430, 150
"""The approximate size of a sandbox with `tools = "office"`, with the default packages, and without any."""

DAEMON_S = 2.0
"""If another engine is used, the Docker daemon has this many seconds to answer."""


def sandbox_limits(loaded: Loaded) -> SandboxLimits:
    """Return the limits on one chat's sandbox."""
    section = loaded.settings.sandbox
    mega = 1024 * 1024
    return SandboxLimits(
        memory_bytes=section.memory_bytes,
        cpus=section.cpus,
        pids=section.pids,
        tmp_bytes=section.tmp_mb * mega,
        timeout_s=section.timeout_s,
        max_timeout_s=section.max_timeout_s,
        background_commands=section.background_commands,
        output_limit=section.output_limit,
        workspace_bytes=section.workspace_mb * mega,
        workspace_files=section.workspace_files,
        reserve_bytes=None if section.reserve_mb is None else section.reserve_mb * mega,
        idle_ttl_s=section.idle_ttl_s,
    )


def faults_of_files(home: Home, loaded: Loaded, user: tuple[int, int]) -> list[Fault]:
    """Return the problems with the folder configured for chat files; none if none is configured. Blocking."""
    folder = home.with_files(loaded.settings.store.workspaces).files
    return [] if folder is None else faults(folder, user, sandbox_limits(loaded).reserve_bytes)


async def require_files(home: Home, loaded: Loaded, user: tuple[int, int]) -> None:
    """Check the folder configured for chat files, if one is configured.

    Raises:
        UsageError: The folder cannot be used. The error says what to do.
    """
    test = partial(faults_of_files, home, loaded, user)
    found = await trio.to_thread.run_sync(test, abandon_on_cancel=True, limiter=trio.CapacityLimiter(1))
    if found:
        raise UsageError(found[0].found, found[0].fix)


async def find_engine(
    home: Home, loaded: Loaded, backend: Backend | None = None, leases: Leases = no_leases
) -> Engine:
    """Return the engine named `backend`, by default the configured one. It is not prepared yet.

    The caller must close the engine. A sandbox ends when its lease, a right that expires, ends in `leases`.

    Raises:
        SandboxError: No engine works here. The error says what to do.
    """
    settings = loaded.settings.sandbox
    return await choose_engine(
        backend or settings.backend,
        home=home.root,
        installation=home.installation(),
        limits=sandbox_limits(loaded),
        image=settings.image,
        selection=selection_of(loaded),
        leases=leases,
    )


def selection_of(loaded: Loaded) -> Selection:
    """Return the programs that the configuration selects for the sandbox."""
    settings = loaded.settings.sandbox
    return Selection(settings.tools, settings.extra_programs, settings.python_packages)


async def close_engine(engine: Engine) -> None:
    """Close the engine's connections within five seconds, even if cancelled."""
    with trio.move_on_after(5, shield=True):
        await engine.aclose()


async def ready_engine(
    home: Home,
    loaded: Loaded,
    progress: Progress,
    *,
    for_many: bool = False,
    leases: Leases = no_leases,
) -> Engine:
    """Return the engine, after building what it needs. `progress` is called with a line for each long step.

    `for_many` is True if the engine will serve people who do not all trust each other. In that case
    bubblewrap is used only if the configuration names it.

    Raises:
        SandboxError: No engine works here. The error says what to do.
        ConfigError: Only bubblewrap works here, and the configuration does not name it.
    """
    progress(Text("looking for a sandbox"))
    engine = await find_engine(home, loaded, leases=leases)
    try:
        if for_many and engine.kind == "bubblewrap" and loaded.settings.sandbox.backend != "bubblewrap":
            raise ConfigError(
                "No Docker daemon answers, and many users need one: bubblewrap bounds less.",
                'Start Docker, or choose it anyway in config.toml: [sandbox] backend = "bubblewrap"',
            )
        if engine.kind == "docker":
            await _ready_image(engine, home, loaded, progress)
    except BaseException:
        await close_engine(engine)
        raise
    return engine


async def _ready_image(engine: Engine, home: Home, loaded: Loaded, progress: Progress) -> None:
    """Build Docker's image if it is missing or outdated; never build an image that the user provides.

    Raises:
        SandboxError: The image that the user provides is missing, or Rumi's image cannot be built.
    """
    from rumi.sandbox.docker.engine import DockerEngine

    assert isinstance(engine, DockerEngine)
    state = await image_state(engine, loaded)
    if not state.sound:
        if state.own:
            raise SandboxError(
                "The image {image} is not there.", "Pull it, or make it with docker.", image=state.image
            )
        await build_image(home, loaded, progress)
        state = await image_state(engine, loaded)
    engine.missing_programs = state.missing
    engine.packages = selection_of(loaded).package_names if state.own else state.packages


async def image_state(engine: Engine, loaded: Loaded) -> "ImageState":
    """Return the state of the sandbox's Docker image."""
    from rumi.sandbox.docker.engine import DockerEngine
    from rumi.sandbox.docker.image import look_at_image

    assert isinstance(engine, DockerEngine)
    return await look_at_image(engine.api, loaded.settings.sandbox.image, selection_of(loaded))


async def build_image(home: Home, loaded: Loaded, progress: Progress) -> list[str]:
    """Build Docker's image; return lines that describe the result."""
    from rumi.sandbox.docker import image

    name = loaded.settings.sandbox.image
    progress(installing(selection_of(loaded)))
    report = await image.build_image(name, progress, selection=selection_of(loaded), folder=home.run)
    made_of = "runner/Dockerfile" if report.source == "alpine" else "this host's own programs"
    lines = [
        Text(
            "{name}: {size} MB, made of {made_of}",
            name=name,
            size=f"{report.bytes / 1e6:.0f}",
            made_of=made_of,
        ),
        *_lacking(report.missing),
        *describe_packages(selection_of(loaded), report.packages),
    ]
    if report.by_exec:
        lines.append(
            Text("commands: started by Docker's exec, which takes longer: {by_exec}", by_exec=report.by_exec)
        )
    return lines


async def build_rootfs(home: Home, loaded: Loaded, progress: Progress) -> list[str]:
    """Build bubblewrap's root file system; return lines that describe the result."""
    from rumi.sandbox.identity import sandbox_user
    from runner.packages import Packages, install
    from runner.rootfs import RootfsReport
    from runner.rootfs import build_rootfs as build

    selection = selection_of(loaded)

    def report_step(line: str) -> None:
        trio.from_thread.run_sync(progress, line)

    def installed() -> Packages:
        return install(home.packages, selection.packages, report_step, selection.office)

    def copied() -> RootfsReport:
        uid, gid = sandbox_user(home.installation(), home.root)
        return build(home.rootfs, uid=uid, gid=gid, selection=selection, packages=home.packages)

    progress(installing(selection))
    packages = await trio.to_thread.run_sync(installed)
    progress(Text("copying this host's programs"))
    report = await trio.to_thread.run_sync(copied)
    what = Text(
        "{rootfs}: {size} MB, {count} programs",
        rootfs=home.rootfs,
        size=f"{report.bytes / 1e6:.0f}",
        count=len(report.programs),
    )
    return [
        what,
        *_lacking(report.missing),
        *describe_packages(selection, report.packages, packages.bytes, packages.reason),
    ]


def installing(selection: Selection) -> str:
    """Return the line that announces the build, with the size of the sandbox."""
    size = OFFICE_MB if selection.office else PACKAGES_MB if selection.package_names else CORE_MB
    return Text("Building the sandbox (one time, about {size} MB)", size=size)


def describe_packages(
    selection: Selection, installed: Sequence[str], size: int = 0, reason: str = ""
) -> list[str]:
    """Return lines that say which Python packages the sandbox has, and which it lacks."""
    names, lacking = selection.package_names, selection.lacking(installed)
    there = ", ".join(pin.replace("==", " ") for pin in installed if package_name(pin) in names)
    said: list[str] = []
    if there and size:
        said.append(Text("Python packages, {size} MB: {there}", size=f"{size / 1e6:.0f}", there=there))
    elif there:
        said.append(Text("Python packages: {there}", there=there))
    if lacking and reason:
        missing = ", ".join(lacking)
        said.append(
            Text("Python packages that are not in it: {missing} ({reason})", missing=missing, reason=reason)
        )
    elif lacking:
        said.append(Text("Python packages that are not in it: {missing}", missing=", ".join(lacking)))
    return said


def _lacking(missing: Sequence[str]) -> list[str]:
    """Return lines that say which selected programs the sandbox lacks, and why."""
    from runner.programs import has_privileges

    raised = [name for name in missing if has_privileges(name)]
    lacked = [name for name in missing if name not in raised]
    said: list[str] = (
        [Text("not in it, because this host lacks them: {lacked}", lacked=", ".join(lacked))]
        if lacked
        else []
    )
    if raised:
        said.append(
            Text(
                "not in it, because they have set-id bits or capabilities: {raised}", raised=", ".join(raised)
            )
        )
    return said


async def remove_leftovers(home: Home, engine: Engine) -> list[str]:
    """Remove everything that sandboxes of this installation left behind, for both engines; return the names.

    The caller has locked the home.

    Raises:
        SandboxError: A container could not be removed, or its removal could not be verified.
    """
    removed = await _removed(engine)
    if engine.kind != "docker":
        from rumi.sandbox.docker.engine import DockerEngine

        with contextlib.suppress(SandboxError):  # there is no daemon, or none that can be used
            other = DockerEngine(home.installation(), SandboxLimits(), home=home.root)
            try:
                await other.api.ping(DAEMON_S)
                removed += await _removed(other)
            finally:
                await close_engine(other)
    return removed


async def _removed(engine: Engine) -> list[str]:
    removed = await engine.sweep()
    for container in await engine.containers():
        await engine.remove(container.chat_id)
        removed.append(container.name)
    return removed


async def sandbox_facts(home: Home, loaded: Loaded, engine: Engine) -> list[tuple[str, str]]:
    """Return what `rumi debug sandbox status` prints about the sandbox, as pairs of name and value."""
    facts: list[tuple[str, str]] = [("engine", engine.kind), ("user", str(engine.user[0]))]
    facts.append(("files", files_bound(loaded)))
    facts.append(("disk", describe_free_space(home, loaded)[0]))
    facts.extend(("degraded", why) for why in engine.degraded)
    missing = await trio.to_thread.run_sync(missing_programs, selection_of(loaded))
    own, packages = False, engine.packages
    if engine.kind == "docker":
        image = await image_state(engine, loaded)
        own = image.own
        if image.sound:
            missing, packages = image.missing, image.packages
        facts.append(
            (
                "image",
                image.fault
                or Text("{image}, sound, made of {made_of}", image=image.image, made_of=image.made_of),
            )
        )
        if image.sound:
            facts.append(("commands", await who_starts_commands(engine)))
    if not own:
        there = [name for name in selection_of(loaded).beyond_core if name not in missing]
        facts.append(("tools", f"{loaded.settings.sandbox.tools}: {', '.join(there) or '-'}"))
        facts.extend(("missing", program) for program in _lacking(missing))
        facts.extend(("python", line) for line in describe_packages(selection_of(loaded), packages))
    if engine.kind == "docker":
        containers = await engine.containers()
        facts.extend(
            ("container", f"{container.name}  {container.state}  {container.container_id[:12]}")
            for container in containers
        )
        if not containers:
            facts.append(("containers", "none"))
    return facts


async def who_starts_commands(engine: Engine) -> str:
    """Return a text that says how commands are started in Docker containers.

    Raises:
        SandboxError: The daemon does not answer, or there is no image.
    """
    from rumi.sandbox.docker.engine import DockerEngine

    assert isinstance(engine, DockerEngine)
    if why := await engine.starts_by_exec():
        return Text("started by Docker's exec, which takes longer: {why}", why=why)
    return Text("started by each container's first process")


def files_bound(loaded: Loaded) -> str:
    """Return a text about the limits on a chat's files."""
    section = loaded.settings.sandbox
    return Text(
        "{workspace_mb} MB and {workspace_files} files a chat, watched while a command runs (no disk quotas)",
        workspace_mb=section.workspace_mb,
        workspace_files=section.workspace_files,
    )


def describe_free_space(home: Home, loaded: Loaded) -> tuple[str, bool]:
    """Return a text about the free disk space for chat files, and True if only the reserve is left."""
    folder = home.with_files(loaded.settings.store.workspaces).workspaces
    free = free_on(folder, sandbox_limits(loaded).reserve_bytes)
    said = Text(
        "{size} GB free, {reserve} GB of them kept for Rumi",
        size=f"{free.bytes / 1e9:.1f}",
        reserve=f"{free.reserve_bytes / 1e9:.1f}",
    )
    return said, free.low


def missing_programs(selection: Selection) -> tuple[str, ...]:
    """Return the selected programs that this host and sandboxes built from it do not have. Blocking."""
    from runner.rootfs import missing_programs as missing

    return missing(selection)


def chat_files_of(home: Home, engine: Engine, limits: SandboxLimits, *, alone: bool) -> ChatFiles:
    """Return the places of the chats' files. Chats work on folders only where one process serves all chats.

    A sandbox of Docker sees a mount only if root has made it in the host's namespace.
    """
    if not alone:
        return ChatFiles(home.workspaces, engine.user)
    docker, root = engine.kind == "docker", os.geteuid() == 0
    views = None if docker and not root else Views(engine.user, shared=docker)
    bounds = ProjectLimits(limits.workspace_bytes, limits.workspace_files)
    folders = LinkedFolders(home.root, home.folders, home.workspaces, engine.user, bounds, views)
    return ChatFiles(home.workspaces, engine.user, folders)


def chat_files_at_rest(home: Home, limits: SandboxLimits | None = None) -> ChatFiles:
    """Return the places of the chats' files while no process serves chats: to delete and to compare them."""
    limits = limits or SandboxLimits()
    user, bounds = (os.geteuid(), os.getegid()), ProjectLimits(limits.workspace_bytes, limits.workspace_files)
    folders = LinkedFolders(home.root, home.folders, home.workspaces, user, bounds, None)
    return ChatFiles(home.workspaces, user, folders)
