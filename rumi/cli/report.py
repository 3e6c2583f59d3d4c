"""`rumi debug report TURN`."""

import os
from pathlib import Path

import click

from rumi.cli.printing import confirm, echo
from rumi.cli.speaking import say, tr
from rumi.texts import os_error


@click.command()
@click.argument("turn", default="")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="The file to write; by default TURN.zip."
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def command(turn: str, output: Path | None, yes: bool) -> None:
    """Pack a recorded turn, or the last one, for a bug report, after showing what is in it.

    Known secrets and everything that looks like a key are hidden. The rest is what was said and done.
    """
    from rumi.chats.recorder.recording import find_recording, read_recording
    from rumi.chats.recorder.report import contents, pack
    from rumi.errors import UsageError
    from rumi.platform.config.cascade import load_settings
    from rumi.platform.config.files import home_from
    from rumi.platform.redact import Redactor

    home = home_from(os.environ)
    loaded = load_settings(home, os.environ, {})
    redact = Redactor(loaded.secrets.values())
    path = find_recording(home, turn, loaded.settings.record.turns)
    target = output or Path(f"{path.stem}.zip")
    for line in contents(read_recording(path), redact):
        echo(line)
    if not yes and not confirm(tr("Write all of that to {target}?", target=target)):
        return
    try:
        pack(path, target, redact)
    except OSError as error:
        raise UsageError(
            "{target} cannot be written: {reason}.",
            "Name another file: -o",
            target=target,
            reason=os_error(error),
        ) from error
    say("Written: {target}", target=target)
