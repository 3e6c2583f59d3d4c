"""bubblewrap, and what was left over by either engine."""

import trio

from rumi.building import find_engine
from rumi.config import Loaded
from rumi.doctor.check import Check
from rumi.home import Home
from rumi.sandbox import Limits, SandboxError
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
