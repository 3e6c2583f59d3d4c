"""The command line: one file per command. They parse, call and print; the work is done elsewhere."""

import sys

from rumi import __version__


def main() -> None:
    """The console script. The version is told without loading anything: scripts ask for it often."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"rumi, version {__version__}\n")
        return
    from rumi.cli.group import run

    run()
