"""`rumi status`."""

from dataclasses import replace

import click

from rumi.cli import run_async
from rumi.cli.printing import console, echo_json
from rumi.cli.speaking import reader


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the dump as JSON; docs/status.md describes it.")
@click.option("--watch", is_flag=True, help="Refresh every second until Ctrl-C; keys sort, stop and reset.")
@click.option("--all", "-a", "every", is_flag=True, help="Show every chat, also idle ones, and every worker.")
def command(as_json: bool, watch: bool, every: bool) -> None:
    """Show what the running Rumi does: the tree of its actors.

    With --all also the workers that share its database, if it has one of [store]. They are shown from the
    home of each of them, whether a Rumi runs there or not.
    """
    from rumi.cli.control import daemon_status

    if every and not watch and _of_workers(as_json):
        return
    if as_json and not watch:
        echo_json(daemon_status())
        return
    if not watch:
        from rumi.channels.attach.status_view import StatusFilter, render

        choice = StatusFilter(language=reader())
        if every:
            choice = replace(choice, most=1_000_000, many=1_000_000)
        console().print(render(daemon_status(), choice))
        return

    from rumi.channels.attach.status_watch import watch as keep_watching
    from rumi.cli.control import control_path

    raise click.exceptions.Exit(run_async(keep_watching, control_path(), as_json, reader(), console()))


def _of_workers(as_json: bool) -> bool:
    """Show the workers, and the actor tree of this home's worker if it runs.

    Return False if the home has no workers, because it does not share a database.
    """
    import os

    from rumi.cli.control import daemon_status
    from rumi.errors import RumiError
    from rumi.platform.config.cascade import load_settings
    from rumi.platform.config.files import home_from

    loaded = load_settings(home_from(os.environ), os.environ, {})
    if not loaded.settings.store.url:
        return False
    from rumi.app.settings import cluster_of
    from rumi.store.cluster.status import read_workers

    cluster = cluster_of(loaded)
    assert cluster is not None, "there is a URL"
    workers = read_workers(cluster.backend)
    try:
        here = daemon_status()
    except RumiError:
        here = None
    if as_json:
        echo_json({**(here or {}), **workers})
        return True

    from rumi.channels.attach.status_view import StatusFilter, render, render_workers

    screen = console()
    screen.print(render_workers(workers, reader()))
    if here is not None:
        screen.print(render(here, StatusFilter(language=reader(), most=1_000_000, many=1_000_000)))
    return True
