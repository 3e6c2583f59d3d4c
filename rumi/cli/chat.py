"""`rumi chat`."""

import os
import time
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rumi.config import Loaded
    from rumi.home import Home
    from rumi.windows import Wish

HELD_S = 10.0
"""How long a process that holds the home and takes no windows is waited for: it ends, or is short."""

START_S = 60.0
"""The same of one that is to take windows: its first start builds a sandbox."""

TAKING = ("rumi chat", "rumi telegram")

AGAIN_S = 0.1

QUIET_S = 1.0
"""A wait that is over sooner is not told."""

INTERRUPTED = 130


@click.command()
@click.option("-p", "--prompt", metavar="TEXT", help="Run one turn and exit; - reads standard input.")
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON lines.")
@click.option("--chat", "chat_id", default="cli", show_default=True, metavar="ID", help="Which chat.")
@click.option("--new", is_flag=True, help="Begin a new session; the old history stays stored.")
@click.option("--model", metavar="PROVIDER:NAME", help="The model, or offline.")
@click.option("--sandbox", type=click.Choice(["auto", "docker", "bubblewrap"]), help="Where commands run.")
@click.option("--yes", is_flag=True, help="Answer confirmations with yes.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(
    prompt: str | None,
    as_json: bool,
    chat_id: str,
    new: bool,
    model: str | None,
    sandbox: str | None,
    yes: bool,
    debug: bool,
) -> None:
    """Talk to the assistant in this terminal.

    Where another rumi chat, or rumi telegram, runs on this RUMI_HOME, this is a window on it: several may be
    open at once, on one chat or on many.
    """
    import trio

    flags: dict[str, str | None] = {"model.default": model, "sandbox.backend": sandbox}
    if prompt is not None:  # an argument may be any bytes; what is no UTF-8 reads as it does in a pipe
        prompt = os.fsencode(prompt).decode("utf-8", "replace")
    options: dict[str, Any] = {"prompt": prompt, "json": as_json, "yes": yes}
    raise click.exceptions.Exit(trio.run(_chat, chat_id, new, flags, options))


async def _chat(chat_id: str, new: bool, flags: dict[str, str | None], options: dict[str, Any]) -> int:
    """Hold the home, or open a window on the process that does."""
    import trio

    from rumi import texts
    from rumi.chats import check_chosen_chat_id
    from rumi.config import home_from, load_settings
    from rumi.home import Home, HomeHeld
    from rumi.windows import NotThere, Wish

    check_chosen_chat_id(chat_id)
    home = Home(home_from(os.environ)).make()
    loaded = load_settings(home.root, os.environ, flags)
    language = texts.detect_language(loaded.settings.language, os.environ)
    person = options["prompt"] is None and not options["json"] and os.isatty(0)
    wish = Wish(chat_id, person, language, new, flags["model.default"], flags["sandbox.backend"])
    begun, told = time.monotonic(), False
    while True:  # who holds the home may end just now, or not be there yet
        with ExitStack() as holding:
            try:
                holding.enter_context(home.hold("rumi chat"))
            except HomeHeld as error:
                held = error
            else:
                return await _hold(home, loaded, chat_id, new, options)
        try:
            return await _attach(home, wish, options)
        except NotThere:
            holder, waited_s = home.holder(), time.monotonic() - begun
            if waited_s > (START_S if holder.startswith(TAKING) else HELD_S):
                raise held from None
            if holder and not told and waited_s > QUIET_S:
                told = True
                _say(texts.waiting_for(language, holder))
        await trio.sleep(AGAIN_S)


async def _attach(home: "Home", wish: "Wish", options: dict[str, Any]) -> int:
    from rumi import texts
    from rumi.control.paths import socket_path
    from rumi.terminal import TerminalOptions, run_terminal
    from rumi.windows import NotThere, attach

    holder = home.holder()
    if not holder:
        raise NotThere("Nobody holds the home any more.")
    async with attach(socket_path(home.run, home.installation()), wish, holder) as chat:
        _say(texts.attached(wish.language, holder, chat.model))
        here = Path.cwd()
        if (here / ".rumi" / "skills").is_dir() and chat.project != str(here):
            _say(texts.other_project(wish.language))
        terminal = TerminalOptions(
            language=wish.language,
            history_path=home.terminal_history,
            model=chat.model,
            engine=chat.engine,
            **options,
        )
        return await run_terminal(chat, terminal)


async def _hold(home: "Home", loaded: "Loaded", chat_id: str, new: bool, options: dict[str, Any]) -> int:
    from rumi.app import open_app
    from rumi.building import ready_engine
    from rumi.chats import leave
    from rumi.terminal import TerminalOptions, run_terminal, show_progress
    from rumi.texts import saving, windows_at_work
    from rumi.windows import let_windows_finish

    async with show_progress() as steps:
        engine = await ready_engine(home, loaded, steps.step)
    async with open_app(home, loaded, engine, project=Path.cwd()) as app:
        for note in app.notes:
            click.echo(note, err=True)
        if new:
            await app.inbox.begin_anew(chat_id)
        language = app.means.language
        terminal = TerminalOptions(
            language=language,
            history_path=home.terminal_history,
            model=app.models.name,
            engine=app.engine.kind,
            **options,
        )
        app.windows.open()
        code = await run_terminal(app.chat(chat_id), terminal)
        patience_s = 0 if code == INTERRUPTED else app.means.limits.turn.timeout_s
        await let_windows_finish(
            app.windows, app.inbox, lambda count: _say(windows_at_work(language, count)), patience_s
        )
        tell = partial(_say, saving(language))
        await leave(app.inbox, chat_id, tell, for_now=terminal.prompt is not None)
        return code


def _say(line: str) -> None:
    """Tell who leaves, whose terminal may be gone already."""
    with suppress(OSError):
        click.echo(line, err=True)
