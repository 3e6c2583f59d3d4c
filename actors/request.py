"""What is sent: plain messages, and requests that say what they are answered with."""

from contextlib import suppress
from enum import Enum, auto
from typing import Any, Final, Generic, TypeVar, cast

import outcome
import trio
from trio.lowlevel import Abort, RaiseCancelT, Task

from actors.errors import ActorError

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Request(Generic[R_co]):
    """Base of messages that are asked: `class Get(Request[int])` is answered with an int.

    Meant for frozen dataclasses. It adds no fields, and such a message may be told as well: the reply is
    then dropped.
    """

    __slots__ = ()


class Stage(Enum):
    """Where an ask is: each is passed at most once, and SETTLED is always reached."""

    QUEUED = auto()
    HANDLED = auto()
    SETTLED = auto()


# Here by name: an ask meets them often, and a look-up in the enum takes as long as a call.
QUEUED: Final = Stage.QUEUED
HANDLED: Final = Stage.HANDLED
SETTLED: Final = Stage.SETTLED


class Ask(Generic[R]):
    """One ask under way, shared by the asker's task and the handler.

    `scope` is the cancel scope around the handler's work while the stage is HANDLED.
    """

    __slots__ = ("_result", "_task", "given_up", "message", "scope", "stage")

    def __init__(self, message: Request[R]) -> None:
        self.message: Any = message
        self.stage: Stage = QUEUED
        self.scope: trio.CancelScope | None = None
        self.given_up = False
        self._task: Task | None = None
        self._result: outcome.Outcome[R] | None = None

    @property
    def task(self) -> Task | None:
        """Return the task that waits for it, if one waits now."""
        return self._task

    def take(self, scope: trio.CancelScope) -> None:
        """Note that a handler begins to work on it, inside of `scope`."""
        self.stage = HANDLED
        self.scope = scope

    def answer(self, value: object) -> None:
        """Settle with a reply. The type is the actor's promise, given by `Request[R]`."""
        self._settle(outcome.Value(cast(R, value)))

    def fail(self, error: BaseException) -> None:
        """Settle with an error."""
        self._settle(outcome.Error(error))

    def _settle(self, result: outcome.Outcome[R]) -> None:
        if self.stage is SETTLED:
            return
        self.stage = SETTLED
        self.scope = None
        if self._task is None:
            self._result = result
        else:
            task, self._task = self._task, None
            trio.lowlevel.reschedule(task, result)

    def give_up(self) -> None:
        """Cancel the work, because the asker leaves. Only while the stage is HANDLED."""
        self.given_up = True
        if self.scope is not None:
            self.scope.cancel()

    async def ended(self) -> None:
        """Wait until it is settled, by a reply or by an error."""
        if self.stage is not SETTLED:
            self._task = trio.lowlevel.current_task()
            with suppress(ActorError):
                await trio.lowlevel.wait_task_rescheduled(self._abort)

    async def reply(self) -> R:
        """Wait until it is settled; a cancellation leaves it as it is."""
        if self._result is not None:
            return self._result.unwrap()
        self._task = trio.lowlevel.current_task()
        return cast(R, await trio.lowlevel.wait_task_rescheduled(self._abort))

    def _abort(self, _: RaiseCancelT) -> Abort:
        self._task = None
        return Abort.SUCCEEDED
