"""`rumi chat`."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from rumi.cli import run_async
from rumi.cli.daemon import Launch, attached_to_daemon, launch_daemon, say
from rumi.cli.model_names import model_option
from rumi.platform.chat_ids import DEFAULT_CHAT
from rumi.texts import gettext

if TYPE_CHECKING:
    from rumi.channels.attach.client import DaemonGone, OpenRequest, RemoteChat
    from rumi.platform.caller import Caller
    from rumi.platform.config.cascade import Loaded
    from rumi.platform.home import Home


@click.command()
@click.option(
    "-p",
    "--prompt",
    metavar="TEXT",
    help="Run one turn and exit; - reads it from standard input. Piped text beside TEXT is data for it.",
)
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    metavar="FILE",
    help="Hand on a file: the sandbox gets it, and the model sees it. May be repeated. Without -p: with the "
    "first message.",
)
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON lines.")
@click.option("--chat", "chat_id", metavar="ID", help="Which chat.  [default: cli]")
@click.option("-c", "--continue", "going_on", is_flag=True, help="With -p: go on with the chat's history.")
@click.option("--new", is_flag=True, help="Begin a new session; the old history stays stored.")
@model_option()
@click.option("--sandbox", type=click.Choice(["auto", "docker", "bubblewrap"]), help="Where commands run.")
@click.option("--yes", is_flag=True, help="Answer confirmations with yes.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.argument("text", nargs=-1)
def command(
    prompt: str | None,
    files: tuple[str, ...],
    as_json: bool,
    chat_id: str | None,
    going_on: bool,
    new: bool,
    model: str | None,
    sandbox: str | None,
    yes: bool,
    debug: bool,
    text: tuple[str, ...],
) -> None:
    """Talk to the assistant in this terminal.

    Each terminal is a window on one process of this RUMI_HOME, which the first one starts: several windows
    may be open at once, on one chat or on many, and none ends another. The process ends soon after the last.

    With -p, the turn runs in the chat cli, with its files and facts, and has a history of its own. With
    --chat, -c or --new it goes on with that chat's history. @FILE in TEXT or in a typed message hands on a
    file that exists, as -f does. TEXT behind the options is the same as -p TEXT.

    A text that begins with ! is a command: it runs in the sandbox without the model, and with -p its exit
    code is that of rumi.
    """

    if text and prompt is not None:
        from rumi.cli.speaking import tr

        raise click.UsageError(tr("There are two texts: one with -p, and one behind the options."))
    prompt = " ".join(text) if text else prompt
    flags: dict[str, str | None] = {"model.default": model, "sandbox.backend": sandbox}
    if prompt is not None:  # an argument may be any bytes: treat invalid UTF-8 as in a pipe
        prompt = os.fsencode(prompt).decode("utf-8", "replace")
    options: dict[str, Any] = {"prompt": prompt, "json": as_json, "yes": yes, "files": files}
    apart = prompt is not None and chat_id is None and not going_on and not new
    begun = launch_daemon(chat_id or DEFAULT_CHAT, flags)
    raise click.exceptions.Exit(run_async(_chat, begun, new, apart, options))


async def _chat(begun: Launch, new: bool, apart: bool, options: dict[str, Any]) -> int:
    """Run the terminal on a chat of the daemon and of the daemons after it; return the exit code."""
    import trio

    from rumi.channels.attach.client import OpenRequest
    from rumi.channels.attach.reconnecting import ReconnectingChat
    from rumi.channels.terminal.options import FileLimits, TerminalOptions
    from rumi.channels.terminal.run import run_terminal
    from rumi.cli.control import wait_for_daemon_exit
    from rumi.models.settings import lacks_key, model_settings_of
    from rumi.platform.caller import TERMINAL
    from rumi.platform.config.providers import OFFLINE
    from rumi.platform.texts import operating as operation_texts

    home, loaded, language = begun.home, begun.loaded, begun.language
    files, section = options.pop("files"), loaded.settings.session
    options["limits"] = limits = FileLimits(section.handed_chars, section.file_mb)
    options["workspace"] = str(home.workspaces / begun.chat)
    if options["prompt"] is not None:
        from rumi.channels.terminal.piped import what_to_send
        from rumi.channels.terminal.streams import StandardStreams

        prompt_and_files = await what_to_send(options["prompt"], StandardStreams(), language, limits, files)
        options["prompt"], options["attachments"] = prompt_and_files
    else:
        from rumi.channels.terminal.piped import check_files

        await check_files(files, language, limits)
        options["files"] = files
    person = options["prompt"] is None and not options["json"] and os.isatty(0)
    single = options["prompt"] is not None
    marks, must = loaded.marks(), loaded.is_of_this_run("model.default")
    # Without an API key, use the offline model, unless a flag or variable of this run demands a model.
    without = not must and lacks_key(model_settings_of(loaded, language))
    model = OFFLINE if without else loaded.settings.model.default
    request = OpenRequest(
        *(begun.chat, person, language, new, model, must, apart, single, marks, str(begun.project)),
        tz=os.environ.get("TZ", ""),
    )
    chat = ReconnectingChat(begun.chat, language)
    code, failure = 0, None

    async def talk(port: "RemoteChat") -> None:
        nonlocal code, failure
        terminal = TerminalOptions(
            language=language,
            history_path=home.terminal_history,
            engine=port.engine,
            **options,
        )
        try:
            code = await run_terminal(chat, terminal)
        except Exception as error:  # noqa: BLE001  # raised below, after the client has detached cleanly
            failure = error
        chat.left.set()

    service = False
    async with trio.open_nursery() as nursery:
        # `talk` starts once and outlives the attachments: the terminal stays while the daemon is replaced.
        talks = False
        while not chat.left.is_set():
            if chat.chosen_model:
                request = replace(request, model=chat.chosen_model, must=True)
            async with attached_to_daemon(
                begun, partial(attach_to_home, TERMINAL, request), chat if talks else None
            ) as port:
                if port is None:  # the user left while the command waited for the home
                    break
                if not talks:
                    _introduce(begun, port, home.lock_holder())
                service = port.service
                chat.connect(
                    port,
                    gettext(language, "The chat goes on · model {model}", model=port.model) if talks else "",
                )
                if not talks:
                    talks, request = True, replace(request, new=False)
                    await _explain_offline_model(home, loaded, request, port)
                    nursery.start_soon(talk, port)
                await _first(port.ended, chat.left.wait)
                if not chat.left.is_set():
                    # A deleted home must not be created again by a new daemon.
                    if (over := port.final_error() or _deleted(home)) is not None:
                        chat.fail(over)
                        await chat.left.wait()
                    else:
                        gone = operation_texts.chat_moves if port.moved else operation_texts.daemon_gone
                        chat.disconnect(gone(language))
    # With `linger_s = 0`, programs wait for the end of the daemon, so that scripts leave no process behind.
    if not (person or service or loaded.settings.session.linger_s):
        wait_for_daemon_exit(home, marks)
    if failure is not None:
        raise failure
    return code


def _deleted(home: "Home") -> "DaemonGone | None":
    """Return the error that ends the chat because its home was deleted; None if the home still exists."""
    from rumi.channels.attach.client import DaemonGone

    if home.lock_identity() is not None:
        return None
    return DaemonGone(
        "The home {root} was deleted, and this window ends.", "Start again with: rumi chat", root=home.root
    )


async def _explain_offline_model(
    home: "Home", loaded: "Loaded", request: "OpenRequest", port: "RemoteChat"
) -> None:
    """Explain that the offline model answers because no API key is set; tell a person how to change that."""
    from rumi.platform.config.providers import OFFLINE

    if port.model != OFFLINE:
        return
    from rumi.models.settings import missing_key, model_settings_of
    from rumi.platform.texts import replies as reply_texts

    variable = missing_key(model_settings_of(loaded, request.language))
    if not variable:
        return
    if not request.person:
        say(reply_texts.no_key(request.language, variable))
        return
    from rumi.models.trying import local_servers

    servers = [f"{server.name} ({server.base_url})" for server in await local_servers()]
    say(reply_texts.ways_on(request.language, str(home.root), servers, variable))


async def _first(*waits: Callable[[], Awaitable[None]]) -> None:
    """Call all functions concurrently; when one of them returns, cancel the others."""
    import trio

    async with trio.open_nursery() as nursery:

        async def wait(one: Callable[[], Awaitable[None]]) -> None:
            await one()
            nursery.cancel_scope.cancel()

        for one in waits:
            nursery.start_soon(wait, one)


def _introduce(launch: Launch, port: "RemoteChat", daemon: str) -> None:
    """Print notices about the daemon before the chat begins."""
    from rumi.platform.texts import operating as operation_texts
    from rumi.texts import translate

    language = launch.language
    if port.service:
        say(gettext(language, "A window on {daemon} · model {model}", daemon=daemon, model=port.model))
    for note in port.notes:
        say(translate(language, note))
    if port.differing_settings:
        say(operation_texts.other_settings(language, daemon, port.differing_settings))


@asynccontextmanager
async def attach_to_home(
    caller: "Caller", request: "OpenRequest", home: "Home"
) -> "AsyncIterator[RemoteChat]":
    """Attach the caller to a chat of the home's daemon, for as long as the block lasts.

    Raises:
        NotAccepting: No daemon runs, or it does not accept clients yet.
        RumiError: The daemon refuses the client, or does not answer.
    """
    from rumi.channels.attach.client import NotAccepting, attach
    from rumi.platform.home import socket_path

    daemon = home.lock_holder()
    if not daemon:
        raise NotAccepting("No process holds the home any more.")
    async with attach(socket_path(home.run, home.installation()), caller, request, daemon) as chat:
        yield chat
