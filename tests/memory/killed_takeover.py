"""Takes over copies of a file without owners, and kills itself at each of their statements in turn.

Prints how many times that was; the copies are in folders with their numbers. With `new` there are no files.
"""

import os
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

from rumi.memory.store import MemoryStore
from tests.memory.files import original
from tests.memory.stores import Clock


def killed_at(path: Path, statement: int) -> bool:
    """Whether a process that dies right before that statement did not come to its end."""
    child = os.fork()
    if child == 0:
        left = [statement]
        connect = sqlite3.connect

        def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
            db = connect(*arguments, **options)
            db.set_trace_callback(count)
            return db

        def count(_: str) -> None:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        sqlite3.connect = traced  # type: ignore[assignment]
        MemoryStore(path, Clock())
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert status == 0
    return False


def main(folder: Path, new: bool) -> None:
    number = 0
    while True:
        number += 1
        home = folder / str(number)
        home.mkdir()
        if not new:
            original(home / "memory.db")
        if not killed_at(home / "memory.db", number):
            break
    print(number - 1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), "new" in sys.argv[2:])
