"""Takes a turn back in copies of a home, and kills itself at each step of that in turn.

A step is a statement, or anything that touches a file by Python's own account. After each kill another
process starts on the home, and finds the state before the undo or the one after it. Prints how often each
was.
"""

import os
import shutil
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

import trio
from trio.testing import MockClock

from tests.chats.undoing import state, undoing

TOUCHES = {
    *("open", "os.scandir", "os.listdir", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link"),
    *("os.symlink", "os.chmod", "os.chown", "os.utime", "shutil.rmtree"),
}


async def _made(path: Path) -> tuple[dict[str, object], dict[str, object]]:
    """Make the home; return its state before the turn that is taken back, and after it."""
    async with undoing(path) as house:
        await house.ask("first")
        before = state(path)
        await house.ask("second")
        return before, state(path)


def _killed_at(path: Path, step: int) -> bool:
    """Whether a process that dies right before that step did not come to the end of its undo."""
    child = os.fork()
    if child == 0:
        left, connect = [1 << 60], sqlite3.connect

        def count(_: object) -> None:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
            db = connect(*arguments, **options)
            db.set_trace_callback(count)
            return db

        async def undo() -> None:
            async with undoing(path) as house:
                await house.ask("/status")  # the chat is up
                left[0] = step
                await house.ask("/undo")
                left[0] = 1 << 60

        sqlite3.connect = traced  # type: ignore[assignment]
        sys.addaudithook(lambda event, _: count(event) if event in TOUCHES else None)
        trio.run(undo, clock=MockClock(autojump_threshold=0))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert status == 0
    return False


async def _after_restart(path: Path) -> dict[str, object]:
    async with undoing(path) as house:
        await house.ask("/status")  # the chat is up
        return state(path)


def run(work: Any, *arguments: Any) -> Any:
    return trio.run(work, *arguments, clock=MockClock(autojump_threshold=0))


def main(folder: Path) -> None:
    home = folder / "home"
    home.mkdir()
    before, after = run(_made, home)
    step, counted = 0, {"before": 0, "after": 0}
    while True:
        step += 1
        path = folder / str(step)
        shutil.copytree(home, path, symlinks=True)
        more = _killed_at(path, step)
        found = run(_after_restart, path)
        parts = {name: found[name] == before[name] for name in ("files", "facts", "schedules")}
        taken = all(parts.values())
        assert taken or all(found[name] == after[name] for name in parts), (step, parts, found)
        counted["before" if taken else "after"] += 1
        left = [entry.name for entry in (path / "undo" / "cli").iterdir()]
        assert "draft" not in left, (step, left)
        assert "replaced" not in left, (step, left)
        shutil.rmtree(path)
        if not more:
            break
    print(counted["after"], counted["before"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
