"""The command line: one file per command, which parses, calls and prints; other packages do the work."""

import gc
import os
import sys

from rumi import __version__

TYPE_CHECKING = False  # known to type checkers; `typing` is most of what `rumi --version` would load
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import NoReturn, TypeVar

    T = TypeVar("T")


def main() -> None:
    """Run the console script. Frequent calls from scripts are answered without loading the other commands."""
    if sys.platform != "linux":
        _refuse_system()
    if sys.argv[1:] == ["--version"]:
        from rumi.platform.commit import own_commit, version

        sys.stdout.write(f"rumi {version(__version__, own_commit())}\n")
        return
    gc.set_threshold(*GENERATIONS)
    _open_the_missing()
    _import_less()
    if sys.argv[1:] == ["status", "--json"]:
        from rumi.cli.brief import print_status

        if print_status():
            return
    from rumi.cli.group import run

    run()


def run_async(main: "Callable[..., Awaitable[T]]", *arguments: object) -> "T":
    """Run a command's main task to its end, and return its result.

    Ctrl-C is raised at the point where the main task waits. Python alone would raise it in the middle of any
    task; in an actor that would be a crash.
    """
    import trio

    return trio.run(main, *arguments, restrict_keyboard_interrupt_to_checkpoints=True)


GENERATIONS = (5_000, 10, 50)
"""Thresholds of the garbage collector's three generations.

The first is the number of new objects that triggers a collection of the youngest generation; the others are
numbers of collections of the next younger generation. Python's defaults cost a fifth of a start, which makes
many objects that stay, and have a busy process run a full collection every second or two.
"""


def _refuse_system() -> "NoReturn":
    """Say what to do on a system other than Linux, before anything that only Linux has is imported."""
    from rumi.platform.texts.language import detect_language
    from rumi.texts import Text

    system = {"darwin": "macOS", "win32": "Windows", "cygwin": "Windows"}.get(sys.platform, sys.platform)
    if system == "Windows":
        sentence = Text(
            "Rumi runs on Linux only, and this is Windows. Run it in WSL (wsl --install), or in Docker "
            "(deploy/Dockerfile)."
        )
    else:
        sentence = Text(
            "Rumi runs on Linux only, and this is {system}. Run it in Docker (deploy/Dockerfile), or in a "
            "virtual machine with Linux.",
            system=system,
        )
    sys.exit(f"✗ {sentence.in_language(detect_language('auto', os.environ))}")


def _import_less() -> None:
    """Keep libraries from importing modules that Rumi never uses; this makes startup about a tenth faster."""
    sys.modules["httpx._main"] = None  # type: ignore[assignment]  # httpx's own command line, with rich
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # else all distributions are searched


def _open_the_missing() -> None:
    """Open /dev/null for each standard stream that the caller closed.

    Otherwise the next opened file would get the stream's number, and output for people would go into that
    file.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest free number is this one
            os.set_inheritable(opened, True)
            setattr(sys, name, open(opened, "w" if number else "r", encoding="utf-8"))  # noqa: SIM115
