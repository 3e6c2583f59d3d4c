"""`rumi chat`."""

import os
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from rumi.cli import run_async
from rumi.cli.daemon import AGAIN_S, Launch, attached_to_daemon, launch_daemon, say
from rumi.cli.model_names import model_option
from rumi.cli.resume import CHOOSE, session_of
from rumi.errors import UsageError
from rumi.platform.chat_ids import DEFAULT_CHAT
from rumi.texts import gettext

if TYPE_CHECKING:
    from pathlib import Path

    from click.shell_completion import CompletionItem

    from rumi.channels.attach.client import DaemonGone, OpenRequest, RemoteChat
    from rumi.channels.attach.reconnecting import ReconnectingChat
    from rumi.cli.model_keys import PastedKeyStore
    from rumi.platform.caller import Caller
    from rumi.platform.config.cascade import Loaded
    from rumi.platform.home import Home


TEMPLATE_CHARS = 200
"""In a list of templates, so many characters of each are shown."""


def _complete_template(
    context: click.Context, parameter: click.Parameter, begun: str
) -> list["CompletionItem"]:
    """Return the names of templates that begin with `begun`."""
    from click.shell_completion import CompletionItem

    from rumi.cli.templates import template_names
    from rumi.errors import RumiError
    from rumi.platform.config.files import home_path

    try:
        names = template_names(home_path(os.environ))
    except (OSError, RumiError):  # shell completion cannot show an error
        return []
    return [CompletionItem(name) for name in names if name.startswith(begun)]


YIELD_S = 5.0
"""Maximum wait until an idle daemon ends after a key was pasted, in seconds."""


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
@click.option(
    "--resume",
    is_flag=False,
    flag_value=CHOOSE,
    metavar="[ID]",
    help="Reopen an earlier session: its number, or CHAT:NUMBER. Without ID: choose one.",
)
@click.option("-t", "--template", metavar="NAME", shell_complete=_complete_template,
              help="Use a template as the prompt; TEXT or piped text is its $input.")  # fmt: skip
@click.option("-v", "--value", "values", multiple=True, metavar="NAME=VALUE",
              help="A variable of the template; may be repeated.")  # fmt: skip
@click.option("--templates", is_flag=True, help="List the templates; with -t, show one.")
@click.option("--save", metavar="NAME", help="Store TEXT as a template, and run nothing.")
@click.option("-x", "--extract", is_flag=True, help="Print only the first code block of the answer.")
@model_option("-m", "--model")
@click.option("--sandbox", type=click.Choice(["auto", "docker", "bubblewrap"]), help="Where commands run.")
@click.option("--here", is_flag=True, help="Work on the folder you are in; it changes only when you accept.")
@click.option("--own", is_flag=True, help="Work on files of its own, not on the folder you are in.")
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
    resume: str | None,
    template: str | None,
    values: tuple[str, ...],
    templates: bool,
    save: str | None,
    extract: bool,
    model: str | None,
    sandbox: str | None,
    here: bool,
    own: bool,
    yes: bool,
    debug: bool,
    text: tuple[str, ...],
) -> None:
    """Talk to the assistant in this terminal.

    Each terminal is a window on one process of this RUMI_HOME, which the first one starts: several windows
    may be open at once, on one chat or on many, and none ends another. The process ends soon after the last.

    In a project's folder, Rumi asks once whether to work on that folder: it sees the files, and its changes
    wait until you accept them with /apply. Each folder has a chat of its own, in place of the chat cli. With
    --own, Rumi works on files of its own there, too.

    With -p, the turn runs in the chat cli, with its files and facts, and has a history of its own. With
    --chat, -c or --new it goes on with that chat's history. @FILE in TEXT or in a typed message hands on a
    file that exists, as -f does. TEXT behind the options is the same as -p TEXT.

    A text that begins with ! is a command: it runs in the sandbox without the model, and with -p its exit
    code is that of rumi.

    A template is a text in the folder templates of RUMI_HOME. $name in it is a variable; $$ is a dollar sign.
    """

    if text and prompt is not None:
        from rumi.cli.speaking import tr

        raise click.UsageError(tr("There are two texts: one with -p, and one behind the options."))
    if here and own:
        from rumi.cli.speaking import tr

        raise click.UsageError(tr("--here and --own exclude each other."))
    prompt = " ".join(text) if text else prompt
    if templates or save is not None:
        _see_to_templates(template, save, prompt, as_json=as_json)
        return
    prompt = _with_template(template, values, prompt)
    if extract and prompt is None:
        raise UsageError("-x needs a prompt.", "Write it after the options, or use -p or -t.")
    if resume is not None and new:
        raise UsageError("--resume and --new exclude each other.", "Leave one of them out.")
    session = 0
    if resume is not None:
        found = session_of(resume, chat_id)
        if found is None:
            return
        chat_id, session = found
    flags: dict[str, str | None] = {"model.default": model, "sandbox.backend": sandbox}
    if prompt is not None:  # an argument may be any bytes: treat invalid UTF-8 as in a pipe
        prompt = os.fsencode(prompt).decode("utf-8", "replace")
    options: dict[str, Any] = {"prompt": prompt, "json": as_json, "yes": yes, "files": files}
    options["extract"] = extract
    apart = prompt is not None and chat_id is None and not (going_on or new or session)
    person = prompt is None and not as_json and os.isatty(0) and os.isatty(1)

    def place(home: "Home", loaded: "Loaded") -> "tuple[str, Path | None]":
        from rumi.cli.folder import place_of

        return place_of(home, loaded, chat_id, here=here, own=own, person=person)

    begun = launch_daemon(chat_id or DEFAULT_CHAT, flags, place)
    raise click.exceptions.Exit(run_async(_chat, begun, new, session, apart, options))


