"""Tasks that an actor starts for itself: they end with its incarnation, and their errors are its crashes."""

from collections.abc import Awaitable, Callable
from typing import Any

import trio

Task = Callable[..., Awaitable[object]]
Failed = Callable[[Exception], None]


async def own_task(failed: Failed, fn: Task, args: tuple[object, ...]) -> None:
    """Run it; what it raises goes to `failed`, cancellation aside."""
    try:
        await fn(*args)
    except Exception as error:  # noqa: BLE001  # the actor's own code: whatever it raises is a crash
        failed(error)


async def own_task_with_start(
    failed: Failed, fn: Task, args: tuple[object, ...], task_status: trio.TaskStatus[Any]
) -> None:
    """The same for a task that says when it is ready: before that, errors are its starter's."""
    reported = Reported(task_status)
    try:
        await fn(*args, task_status=reported)
    except Exception as error:
        if not reported.done:
            raise
        failed(error)


class Reported:
    """A task status that remembers whether it was told."""

    def __init__(self, task_status: trio.TaskStatus[Any]) -> None:
        self._task_status = task_status
        self.done = False

    def started(self, value: object = None) -> None:
        """See `trio.TaskStatus.started`."""
        self._task_status.started(value)
        self.done = True
