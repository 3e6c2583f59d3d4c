"""One incarnation of an actor: from its factory to its `stopped` hook, always in the same task.

This is the longest module of the runtime, because the order of these steps is what the runtime guarantees.
Therefore one file defines the order in which tasks end, the callers that get an error, and the shielded steps
with their time limits.
"""

from collections.abc import Mapping
from typing import Generic, TypeVar

import trio
from typing_extensions import override

from actors.actor import Actor, Life
from actors.errors import ActorCrashed, ActorStopped, Refused
from actors.mailbox import Item, Mailbox
from actors.node import Node, logger
from actors.ref import ActorRef
from actors.request import SETTLED, Ask, name_of
from actors.spec import ChildSpec
from actors.status import Outcome, StopReason, one_line

M = TypeVar("M")

NOTHING = object()  # None may be a message


class Handling:
    """A message that is being handled in a separate task, because concurrency > 1."""

    __slots__ = ("item", "work")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.work = trio.CancelScope()


class Incarnation(Life, Generic[M]):
    """One run of an actor, from a start to the next end. Its tasks run in a separate nursery.

    Exceptions are classified outside of the cancel scope that could have caused them. An exception that
    arrives after that scope was cancelled is a failed cleanup: it is logged and is never a crash.
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
        self.since = trio.current_time()  # time when the current message was taken, or the last one ended
        self._actor: Actor[M] | None = None
        self._task = trio.lowlevel.current_task()
        self._started = False
        self._ending = False
        self._reason: StopReason = "normal"
        self._in_hand: Item = NOTHING  # with concurrency=1
        self._in_hands: dict[Handling, None] | None = None  # with concurrency>1, in order of arrival
        self._handlers: set[trio.lowlevel.Task] | None = None  # with concurrency>1: their tasks

    async def run(self) -> Outcome:
        """Run the incarnation until its tasks have ended and `stopped` has run; return how it ended.

        Raises only a cancellation that comes from outside of the tree.
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
                # The tasks that the actor started must have ended before its `stopped` hook runs: cancel them
                # here, and the nursery waits for them.
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
        # Before the hook: closes the mailbox if this end is final, so that senders don't wait for the hook.
        self._node._tasks_ended(outcome)
        actor, self._actor = self._actor, None
        if actor is not None and self._started and type(actor).stopped is not Actor.stopped:
            await self._run_stopped_hook(actor, outcome.reason)
        return outcome

    async def _start(self) -> None:
        try:
            self._actor = actor = self._spec.factory()
            actor._life = self  # before `started`, which may use ref, id and start_soon
            await actor.started()
            self._started = True
        except Exception as error:  # noqa: BLE001  # any error of the actor's own code is a crash
            self._failed(error)

    async def _serve(self, actor: Actor[M]) -> None:
        """Handle one message at a time in the incarnation's own task, with exactly one checkpoint for each.

        A cancelled asker cancels the `work` scope. Successive messages share one scope; it is replaced only
        after a cancellation or an error.
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
                                break  # its asker has cancelled the scope; take a new one
                            item.answer(reply)
                        else:
                            await handle(item)
                        self._in_hand = NOTHING
                        self.since = now()
                        # With an empty queue, mailbox.wait is the checkpoint. Without this one, an actor with
                        # many queued messages would starve the other tasks.
                        if queue:
                            await trio.lowlevel.checkpoint()
            except Exception as error:  # noqa: BLE001  # any error of the actor's own code is a crash
                if not _refused(error, self._in_hand):
                    self._failed(error, work)
            item, self._in_hand = self._in_hand, NOTHING
            self._settle(item)

    async def _serve_many(self, actor: Actor[M], nursery: trio.Nursery) -> None:
        """Handle up to `concurrency` messages at once, each in a task; at a stop, wait for all of them."""
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
            # Marked as handled before its task runs: an asker that gives up in between must cancel the work
            # instead of searching the queue.
            handling = Handling(mailbox.pop())
            if type(handling.item) is Ask:
                handling.item.take(handling.work)
            in_hands[handling] = None
            self.since = trio.current_time()
            nursery.start_soon(self._handle, actor, handling, in_hands, self._handlers)
        # A stop lets all handlers finish. The nursery's deadline, set by request_stop, bounds this wait.
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
        except Exception as error:  # noqa: BLE001  # any error of the actor's own code is a crash
            if not _refused(error, item):
                self._failed(error, handling.work)
        finally:
            handlers.discard(task)
            del in_hands[handling]
            self.since = trio.current_time()
            self._settle(item)
            # Last: it wakes the reader, which must see the free slot.
            self._mailbox.handler_ended()

    def _settle(self, item: Item) -> None:
        """Give the asker of this message an error if it has no reply yet, so that no asker waits forever."""
        if type(item) is Ask and item.stage is not SETTLED:
            path = self._node.path
            if self.crash is not None:
                item.fail(ActorCrashed(path, self.crash))
            else:
                item.fail(ActorStopped(path, "the actor had to stop before it could answer"))

    def _failed(self, error: BaseException, work: trio.CancelScope | None = None) -> None:
        """Handle an error of the actor's code: a crash, or a failed cleanup if a cancellation came first."""
        assert self._nursery is not None
        if self._nursery.cancel_scope.cancel_called or (work is not None and work.cancel_called):
            self._log_cleanup(error)
        else:
            self.crash = error
            self._ending = True
            self._cancel_tasks()

    def _cancel_tasks(self) -> None:
        """Cancel the incarnation's tasks, unless the caller is the only task.

        Without another task, a cancellation would have no effect, but unwinding the cancelled nursery would
        take a large part of the time of a restart.
        """
        assert self._nursery is not None
        others = self._nursery.child_tasks or self._starts
        if others or trio.lowlevel.current_task() is not self._task:
            self._nursery.cancel_scope.cancel()

    def _sort_out(self, group: BaseExceptionGroup[BaseException]) -> None:
        """Classify the nursery's errors as a crash or as a failed cleanup to log; re-raise cancellations."""
        cancelled, rest = group.split(trio.Cancelled)
        if rest is not None and not isinstance(rest, Exception):
            self.crash = _alone(rest)  # such as KeyboardInterrupt: not the actor's error, ends the tree
        elif rest is not None and self._ending:
            self._log_cleanup(_alone(rest))
        elif rest is not None:
            self.crash = _alone(rest)  # no cancellation came first, so it cannot be a failed cleanup
        if cancelled is not None:
            raise cancelled

    def _log_cleanup(self, error: BaseException) -> None:
        logger.warning(
            "%s: cleanup after a cancellation raised %s", self._node.path, one_line(error), exc_info=error
        )

    async def _run_stopped_hook(self, actor: Actor[M], reason: StopReason) -> None:
        """Run the actor's `stopped` hook, shielded, for at most `shutdown` seconds."""
        try:
            with trio.move_on_after(self._spec.shutdown, shield=True) as bound:
                await actor.stopped(reason)
        except Exception as error:  # noqa: BLE001  # the incarnation has ended, so this can't be a crash
            self._node.last_error = one_line(error)
            logger.exception("%s: stopped() raised", self._node.path)
        if bound.cancelled_caught:
            logger.warning("%s: stopped() was cut off after %g s", self._node.path, self._spec.shutdown)

    def fail(self, error: Exception) -> None:
        """Crash with `error`; a message that is being handled is dropped."""
        self._failed(error)

    @override
    def request_end(self) -> None:
        if not self._ending:
            self._ending = True
            self._mailbox.wake()

    def request_stop(self, shutdown: float) -> None:
        """Ask this incarnation to stop, as its supervisor requests.

        Messages that are being handled get `shutdown` seconds to complete. If the actor is still starting,
        its start is cancelled at once.
        """
        assert self._nursery is not None, "an incarnation opens its nursery without waiting"
        if not self._ending:
            self._reason = "stopped"
            self._ending = True
        scope = self._nursery.cancel_scope
        if self._started:
            # A second request must not prolong the first one's deadline.
            scope.deadline = min(scope.deadline, trio.current_time() + shutdown)
            self._mailbox.wake()
        else:
            scope.cancel()

    def runs_this_task(self) -> bool:
        """Return True if a hook or handler of this actor runs in the current task or an ancestor.

        Tasks that the actor started with `start_soon` don't count: the actor handles messages while they run.
        """
        assert self._nursery is not None
        # The common case without a walk over the tasks: no hook or handler runs at all.
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
        """Return True if the actor handles no message and `busy` returns False."""
        if not self._started or self._ending or self._in_hand is not NOTHING or self._in_hands:
            return False
        assert self._actor is not None
        try:
            return not self._actor.busy()
        except Exception as error:  # noqa: BLE001  # any error of the actor's own code is a crash
            self._failed(error)
            return False

    def in_hand(self) -> list[Item]:
        """Return the messages that the actor handles now."""
        items = [self._in_hand, *(handling.item for handling in self._in_hands or ())]
        return [item for item in items if item is not NOTHING]

    def all_tasks(self) -> list[trio.lowlevel.Task]:
        """Return the incarnation's own task and all tasks below it."""
        tasks = [self._task]
        for task in tasks:  # the list grows during the loop
            for nursery in task.child_nurseries:
                tasks.extend(nursery.child_tasks)
        return tasks

    def activity(self) -> str:
        """Return the text of `Actor.activity`; if it is empty, the names of the current messages."""
        try:
            words = self._actor.activity() if self._actor is not None and self._started else ""
        except Exception as error:  # noqa: BLE001  # one actor must not make the status fail
            words = f"doing() raised {one_line(error)}"
        if words:
            return words
        messages = [item.message if type(item) is Ask else item for item in self.in_hand()]
        return ", ".join(map(name_of, messages))

    def metrics(self) -> Mapping[str, object]:
        """Return the counters of `Actor.metrics`; if it raises, return the exception under "error"."""
        try:
            return self._actor.metrics() if self._actor is not None and self._started else {}
        except Exception as error:  # noqa: BLE001  # one actor must not make the status fail
            return {"error": f"figures() raised {one_line(error)}"}


def _refused(error: Exception, item: Item) -> bool:
    """Return True if the handler raised `Refused`; pass its error to the asker, if the asker waits."""
    alone = _alone(error)  # a nursery in the handler wraps even a single error in a group
    if not isinstance(alone, Refused):
        return False
    if type(item) is Ask and not item.given_up:
        item.fail(alone.error)
    return True


def _alone(group: BaseException) -> BaseException:
    """Unwrap exception groups that hold just one error; return all other groups and errors unchanged."""
    while isinstance(group, BaseExceptionGroup) and len(group.exceptions) == 1:
        group = group.exceptions[0]
    return group
