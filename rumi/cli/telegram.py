"""`rumi telegram`."""

import os
import resource

import click


@click.command()
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(debug: bool) -> None:
    """Serve the Telegram bot until SIGINT or SIGTERM."""
    import trio

    _let_many_files_be_open()
    trio.run(_serve)


def _let_many_files_be_open() -> None:
    """Each chat at work has connections and pipes. Login shells and services begin with room for 1024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _serve() -> None:
    from rumi.app import open_app, require_model
    from rumi.building import ready_engine
    from rumi.config import home_from, load_settings
    from rumi.home import Home
    from rumi.telegram import listening_to_signals, serve
    from rumi.terminal import show_progress

    home = Home(home_from(os.environ)).make()
    loaded = load_settings(home.root, os.environ, {})
    require_model(loaded)
    with home.hold("rumi telegram"):
        async with show_progress() as steps:
            engine = await ready_engine(home, loaded, steps.step, for_many=True)
        async with (
            listening_to_signals() as told,
            open_app(home, loaded, engine, telegram=True) as app,
        ):
            for note in app.notes:
                _say(note)
            assert app.telegram is not None
            await serve(app.telegram, app.inbox, app.means.language, _say, told)


def _say(line: str) -> None:
    """Tell whoever started it. That nobody reads any more is no reason to end."""
    try:
        click.echo(line, err=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what is still buffered must not fail at the exit
