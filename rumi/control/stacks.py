"""What every task is at, and the whole status, into the program's log when a signal asks for it (SIGUSR1)."""

import json
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping

import trio

logger = logging.getLogger(__name__)

FRAMES = 30
"""Of one stack, without trio's own innermost ones: the last tell what is waited for."""


def stacks() -> list[dict[str, object]]:
    """All tasks and where each of them stands, the outermost first; `depth` is that in the tree of tasks."""
    root = trio.lowlevel.current_root_task()
    return list(_below(root, 0)) if root is not None else []


def _below(task: trio.lowlevel.Task, depth: int) -> Iterator[dict[str, object]]:
    frames = [
        f"{'/'.join(frame.f_code.co_filename.split('/')[-3:])}:{line} in {frame.f_code.co_qualname}"
        for frame, line in task.iter_await_frames()
        if not frame.f_globals.get("__name__", "").startswith("trio._core")
    ]
    yield {"task": task.name, "depth": depth, "stack": frames[-FRAMES:]}
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            yield from _below(child, depth + 1)


async def dump_on_signal(status: Callable[[], Mapping[str, object]]) -> None:
    """Write the status and all stacks into the program's log whenever SIGUSR1 comes. Runs until cancelled.

    Does nothing outside of the main thread, where no signal can be taken.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    with trio.open_signal_receiver(signal.SIGUSR1) as signals:
        async for _ in signals:
            whole = {"status": status(), "tasks": stacks()}
            logger.info("asked by SIGUSR1: %s", json.dumps(whole, ensure_ascii=False, default=str))
