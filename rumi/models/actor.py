"""The `models` actor: permits for model calls, shared fairly between chats.

A permit allows one model call. The caller holds the permit by an ask: a request to the actor, which stays
unanswered while the model call runs. The caller cancels the ask when the call is over. If the caller itself
is cancelled, its ask is cancelled too, so no release can be forgotten or lost.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TypeAlias

import trio

from actors import Actor, ActorRef, Request, StopReason, answers
from rumi.models.limits import CallLimits, Ticket, Wait
from rumi.models.rates import RateLimits
from rumi.models.server import ModelServer


@dataclass(slots=True, eq=False)
class HoldPermit(Request[None]):
    """Request for a permit. The ask holds the permit and never returns; cancel it when the call is over.

    `granted` is set when the call may start. `tokens` is the estimated size of the call. Before releasing the
    permit, the caller sets `refused`: True if the server had too many calls, False if the server answered,
    None if the caller cannot tell.
    """

    chat: str
    server: str
    model: str
    tokens: int
    granted: trio.Event = field(default_factory=trio.Event, init=False, repr=False)
    refused: bool | None = field(default=None, init=False, repr=False)


@dataclass(frozen=True, slots=True)
class HowLong(Request[Wait | None]):
    """Request for the expected wait of a new call, and the cause.

    The reply is None if the call could start now.
    """

    server: str
    model: str
    tokens: int


@dataclass(frozen=True, slots=True)
class LimitsSeen:
    """Message to the actor: the rate limits that a server sent with an answer."""

    permit: HoldPermit
    limits: RateLimits


ModelsMessage: TypeAlias = HoldPermit | HowLong | LimitsSeen
ModelsRef: TypeAlias = ActorRef[ModelsMessage]


class Models(Actor[ModelsMessage]):
    """The `models` actor: grants permits for model calls.

    When it stops, it closes the HTTP clients of the servers.

    After a crash, the actor starts with no permits granted; calls that are still running continue uncounted.
    """

    concurrency = 100_000  # every held permit is a message in progress

    def __init__(
        self,
        servers: Collection[ModelServer] = (),
        *,
        max_concurrent: int | None = None,
        part: Callable[[], float] = lambda: 1.0,
    ) -> None:
        """Start with no permits granted. `part` returns the share of all limits for this process."""
        self._servers = servers
        self._limits = CallLimits(max_concurrent, part)
        self._tickets: dict[int, Ticket] = {}
        self._changed = trio.Event()

    async def started(self) -> None:
        """Start the timer that starts waiting calls after a cool-down or when a budget has refilled."""
        self.start_soon(self._watch_the_clock)

    async def receive(self, message: ModelsMessage) -> None:
        """Store the limits that a server reported."""
        if isinstance(message, LimitsSeen):
            ticket = self._tickets.get(id(message.permit))
            self._limits.saw(message.permit.model, ticket, message.limits, trio.current_time())
            self._wake()

    @answers(HowLong)
    async def how_long(self, message: HowLong) -> Wait | None:
        """Return the expected wait of a new call, or None if it could start now."""
        return self._limits.wait(message.server, message.model, message.tokens, trio.current_time())

    async def stopped(self, reason: StopReason) -> None:
        """Close the servers' connections.

        After a crash, keep them open, because running calls still use them.
        """
        if reason != "crashed":
            for server in tuple(self._servers):
                await server.aclose()

    def busy(self) -> bool:
        """Return True if any model call is running or waiting for a permit."""
        return bool(self._limits.running or self._limits.waiting)

    def activity(self) -> str:
        """Return one status line: the running calls, the waiting calls, and the models in a cool-down."""
        return self._limits.describe(_now())

    def metrics(self) -> Mapping[str, object]:
        """Return the numbers of running and waiting calls, and each model's budget."""
        return self._limits.metrics(_now())

    @answers(HoldPermit)
    async def hold(self, permit: HoldPermit) -> None:
        """Queue the call, then hold the call's permit until the ask is cancelled."""
        ticket = self._limits.enter(
            permit.chat, permit.server, permit.model, permit.tokens, permit.granted.set, trio.current_time()
        )
        self._tickets[id(permit)] = ticket
        self._wake()
        try:
            await trio.sleep_forever()
        finally:
            del self._tickets[id(permit)]
            self._limits.leave(ticket, trio.current_time(), permit.refused)
            self._wake()

    def _wake(self) -> None:
        """Set the timer again if any call is waiting."""
        if self._limits.waiting:
            self._changed.set()

    async def _watch_the_clock(self) -> None:
        while True:
            # No checkpoint between `pump` and the new event, so no change can be missed.
            again = self._limits.pump(trio.current_time())
            self._changed = trio.Event()
            if again == inf:  # the usual case; waiting without a deadline is faster
                await self._changed.wait()
            else:
                with trio.move_on_at(again):
                    await self._changed.wait()


def _now() -> float:
    """Return trio's current time, or infinity outside of trio; `CallLimits` then reports no durations."""
    try:
        return trio.current_time()
    except RuntimeError:
        return inf
