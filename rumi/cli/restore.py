"""`rumi data restore`."""

import os
import signal
import sys
from pathlib import Path

import click

from rumi.cli.backup import WHAT
from rumi.cli.printing import JSON, echo, echo_json, prompt
from rumi.cli.speaking import tr


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--without-files", is_flag=True, help="Leave the chats' files (workspace/) as they are.")
@click.option("-y", "--yes", is_flag=True, help="Replace what is there without asking.")
@JSON
def command(path: Path, without_files: bool, yes: bool, as_json: bool) -> None:
    """Restore a backup: put what `rumi data backup` copied to PATH in place of what the home has.

    No Rumi may run on the home. The backup is copied and its databases are checked first; then everything is
    replaced together. What was there stays in before-restore/ in the home, until the next restore, and can be
    restored like a backup. What the backup does not contain (logs, keys) stays as it is.
    """
    from rumi.app.restore import restorable
    from rumi.cli.control import yield_home
    from rumi.cli.speaking import say, translate
    from rumi.errors import UsageError
    from rumi.platform.config.files import home_from
    from rumi.platform.home import Home
    from rumi.platform.texts.operating import short_size
    from rumi.platform.texts.questions import yes_or_no

    # SystemExit runs the cleanup that removes an incomplete copy; the default action would not.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    home = Home(home_from(os.environ))
    yield_home(home)
    with home.lock("rumi data restore"), restorable(home, path, files=not without_files) as ready:
        # With --json, what leads to the question goes to standard error.
        say("{path} is complete, and its databases are undamaged:", path=path, err=as_json)
        for name, size in ready.entries:
            echo(f"  {name:<20} {short_size(size):>9}  {translate(WHAT[name])}", err=as_json)
        if ready.left_out:
            say(
                "  {left_out} entries of workspace/ are not in it: pipes, sockets, or unreadable.",
                left_out=ready.left_out,
                err=as_json,
            )
        if ready.replaced:
            say(
                "It replaces in {root}: {replaced}.",
                root=home.root,
                replaced=", ".join(ready.replaced),
                err=as_json,
            )
            say("What is there now goes to {former}.", former=ready.former, err=as_json)
            if not yes:
                if not sys.stdin.isatty():
                    raise UsageError("Nothing was restored.", "Use --yes to replace what is there.")
                if yes_or_no(prompt(tr("Restore it? [yes/no]"), "", show_default=False)) is not True:
                    raise UsageError("Nothing was restored.")
        ready.commit()
    if as_json:
        found = {
            "root": str(home.root),
            "entries": [{"name": name, "bytes": size} for name, size in ready.entries],
            "left_out": ready.left_out,
            "replaced": list(ready.replaced),
            "former": str(ready.former) if ready.replaced else None,
        }
        echo_json(found, indent=2)
        return
    say("Restored to {root}.", root=home.root)
    if ready.replaced:
        say("What was there before is in {former}. Remove it when all is well.", former=ready.former)
