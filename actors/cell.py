"""One actor's place: its mailbox and its reference, whatever becomes of its incarnations."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Generic, TypeVar

import trio

from actors.errors import ActorStopped
from actors.incarnation import Incarnation
from actors.mailbox import Mailbox
from actors.place import Place, logger
from actors.ref import ActorRef
from actors.request import Ask
from actors.spec import ChildSpec
from actors.status import MailboxStatistics, NodeStatus, Outcome, StopReason

M = TypeVar("M")


class Cell(Place, Generic[M]):
    """The mailbox closes at the final stop, or when that becomes certain; not before."""

    __slots__ = ("_attempt", "_life", "dead_letters", "mailbox", "ref", "spec")

    def __init__(self, spec: ChildSpec[M]) -> None:
        super().__init__(spec.id)
        self.spec = spec
        self.mailbox = Mailbox(spec.capacity, rejects=spec.overflow == "reject")
        self.dead_letters = 0
        self._attempt = 0  # restarts in a row without a stable time between them, for the backoff
        self.ref: ActorRef[M] = ActorRef(self)
        self._life: Incarnation[M] | None = None

    def _live(self) -> Awaitable[Outcome]:
        self._life = Incarnation(self)
        return self._life.run()

    def _ends(self, outcome: Outcome) -> None:
        """An incarnation's tasks have ended. Where no other can follow, nothing more is taken.

        One that was stopped for a while, because of what it depends on, is begun again by its supervisor,
        and so is one whose supervisor failed because this one did not start.
        """
        suspended = outcome.reason == "stopped" or (self._initial and not outcome.started)
        if not self._final and not suspended and not self._restarts_after(outcome):
            self._final = True
        if self._final:
            self._close()

    @property
    def _is_temporary(self) -> bool:
        return self.spec.restart == "temporary"

    def _restarts_after(self, outcome: Outcome) -> bool:
        restart = self.spec.restart
        return restart == "permanent" or (restart == "transient" and outcome.reason == "crashed")

    def _grant_restart(self, now: float) -> float:
        super()._grant_restart(now)
        backoff = self.spec.backoff
        if backoff is None:
            return 0.0
        if self.state == "running" and self.since is not None and now - self.since >= backoff.cap_s:
            self._attempt = 0
        delay_s = backoff.delay_s(self._attempt)
        self._attempt += 1
        return delay_s

    def _stop_requested(self) -> None:
        if self._final:
            self._close()
        if self._life is not None:
            self._life.request_stop(self.spec.shutdown)

    def is_idle(self) -> bool:
        """Up, nothing queued, nothing in hand, not busy."""
        return (
            self.state == "running" and not self.mailbox.queue and self._life is not None and self._life.idle
        )

    def _go_idle(self) -> None:
        """Close for good, in the step in which it was found idle: whoever comes later finds it closed."""
        assert self._life is not None
        self._final = self._stop = True
        self._enter("stopping")
        self._close()
        self._life.request_end()

    def _finalise(self, reason: StopReason) -> None:
        self._close()
        self._life = None
        super()._finalise(reason)

    def _close(self) -> None:
        """Drain, then nobody is left waiting: asks fail, tells are counted."""
        if self.mailbox.closed:
            return
        lost = 0
        for item in self.mailbox.close():
            if type(item) is Ask:
                item.fail(ActorStopped(self.path))
            else:
                lost += 1
        if lost:
            self.dead_letters += lost
            logger.warning("%s stopped with %d messages that it will not handle", self.path, lost)

    def runs_this_task(self) -> bool:
        """Whether the current task works for a hook or a handler of this actor."""
        return self._life is not None and self._life.runs(trio.lowlevel.current_task())

    @property
    def idle_since(self) -> float:
        """When the last message ended, on trio's clock."""
        return self._life.since if self._life is not None else trio.current_time()

    def statistics(self) -> MailboxStatistics:
        """The mailbox at this moment."""
        box = self.mailbox
        return MailboxStatistics(len(box.queue), box.capacity, box.senders_waiting, self.dead_letters)

    def status(self) -> NodeStatus:
        """This node, now."""
        doing = self._life.doing() if self._life is not None else ""
        since = self._life.since if self._life is not None and doing else self.since
        return NodeStatus(
            id=self.id,
            kind="actor",
            state=self.state,
            incarnation=self.incarnation,
            restarts=self.restarts,
            depth=len(self.mailbox.queue),
            capacity=self.mailbox.capacity,
            doing=doing,
            since=since,
            last_error=self.last_error,
            dead_letters=self.dead_letters,
            figures=self._life.figures() if self._life is not None else {},
        )
