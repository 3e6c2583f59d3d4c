"""`rumi chat`."""

import os
from contextlib import suppress
from functools import partial
from typing import Any

import click


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
    """Talk to the assistant in this terminal."""
    import trio

    flags: dict[str, object] = {"model.default": model, "sandbox.backend": sandbox}
    if prompt is not None:  # an argument may be any bytes; what is no UTF-8 reads as it does in a pipe
        prompt = os.fsencode(prompt).decode("utf-8", "replace")
    options: dict[str, Any] = {"prompt": prompt, "json": as_json, "yes": yes}
    raise click.exceptions.Exit(trio.run(_chat, chat_id, new, flags, options))


async def _chat(chat_id: str, new: bool, flags: dict[str, object], options: dict[str, Any]) -> int:
    from pathlib import Path

    from rumi.app import open_app
    from rumi.building import ready_engine
    from rumi.chats import check_chosen_chat_id, leave
    from rumi.config import home_from, load_settings
    from rumi.home import Home
    from rumi.terminal import TerminalOptions, run_terminal, show_progress
    from rumi.texts import saving

    check_chosen_chat_id(chat_id)
    home = Home(home_from(os.environ)).make()
    loaded = load_settings(home.root, os.environ, flags)
    with home.hold("rumi chat"):
        async with show_progress() as steps:
            engine = await ready_engine(home, loaded, steps.step)
        async with open_app(home, loaded, engine, project=Path.cwd()) as app:
            for note in app.notes:
                click.echo(note, err=True)
            if new:
                await app.inbox.begin_anew(chat_id)
            terminal = TerminalOptions(
                language=app.means.language,
                history_path=home.terminal_history,
                model=app.models.name,
                engine=app.engine.kind,
                **options,
            )
            code = await run_terminal(app.chat(chat_id), terminal)
            tell = partial(_say, saving(app.means.language))
            await leave(app.inbox, chat_id, tell, for_now=terminal.prompt is not None)
            return code


def _say(line: str) -> None:
    """Tell who leaves, whose terminal may be gone already."""
    with suppress(OSError):
        click.echo(line, err=True)
