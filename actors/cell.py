"""One actor's node: its mailbox, its reference and its incarnations, one after the other."""

from collections.abc import Awaitable
from typing import Generic, TypeVar

import trio

from actors.incarnation import Incarnation
from actors.mailbox import Item, Mailbox
from actors.node import Node, Phase
from actors.ref import ActorRef
from actors.spec import ChildSpec
from actors.status import NodeStatus, Outcome, StopReason

M = TypeVar("M")


class Cell(Node, Generic[M]):
    """The mailbox closes at the final stop, or when that becomes certain; not before."""

    __slots__ = ("_attempt", "_life", "mailbox", "ref", "spec")

    def __init__(self, spec: ChildSpec[M]) -> None:
        super().__init__(spec.id)
        self.spec = spec
        self.mailbox = Mailbox(self, spec.capacity, rejects=spec.overflow == "reject")
        self._attempt = 0  # restarts in a row without a stable time between them, for the backoff
        self.ref: ActorRef[M] = ActorRef(self, self.mailbox, spec.shutdown)
        self._life: Incarnation[M] | None = None

    def _live(self) -> Awaitable[Outcome]:
        self._life = Incarnation(self, self.spec, self.mailbox, self.ref)
        return self._life.run()

    def _tasks_ended(self, outcome: Outcome) -> None:
        """Note that an incarnation's tasks have ended. Close the mailbox if no other can follow.

        One that was stopped for a while, because of what it depends on, is begun again by its supervisor,
        and so is one whose supervisor failed because this one did not start.
        """
        if not self.over:
            suspended = outcome.reason == "stopped" or (
                not outcome.started and self.phase is Phase.FIRST_START
            )
            if suspended or self._restarts_after(outcome):
                return
            self._enter(Phase.ENDING)
        self.mailbox.close()

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
        if self.phase is Phase.RUNNING and self.since is not None and now - self.since >= backoff.cap_s:
            self._attempt = 0
        delay_s = backoff.delay_s(self._attempt)
        self._attempt += 1
        return delay_s

    def _stop_requested(self) -> None:
        if self.over:
            self.mailbox.close()
        if self._life is not None:
            self._life.request_stop(self.spec.shutdown)

    def crash(self, error: Exception) -> bool:
        """End the incarnation as if its own code had raised `error`; False where none is up. For tests."""
        if self.phase is not Phase.RUNNING or self._life is None:
            return False
        self._life.fail(error)
        return True

    def in_hand(self) -> list[Item]:
        """Return the messages that are being handled."""
        return self._life.in_hand() if self._life is not None else []

    def tasks(self) -> list[trio.lowlevel.Task]:
        """Return the current incarnation's tasks: its hooks and handlers, and what the actor started."""
        return self._life.all_tasks() if self._life is not None else []

    def is_idle(self) -> bool:
        """Return True if it is up and not busy, and no message is queued or in hand."""
        return (
            self.phase is Phase.RUNNING
            and not self.mailbox.queue
            and self._life is not None
            and self._life.idle
        )

    def _go_idle(self) -> None:
        """Close for good, in the step in which it was found idle: later senders find it closed."""
        assert self._life is not None
        self._enter(Phase.ENDING)
        self.mailbox.close()
        self._life.request_end()

    def _finalise(self, reason: StopReason) -> None:
        self.mailbox.close()
        self._life = None
        super()._finalise(reason)

    def runs_this_task(self) -> bool:
        """Return True if the current task works for a hook or a handler of this actor."""
        return self._life is not None and self._life.runs_this_task()

    @property
    def idle_since(self) -> float:
        """Return when the last message ended, on trio's clock."""
        return self._life.since if self._life is not None else trio.current_time()

    def status(self) -> NodeStatus:
        """This node, now."""
        activity = self._life.activity() if self._life is not None else ""
        since = self._life.since if self._life is not None and activity else self.since
        return NodeStatus(
            id=self.id,
            kind="actor",
            state=self.state,
            incarnation=self.incarnation,
            restarts=self.restarts,
            depth=len(self.mailbox.queue),
            capacity=self.mailbox.capacity,
            activity=activity,
            since=since,
            last_error=self.last_error,
            dead_letters=self.mailbox.dead_letters,
            metrics=self._life.metrics() if self._life is not None else {},
        )
