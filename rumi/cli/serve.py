"""`rumi serve`, and the code that it shares with its old names `rumi telegram` and `rumi web`."""

import gc
import os
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import click

from rumi.cli import GENERATIONS, run_async
from rumi.cli.printing import echo
from rumi.texts import gettext

if TYPE_CHECKING:
    from rumi.channels.channel import Channel
    from rumi.channels.telegram import Telegram
    from rumi.platform.config.cascade import Loaded
    from rumi.platform.home import Home
    from rumi.texts import Language


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
    serve_until_signal(
        "rumi serve",
        web=lambda loaded: web if web is not None else loaded.settings.serve.web,
        telegram=_telegram_is_configured if telegram is None else lambda loaded: telegram,
        flags=flags,
    )


def _telegram_is_configured(loaded: "Loaded") -> bool:
    telegram = loaded.settings.telegram
    return any((*loaded.bots().values(), telegram.bots, telegram.webhook))


def serve_until_signal(
    purpose: str,
    *,
    web: "Callable[[Loaded], str | None]",
    telegram: "Callable[[Loaded], bool]",
    flags: Mapping[str, object] | None = None,
    listens: bool = True,
) -> None:
    """Lock the home; serve clients, Telegram if `telegram()` is True, and a page if `web()` has an address.

    `flags` are command line values that override the configuration. If `listens` is True, it also listens for
    webhooks and health probes, if an address for them is configured.

    Raises:
        RumiError: The service cannot start; the message says what to do.
    """
    _let_many_files_be_open()
    run_async(_serve, purpose, web, telegram, flags or {}, listens)


LISTEN = "127.0.0.1:8443"
"""Default address of the listener if there is a webhook, or a trigger that takes requests."""


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


async def _serve(
    purpose: str,
    web: "Callable[[Loaded], str | None]",
    telegram: "Callable[[Loaded], bool]",
    flags: Mapping[str, object],
    listens: bool,
) -> None:
    import trio

    from rumi.app.app import open_app
    from rumi.app.disk_check import require_writable_disk
    from rumi.app.engine import ready_engine
    from rumi.app.settings import cluster_of, require_chosen_model, require_model
    from rumi.app.shutdown import serve_channels, stop_signals
    from rumi.channels.terminal.progress import show_progress
    from rumi.cli.control import yield_home
    from rumi.cli.group import note_old_name
    from rumi.platform.config.cascade import load_settings
    from rumi.platform.config.files import home_from
    from rumi.platform.home import Home
    from rumi.platform.texts.language import detect_language
    from rumi.store.cluster.building import leases_of
    from rumi.texts import translate

    home = Home(home_from(os.environ)).make()
    loaded = load_settings(home.root, os.environ, flags)
    bots: tuple[Telegram, ...] = ()
    if telegram(loaded):
        from rumi.channels import telegram as telegram_package

        require_model(loaded)
        webhook = loaded.settings.telegram.webhook
        bots = tuple([telegram_package.Telegram(webhook, name) for name in loaded.bots()])
    else:
        require_chosen_model(loaded)
    mail = (*_mail(loaded), *matrix_channels(loaded)) if listens else ()
    language = detect_language(loaded.settings.language, os.environ)
    yield_home(home)
    listening = _listener(loaded, bots, language) if listens else nullcontext(())
    with home.lock(purpose), _page(web(loaded), language, home, loaded) as page, listening as listener:
        # First, so that a full disk is reported with advice, and not as the failure of some later write.
        full = require_writable_disk(home, language)
        cluster = cluster_of(loaded)
        async with show_progress(language) as steps:
            engine = await ready_engine(
                home, loaded, steps.step, for_many=bool(bots or mail), leases=leases_of(cluster)
            )
        channels = (*page, *bots, *mail, *listener)
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
            if not page and not bots and not mail:
                _say(gettext(language, "Serving terminals: rumi chat. Ctrl-C ends me."))
            fact_extraction = app.services.fact_extraction
            drain_s = loaded.settings.store.drain_s if loaded.settings.store.url else 0.0
            ending = app.attach_server.wind_down
            await serve_channels(
                channels, app.inbox.chats, fact_extraction, language, _say, stop, ending, app.drain, drain_s
            )
            with trio.move_on_after(1):
                await app.attach_server.wait_until_idle()


def _mail(loaded: "Loaded") -> "tuple[Channel, ...]":
    """Return the mail channel if a mailbox is Rumi's own."""
    from rumi.platform.config.people import channel_mailbox

    if channel_mailbox(loaded.settings) is None:
        return ()
    from rumi.app.settings import require_model
    from rumi.channels.mail.channel import MailChannel

    require_model(loaded)
    return (MailChannel(),)


def matrix_channels(loaded: "Loaded") -> "tuple[Channel, ...]":
    """Return a channel for each configured Matrix account.

    Raises:
        ConfigError: The parts that Matrix needs are not installed.
    """
    if not loaded.settings.matrix:
        return ()
    from rumi.app.settings import require_model
    from rumi.channels.matrix.channel import MatrixChannel

    require_model(loaded)
    return tuple([MatrixChannel(name) for name in loaded.settings.matrix])


@contextmanager
def _page(
    web: str | None, language: "Language", home: "Home", loaded: "Loaded"
) -> "Iterator[tuple[Channel, ...]]":
    """Listen for the web page at the address `web` and yield the page; without an address, yield nothing."""
    if web is None:
        yield ()
        return
    from rumi.channels.page import PageChannel, open_entrance
    from rumi.channels.page.address import public_origin
    from rumi.cli.mcp_serve import endpoint_of

    sessions = home.run / "page-sessions.json"
    auto = loaded.settings.language == "auto"
    url = loaded.settings.page.url
    public = "" if url is None else public_origin(url)
    with open_entrance(web, language, _say, sessions, ask_browsers=auto, public=public) as entrance:
        endpoint = endpoint_of(home, loaded, language)
        if endpoint is not None:
            where = f"{entrance.address.url}{endpoint.path}"
            _say(gettext(language, "Programs may ask by MCP at {where}, with MCP_TOKEN.", where=where))
        yield (PageChannel(entrance, endpoint),)


@contextmanager
def _listener(
    loaded: "Loaded", bots: "Sequence[Telegram]", language: "Language"
) -> "Iterator[tuple[Channel, ...]]":
    """Open the listener for webhooks and health probes and yield it; without an address, yield nothing."""
    telegram = loaded.settings.telegram
    webhook = telegram.webhook if bots else None
    events = any(trigger.secret is not None for trigger in loaded.settings.triggers.values())
    where = telegram.listen or (LISTEN if webhook or events else None)
    if where is None:
        yield ()
        return
    from rumi.channels.http.listener import open_listener

    with open_listener(where, language, [bot.deliveries for bot in bots if webhook]) as listener:
        yield (listener,)


def _say(line: str) -> None:
    """Print a line on standard error; ignore a closed terminal."""
    try:
        echo(line, err=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # so that the buffered output does not fail at the exit
