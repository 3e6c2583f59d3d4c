"""`rumi chat`."""

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rumi.chat_ids import DEFAULT_CHAT
from rumi.cli import run_async

if TYPE_CHECKING:
    from rumi.config import Loaded
    from rumi.errors import RumiError
    from rumi.holding import Starting
    from rumi.home import Home
    from rumi.texts import Language
    from rumi.windows import LastingChat, RemoteChat, Wish

HELD_S = 10.0
"""How long to wait for a process that holds the home and takes no windows: it ends, or is a short command."""

START_S = 60.0
"""How long to wait for a process that will take windows: its first start builds a sandbox."""

TAKING = ("rumi chat", "rumi telegram")

AGAIN_S = 0.1

QUIET_S = 1.0
"""The command does not mention a wait that is shorter."""


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

    Each terminal is a window on one process of this RUMI_HOME, which the first one starts: several windows
    may be open at once, on one chat or on many, and none ends another. The process ends soon after the last.

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
    begun = _begin(chat_id or DEFAULT_CHAT, flags)
    raise click.exceptions.Exit(run_async(_chat, begun, new, apart, options))


@dataclass(slots=True)
class _Begun:
    """What the command knows, and the process that it has started, before its event loop runs."""

    chat: str
    flags: dict[str, str | None]
    home: "Home"
    loaded: "Loaded"
    language: "Language"
    project: Path
    starting: "Starting | None" = None


def _begin(chat_id: str, flags: dict[str, str | None]) -> _Begun:
    """Read the configuration, and start the process that holds the home if none does."""
    from rumi import texts
    from rumi.channels import BUILT_IN
    from rumi.cli.attach import make_way
    from rumi.config import home_from, load_settings
    from rumi.home import Home, HomeHeld

    BUILT_IN.check_chosen(chat_id)
    home = Home(home_from(os.environ)).make()
    loaded = load_settings(home.root, os.environ, flags)
    language = texts.detect_language(loaded.settings.language, os.environ)
    begun = _Begun(chat_id, flags, home, loaded, language, Path.cwd())
    make_way(home, loaded.marks())
    if not home.holder():
        import rumi.windows  # noqa: F401  # both processes need it
        from rumi.holding import start

        with suppress(HomeHeld):  # another command was faster: this is a window on its process
            begun.starting = start(home, loaded, language, begun.project)
    return begun


async def _chat(begun: _Begun, new: bool, apart: bool, options: dict[str, Any]) -> int:
    """Talk with a chat of the process that holds the home; when that one ends, of the next one."""
    import trio

    from rumi import texts
    from rumi.channels.terminal import Streams, TerminalOptions, run_terminal, what_to_send
    from rumi.cli.attach import see_it_end
    from rumi.models import OFFLINE, lacks_key
    from rumi.settings import model_settings_of
    from rumi.windows import LastingChat, Wish

    home, loaded, language = begun.home, begun.loaded, begun.language
    files, most = options.pop("files"), loaded.settings.session.handed_chars
    options["handed_chars"] = most
    if options["prompt"] is not None:
        given = await what_to_send(options["prompt"], Streams(), language, most, files)
        options["prompt"], options["attachments"] = given
    person = options["prompt"] is None and not options["json"] and os.isatty(0)
    single = options["prompt"] is not None
    marks, must = loaded.marks(), loaded.is_of_this_run("model.default")
    # Without a key the offline model takes the place of one that only the configuration names.
    without = not must and lacks_key(model_settings_of(loaded, language))
    model = OFFLINE if without else loaded.settings.model.default
    wish = Wish(begun.chat, person, language, new, model, must, apart, single, marks)
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
            async with _window(begun, wish, chat if talks else None) as port:
                if port is None:  # the user left while the command waited for the home
                    break
                service = port.service
                chat.move(port, texts.moved(language, port.model) if talks else "")
                if not talks:
                    talks, wish = True, replace(wish, new=False)
                    await _tell_without_key(home, loaded, wish, port)
                    nursery.start_soon(talk, port)
                await _first(port.ended, chat.left.wait)
                if not chat.left.is_set():
                    if (over := port.over()) is not None:
                        chat.end(over)
                        await chat.left.wait()
                    else:
                        chat.lose(texts.holder_gone(language))
    if not (person or service or loaded.settings.session.linger_s):
        see_it_end(home, marks)
    if failure is not None:
        raise failure
    return code


