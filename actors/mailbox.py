"""A bounded message queue that belongs to a child's node and survives its incarnations.

It is not a trio memory channel, for three reasons: queued messages must survive their reader and be returned
at the final stop, the ask of a cancelled asker must be removed from the middle of the queue, and a put must
cost only one checkpoint.
"""

from collections import OrderedDict, deque
from typing import Any

import outcome
import trio
from trio.lowlevel import Abort, RaiseCancelT, Task

from actors.errors import ActorStopped, MailboxFull
from actors.node import Node, logger
from actors.request import Ask
from actors.status import MailboxStatistics

# A told message itself, or the Ask that wraps a request. A message may be of any type, hence Any.
Item = Any

_REFUSED = object()


class Mailbox:
    """A FIFO queue of told messages and asks. While the queue is full, senders wait in FIFO order too.

    `dead_letters` counts told messages that were accepted but still queued when the mailbox closed.
    """

    __slots__ = (
        "_listening",
        "_node",
        "_reader",
        "_senders",
        "capacity",
        "closed",
        "dead_letters",
        "queue",
        "rejects",
    )

    def __init__(self, node: Node, capacity: int, rejects: bool) -> None:
        self._node = node
        self.capacity = capacity
        self.rejects = rejects
        self.closed = False
        self.dead_letters = 0
        self.queue: deque[Item] = deque()
        self._senders: OrderedDict[Task, Item] | None = None
        self._reader: Task | None = None
        self._listening = False

    @property
    def senders_waiting(self) -> int:
        """Return the number of tasks that wait for a free slot."""
        return len(self._senders) if self._senders else 0

    def waiting(self) -> tuple[tuple[Task, Item], ...]:
        """Return the tasks that wait for a free slot, each with the item it sends."""
        return tuple(self._senders.items()) if self._senders else ()

    def put_nowait(self, item: Item) -> None:
        """Append an item without waiting.

        Raises:
            ActorStopped: The mailbox is closed.
            MailboxFull: No slot is free.
        """
        if self.closed:
            raise ActorStopped(self._node.path)
        if len(self.queue) >= self.capacity:
            raise MailboxFull(self._node.path, self.capacity)
        self.queue.append(item)
        if self._listening:
            self.wake()

    async def wait_for_capacity(self, item: Item) -> None:
        """Append an item as soon as a slot is free; call this only when the mailbox is full.

        If cancelled, the item was not appended.

        Raises:
            MailboxFull: The mailbox rejects instead of making senders wait.
            ActorStopped: The mailbox closed while this sender waited.
        """
        if self.rejects:
            raise MailboxFull(self._node.path, self.capacity)
        if self._senders is None:
            self._senders = OrderedDict()
        senders = self._senders
        task = trio.lowlevel.current_task()
        senders[task] = item

        def abort(_: RaiseCancelT) -> Abort:
            # Still present: _refill and close remove a sender in the same step in which they reschedule it,
            # and trio doesn't abort a task that has been rescheduled.
            del senders[task]
            return Abort.SUCCEEDED

        if await trio.lowlevel.wait_task_rescheduled(abort) is _REFUSED:
            raise ActorStopped(self._node.path)

    def pop(self) -> Item:
        """Remove and return the oldest item of a non-empty queue; append the first waiting sender's item."""
        item = self.queue.popleft()
        # In the same step: while senders wait, the queue is always full, and so no later put overtakes them.
        if self._senders:
            self._refill()
        return item

    def remove(self, ask: Ask[Any]) -> None:
        """Remove a queued ask from any position; do nothing if it is not queued."""
        for index, item in enumerate(self.queue):
            if item is ask:
                del self.queue[index]
                self._refill()
                return

    def _refill(self) -> None:
        while self._senders and len(self.queue) < self.capacity:
            task, item = self._senders.popitem(last=False)
            self.queue.append(item)
            trio.lowlevel.reschedule(task)
            if self._listening:
                self.wake()

    def close(self) -> None:
        """Reject all later items, and release senders and asks that wait; a second call does nothing.

        Waiting senders and queued asks get ActorStopped; queued tells are counted as dead letters.
        """
        if self.closed:
            return
        self.closed = True
        queued = list(self.queue)
        self.queue.clear()
        if self._senders:
            senders, self._senders = self._senders, None
            for task in senders:
                trio.lowlevel.reschedule(task, outcome.Value(_REFUSED))
        for item in queued:
            if type(item) is Ask:
                item.fail(ActorStopped(self._node.path))
            else:
                self.dead_letters += 1
        if self.dead_letters:
            logger.warning(
                "%s stopped with %d messages that it will not handle", self._node.path, self.dead_letters
            )

    def statistics(self) -> MailboxStatistics:
        """Return the queue length, the number of waiting senders and the dead letters."""
        return MailboxStatistics(len(self.queue), self.capacity, self.senders_waiting, self.dead_letters)

    async def wait(self, listen: bool = True) -> None:
        """Block the single reader until `wake` is called or, with `listen`, an item is appended."""
        self._reader = trio.lowlevel.current_task()
        self._listening = listen
        await trio.lowlevel.wait_task_rescheduled(self._abort)

    def wake(self) -> None:
        """Wake the reader if it is blocked in `wait`."""
        if self._reader is not None:
            reader, self._reader = self._reader, None
            self._listening = False
            trio.lowlevel.reschedule(reader)

    def handler_ended(self) -> None:
        """Wake the reader if it waits for a handler to end, but not if it waits for messages."""
        if not self._listening:
            self.wake()

    def _abort(self, _: RaiseCancelT) -> Abort:
        self._reader = None
        self._listening = False
        return Abort.SUCCEEDED