def _see_to_templates(name: str | None, save: str | None, text: str | None, *, as_json: bool) -> None:
    """List the templates, show the one of this name, or store a text as the template `save`."""
    from rumi.cli.printing import echo, echo_json
    from rumi.cli.speaking import tr
    from rumi.cli.templates import read_template, template_names, variables_of, write_template
    from rumi.platform.config.files import home_from
    from rumi.platform.printable import flat

    home = home_from(os.environ)
    if save is not None:
        if text == "-":
            text = sys.stdin.buffer.read().decode("utf-8", "replace")
        if not (text or "").strip():
            raise UsageError("There is no text to store.", "Write: rumi chat --save NAME 'TEXT'")
        echo(tr("Stored: {path}", path=write_template(home, save, text or "")))
        return
    names = [name] if name is not None else template_names(home)
    found = [(each, read_template(home, each)) for each in names]
    if as_json:
        rows = [{"name": each, "variables": variables_of(each, of), "text": of} for each, of in found]
        echo_json(rows if name is None else rows[0], indent=2)
    elif name is not None:
        echo(found[0][1].rstrip("\n"))
    elif not found:
        echo(tr("There are no templates yet. Write one: rumi chat --save NAME 'TEXT'"), err=True)
    else:
        width = max(len(each) for each in names)
        for each, of in found:
            echo(f"{each:<{width}}  {flat(of)[:TEMPLATE_CHARS]}")


def _with_template(name: str | None, values: tuple[str, ...], text: str | None) -> str | None:
    """Return the prompt: the template of this name with its values, or the text if there is no name."""
    if name is None:
        if values:
            raise UsageError("-v gives a value to a template.", "Name the template with -t.")
        return text
    from rumi.channels.terminal.streams import StandardStreams
    from rumi.cli.templates import filled, read_template, values_in
    from rumi.platform.config.files import home_from

    template = read_template(home_from(os.environ), name)
    piped = StandardStreams().input.piped
    if text == "-":
        text = None
    return filled(name, template, values_in(values), text, piped=piped)


