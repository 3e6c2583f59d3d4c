"""All checks, in the order in which they are shown. One that fails stops no other."""

import os
from functools import partial

import trio

from rumi.config import Loaded, load_settings
from rumi.control import connect, socket_path
from rumi.doctor.check import Check, blocking, bounded
from rumi.errors import RumiError
from rumi.home import Home

ANSWER_S = 3.0
"""How long a running Rumi may take to say that it is well."""


async def examine(home: Home, *, ask_servers: bool = False) -> list[Check]:
    """Check everything. `ask_servers`: also what costs a model call and a word with Telegram.

    Cancelled, no container and no process of it is left.
    """
    from rumi.doctor.databases import databases
    from rumi.doctor.files import files
    from rumi.doctor.machine import machine
    from rumi.doctor.settings import settings

    checks = await bounded("machine", partial(blocking, partial(machine, home)))
    checks += await bounded("home", partial(blocking, partial(files, home)))
    checks += await bounded("databases", partial(blocking, partial(databases, home)))
    checks += await bounded("running", partial(_holder, home))
    try:
        loaded = load_settings(home.root, os.environ, {})
    except RumiError as error:
        return [*checks, Check("configuration", "failure", error.message, error.advice)]
    checks += settings(loaded)
    checks += await _sandboxes(home, loaded)
    if ask_servers:
        from rumi.doctor.online import online

        checks += await online(loaded)
    return checks


async def _holder(home: Home) -> list[Check]:
    holder = home.holder()
    if not holder:
        return [Check("running", "ok", "no Rumi runs on this home")]
    with trio.move_on_after(ANSWER_S):
        try:
            async with connect(socket_path(home.run, home.installation())) as client:
                await client.call("status")
                return [Check("running", "ok", f"{holder}, and it answers")]
        except RumiError:
            pass
    mend = "It may be starting or ending. If this lasts, look into logs/rumi.jsonl and start it anew."
    return [Check("running", "warning", f"{holder}, and it does not answer", mend)]


async def _sandboxes(home: Home, loaded: Loaded) -> list[Check]:
    """Both engines. Where none works, or not the one that the configuration names, that is a failure."""
    from rumi.doctor.sandboxes import bubblewrap, docker, leftovers

    checks = await bounded("leftovers", partial(leftovers, home))
    checks += await bounded("docker", partial(docker, home, loaded), "warning")
    checks += await bounded("bubblewrap", partial(bubblewrap, home, loaded), "warning")
    works = {check.name for check in checks if check.verdict == "ok"}
    wanted = loaded.settings.sandbox.backend
    engines = {"docker", "bubblewrap"} if wanted == "auto" else {wanted}
    if engines & works:
        return checks
    what = "neither Docker nor bubblewrap works here" if wanted == "auto" else f"{wanted} does not work here"
    return [*checks, Check("sandbox", "failure", what, "Mend one of them: commands need a sandbox.")]
