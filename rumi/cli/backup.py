"""`rumi data backup`."""

import os
import shlex
import signal
import sys
from pathlib import Path

import click

from rumi.cli.printing import JSON, echo, echo_json
from rumi.texts import Text

WHAT = {
    "state.db": Text("messages, replies and history"),
    "memory.db": "facts",
    "config.toml": Text("the configuration"),
    "skills": "skills",
    "mcp-tools.json": Text("which tools of servers are accepted"),
    "mcp": Text("files of servers of tools"),
    "prompts": Text("words of prompts"),
    "templates": Text("templates"),
    "bots": Text("bots: their configuration and skills"),
    "tasks": Text("what tasks have read"),
    "skills-trusted.json": Text("which skills' code is trusted"),
    "workspace": Text("the chats' files"),
    "folders": Text("what chats have changed in your folders"),
    ".env": Text("keys and tokens: keep this file secret"),
}


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--with-keys", is_flag=True, help="Include .env: everyone who has the copy has your keys.")
@click.option("--without-files", is_flag=True, help="Leave out the chats' files (workspace/).")
@JSON
def command(path: Path, with_keys: bool, without_files: bool, as_json: bool) -> None:
    """Copy databases, configuration, skills, bots, sources and the chats' files into PATH, also while Rumi
    runs.

    PATH is a new folder, or an existing one that gets a new folder named after the time; never a folder in an
    earlier backup. The databases show one moment, the files (workspace/) and the sources of tasks (tasks/)
    are copied one after the other. The backup contains neither the logs nor the cache of repositories.
    """
    from rumi.app.backup import back_up
    from rumi.cli.speaking import say, translate
    from rumi.platform.config.files import home_from
    from rumi.platform.home import Home
    from rumi.platform.texts.operating import short_size

    # SystemExit runs the cleanup that removes an incomplete backup; the default action would not.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    home = Home(home_from(os.environ))
    made = back_up(home, path, keys=with_keys, files=not without_files)
    if as_json:
        entries = [{"name": name, "bytes": size} for name, size in made.entries]
        echo_json({"path": str(made.path), "entries": entries, "left_out": made.left_out}, indent=2)
        return
    say(
        "{path}  {entries}, for its owner alone",
        path=made.path,
        entries=short_size(sum(size for _, size in made.entries)),
    )
    for name, size in made.entries:
        echo(f"  {name:<20} {short_size(size):>9}  {translate(WHAT[name])}")
    if made.left_out:
        say(
            "  {left_out} entries of workspace/ are not in it: pipes, sockets, or unreadable.",
            left_out=made.left_out,
        )
    if not with_keys and (home.root / ".env").exists():
        say("  .env is not in it: keep your keys elsewhere, or use --with-keys.")
    if without_files:
        say("  workspace/ is not in it, because of --without-files.")
    say("To restore it: rumi data restore {path}", path=shlex.quote(str(made.path)))
