"""`rumi chat`."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from rumi.cli import run_async
from rumi.cli.holder import Begun, begin, on_holder, say
from rumi.cli.model_names import model_option
from rumi.platform.chat_ids import DEFAULT_CHAT

if TYPE_CHECKING:
    from rumi.channels.attach.remote import Gone, RemoteChat, Wish
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
    help="Hand on a file, such as a picture; may be repeated. Without -p: with the first message.",
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
    file that exists, as -f does: texts as words, pictures and documents as files. TEXT behind the options is
    the same as -p TEXT.
    """

    if text and prompt is not None:
        raise click.UsageError("There are two texts: one with -p, and one behind the options.")
    prompt = " ".join(text) if text else prompt
    flags: dict[str, str | None] = {"model.default": model, "sandbox.backend": sandbox}
    if prompt is not None:  # an argument may be any bytes; bytes that are not UTF-8 read as they do in a pipe
        prompt = os.fsencode(prompt).decode("utf-8", "replace")
    options: dict[str, Any] = {"prompt": prompt, "json": as_json, "yes": yes, "files": files}
    apart = prompt is not None and chat_id is None and not going_on and not new
    begun = begin(chat_id or DEFAULT_CHAT, flags)
    raise click.exceptions.Exit(run_async(_chat, begun, new, apart, options))


async def _chat(begun: Begun, new: bool, apart: bool, options: dict[str, Any]) -> int:
    """Talk with a chat of the process that holds the home; when that one ends, of the next one."""
    import trio

    from rumi.app.settings import model_settings_of
    from rumi.channels.attach.lasting import LastingChat
    from rumi.channels.attach.remote import Wish
    from rumi.channels.terminal import Streams, TerminalOptions, run_terminal, what_to_send
    from rumi.cli.attach import see_it_end
    from rumi.models.settings import lacks_key
    from rumi.platform import texts
    from rumi.platform.caller import TERMINAL
    from rumi.platform.config.providers import OFFLINE

    home, loaded, language = begun.home, begun.loaded, begun.language
    files, most = options.pop("files"), loaded.settings.session.handed_chars
    options["handed_chars"] = most
    options["workspace"] = str(home.workspaces / begun.chat)
    if options["prompt"] is not None:
        given = await what_to_send(options["prompt"], Streams(), language, most, files)
        options["prompt"], options["attachments"] = given
    else:
        options["files"] = files
    person = options["prompt"] is None and not options["json"] and os.isatty(0)
    single = options["prompt"] is not None
    marks, must = loaded.marks(), loaded.is_of_this_run("model.default")
    # Without a key the offline model takes the place of one that only the configuration names.
    without = not must and lacks_key(model_settings_of(loaded, language))
    model = OFFLINE if without else loaded.settings.model.default
    wish = Wish(begun.chat, person, language, new, model, must, apart, single, marks, str(begun.project))
    chat = LastingChat(begun.chat, language)
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
        except Exception as error:  # noqa: BLE001  # raised below: the window is closed in order before that
            failure = error
        chat.left.set()

    service = False
    async with trio.open_nursery() as nursery:
        talks = False
        while not chat.left.is_set():
            if chat.chosen:
                wish = replace(wish, model=chat.chosen, must=True)
            async with on_holder(
                begun, partial(attach_window, TERMINAL, wish), chat if talks else None
            ) as port:
                if port is None:  # the user left while the command waited for the home
                    break
                if not talks:
                    _introduce(begun, port, home.holder())
                service = port.service
                chat.move(port, texts.moved(language, port.model) if talks else "")
                if not talks:
                    talks, wish = True, replace(wish, new=False)
                    await _tell_without_key(home, loaded, wish, port)
                    nursery.start_soon(talk, port)
                await _first(port.ended, chat.left.wait)
                if not chat.left.is_set():
                    if (over := port.over() or _deleted(home)) is not None:
                        chat.end(over)
                        await chat.left.wait()
                    else:
                        gone = texts.chat_moves if port.moved else texts.holder_gone
                        chat.lose(gone(language))
    if not (person or service or loaded.settings.session.linger_s):
        see_it_end(home, marks)
    if failure is not None:
        raise failure
    return code


def _deleted(home: "Home") -> "Gone | None":
    """Return why no other process takes the window over; None if one may: the home is still there."""
    from rumi.channels.attach.remote import Gone

    if home.lock_identity() is not None:
        return None
    return Gone(f"The home {home.root} was deleted, and this window ends.", "Start again with: rumi chat")


async def _tell_without_key(home: "Home", loaded: "Loaded", wish: "Wish", port: "RemoteChat") -> None:
    """Say that the offline model answers because there is no key; tell a person the ways to another one."""
    from rumi.app.settings import model_settings_of
    from rumi.models.settings import missing_key
    from rumi.models.trying import local_servers
    from rumi.platform import texts
    from rumi.platform.config.providers import OFFLINE

    variable = missing_key(model_settings_of(loaded, wish.language))
    if port.model != OFFLINE or not variable:
        return
    if not wish.person:
        say(texts.no_key(wish.language, variable))
        return
    servers = [f"{server.name} ({server.base_url})" for server in await local_servers()]
    say(texts.ways_on(wish.language, str(home.root), servers, variable))


async def _first(*waits: Callable[[], Awaitable[None]]) -> None:
    """Return when one of the two events is set."""
    import trio

    async with trio.open_nursery() as nursery:

        async def wait(one: Callable[[], Awaitable[None]]) -> None:
            await one()
            nursery.cancel_scope.cancel()

        for one in waits:
            nursery.start_soon(wait, one)


def _introduce(begun: Begun, port: "RemoteChat", holder: str) -> None:
    """Say what the user should know of the process before the chat begins."""
    from rumi.platform import texts

    language = begun.language
    if port.service:
        say(texts.attached(language, holder, port.model))
    for note in port.notes:
        say(texts.told(language, note))
    if port.other:
        say(texts.other_settings(language, holder, port.other))


@asynccontextmanager
async def attach_window(caller: "Caller", wish: "Wish", home: "Home") -> "AsyncIterator[RemoteChat]":
    """Open a window of the caller on the process that holds the home.

    Raises:
        NotThere: None holds it, or it takes no windows yet.
    """
    from rumi.channels.attach.remote import NotThere, attach
    from rumi.channels.control.paths import socket_path

    holder = home.holder()
    if not holder:
        raise NotThere("No process holds the home any more.")
    async with attach(socket_path(home.run, home.installation()), caller, wish, holder) as chat:
        yield chat
