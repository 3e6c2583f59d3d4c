"""`rumi chat`."""

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rumi.chat_ids import DEFAULT_CHAT
from rumi.cli import run_async

if TYPE_CHECKING:
    from rumi.chats import ChatPort
    from rumi.config import Loaded
    from rumi.home import Home
    from rumi.windows import Gone, LastingChat, Wish

HELD_S = 10.0
"""How long to wait for a process that holds the home and takes no windows: it ends, or is a short command."""

START_S = 60.0
"""How long to wait for a process that will take windows: its first start builds a sandbox."""

TAKING = ("rumi chat", "rumi telegram")

AGAIN_S = 0.1

QUIET_S = 1.0
"""The command does not mention a wait that is shorter."""

INTERRUPTED = 130


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
    help="With -p: hand on a text file; may be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print events as JSON lines.")
@click.option("--chat", "chat_id", metavar="ID", help="Which chat.  [default: cli]")
@click.option("-c", "--continue", "going_on", is_flag=True, help="With -p: go on with the chat's history.")
@click.option("--new", is_flag=True, help="Begin a new session; the old history stays stored.")
@click.option("--model", metavar="PROVIDER:NAME", help="The model, or offline.")
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

    If another rumi chat, or rumi telegram, runs on this RUMI_HOME, this is a window on it: several windows
    may be open at once, on one chat or on many. When that rumi chat ends, its windows continue without it.

    With -p, the turn runs in the chat cli, with its files and facts, and has a history of its own. With
    --chat, -c or --new it goes on with that chat's history. @FILE in TEXT hands on a text file that exists,
    as -f does. TEXT behind the options is the same as -p TEXT.
    """

    if text and prompt is not None:
        raise click.UsageError("There are two texts: one with -p, and one behind the options.")
    prompt = " ".join(text) if text else prompt
    if files and prompt is None:
        raise click.UsageError("-f goes with -p TEXT; in the chat, @FILE in a message does the same.")
    flags: dict[str, str | None] = {"model.default": model, "sandbox.backend": sandbox}
    if prompt is not None:  # an argument may be any bytes; bytes that are not UTF-8 read as they do in a pipe
        prompt = os.fsencode(prompt).decode("utf-8", "replace")
    options: dict[str, Any] = {"prompt": prompt, "json": as_json, "yes": yes, "files": files}
    apart = prompt is not None and chat_id is None and not going_on and not new
    raise click.exceptions.Exit(run_async(_chat, chat_id or DEFAULT_CHAT, new, apart, flags, options))


@dataclass(frozen=True, slots=True)
class _Place:
    """The process that holds the home, as this process reaches it: this process itself, or another one.

    `ended` returns when that process has ended. `leave` is called, with the exit code, when the front end is
    done.
    """

    port: "ChatPort"
    model: str
    engine: str
    ended: Callable[[], Awaitable[None]]
    leave: Callable[[int], Awaitable[None]]
    over: "Callable[[], Gone | None]" = lambda: None
    """Return the error that ends this chat with that process; None if another process takes its place."""


async def _chat(
    chat_id: str, new: bool, apart: bool, flags: dict[str, str | None], options: dict[str, Any]
) -> int:
    """Talk, in this process or in the one that holds the home; when that one ends, continue without it."""
    import trio

    from rumi import texts
    from rumi.channels import BUILT_IN
    from rumi.channels.terminal import Streams, TerminalOptions, run_terminal, what_to_send
    from rumi.config import home_from, load_settings
    from rumi.home import Home
    from rumi.windows import LastingChat, Wish

    BUILT_IN.check_chosen(chat_id)
    home = Home(home_from(os.environ)).make()
    loaded = load_settings(home.root, os.environ, flags)
    language = texts.detect_language(loaded.settings.language, os.environ)
    files, most = options.pop("files"), loaded.settings.session.handed_chars
    options["handed_chars"] = most
    if options["prompt"] is not None:
        given = await what_to_send(options["prompt"], Streams(), language, most, files)
        options["prompt"], options["attachments"] = given
    person = options["prompt"] is None and not options["json"] and os.isatty(0)
    wish = Wish(chat_id, person, language, new, flags["model.default"], flags["sandbox.backend"], apart)
    chat = LastingChat(chat_id, language)
    code, failure = 0, None

    async def talk(place: _Place) -> None:
        nonlocal code, failure
        terminal = TerminalOptions(
            language=language,
            history_path=home.terminal_history,
            model=place.model,
            engine=place.engine,
            **options,
        )
        try:
            code = await run_terminal(chat, terminal)
        except Exception as error:  # noqa: BLE001  # raised below: the place is left in order before that
            failure = error
        chat.left.set()

    async with trio.open_nursery() as nursery:
        begun = False
        while not chat.left.is_set():
            async with _place(home, loaded, wish, chat if begun else None, options) as place:
                if place is None:  # the user left while the command waited for the home
                    break
                chat.move(place.port, texts.moved(language, place.model) if begun else "")
                if not begun:
                    begun, wish = True, replace(wish, new=False)
                    await _tell_without_key(home, loaded, wish, place)
                    nursery.start_soon(talk, place)
                await _first(place.ended, chat.left.wait)
                if not chat.left.is_set():
                    if (over := place.over()) is not None:
                        chat.end(over)
                        await chat.left.wait()
                    else:
                        chat.lose(texts.holder_gone(language))
                elif failure is None:
                    await place.leave(code)
    if failure is not None:
        raise failure
    return code


async def _tell_without_key(home: "Home", loaded: "Loaded", wish: "Wish", place: _Place) -> None:
    """Say that the offline model answers because there is no key; tell a person the ways to another one."""
    from rumi import texts
    from rumi.models import OFFLINE, lacks_key, local_servers
    from rumi.settings import model_settings_of

    if place.model != OFFLINE or not lacks_key(model_settings_of(loaded, wish.language)):
        return
    if not wish.person:
        _say(texts.no_key(wish.language))
        return
    servers = [f"{server.name} ({server.base_url})" for server in await local_servers()]
    _say(texts.ways_on(wish.language, str(home.root), servers))


async def _first(*waits: Callable[[], Awaitable[None]]) -> None:
    """Return when one of the two events is set."""
    import trio

    async with trio.open_nursery() as nursery:

        async def wait(one: Callable[[], Awaitable[None]]) -> None:
            await one()
            nursery.cancel_scope.cancel()

        for one in waits:
            nursery.start_soon(wait, one)


@asynccontextmanager
async def _place(
    home: "Home", loaded: "Loaded", wish: "Wish", again: "LastingChat | None", options: dict[str, Any]
) -> "AsyncIterator[_Place | None]":
    """Hold the home, or open a window on its holder. Yield None if `again` is cancelled before that."""
    import trio

    from rumi import texts
    from rumi.home import HomeHeld
    from rumi.room import require_room
    from rumi.windows import NotThere

    begun, told = time.monotonic(), False
    while again is None or not again.left.is_set():  # the holder may end just now, or not listen yet
        async with AsyncExitStack() as stack:
            held: HomeHeld | None = None
            try:
                stack.enter_context(home.hold("rumi chat"))
            except HomeHeld as error:
                held = error
            try:
                if held is None:
                    full = require_room(home, wish.language)
                    holding = _hold(home, loaded, wish, again, options, full)
                    place = await stack.enter_async_context(holding)
                else:
                    place = await stack.enter_async_context(_attach(home, wish, again))
            except NotThere:
                holder, waited_s = home.holder(), time.monotonic() - begun
                if waited_s > (START_S if holder.startswith(TAKING) else HELD_S):
                    assert held is not None
                    raise held from None
                if holder and not told and waited_s > QUIET_S:
                    told = True
                    (again.tell if again else _say)(texts.waiting_for(wish.language, holder))
            else:
                yield place
                return
        await trio.sleep(AGAIN_S)
    yield None


@asynccontextmanager
async def _attach(home: "Home", wish: "Wish", again: "LastingChat | None") -> "AsyncIterator[_Place]":
    from rumi import texts
    from rumi.control.paths import socket_path
    from rumi.windows import NotThere, attach

    holder = home.holder()
    if not holder:
        raise NotThere("No process holds the home any more.")
    async with attach(socket_path(home.run, home.installation()), wish, holder) as chat:
        if again is None:
            _say(texts.attached(wish.language, holder, chat.model))
            here = Path.cwd()
            if (here / ".rumi" / "skills").is_dir() and chat.project != str(here):
                _say(texts.other_project(wish.language))
        yield _Place(chat, chat.model, chat.engine, chat.ended, _nothing, chat.over)


@asynccontextmanager
async def _hold(
    home: "Home",
    loaded: "Loaded",
    wish: "Wish",
    again: "LastingChat | None",
    options: dict[str, Any],
    full: bool,
) -> "AsyncIterator[_Place]":
    import trio

    from rumi.app import open_app
    from rumi.building import ready_engine
    from rumi.channels.terminal import show_progress
    from rumi.chats import leave
    from rumi.settings import require_chosen_model
    from rumi.texts import saving, told, windows_at_work

    require_chosen_model(loaded)
    if again is None:
        async with show_progress(wish.language) as steps:
            engine = await ready_engine(home, loaded, steps.step)
    else:
        engine = await ready_engine(home, loaded, lambda step: None)
    async with open_app(home, loaded, engine, project=Path.cwd(), full=full) as app:
        if again is None:
            for note in app.notes:
                click.echo(told(wish.language, note), err=True)
        if wish.new:
            await app.inbox.begin_session(wish.chat)
        app.windows.open()

        async def left(code: int) -> None:
            patience_s = 0 if code == INTERRUPTED else app.services.context.limits.turn.timeout_s
            await app.windows.finish(lambda count: _say(windows_at_work(wish.language, count)), patience_s)
            tell, for_now = partial(_say, saving(wish.language)), options["prompt"] is not None
            await leave(app.services.lessons, wish.chat, tell, person=wish.person, for_now=for_now)

        port = app.chat(wish.chat, apart=wish.apart)
        yield _Place(port, app.models.name, app.engine.kind, trio.sleep_forever, left)


async def _nothing(code: int) -> None:
    import trio

    await trio.lowlevel.checkpoint()


def _say(line: str) -> None:
    """Print the farewell; ignore a closed terminal."""
    with suppress(OSError):
        click.echo(line, err=True)
