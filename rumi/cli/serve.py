"""`rumi serve`, and what `rumi telegram` and `rumi web` have in common with it."""

import gc
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from rumi.cli import run_async

if TYPE_CHECKING:
    from rumi.channels import Channel
    from rumi.config import Loaded
    from rumi.home import Home
    from rumi.texts import Language


@click.command()
@click.option("--web", metavar="HOST:PORT", help="Serve a page too, at 127.0.0.1:8080, say.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(web: str | None, debug: bool) -> None:
    """Serve all that is configured until SIGINT or SIGTERM: terminals, and Telegram if there is a token."""
    serve_until_signal("rumi serve", web=web, telegram=lambda loaded: bool(loaded.secrets.telegram_token))


def serve_until_signal(purpose: str, *, web: str | None, telegram: "Callable[[Loaded], bool]") -> None:
    """Hold the home and serve terminals, Telegram if `telegram` says so, and a page at `web` if given.

    Raises:
        RumiError: It cannot start; the message says what to do.
    """
    _let_many_files_be_open()
    run_async(_serve, purpose, web, telegram)


def _let_many_files_be_open() -> None:
    """Raise the limit of open files (usually 1024), because each working chat has connections and pipes."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


GENERATIONS = (5_000, 10, 50)
"""New objects until Python searches the youngest generation; such searches until it searches older ones."""


def look_for_cycles_seldom() -> None:
    """Search for reference cycles less often, because a search of all objects blocks every chat for 0.1 s.

    With Python's defaults, a busy process is searched every second or two. Existing objects are excluded
    permanently; short-lived objects are still found in the young generation.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GENERATIONS)


async def _serve(purpose: str, web: str | None, telegram: "Callable[[Loaded], bool]") -> None:
    import trio

    from rumi import texts
    from rumi.app import open_app
    from rumi.building import ready_engine
    from rumi.channels.serving import listening_to_signals, serve
    from rumi.channels.terminal import show_progress
    from rumi.cli.attach import make_way
    from rumi.config import home_from, load_settings
    from rumi.home import Home
    from rumi.room import require_room
    from rumi.settings import require_chosen_model, require_model

    home = Home(home_from(os.environ)).make()
    loaded = load_settings(home.root, os.environ, {})
    bots: tuple[Channel, ...] = ()
    if telegram(loaded):
        from rumi.channels.telegram import Telegram

        require_model(loaded)
        bots = (Telegram(),)
    else:
        require_chosen_model(loaded)
    language = texts.detect_language(loaded.settings.language, os.environ)
    make_way(home)
    with home.hold(purpose), _page(web, language, home, loaded) as page:
        full = require_room(home, language)
        async with show_progress(language) as steps:
            engine = await ready_engine(home, loaded, steps.step, for_many=bool(bots))
        channels = (*page, *bots)
        async with (
            listening_to_signals() as told,
            open_app(home, loaded, engine, channels=channels, full=full, service=True) as app,
        ):
            for note in app.notes:
                _say(texts.told(language, note))
            look_for_cycles_seldom()
            app.windows.open()
            if not channels:
                _say(texts.told(language, "Serving terminals: rumi chat. Ctrl-C ends me."))
            lessons = app.services.lessons
            drain_s = loaded.settings.store.drain_s if loaded.settings.store.url else 0.0
            ending = app.windows.wind_down
            await serve(channels, app.inbox, lessons, language, _say, told, ending, app.drain, drain_s)
            with trio.move_on_after(1):
                await app.windows.done()


@contextmanager
def _page(
    web: str | None, language: "Language", home: "Home", loaded: "Loaded"
) -> "Iterator[tuple[Channel, ...]]":
    """Open the place where the page listens; yield the page, if there is to be one."""
    if web is None:
        yield ()
        return
    from rumi import texts
    from rumi.channels.page import Page, open_entrance
    from rumi.cli.mcp_serve import endpoint_of

    sessions = home.run / "page-sessions.json"
    auto = loaded.settings.language == "auto"
    with open_entrance(web, language, _say, sessions, ask_browsers=auto) as entrance:
        endpoint = endpoint_of(home, loaded, language)
        if endpoint is not None:
            where = f"{entrance.bound.url}{endpoint.path}"
            _say(texts.told(language, f"Programs may ask by MCP at {where}, with MCP_TOKEN."))
        yield (Page(entrance, endpoint),)


def _say(line: str) -> None:
    """Print a line on standard error; ignore a closed terminal."""
    try:
        click.echo(line, err=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # so that the buffered output does not fail at the exit
