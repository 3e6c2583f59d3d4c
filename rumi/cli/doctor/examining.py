"""All checks of `rumi doctor`, in the order of the output. A failed check does not stop the others."""

import os
from functools import partial

import trio

import rumi
from rumi.channels.attach.connection import connect
from rumi.cli.doctor.check import Check, Examination, ReportCheck, blocking
from rumi.errors import ConfigError, RumiError
from rumi.platform.caller import TERMINAL
from rumi.platform.commit import own_commit, version
from rumi.platform.config.cascade import Loaded, load_settings
from rumi.platform.home import Home, socket_path
from rumi.platform.redact import Redactor
from rumi.platform.texts.language import detect_language
from rumi.platform.texts.storage import waits_for_the_disk
from rumi.texts import Language, Text

ANSWER_S = 3.0
"""Maximum time for the daemon to answer, in seconds."""


async def examine(
    home: Home, *, ask_servers: bool = False, report: ReportCheck = lambda _: None, debug: bool = False
) -> list[Check]:
    """Run every check; return the findings. If `ask_servers` is True, also call the model and Telegram.

    If the home's permissions are unsafe, so that no other command accepts the home, no file in the home is
    read.

    `report` is called with each finding as soon as it is made. Every check has a time limit. If cancelled, no
    container and no process of a check remains.
    """
    from rumi.cli.doctor.files import refused

    unsafe = refused(home)
    loaded, fault = (None, None) if unsafe else _configuration(home)
    language = detect_language(loaded.settings.language if loaded else "auto", os.environ)
    redact = Redactor(loaded.secrets.values() if loaded else ())
    examination = Examination(language, report, debug, redact)
    await _examine(examination, home, unsafe, loaded, fault, ask_servers)
    return examination.checks


def _configuration(home: Home) -> tuple[Loaded | None, Check | None]:
    """Return the configuration, or the finding that it has an error."""
    try:
        return load_settings(home.root, os.environ, {}), None
    except ConfigError as error:
        return None, Check("configuration", "failure", error.message, error.advice)


async def _examine(
    examination: Examination,
    home: Home,
    unsafe: list[Check],
    loaded: Loaded | None,
    fault: Check | None,
    ask_servers: bool,
) -> None:
    from rumi.cli.doctor.databases import databases
    from rumi.cli.doctor.extras import extras
    from rumi.cli.doctor.files import files
    from rumi.cli.doctor.machine import disk, machine
    from rumi.cli.doctor.settings import settings
    from rumi.cli.doctor.skills import skills

    language = examination.language
    await examination.look("machine", partial(blocking, partial(machine, home)))
    await examination.look("disk", partial(blocking, partial(disk, home)))
    if unsafe:
        examination.add(*unsafe)
        return
    try:
        home.make().installation()
    except RumiError as error:
        examination.add(Check("home", "failure", error.message, error.advice))
        return
    await examination.look("home", partial(blocking, partial(files, home)))
    await examination.look("databases", partial(blocking, partial(databases, home)))
    await examination.look("running", partial(_lock_holder, home, language))
    if loaded is None:
        assert fault is not None
        examination.add(fault)
        return
    examination.add(*settings(home, loaded))
    examination.add(*extras(loaded))
    await examination.look("skills", partial(blocking, partial(skills, home, loaded)), "warning")
    if loaded.settings.mcp:
        from rumi.cli.doctor.settings import mcp

        await examination.look("mcp", partial(blocking, partial(mcp, home, loaded)))
    if loaded.settings.browser.enabled:
        from rumi.cli.doctor.settings import browser

        await examination.look("browser", partial(browser, loaded))
    await _sandboxes(examination, home, loaded)
    if ask_servers:
        from rumi.cli.doctor.calendars import calendars
        from rumi.cli.doctor.online import online

        await online(examination, loaded)
        await calendars(examination, loaded)


async def _lock_holder(home: Home, language: Language) -> list[Check]:
    lock_holder = home.lock_holder()
    if not lock_holder:
        return [Check("running", "ok", Text("no Rumi runs on this home"))]
    status = None
    with trio.move_on_after(ANSWER_S):
        try:
            async with connect(socket_path(home.run, home.installation()), TERMINAL) as client:
                status = await client.call("status")
        except RumiError:
            pass
    if not isinstance(status, dict):
        found = Text("{lock_holder}, and it does not answer", lock_holder=lock_holder)
        fix = Text("It may be starting or ending. If this lasts, look into logs/rumi.jsonl and restart it.")
        return [Check("running", "warning", found, fix)]
    trouble = (status.get("storage") or {}).get("trouble")
    if trouble:
        found = Text(
            "{lock_holder} cannot store anything: {trouble}",
            lock_holder=lock_holder,
            trouble=waits_for_the_disk(language, trouble),
        )
        fix = Text(
            "See what takes up space: du -sh {root}/workspace/* {root}/logs | sort -h; and who uses "
            "state.db.",
            root=home.root,
        )
        return [Check("running", "failure", found, fix)]
    theirs = version(str(status.get("program", "")), str(status.get("commit", "")))
    ours = version(rumi.__version__, own_commit())
    if theirs != ours:
        found = Text(
            "{lock_holder} is version {theirs}, this is {version}",
            lock_holder=lock_holder,
            theirs=theirs,
            version=ours,
        )
        return [Check("running", "warning", found, Text("Restart it to run the installed version."))]
    return [Check("running", "ok", Text("{lock_holder}, and it answers", lock_holder=lock_holder))]


async def _sandboxes(examination: Examination, home: Home, loaded: Loaded) -> None:
    """Check both sandbox engines. It is a failure if neither works, or if the configured one fails."""
    from rumi.cli.doctor.docker import docker
    from rumi.cli.doctor.sandboxes import bubblewrap, files, folders, leftovers, packages, programs, user

    await examination.look("user", partial(blocking, partial(user, home)))
    await examination.look("files", partial(blocking, partial(files, home, loaded)))
    await examination.look("folders", partial(blocking, partial(folders, home)), "warning")
    await examination.look("programs", partial(blocking, partial(programs, loaded)))
    await examination.look("leftovers", partial(leftovers, home), "warning")
    await examination.look("docker", partial(docker, home, loaded), "warning")
    await examination.look("bubblewrap", partial(bubblewrap, home, loaded), "warning")
    works = {check.name for check in examination.checks if check.verdict == "ok"}
    wanted = loaded.settings.sandbox.backend
    engines = {"docker", "bubblewrap"} if wanted == "auto" else {wanted}
    for used in [name for name in ("docker", "bubblewrap") if name in engines & works][:1]:
        await examination.look("packages", partial(packages, home, loaded, used), "warning")
    if not engines & works:
        found = (
            Text("neither Docker nor bubblewrap works here")
            if wanted == "auto"
            else Text("{wanted} does not work here", wanted=wanted)
        )
        fix = Text("Fix one of them: commands need a sandbox.")
        examination.add(Check("sandbox", "failure", found, fix))
    elif wanted == "auto" and "docker" not in works and any(loaded.bots().values()):
        found = Text("there is a Telegram token, and rumi serve wants Docker")
        fix = Text('Fix Docker, or choose the other in config.toml: [sandbox] backend = "bubblewrap"')
        examination.add(Check("sandbox", "failure", found, fix))
