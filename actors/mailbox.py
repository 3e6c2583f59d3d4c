"""A bounded queue that belongs to a child's node and outlives its incarnations.

Not a memory channel, for three reasons: what is queued must survive the reader and be handed back at the
final stop, an asker that gave up must be taken out of the middle, and a put needs to cost one checkpoint.
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

# A told message as it is, or an Ask around an asked one. Messages may be anything, hence Any.
Item = Any

_REFUSED = object()


class Mailbox:
    """Items in order of arrival; senders wait in order too, and only while it is full.

    `dead_letters` counts what was told and taken, but still queued when it closed.
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
        """Return how many tasks wait for room."""
        return len(self._senders) if self._senders else 0

    def waiting(self) -> tuple[tuple[Task, Item], ...]:
        """Return the tasks that wait for room, with what they send."""
        return tuple(self._senders.items()) if self._senders else ()

    def put_nowait(self, item: Item) -> None:
        """Append, or raise ActorStopped or MailboxFull."""
        if self.closed:
            raise ActorStopped(self._node.path)
        if len(self.queue) >= self.capacity:
            raise MailboxFull(self._node.path, self.capacity)
        self.queue.append(item)
        if self._listening:
            self.wake()

    async def wait_for_capacity(self, item: Item) -> None:
        """Append as soon as there is room. Cancelled: the item was not taken. Only for a full mailbox."""
        if self.rejects:
            raise MailboxFull(self._node.path, self.capacity)
        if self._senders is None:
            self._senders = OrderedDict()
        senders = self._senders
        task = trio.lowlevel.current_task()
        senders[task] = item

        def abort(_: RaiseCancelT) -> Abort:
            del senders[task]
            return Abort.SUCCEEDED

        if await trio.lowlevel.wait_task_rescheduled(abort) is _REFUSED:
            raise ActorStopped(self._node.path)

    def pop(self) -> Item:
        """Return the oldest item; the longest waiting sender takes its place. Only when not empty."""
        item = self.queue.popleft()
        if self._senders:
            self._refill()
        return item

    def remove(self, ask: Ask[Any]) -> None:
        """Take a queued ask out, wherever it stands."""
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
        """Take nothing more and leave no task waiting: queued asks fail, queued tells are counted."""
        if self.closed:
            return
        self.closed = True
        left = list(self.queue)
        self.queue.clear()
        if self._senders:
            senders, self._senders = self._senders, None
            for task in senders:
                trio.lowlevel.reschedule(task, outcome.Value(_REFUSED))
        for item in left:
            if type(item) is Ask:
                item.fail(ActorStopped(self._node.path))
            else:
                self.dead_letters += 1
        if self.dead_letters:
            logger.warning(
                "%s stopped with %d messages that it will not handle", self._node.path, self.dead_letters
            )

    def statistics(self) -> MailboxStatistics:
        """Return what is queued, and what waits."""
        return MailboxStatistics(len(self.queue), self.capacity, self.senders_waiting, self.dead_letters)

    async def wait(self, listen: bool = True) -> None:
        """Park the one reader until `wake`, or with `listen` until something is put."""
        self._reader = trio.lowlevel.current_task()
        self._listening = listen
        await trio.lowlevel.wait_task_rescheduled(self._abort)

    def wake(self) -> None:
        """Wake the reader if it is parked."""
        if self._reader is not None:
            reader, self._reader = self._reader, None
            self._listening = False
            trio.lowlevel.reschedule(reader)

    def handler_ended(self) -> None:
        """Wake the reader if it waits for a handler to end; if it waits for messages, it has room already."""
        if not self._listening:
            self.wake()

    def _abort(self, _: RaiseCancelT) -> Abort:
        self._reader = None
        self._listening = False
        return Abort.SUCCEEDED
