"""One incarnation of an actor: from its factory to its `stopped` hook, always in the same task.

The longest module of the runtime, because the order of these steps is the runtime's promise: what ends first,
who is told, and what is shielded for how long stand in one place.
"""

from collections.abc import Mapping
from typing import Generic, TypeVar

import trio

from actors.actor import Actor, Life
from actors.errors import ActorCrashed, ActorStopped, Refused
from actors.mailbox import Item, Mailbox
from actors.node import Node, logger
from actors.ref import ActorRef
from actors.request import SETTLED, Ask
from actors.spec import ChildSpec
from actors.status import Outcome, StopReason, one_line

M = TypeVar("M")

NOTHING = object()  # None may be a message


class Handling:
    """A message in the hand of a task of its own, with concurrency > 1."""

    __slots__ = ("item", "work")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.work = trio.CancelScope()


class Incarnation(Life, Generic[M]):
    """The tasks of one incarnation live in its nursery, whose cancel scope is the child's own.

    Errors are judged outside of the scope that could have caused them. One that arrives after that scope
    was cancelled is a failed cleanup: logged, never a crash.
    """

    __slots__ = (
        "_actor", "_ending", "_handlers", "_in_hand", "_in_hands", "_mailbox", "_node", "_reason", "_spec",
        "_started", "_task", "crash", "since",
    )  # fmt: skip

    def __init__(self, node: Node, spec: ChildSpec[M], mailbox: Mailbox, ref: ActorRef[M]) -> None:
        super().__init__(ref, node.incarnation)
        self._node = node
        self._spec = spec
        self._mailbox = mailbox
        self.crash: BaseException | None = None
        self.since = trio.current_time()  # when the message in hand came to hand, or the last one ended
        self._actor: Actor[M] | None = None
        self._task = trio.lowlevel.current_task()
        self._started = False
        self._ending = False
        self._reason: StopReason = "normal"
        self._in_hand: Item = NOTHING  # with concurrency=1
        self._in_hands: dict[Handling, None] | None = None  # with more, in order
        self._handlers: set[trio.lowlevel.Task] | None = None  # with more: the tasks that have them in hand

    async def run(self) -> Outcome:
        """Live until its tasks have ended and `stopped` has run, and say how that came.

        Raises only cancellation from outside, which no tree does by itself.
        """
        try:
            async with trio.open_nursery() as self._nursery:
                await self._start()
                if self._started and self._actor is not None:
                    self._node._up()
                    if self._actor.concurrency == 1:
                        await self._serve(self._actor)
                    else:
                        await self._serve_many(self._actor, self._nursery)
                self._ending = True
                self._cancel_tasks()
        except BaseExceptionGroup as group:
            self._sort_out(group)
        finally:
            self._open = False
            item, self._in_hand = self._in_hand, NOTHING
            self._settle(item)
        if self.crash is not None:
            outcome = Outcome("crashed", self.crash, self._started)
        else:
            outcome = Outcome(self._reason, None, self._started)
        self._node._tasks_ended(outcome)
        actor, self._actor = self._actor, None
        if actor is not None and self._started and type(actor).stopped is not Actor.stopped:
            await self._run_stopped_hook(actor, outcome.reason)
        return outcome

    async def _start(self) -> None:
        try:
            self._actor = actor = self._spec.factory()
            actor._life = self
            await actor.started()
            self._started = True
        except Exception as error:  # noqa: BLE001  # the actor's own code: whatever it raises is a crash
            self._failed(error)

    async def _serve(self, actor: Actor[M]) -> None:
        """Handle a message at a time, in the incarnation's own task, with exactly one checkpoint for each.

        The work scope is what an asker that gives up cancels. Many messages share one: it is replaced only
        after it was used.
        """
        mailbox = self._mailbox
        handle = actor._handle
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
                            reply = await handle(item.message)
                            if item.given_up:
                                break
                            item.answer(reply)
                        else:
                            await handle(item)
                        self._in_hand = NOTHING
                        self.since = now()
                        if queue:
                            await trio.lowlevel.checkpoint()
            except Exception as error:  # noqa: BLE001  # as above
                if not _refused(error, self._in_hand):
                    self._failed(error, work)
            item, self._in_hand = self._in_hand, NOTHING
            self._settle(item)

    async def _serve_many(self, actor: Actor[M], nursery: trio.Nursery) -> None:
        """Up to `concurrency` messages at once, each in a task of its own."""
        mailbox = self._mailbox
        limit = actor.concurrency
        in_hands: dict[Handling, None] = {}
        self._in_hands = in_hands
        self._handlers = set()
        while not self._ending:
            has_capacity = len(in_hands) < limit
            if not has_capacity or not mailbox.queue:
                await mailbox.wait(listen=has_capacity)
                continue
            handling = Handling(mailbox.pop())
            if type(handling.item) is Ask:
                handling.item.take(handling.work)
            in_hands[handling] = None
            self.since = trio.current_time()
            nursery.start_soon(self._handle, actor, handling, in_hands, self._handlers)
        while in_hands:
            await mailbox.wait(listen=False)

    async def _handle(
        self,
        actor: Actor[M],
        handling: Handling,
        in_hands: dict[Handling, None],
        handlers: set[trio.lowlevel.Task],
    ) -> None:
        task = trio.lowlevel.current_task()
        handlers.add(task)
        item = handling.item
        try:
            with handling.work:
                if type(item) is Ask:
                    reply = await actor._handle(item.message)
                    if not item.given_up:
                        item.answer(reply)
                else:
                    await actor._handle(item)
        except Exception as error:  # noqa: BLE001  # as above
            if not _refused(error, item):
                self._failed(error, handling.work)
        finally:
            handlers.discard(task)
            del in_hands[handling]
            self.since = trio.current_time()
            self._settle(item)
            self._mailbox.handler_ended()

    def _settle(self, item: Item) -> None:
        """Whatever the end was: nobody waits for this message any more."""
        if type(item) is Ask and item.stage is not SETTLED:
            path = self._node.path
            if self.crash is not None:
                item.fail(ActorCrashed(path, self.crash))
            else:
                item.fail(ActorStopped(path, "the actor had to stop before it could answer"))

    def _failed(self, error: BaseException, work: trio.CancelScope | None = None) -> None:
        """Note that the actor's code raised: that is a crash, unless a cancellation came first."""
        assert self._nursery is not None
        if self._nursery.cancel_scope.cancel_called or (work is not None and work.cancel_called):
            self._log_cleanup(error)
        else:
            self.crash = error
            self._ending = True
            self._cancel_tasks()

    def _cancel_tasks(self) -> None:
        """Cancel the tasks beside the caller. An incarnation's only task cancels nothing: that would change
        nothing, and unwinding a cancelled nursery costs a good part of a restart."""
        assert self._nursery is not None
        beside = self._nursery.child_tasks or self._starts
        if beside or trio.lowlevel.current_task() is not self._task:
            self._nursery.cancel_scope.cancel()

    def _sort_out(self, group: BaseExceptionGroup[BaseException]) -> None:
        """Sort the nursery's errors: a crash, or a failed cleanup, which is logged; raise cancellations."""
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
            "%s: cleanup after a cancellation raised %s", self._node.path, one_line(error), exc_info=error
        )

    async def _run_stopped_hook(self, actor: Actor[M], reason: StopReason) -> None:
        """Run the actor's `stopped`, shielded and bounded."""
        try:
            with trio.move_on_after(self._spec.shutdown, shield=True) as bound:
                await actor.stopped(reason)
        except Exception as error:  # noqa: BLE001  # as above
            self._node.last_error = one_line(error)
            logger.exception("%s: stopped() raised", self._node.path)
        if bound.cancelled_caught:
            logger.warning("%s: stopped() was cut off after %g s", self._node.path, self._spec.shutdown)

    def fail(self, error: Exception) -> None:
        """Crash with `error`, whatever is in hand."""
        self._failed(error)

    def request_end(self) -> None:
        """End normally after the message in hand."""
        if not self._ending:
            self._ending = True
            self._mailbox.wake()

    def request_stop(self, shutdown: float) -> None:
        """Stop, as the supervisor asks: work in hand has `shutdown` seconds, a start is cancelled at once."""
        assert self._nursery is not None, "an incarnation opens its nursery without waiting"
        if not self._ending:
            self._reason = "stopped"
            self._ending = True
        scope = self._nursery.cancel_scope
        if self._started:
            scope.deadline = min(scope.deadline, trio.current_time() + shutdown)
            self._mailbox.wake()
        else:
            scope.cancel()

    def runs_this_task(self) -> bool:
        """Return True if the current task is, or is below, one that runs a hook or a handler of it.

        Tasks that the actor started for itself are not: its messages are handled while they run.
        """
        assert self._nursery is not None
        if self._started and self._open and self._in_hand is NOTHING and not self._in_hands:
            return False
        task, handlers = trio.lowlevel.current_task(), self._handlers or ()
        while task is not self._task and task not in handlers:
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

    def in_hand(self) -> list[Item]:
        """Return the messages that are being handled."""
        items = [self._in_hand, *(handling.item for handling in self._in_hands or ())]
        return [item for item in items if item is not NOTHING]

    def all_tasks(self) -> list[trio.lowlevel.Task]:
        """Its task, and all tasks below."""
        tasks = [self._task]
        for task in tasks:  # grows meanwhile
            for nursery in task.child_nurseries:
                tasks.extend(nursery.child_tasks)
        return tasks

    def activity(self) -> str:
        """Return the actor's own words, or the types of the messages in hand."""
        try:
            words = self._actor.activity() if self._actor is not None and self._started else ""
        except Exception as error:  # noqa: BLE001  # status must not fail because one actor cannot say
            words = f"doing() raised {one_line(error)}"
        if words:
            return words
        messages = [item.message if type(item) is Ask else item for item in self.in_hand()]
        return ", ".join(type(message).__name__ for message in messages)

    def metrics(self) -> Mapping[str, object]:
        """Return the actor's own figures."""
        try:
            return self._actor.metrics() if self._actor is not None and self._started else {}
        except Exception as error:  # noqa: BLE001  # as above
            return {"error": f"figures() raised {one_line(error)}"}


def _refused(error: Exception, item: Item) -> bool:
    """Return True if a handler refused on purpose; an asker that still waits then has the error."""
    alone = _alone(error)
    if not isinstance(alone, Refused):
        return False
    if type(item) is Ask and not item.given_up:
        item.fail(alone.error)
    return True


def _alone(group: BaseException) -> BaseException:
    """Return the error of a group of one, however deep; otherwise the group."""
    while isinstance(group, BaseExceptionGroup) and len(group.exceptions) == 1:
        group = group.exceptions[0]
    return group