async def _chat(begun: Launch, new: bool, session: int, apart: bool, options: dict[str, Any]) -> int:
    """Run the terminal on a chat of the daemon and of the daemons after it; return the exit code."""
    from urllib.parse import quote_from_bytes

    import trio

    from rumi.channels.attach.client import OpenRequest
    from rumi.channels.attach.reconnecting import ReconnectingChat
    from rumi.channels.terminal.options import FileLimits, ModelName, TerminalOptions
    from rumi.channels.terminal.run import run_terminal
    from rumi.cli.control import wait_for_daemon_exit
    from rumi.cli.folder import changed_files
    from rumi.cli.model_keys import PastedKeyStore
    from rumi.models.settings import lacks_key, model_settings_of, models_to_choose
    from rumi.platform.caller import TERMINAL
    from rumi.platform.config.providers import OFFLINE
    from rumi.platform.texts import operating as operation_texts

    home, loaded, language = begun.home, begun.loaded, begun.language
    terminal_section = loaded.settings.terminal
    files, section = options.pop("files"), loaded.settings.session
    options["limits"] = limits = FileLimits(section.handed_chars, section.file_mb)
    options["workspace"] = str(begun.folder or home.workspaces / begun.chat)
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
    model_settings = model_settings_of(loaded, language)
    without = not must and lacks_key(model_settings)
    model = OFFLINE if without else loaded.settings.model.default
    request = OpenRequest(
        *(begun.chat, person, language, new, model, must, apart, single, marks, str(begun.project or "")),
        tz=os.environ.get("TZ", ""),
        resume=session,
        folder="" if begun.folder is None else quote_from_bytes(os.fsencode(begun.folder)),
    )
    chat = ReconnectingChat(begun.chat, language)
    keys = PastedKeyStore(home, loaded, language) if person else None
    code, failure = 0, None

    async def talk(port: "RemoteChat") -> None:
        nonlocal code, failure
        terminal = TerminalOptions(
            language=language,
            history_path=home.terminal_history,
            engine=port.engine,
            editing=terminal_section.keys,
            theme=terminal_section.theme,
            notify=terminal_section.notify,
            notify_s=terminal_section.notify_s,
            models=tuple(ModelName(name, said) for name, said in models_to_choose(model_settings).items()),
            key_adopter=keys,
            changed=partial(changed_files, begun.chat) if port.linked else None,
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
                    talks, request = True, replace(request, new=False, resume=0)
                    await _welcome(home, loaded, request, port)
                    if person:
                        _say_where(begun, port)
                    nursery.start_soon(talk, port)
                waits = (port.ended, chat.left.wait)
                await _first(*waits, *((keys.adopted.wait,) if keys is not None else ()))
                if keys is not None and keys.adopted.is_set() and not chat.left.is_set():
                    # Detached first: a process with a window is not idle, and does not end.
                    chat.disconnect("")
                elif not chat.left.is_set():
                    # A deleted home must not be created again by a new daemon.
                    if (over := port.final_error() or _deleted(home)) is not None:
                        chat.fail(over)
                        await chat.left.wait()
                    else:
                        gone = operation_texts.chat_moves if port.moved else operation_texts.daemon_gone
                        chat.disconnect(gone(language))
            if keys is not None and keys.adopted.is_set() and not chat.left.is_set():
                request = await _with_new_key(begun, request, keys, chat)
    # With `linger_s = 0`, programs wait for the end of the daemon, so that scripts leave no process behind.
    if not (person or service or loaded.settings.session.linger_s):
        wait_for_daemon_exit(home, marks)
    if failure is not None:
        raise failure
    return code


async def _with_new_key(
    begun: Launch, request: "OpenRequest", keys: "PastedKeyStore", chat: "ReconnectingChat"
) -> "OpenRequest":
    """End the daemon, which started without the new key, if it is idle; return the request for the next one.

    If other windows or work keep the daemon, the chat goes on with it, and a note says what to do.
    """
    import trio

    from rumi.cli.control import yield_home
    from rumi.platform.config.cascade import load_settings
    from rumi.platform.texts import models as model_texts

    keys.renew()
    begun.loaded = load_settings(begun.home.root, os.environ, begun.flags)
    with trio.move_on_after(YIELD_S):
        while holder := begun.home.lock_holder():
            # The daemon may not have noticed yet that this window has detached.
            await trio.to_thread.run_sync(yield_home, begun.home, begun.loaded.marks())
            if begun.home.lock_holder() != holder:
                break
            await trio.sleep(AGAIN_S)
    if holder := begun.home.lock_holder():
        chat.notify(model_texts.key_needs_restart(begun.language, holder))
    return replace(request, model=begun.loaded.settings.model.default, must=False, marks=begun.loaded.marks())


def _deleted(home: "Home") -> "DaemonGone | None":
    """Return the error that ends the chat because its home was deleted; None if the home still exists."""
    from rumi.channels.attach.client import DaemonGone

    if home.lock_identity() is not None:
        return None
    return DaemonGone(
        "The home {root} was deleted, and this window ends.", "Start again with: rumi chat", root=home.root
    )


async def _welcome(home: "Home", loaded: "Loaded", request: "OpenRequest", port: "RemoteChat") -> None:
    """Tell a person what to type, and how to get a real model; a program only the last."""
    from rumi.models.settings import missing_key, model_settings_of
    from rumi.platform.config.providers import OFFLINE

    demo = port.model == OFFLINE
    if not request.person:
        from rumi.platform.texts import replies as reply_texts

        variable = missing_key(model_settings_of(loaded, request.language)) if demo else ""
        if variable:
            say(reply_texts.no_key(request.language, variable))
        return
    from rumi.platform.texts import welcome as welcome_texts

    # The terminal writes its input history from its first chat on, so a missing file means the first start.
    first = not home.terminal_history.exists()
    servers: list[str] = []
    if demo:
        from rumi.models.trying import local_servers

        servers = [f"{server.name} ({server.base_url})" for server in await local_servers()]
    columns = shutil.get_terminal_size().columns
    if text := welcome_texts.welcome(request.language, columns, servers, demo=demo, first=first):
        say(text)


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


def _say_where(launch: Launch, port: "RemoteChat") -> None:
    """Say on which files the chat works."""
    from rumi.cli.folder import git_root, looks_like_project
    from rumi.platform.texts import folders as folder_texts

    language = launch.language
    if not port.linked:
        here = launch.project is not None and looks_like_project(launch.project, launch.home.root)
        where = folder_texts.works_apart if here else folder_texts.own_files_line
        say(where(language, port.files))
        return
    works = folder_texts.works_at_once if port.applies else folder_texts.works_here
    say(works(language, port.files))
    root = None if launch.folder is None else git_root(launch.folder)
    if root is not None and root != launch.folder:
        say(folder_texts.below_root(language, folder_texts.folder_name(root)))


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
