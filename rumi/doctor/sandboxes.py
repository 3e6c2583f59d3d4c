"""bubblewrap, the user of commands, and what was left over by either engine."""

import os

import trio

from rumi.building import files_bound, find_engine, room_left
from rumi.config import Loaded
from rumi.doctor.check import Check
from rumi.home import Home
from rumi.sandbox import Limits, SandboxError, sandbox_user
from rumi.texts import Language
from rumi.texts import doctor_sandbox as words


async def bubblewrap(home: Home, loaded: Loaded, language: Language) -> list[Check]:
    """Whether a sandbox starts, and what it cannot bound here."""
    try:
        engine = await find_engine(home, loaded, "bubblewrap")
    except SandboxError as error:
        mend = error.advice or words.MEND_BUBBLEWRAP.said(language)
        return [Check("bubblewrap", "warning", error.message.rstrip("."), mend)]
    try:
        mend = words.MEND_DEGRADED.said(language)
        return [
            Check("bubblewrap", "ok", words.BUBBLEWRAP.said(language)),
            *(
                Check("bubblewrap", "warning", words.DEGRADED.said(language, why=why), mend)
                for why in engine.degraded
            ),
        ]
    finally:
        with trio.move_on_after(5, shield=True):
            await engine.aclose()


def user(home: Home, language: Language) -> list[Check]:
    """Who commands run as, and how many workspaces are still a former user's. Blocking.

    Raises:
        SandboxError: there is no user for them.
    """
    uid, _ = sandbox_user(home.installation(), home.root)
    if uid == os.getuid():
        return [Check("user", "ok", words.OWN_USER.said(language, uid=uid))]
    with os.scandir(home.workspaces) as entries:
        former = sum(each.stat(follow_symlinks=False).st_uid not in (0, uid) for each in entries)
    found = words.USER_APART.said(language, uid=uid)
    if former:
        found += words.TO_BE_HANDED_OVER.said(language, count=former)
    return [Check("user", "ok", found)]


def files(home: Home, loaded: Loaded, language: Language) -> list[Check]:
    """What bounds the chats' files, and whether the disk has more than its reserve. Blocking, briefly."""
    left, low = room_left(home, loaded, language)
    checks = [Check("files", "ok", files_bound(loaded, language))]
    if low:
        checks.append(Check("files", "failure", left, words.MEND_ROOM_LEFT.said(language)))
    return checks


async def leftovers(home: Home, language: Language) -> list[Check]:
    """Containers, processes and control groups of this installation, while nobody is there to use them."""
    from rumi.sandbox.bubblewrap.cgroups import Cgroups
    from rumi.sandbox.bubblewrap.processes import named

    if home.holder():
        return [Check("leftovers", "ok", words.IN_USE.said(language))]
    installation = home.installation()
    found = [words.LEFT_PROCESS.said(language, name=pid) for pid in named(f"-{installation}")]
    found += [
        words.LEFT_GROUP.said(language, name=group.folders[0].name)
        for group in Cgroups(installation).leftovers()
    ]
    found += [words.LEFT_CONTAINER.said(language, name=name) for name in await _containers(installation)]
    if found:
        return [Check("leftovers", "warning", ", ".join(found), "rumi sandbox clean")]
    return [Check("leftovers", "ok", words.NOTHING_LEFT.said(language))]


async def _containers(installation: str) -> list[str]:
    """Names of its containers, as far as a daemon answers: that it does not is another check's finding."""
    from rumi.sandbox.docker.engine import DockerEngine

    try:
        engine = DockerEngine(installation, Limits())
    except SandboxError:
        return []
    try:
        await engine.api.ping(2)
        return [box.name for box in await engine.boxes()]
    except SandboxError:
        return []
    finally:
        with trio.move_on_after(5, shield=True):
            await engine.aclose()
