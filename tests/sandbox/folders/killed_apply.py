"""Applies the changes of a chat, and kills itself before a change of the file system, the one of a number.

Usage: killed_apply.py HOME HOW NUMBER. Prints `done` if it came to its end.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from tests.sandbox.folders.linking import CHAT, folders_of

STEPS = ("rename", "link", "unlink", "mkdir", "rmdir", "replace", "mknod", "fsync", "symlink", "fchmod")


def main() -> None:
    home, how, last = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    folders = folders_of(home, "overlay" if how == "overlay" else "copy")
    folders.start()
    with folders.found(CHAT) as (_, found):
        token = found.token
    folders.close_all()
    count = 0

    def stepping(real: Callable[..., object]) -> Callable[..., object]:
        def step(*words: object, **named: object) -> object:
            nonlocal count
            count += 1
            if count == last:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*words, **named)

        return step

    for name in STEPS:
        setattr(os, name, stepping(getattr(os, name)))
    folders.apply(CHAT, token)
    print("done", flush=True)


main()
