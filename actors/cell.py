"""The node of one actor: its mailbox, its reference and its incarnations (one per start or restart)."""

from collections.abc import Awaitable
from typing import Generic, TypeVar

import trio
from typing_extensions import override

from actors.incarnation import Incarnation
from actors.mailbox import Item, Mailbox
from actors.node import Node, Phase
from actors.ref import ActorRef
from actors.spec import ChildSpec
from actors.status import NodeStatus, Outcome, StopReason

M = TypeVar("M")


class Cell(Node, Generic[M]):
    """The node of one actor. Its mailbox closes as soon as the final stop is certain, and not before."""

    __slots__ = ("_attempt", "_life", "mailbox", "ref", "spec")

    def __init__(self, spec: ChildSpec[M]) -> None:
        super().__init__(spec.id)
        self.spec = spec
        self.mailbox = Mailbox(self, spec.capacity, rejects=spec.overflow == "reject")
        self._attempt = 0  # consecutive restarts without a stable run in between, for the backoff
        self.ref: ActorRef[M] = ActorRef(self, self.mailbox, spec.shutdown)
        self._life: Incarnation[M] | None = None

    def _live(self) -> Awaitable[Outcome]:
        self._life = Incarnation(self, self.spec, self.mailbox, self.ref)
        return self._life.run()

    def _tasks_ended(self, outcome: Outcome) -> None:
        """Close the mailbox if no other incarnation can follow the one whose tasks have ended.

        The mailbox stays open for a suspended actor, which its supervisor starts again after the actors it
        depends on, and after a failed first start, because a restart of the supervisor starts it again.
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
        # Only a run of at least cap_s counts as stable. If a shorter one reset the backoff, the delays of an
        # actor that always crashes soon after its start would never grow.
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
        """Crash the incarnation with `error`, for a test; return False if no incarnation is up."""
        if self.phase is not Phase.RUNNING or self._life is None:
            return False
        self._life.fail(error)
        return True

    def in_hand(self) -> list[Item]:
        """Return the messages that the current incarnation handles now."""
        return self._life.in_hand() if self._life is not None else []

    def tasks(self) -> list[trio.lowlevel.Task]:
        """Return the current incarnation's tasks: hooks, handlers and tasks that the actor started."""
        return self._life.all_tasks() if self._life is not None else []

    def is_idle(self) -> bool:
        """Return True if the actor is up and not busy, and no message is queued or being handled."""
        return (
            self.phase is Phase.RUNNING
            and not self.mailbox.queue
            and self._life is not None
            and self._life.idle
        )

    def _go_idle(self) -> None:
        """Stop an idle actor for good.

        The caller has checked `is_idle` without a checkpoint in between, so no message can be lost: a sender
        either came before the check, or finds the mailbox closed.
        """
        assert self._life is not None
        self._enter(Phase.ENDING)
        self.mailbox.close()
        self._life.request_end()

    def _finalise(self, reason: StopReason) -> None:
        # First: a task that is woken by the final stop must find the mailbox closed.
        self.mailbox.close()
        self._life = None
        super()._finalise(reason)

    @override
    def runs_this_task(self) -> bool:
        return self._life is not None and self._life.runs_this_task()

    @property
    def idle_since(self) -> float:
        """Return the time at which the handling of the last message ended, on trio's clock."""
        return self._life.since if self._life is not None else trio.current_time()

    @override
    def status(self) -> NodeStatus:
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
