"""Imports a home again and again, each time into another home, and is killed at another point.

Arguments: the program, its home, a folder for the homes, and the points. The point N kills the process
before, or with a half added after, the Nth change of a file or a database.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import trio

from rumi.app.moving import writing
from rumi.app.moving.records import Kind
from rumi.memory.store import MemoryStore
from rumi.store.journal.store import Store
from tests.app.moving.building import move_in


class _Count:
    def __init__(self, point: float) -> None:
        self._left = point

    def __call__(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*args: Any, **kwargs: Any) -> Any:
            self._pass()
            result = change(*args, **kwargs)
            self._pass()
            return result

        return changed

    def _pass(self) -> None:
        self._left -= 0.5
        if self._left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Import once for each point, in a child process; print whether it was killed."""
    kind, path, homes, *points = sys.argv[1:]
    for point in points:
        if (child := os.fork()) == 0:
            kills = _Count(float(point))
            Store.run = kills(Store.run)  # type: ignore[method-assign]
            MemoryStore.do = kills(MemoryStore.do)  # type: ignore[method-assign]
            for name in ("set_disabled", "set_keys", "atomic_write", "_make"):
                setattr(writing, name, kills(getattr(writing, name)))
            trio.run(move_in, Path(homes, point), cast(Kind, kind), Path(path))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(point, os.WIFSIGNALED(status))


if __name__ == "__main__":
    main()
