"""Brings copies of an earlier file up to date, and kills itself at each step of it in turn.

A step is a statement, or anything that touches a file by Python's own account. Prints at how many it died;
the files are in folders with the numbers 1, 2 … Arguments: the folder, the version of the files, and of how
many steps one is taken.
"""

import os
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

from rumi.store.journal.store import Store
from tests.store.journal.earlier import make

TOUCHES = {"open", "os.scandir", "os.rename", "os.remove", "os.chmod", "sqlite3.connect", "shutil.disk_usage"}


def killed_at(path: Path, step: int) -> bool:
    """Whether a process that dies right before that step did not come to its end."""
    child = os.fork()
    if child == 0:
        left = [step]
        connect = sqlite3.connect

        def count(_: object) -> None:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
            db = connect(*arguments, **options)
            db.set_trace_callback(count)
            return db

        sqlite3.connect = traced  # type: ignore[assignment]
        sys.addaudithook(lambda event, _: count(event) if event in TOUCHES else None)
        Store(path)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert status == 0
    return False


def main(folder: Path, version: int, one_of: int) -> None:
    number = 1
    while True:
        path = folder / str(number) / "state.db"
        path.parent.mkdir()
        make(path, version)
        if not killed_at(path, 1 + (number - 1) * one_of):
            break
        number += 1
    print(number - 1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
