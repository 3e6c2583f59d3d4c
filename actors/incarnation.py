"""One incarnation of an actor: from its factory to its `stopped` hook, always in the same task.

The longest module of the runtime, because the order of these steps is the runtime's promise: what ends first,
who is told, and what is shielded for how long stand in one place.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import trio

from actors.actor import Actor
from actors.errors import ActorCrashed, ActorStopped
from actors.mailbox import Item
from actors.own_tasks import own_task, own_task_with_start
from actors.place import logger
from actors.request import Ask
from actors.status import Outcome, StopReason, one_line

if TYPE_CHECKING:
    from actors.cell import Cell

M = TypeVar("M")

NOTHING = object()  # None may be a message


class Handling:
    """A message in the hand of a task of its own, with concurrency > 1."""

    __slots__ = ("item", "work")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.work = trio.CancelScope()


class Incarnation(Generic[M]):
    """The tasks of one incarnation live in its nursery, whose cancel scope is the child's own.

    Errors are judged outside of the scope that could have caused them. One that arrives after that scope
    was cancelled is a failed cleanup: logged, never a crash.
    """

    __slots__ = (
        "_actor", "_closed", "_ending", "_handlers", "_in_hand", "_in_hands", "_nursery", "_reason",
        "_started", "_starts", "_task", "cell", "crash", "number", "since",
    )  # fmt: skip

    def __init__(self, cell: Cell[M]) -> None:
        self.cell = cell
        self.number = cell.incarnation
        self.crash: BaseException | None = None
        self.since = trio.current_time()  # when the message in hand came to hand, or the last one ended
        self._actor: Actor[M] | None = None
        self._nursery: trio.Nursery | None = None
        self._task = trio.lowlevel.current_task()
        self._started = False
        self._starts = 0  # calls of start() that have not come back
        self._ending = False
        self._reason: StopReason = "normal"
        self._closed = False  # its tasks have ended
        self._in_hand: Item = NOTHING  # with concurrency=1
        self._in_hands: dict[Handling, None] | None = None  # with more, in order
        self._handlers = {self._task}  # tasks that run hooks or handlers

    async def run(self) -> Outcome:
        """Live, and say how it ended. Raises only cancellation from outside, which no tree does by itself."""
        cell = self.cell
        try:
            async with trio.open_nursery() as self._nursery:
                await self._start()
                if self._started:
                    cell._up()
                    if cell.spec.concurrency == 1:
                        await self._serve()
                    else:
                        await self._serve_many()
                self._ending = True
                self._cancel_tasks()
        except BaseExceptionGroup as group:
            self._sort_out(group)
        finally:
            self._closed = True
            item, self._in_hand = self._in_hand, NOTHING
            self._settle(item)
        outcome = self._outcome()
        cell._ends(outcome)
        actor, self._actor = self._actor, None
        if actor is not None and self._started and type(actor).stopped is not Actor.stopped:
            await self._run_stopped_hook(actor, outcome.reason)
        return outcome

    def _outcome(self) -> Outcome:
        if self.crash is not None:
            return Outcome("crashed", self.crash, self._started)
        return Outcome(self._reason, None, self._started)

    async def _start(self) -> None:
        try:
            self._actor = actor = self.cell.spec.factory()
            actor._life = self
            await actor.started()
            self._started = True
        except Exception as error:  # noqa: BLE001  # the actor's own code: whatever it raises is a crash
            self._failed(error)

    async def _serve(self) -> None:
        """A message at a time, in the incarnation's own task, with exactly one checkpoint for each.

        The work scope is what an asker that gives up cancels. Many messages share one: it is replaced only
        after it was used.
        """
        assert self._actor is not None
        mailbox = self.cell.mailbox
        receive = self._actor.receive
        now = trio.lowlevel.current_clock().current_time
        queue = mailbox.queue
        while not self._ending:
            work = trio.CancelScope()
            try:
                with work:
                    while not self._ending:
                        if not queue:
                            await mailbox.wait()
                            continue
                        self._in_hand = item = mailbox.pop()
                        self.since = now()
                        if type(item) is Ask:
                            item.take(work)
                            reply = await receive(item.message)
                            if item.given_up:
                                break
                            item.answer(reply)
                        else:
                            await receive(item)
                        self._in_hand = NOTHING
                        self.since = now()
                        if queue:
                            await trio.lowlevel.checkpoint()
            except Exception as error:  # noqa: BLE001  # as above
                self._failed(error, work)
            item, self._in_hand = self._in_hand, NOTHING
            self._settle(item)

    async def _serve_many(self) -> None:
        """Up to `concurrency` messages at once, each in a task of its own."""
        assert self._nursery is not None
        mailbox = self.cell.mailbox
        limit = self.cell.spec.concurrency
        in_hands: dict[Handling, None] = {}
        self._in_hands = in_hands
        while not self._ending:
            room = len(in_hands) < limit
            if not room or not mailbox.queue:
                await mailbox.wait(listen=room)
                continue
            handling = Handling(mailbox.pop())
            if type(handling.item) is Ask:
                handling.item.take(handling.work)
            in_hands[handling] = None
            self.since = trio.current_time()
            self._nursery.start_soon(self._handle, handling, in_hands)
        while in_hands:
            await mailbox.wait(listen=False)

    async def _handle(self, handling: Handling, in_hands: dict[Handling, None]) -> None:
        assert self._actor is not None
        task = trio.lowlevel.current_task()
        self._handlers.add(task)
        item = handling.item
        try:
            with handling.work:
                if type(item) is Ask:
                    reply = await self._actor.receive(item.message)
                    if not item.given_up:
                        item.answer(reply)
                else:
                    await self._actor.receive(item)
        except Exception as error:  # noqa: BLE001  # as above
            self._failed(error, handling.work)
        finally:
            self._handlers.discard(task)
            del in_hands[handling]
            self.since = trio.current_time()
            self._settle(item)
            self.cell.mailbox.wake()

    def _settle(self, item: Item) -> None:
        """Whatever the end was: nobody waits for this message any more."""
        if type(item) is Ask:
            path = self.cell.path
            if self.crash is not None:
                item.fail(ActorCrashed(path, self.crash))
            else:
                item.fail(ActorStopped(path, "the actor had to stop before it could answer"))

    def _failed(self, error: BaseException, work: trio.CancelScope | None = None) -> None:
        """The actor's code raised: a crash, unless a cancellation came first."""
        assert self._nursery is not None
        if self._nursery.cancel_scope.cancel_called or (work is not None and work.cancel_called):
            self._log_cleanup(error)
        else:
            self.crash = error
            self._ending = True
            self._cancel_tasks()

    def _cancel_tasks(self) -> None:
        """Cancel what runs beside the caller. Said by the incarnation's only task it would be for nothing,
        and unwinding a nursery that was cancelled costs a good part of a restart."""
        assert self._nursery is not None
        alone = not self._nursery.child_tasks and not self._starts
        if not alone or trio.lowlevel.current_task() is not self._task:
            self._nursery.cancel_scope.cancel()

    def _sort_out(self, group: BaseExceptionGroup[BaseException]) -> None:
        """What came out of the nursery beside our own cancellation."""
        cancelled, rest = group.split(trio.Cancelled)
        if rest is not None and not isinstance(rest, Exception):
            self.crash = _alone(rest)  # KeyboardInterrupt and its like: not the actor's, ends the tree
        elif rest is not None and self._ending:
            self._log_cleanup(_alone(rest))
        elif rest is not None:
            self.crash = _alone(rest)  # nothing was cancelled before it
        if cancelled is not None:
            raise cancelled

    def _log_cleanup(self, error: BaseException) -> None:
        logger.warning(
            "%s: cleanup after a cancellation raised %s", self.cell.path, one_line(error), exc_info=error
        )

    async def _run_stopped_hook(self, actor: Actor[M], reason: StopReason) -> None:
        try:
            with trio.move_on_after(self.cell.spec.shutdown, shield=True) as bound:
                await actor.stopped(reason)
        except Exception as error:  # noqa: BLE001  # as above
            self.cell.last_error = one_line(error)
            logger.exception("%s: stopped() raised", self.cell.path)
        if bound.cancelled_caught:
            logger.warning("%s: stopped() was cut off after %g s", self.cell.path, self.cell.spec.shutdown)

    def start_soon(self, fn: Callable[..., Awaitable[object]], *args: object) -> None:
        """See `Actor.start_soon`."""
        self._open_nursery().start_soon(own_task, self._failed, fn, args, name=fn)

    async def start(self, fn: Callable[..., Awaitable[object]], *args: object) -> Any:
        """See `Actor.start`."""
        nursery = self._open_nursery()
        self._starts += 1
        try:
            return await nursery.start(own_task_with_start, self._failed, fn, args, name=fn)
        finally:
            self._starts -= 1

    def _open_nursery(self) -> trio.Nursery:
        if self._nursery is None or self._closed:
            raise RuntimeError(f"{self.cell.path}: this incarnation has ended")
        return self._nursery

    def request_end(self) -> None:
        """End normally after the message in hand."""
        if not self._ending:
            self._ending = True
            self.cell.mailbox.wake()

    def request_stop(self, shutdown: float) -> None:
        """The supervisor's stop: what is in hand has `shutdown` seconds, a start none at all."""
        assert self._nursery is not None, "an incarnation opens its nursery without waiting"
        if not self._ending:
            self._reason = "stopped"
            self._ending = True
        scope = self._nursery.cancel_scope
        if self._started:
            scope.deadline = min(scope.deadline, trio.current_time() + shutdown)
            self.cell.mailbox.wake()
        else:
            scope.cancel()

    def runs(self, task: trio.lowlevel.Task) -> bool:
        """Whether `task` is, or is below, a task that runs a hook or a handler of this incarnation.

        Tasks that the actor started for itself are not: its messages are handled while they run.
        """
        if self._started and not self._closed and self._in_hand is NOTHING and not self._in_hands:
            return False
        while task not in self._handlers:
            nursery = task.parent_nursery
            if nursery is None or nursery is self._nursery:
                return False
            task = nursery.parent_task
        return True

    @property
    def idle(self) -> bool:
        """No message in hand, and the actor does not call itself busy."""
        if not self._started or self._ending or self._in_hand is not NOTHING or self._in_hands:
            return False
        assert self._actor is not None
        try:
            return not self._actor.busy()
        except Exception as error:  # noqa: BLE001  # as above
            self._failed(error)
            return False

    def doing(self) -> str:
        """The actor's own words, or the types of the messages in hand."""
        try:
            words = self._actor.doing() if self._actor is not None and self._started else ""
        except Exception as error:  # noqa: BLE001  # status must not fail because one actor cannot say
            words = f"doing() raised {one_line(error)}"
        if words:
            return words
        items = [self._in_hand, *(handling.item for handling in self._in_hands or ())]
        messages = [item.message if type(item) is Ask else item for item in items if item is not NOTHING]
        return ", ".join(type(message).__name__ for message in messages)

    def figures(self) -> Mapping[str, object]:
        """The actor's own figures."""
        try:
            return self._actor.figures() if self._actor is not None and self._started else {}
        except Exception as error:  # noqa: BLE001  # as above
            return {"error": f"figures() raised {one_line(error)}"}


def _alone(group: BaseException) -> BaseException:
    """The error of a group of one, however deep; otherwise the group."""
    while isinstance(group, BaseExceptionGroup) and len(group.exceptions) == 1:
        group = group.exceptions[0]
    return group
