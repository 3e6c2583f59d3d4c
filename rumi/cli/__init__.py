"""The command line: one file per command. They parse, call and print; the work is done elsewhere."""

import os
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

from rumi import __version__

T = TypeVar("T")


def main() -> None:
    """The console script. What scripts ask for often is told without loading anything."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"rumi, version {__version__}\n")
        return
    _open_the_missing()
    if sys.argv[1:] == ["status", "--json"]:
        from rumi.cli.brief import print_status

        if print_status():
            return
    from rumi.cli.group import run

    run()


def run_async(main: Callable[..., Awaitable[T]], *arguments: object) -> T:
    """Run a command's main task to its end, and return its result.

    Ctrl-C is raised where that task waits. Python would raise it in the middle of any task: in an actor,
    that is a crash.
    """
    import trio

    return trio.run(main, *arguments, restrict_keyboard_interrupt_to_checkpoints=True)


def _open_the_missing() -> None:
    """Give each standard stream that the caller closed a place that holds nothing.

    The next file that is opened would get its number, and what is meant for people would go into it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest free number, so this one
            os.set_inheritable(opened, True)
            setattr(sys, name, open(opened, "w" if number else "r", encoding="utf-8"))  # noqa: SIM115
