"""`rumi serve`, and the code that it shares with its old names `rumi telegram` and `rumi web`."""

import gc
import os
import resource
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import click

from rumi.channels.registration import ServeFlags, Serving
from rumi.cli import GENERATIONS, run_async
from rumi.cli.printing import echo
from rumi.texts import gettext


@click.command()
@click.option(
    "--telegram/--no-telegram",
    default=None,
    help="Serve Telegram or not; by default if there is a token of a bot.",
)
@click.option(
    "--web",
    metavar="HOST:PORT",
    help="Serve the page too, at 127.0.0.1:8080, say; [serve] web does the same.",
)
@click.option(
    "--webhook", metavar="URL", help="Have Telegram deliver messages to this address, instead of polling."
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Take the webhook's messages and the triggers' events there, and answer /healthz, /readyz and "
    "/metrics. With a webhook or a trigger it is 127.0.0.1:8443 by default.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(
    telegram: bool | None, web: str | None, webhook: str | None, listen: str | None, debug: bool
) -> None:
    """Serve all that is configured until SIGINT or SIGTERM: terminals, Telegram, mail, Matrix and the
    page.

    The page is served at --web or at [serve] web; the program prints the link that logs a browser in.
    `rumi web link` prints another one, and `rumi web sessions` lists the browsers that are logged in.
    """
    flags = {"telegram.webhook": webhook, "telegram.listen": listen}
    serve_until_signal("rumi serve", ServeFlags(web, telegram), flags)


def serve_until_signal(purpose: str, channels: ServeFlags, flags: Mapping[str, object] | None = None) -> None:
    """Lock the home; serve clients and the channels that the configuration and the command line name.

    `flags` are command line values that override the configuration.

    Raises:
        RumiError: The service cannot start; the message says what to do.
    """
    _let_many_files_be_open()
    run_async(_serve, purpose, channels, flags or {})


def _let_many_files_be_open() -> None:
    """Raise the limit of open files (usually 1024), because each busy chat uses connections and pipes."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def look_for_cycles_seldom() -> None:
    """Exclude the objects that exist now from garbage collection, because a full one blocks all chats.

    Without this, a full collection takes about 0.1 s. The thresholds are set at the program's start.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GENERATIONS)


async def _serve(purpose: str, channel_flags: ServeFlags, flags: Mapping[str, object]) -> None:
    import trio

    from rumi.app.app import open_app
    from rumi.app.disk_check import require_writable_disk
    from rumi.app.engine import ready_engine
    from rumi.app.settings import cluster_of, require_chosen_model, require_model
    from rumi.app.shutdown import serve_channels, stop_signals
    from rumi.channels.opening import open_channels, wanted_channels
    from rumi.channels.terminal.progress import show_progress
    from rumi.cli.control import yield_home
    from rumi.cli.group import note_old_name
    from rumi.cli.mcp_serve import endpoint_of
    from rumi.platform.config.cascade import load_settings
    from rumi.platform.config.commands import read_keys
    from rumi.platform.config.files import home_from
    from rumi.platform.home import Home
    from rumi.platform.texts.language import detect_language
    from rumi.store.cluster.building import leases_of
    from rumi.texts import translate

    home = Home(home_from(os.environ)).make()
    loaded = load_settings(home.root, os.environ, flags)
    language = detect_language(loaded.settings.language, os.environ)
    endpoint = partial(endpoint_of, home, loaded, language)
    serving = Serving(home, loaded, language, _say, channel_flags, endpoint)
    wanted = wanted_channels(serving)
    for_many = any(one.writers == "others" for one in wanted)
    (require_model if for_many else require_chosen_model)(loaded)
    yield_home(home)
    with home.lock(purpose):
        loaded = await read_keys(loaded)
        serving = replace(serving, loaded=loaded)
        with open_channels(serving, wanted_channels(serving)) as channels:
            # First, so that a full disk is reported with advice, and not as the failure of some later write.
            full = require_writable_disk(home, language)
            cluster = cluster_of(loaded)
            async with show_progress(language) as steps:
                engine = await ready_engine(
                    home, loaded, steps.step, for_many=for_many, leases=leases_of(cluster)
                )
            async with (
                stop_signals() as stop,
                open_app(
                    home, loaded, engine, channels=channels, full=full, service=True, cluster=cluster
                ) as app,
            ):
                if (context := click.get_current_context(silent=True)) is not None:
                    note_old_name(context)  # now: it ends only with a signal
                for note in app.notes:
                    _say(translate(language, note))
                look_for_cycles_seldom()
                app.attach_server.open()
                if all(one.writers == "nobody" for one in wanted):
                    _say(gettext(language, "Serving terminals: rumi chat. Ctrl-C ends me."))
                fact_extraction = app.services.fact_extraction
                drain_s = loaded.settings.store.drain_s if loaded.settings.store.url else 0.0
                ending = app.attach_server.wind_down
                await serve_channels(
                    channels,
                    app.inbox.chats,
                    fact_extraction,
                    language,
                    _say,
                    stop,
                    ending,
                    app.drain,
                    drain_s,
                )
                with trio.move_on_after(1):
                    await app.attach_server.wait_until_idle()


def _say(line: str) -> None:
    """Print a line on standard error; ignore a closed terminal."""
    try:
        echo(line, err=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # so that the buffered output does not fail at the exit
