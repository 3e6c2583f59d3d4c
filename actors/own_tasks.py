"""Tasks that an actor starts. They end with its incarnation; an error in a task crashes the actor."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any

import trio

Task = Callable[..., Awaitable[object]]
Failed = Callable[[Exception], None]


class OwnTasks(ABC):
    """The nursery of one incarnation, limited to the operations that its actor may use."""

    __slots__ = ("_nursery", "_open", "_starts")

    def __init__(self) -> None:
        self._nursery: trio.Nursery | None = None
        self._open = True  # False when all tasks of the incarnation have ended
        self._starts = 0  # calls of start() that have not returned

    def start_soon(self, fn: Task, *args: object) -> None:
        """See `Actor.start_soon`."""
        self._open_nursery().start_soon(_run, self._failed, fn, args, name=fn)

    async def start(self, fn: Task, *args: object) -> Any:
        """See `Actor.start`."""
        nursery = self._open_nursery()
        self._starts += 1
        try:
            return await nursery.start(_run_with_start, self._failed, fn, args, name=fn)
        finally:
            self._starts -= 1

    @abstractmethod
    def _failed(self, error: Exception) -> None:
        """Handle an error that a task raised."""

    def _open_nursery(self) -> trio.Nursery:
        if self._nursery is None or not self._open:
            raise RuntimeError("this incarnation of the actor has ended")
        return self._nursery


async def _run(failed: Failed, fn: Task, args: tuple[object, ...]) -> None:
    """Run a task function; pass its exception, but not a cancellation, to `failed`."""
    try:
        await fn(*args)
    except Exception as error:  # noqa: BLE001  # any error of the actor's own code is a crash
        failed(error)


async def _run_with_start(
    failed: Failed, fn: Task, args: tuple[object, ...], task_status: trio.TaskStatus[Any]
) -> None:
    """Run a task function that reports when it is ready; an earlier error goes to the caller of `start`."""
    reported = _Reported(task_status)
    try:
        await fn(*args, task_status=reported)
    except Exception as error:
        if not reported.done:
            raise
        failed(error)


class _Reported:
    """A trio task status that records whether the task has reported that it is ready."""

    def __init__(self, task_status: trio.TaskStatus[Any]) -> None:
        self._task_status = task_status
        self.done = False

    def started(self, value: object = None) -> None:
        """See `trio.TaskStatus.started`."""
        self._task_status.started(value)
        self.done = True
