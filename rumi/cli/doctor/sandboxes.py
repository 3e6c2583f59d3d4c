"""Checks of bubblewrap, the sandbox user, the folder of chat files, and leftovers of both engines."""

import os

from rumi.app.engine import (
    chat_files_at_rest,
    close_engine,
    describe_free_space,
    describe_packages,
    faults_of_files,
    files_bound,
    find_engine,
    image_state,
    missing_programs,
    selection_of,
)
from rumi.cli.doctor.check import Check
from rumi.platform.config.cascade import Loaded
from rumi.platform.home import Home
from rumi.sandbox.choose import Backend
from rumi.sandbox.engine import ContainerInfo, SandboxError, SandboxLimits
from rumi.sandbox.folders.views import why_no_overlay
from rumi.sandbox.identity import sandbox_user
from rumi.texts import Text, joined


async def bubblewrap(home: Home, loaded: Loaded) -> list[Check]:
    """Check that a sandbox starts, and report limits that cannot be enforced here."""
    try:
        engine = await find_engine(home, loaded, "bubblewrap")
    except SandboxError as error:
        fix = error.advice or Text("Let the kernel make user namespaces, or use Docker.")
        return [Check("bubblewrap", "warning", error.message, fix)]
    try:
        fix = Text(
            "Use Docker, or let Rumi make control groups: as a service, with Delegate=yes in its unit."
        )
        return [
            Check("bubblewrap", "ok", Text("a sandbox starts")),
            *(
                Check("bubblewrap", "warning", Text("degraded: {why}", why=why), fix)
                for why in engine.degraded
            ),
        ]
    finally:
        await close_engine(engine)


def user(home: Home) -> list[Check]:
    """Report the sandbox user, and the number of workspaces that a former sandbox user still owns. Blocking.

    Raises:
        SandboxError: There is no user that commands can run as.
    """
    uid, _ = sandbox_user(home.installation(), home.root)
    if uid == os.getuid():
        return [Check("user", "ok", Text("commands run as this user ({uid})", uid=uid))]
    with os.scandir(home.workspaces) as entries:
        former = sum(entry.stat(follow_symlinks=False).st_uid not in (0, uid) for entry in entries)
    found = Text("commands run as {uid}, which no account of this machine has", uid=uid)
    if former:
        handed = Text(
            "chats whose files are still a former user's: {count} (their next command hands them over)",
            count=former,
        )
        found = joined((found, handed), "; ")
    return [Check("user", "ok", found)]


def folders(home: Home) -> list[Check]:
    """Report how commands see a folder that a chat works on, and how many chats work on one. Blocking."""
    count = len(chat_files_at_rest(home).chats())
    chats = Text("chats that work on a folder: {count}", count=count)
    if why := why_no_overlay(home.run, sandbox_user(home.installation(), home.root)):
        fix = Text(
            "It is copied before a chat's first command. A newer kernel, or another disk, avoids that."
        )
        found = Text("a folder cannot be shown through an overlay ({why})", why=why)
        return [Check("folders", "warning", joined((found, chats), "; "), fix)]
    seen = Text("commands see a folder through an overlay")
    return [Check("folders", "ok", joined((seen, chats), "; "))]


def files(home: Home, loaded: Loaded) -> list[Check]:
    """Report the limits on chat files; check the folder of these files and the free disk space. Blocking."""
    user = sandbox_user(home.installation(), home.root)
    if found := faults_of_files(home, loaded, user):
        return [Check("files", "failure", fault.found, fault.fix) for fault in found]
    left, low = describe_free_space(home, loaded)
    checks = [Check("files", "ok", files_bound(loaded))]
    if low:
        fix = Text(
            "Until there is room only commands that delete or read run. Make room, or change "
            "[sandbox] reserve_mb."
        )
        checks.append(Check("files", "failure", left, fix))
    return checks


def programs(loaded: Loaded) -> list[Check]:
    """Report which programs a sandbox built from this host has, and which it lacks. Blocking."""
    selection = selection_of(loaded)
    missing = missing_programs(selection)
    install = Text("Install them, then: rumi sandbox build")
    if basic := [name for name in missing if name not in selection.beyond_core]:
        found = Text("this host lacks {basic}, and so does a sandbox made from it", basic=", ".join(basic))
        return [Check("programs", "warning", found, install)]
    there = [name for name in selection.beyond_core if name not in missing]
    if not missing:
        return [Check("programs", "ok", Text("all allowed programs are here"))]
    found = Text(
        "here are {there}; this host lacks {missing}",
        there=", ".join(there) or "-",
        missing=", ".join(missing),
    )
    return [Check("programs", "ok", found, install)]


async def packages(home: Home, loaded: Loaded, backend: Backend) -> list[Check]:
    """Report which Python packages the engine's sandboxes have, and which configured ones they lack."""
    selection, own = selection_of(loaded), False
    engine = await find_engine(home, loaded, backend)
    try:
        installed = engine.packages
        if engine.kind == "docker":
            image = await image_state(engine, loaded)
            installed, own = image.packages, image.own
    finally:
        await close_engine(engine)
    if own or not selection.package_names:
        return []
    lines = describe_packages(selection, installed)
    if not selection.lacking(installed):
        return [Check("packages", "ok", joined(lines, "; "))]
    fix = Text("Where a package index can be reached: rumi sandbox build")
    return [Check("packages", "warning", joined(lines, "; "), fix)]


async def leftovers(home: Home) -> list[Check]:
    """Report containers, processes and control groups of this installation that no sandbox uses any more."""
    from rumi.sandbox.cgroups import groups_of
    from rumi.sandbox.leftovers import processes_left

    if home.lock_holder():
        return [Check("leftovers", "ok", Text("what there is belongs to the running Rumi"))]
    installation = home.installation()
    containers = await _containers(home, installation)
    known = [container.container_id for container in containers]
    found = [Text("process {pid}", pid=pid) for pid in processes_left(home.root, installation, known)]
    found += [Text("control group {name}", name=group.folders[0].name) for group in groups_of(installation)]
    found += [Text("container {name}", name=container.name) for container in containers]
    if found:
        return [Check("leftovers", "warning", leftover, Text("rumi sandbox clean")) for leftover in found]
    return [Check("leftovers", "ok", Text("nothing of this installation is left over"))]


async def _containers(home: Home, installation: str) -> list[ContainerInfo]:
    """Return the installation's containers; none if no Docker daemon answers, which another check reports."""
    from rumi.sandbox.docker.engine import DockerEngine

    try:
        engine = DockerEngine(installation, SandboxLimits(), home=home.root)
    except SandboxError:
        return []
    try:
        await engine.api.ping(2)
        ours, strangers = await engine.left()
        return [*ours, *strangers]
    except SandboxError:
        return []
    finally:
        await close_engine(engine)
