"""Dumps to the program's log on a signal: on SIGUSR1 status and stacks, on SIGUSR2 waiting actors."""

import json
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

import trio

from actors import PendingAsk, circles

logger = logging.getLogger(__name__)

FRAMES = 30
"""Maximum number of frames shown per stack, not counting trio's; the innermost frames are shown."""


def stacks() -> list[dict[str, object]]:
    """Return all trio tasks with their stacks, the root task first; `depth` is the depth in the task tree."""
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


async def dump_on_signal(
    status: Callable[[], Mapping[str, object]], asks: Callable[[], Sequence[PendingAsk]]
) -> None:
    """Write a dump to the program's log on each signal, until cancelled.

    SIGUSR1: the status and all stacks. SIGUSR2: the actors that wait for other actors' answers, and the
    cycles among them. Does nothing outside the main thread, because Python handles signals only there.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    with trio.open_signal_receiver(signal.SIGUSR1, signal.SIGUSR2) as signals:
        async for number in signals:
            if number == signal.SIGUSR1:
                whole: dict[str, object] = {"status": status(), "tasks": stacks()}
            else:
                pending = asks()
                whole = {"asks": [str(ask) for ask in pending], "circles": circles(pending)}
            said = json.dumps(whole, ensure_ascii=False, default=str)
            logger.info("asked by %s: %s", signal.Signals(number).name, said)
