"""Requests, whose class declares the type of the reply, and pending asks."""

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
    """Base class of messages for `ask`: the reply to `class Get(Request[int])` is an int.

    Meant for frozen dataclasses; it adds no fields. A request may also be sent with `tell`; its reply is then
    dropped.
    """

    __slots__ = ()

    @property
    def request_name(self) -> str:
        """Return the name that the status and `pending_asks` show: by default the class's name."""
        return type(self).__name__


def name_of(message: object) -> str:
    """Return the name of a message for the status: a request's name, or else the name of its class."""
    return message.request_name if isinstance(message, Request) else type(message).__name__


class Stage(Enum):
    """Stage of an ask. An ask enters each stage at most once, and always reaches SETTLED."""

    QUEUED = auto()
    HANDLED = auto()
    SETTLED = auto()


# Module constants for speed: an ask reads them often, and a look-up in the enum takes as long as a call.
QUEUED: Final = Stage.QUEUED
HANDLED: Final = Stage.HANDLED
SETTLED: Final = Stage.SETTLED


class Ask(Generic[R]):
    """A pending ask, shared by the asker's task and the handler.

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
        """Return the task that waits for the reply, or None if no task waits now."""
        return self._task

    def take(self, scope: trio.CancelScope) -> None:
        """Mark the ask as being handled; `scope` is the cancel scope around the handler's work."""
        self.stage = HANDLED
        self.scope = scope

    def answer(self, value: object) -> None:
        """Settle the ask with a reply, unless it is settled. `Request[R]` declares the reply's type."""
        self._settle(outcome.Value(cast(R, value)))

    def fail(self, error: BaseException) -> None:
        """Settle the ask with an error, unless it is settled."""
        self._settle(outcome.Error(error))

    def _settle(self, result: outcome.Outcome[R]) -> None:
        # The first result counts: a reply that comes after a crash or a stop is dropped.
        if self.stage is SETTLED:
            return
        self.stage = SETTLED
        self.scope = None
        if self._task is None:
            # The asker does not wait at this moment, for example because it was woken from a full mailbox and
            # has not run since.
            self._result = result
        else:
            task, self._task = self._task, None
            trio.lowlevel.reschedule(task, result)

    def give_up(self) -> None:
        """Cancel the handler because the asker was cancelled; call this only in the stage HANDLED."""
        self.given_up = True
        if self.scope is not None:
            self.scope.cancel()

    async def ended(self) -> None:
        """Wait until the ask is settled, by a reply or an error; return nothing."""
        if self.stage is not SETTLED:
            self._task = trio.lowlevel.current_task()
            with suppress(ActorError):
                await trio.lowlevel.wait_task_rescheduled(self._abort)

    async def reply(self) -> R:
        """Wait for the reply and return it, or raise the error. A cancellation does not settle the ask."""
        if self._result is not None:
            return self._result.unwrap()
        self._task = trio.lowlevel.current_task()
        return cast(R, await trio.lowlevel.wait_task_rescheduled(self._abort))

    def _abort(self, _: RaiseCancelT) -> Abort:
        self._task = None
        return Abort.SUCCEEDED
