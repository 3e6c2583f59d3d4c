"""`rumi backup`."""

import os
import signal
import sys
from pathlib import Path

import click

WHAT = {
    "state.db": "messages, replies and history",
    "memory.db": "facts",
    "config.toml": "the configuration",
    "skills": "skills",
    "skills-trusted.json": "which skills' code is trusted",
    ".env": "keys and tokens: keep this file to yourself",
}


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--with-keys", is_flag=True, help="Put .env in as well: whoever has the copy has your keys.")
def command(path: Path, with_keys: bool) -> None:
    """Copy the databases, the configuration and the skills into PATH, consistent also while Rumi runs.

    PATH is a new folder, or one that gets a new one, named after the time. The chats' files (workspace/)
    and the logs are not in it.
    """
    from rumi.backup import back_up
    from rumi.config import home_from
    from rumi.home import Home

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what is half made goes
    home = Home(home_from(os.environ))
    made = back_up(home, path, keys=with_keys)
    click.echo(f"{made.path}  {_size(sum(size for _, size in made.holds))}, for its owner alone")
    for name, size in made.holds:
        click.echo(f"  {name:<20} {_size(size):>9}  {WHAT[name]}")
    if not with_keys and (home.root / ".env").exists():
        click.echo("  .env is not in it: keep your keys elsewhere, or use --with-keys.")
    click.echo("To put it back: copy it to where no RUMI_HOME is yet, before Rumi starts there.")


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size / 1e3:.1f} KB"