async def _tell_without_key(home: "Home", loaded: "Loaded", wish: "Wish", port: "RemoteChat") -> None:
    """Say that the offline model answers because there is no key; tell a person the ways to another one."""
    from rumi import texts
    from rumi.models import OFFLINE, lacks_key, local_servers
    from rumi.settings import model_settings_of

    if port.model != OFFLINE or not lacks_key(model_settings_of(loaded, wish.language)):
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
async def _window(
    begun: _Begun, wish: "Wish", again: "LastingChat | None"
) -> "AsyncIterator[RemoteChat | None]":
    """Open a window on the process that holds the home; start that one if none does.

    Yield None if `again` is left before that.
    """
    import trio

    from rumi import texts
    from rumi.channels.terminal import show_progress
    from rumi.holding import starting
    from rumi.home import HomeHeld
    from rumi.windows import NotThere

    home, since, told = begun.home, time.monotonic(), False
    while again is None or not again.left.is_set():  # the holder may end just now, or not listen yet
        async with AsyncExitStack() as stack:
            try:
                started = begun.starting
                if started is None and not home.holder():
                    started = await stack.enter_async_context(starting(begun.flags, begun.project))
                if started is not None:
                    stack.callback(started.close)
                    begun.starting = None
                    if again is None:
                        async with show_progress(wish.language) as steps:
                            await started.ready(steps.step)
                    else:
                        await started.ready(lambda step: None)
                port = await stack.enter_async_context(_attach(home, wish))
            except (NotThere, HomeHeld) as error:
                holder, waited_s = home.holder(), time.monotonic() - since
                if waited_s > (START_S if holder.startswith(TAKING) else HELD_S):
                    raise _held(home, holder, error) from None
                if holder and not told and waited_s > QUIET_S:
                    told = True
                    (again.tell if again else _say)(texts.waiting_for(wish.language, holder))
            else:
                if again is None:
                    _introduce(begun, port, home.holder())
                yield port
                return
        await trio.sleep(AGAIN_S)
    yield None


def _held(home: "Home", holder: str, error: "RumiError") -> "RumiError":
    from rumi.home import HomeHeld

    if isinstance(error, HomeHeld) or not holder:
        return error
    return HomeHeld(f"{home.root} is held by {holder}.", "End that one first, or set another RUMI_HOME.")


def _introduce(begun: _Begun, port: "RemoteChat", holder: str) -> None:
    """Say what the user should know of the process before the chat begins."""
    from rumi import texts

    language = begun.language
    if port.service:
        _say(texts.attached(language, holder, port.model))
    for note in port.notes:
        _say(texts.told(language, note))
    if port.other:
        _say(texts.other_settings(language, holder, port.other))
    if (begun.project / ".rumi" / "skills").is_dir() and port.project != str(begun.project):
        _say(texts.other_project(language))


@asynccontextmanager
async def _attach(home: "Home", wish: "Wish") -> "AsyncIterator[RemoteChat]":
    from rumi.control.paths import socket_path
    from rumi.windows import NotThere, attach

    holder = home.holder()
    if not holder:
        raise NotThere("No process holds the home any more.")
    async with attach(socket_path(home.run, home.installation()), wish, holder) as chat:
        yield chat


def _say(line: str) -> None:
    """Print a line for people; ignore a closed terminal."""
    with suppress(OSError):
        click.echo(line, err=True)
