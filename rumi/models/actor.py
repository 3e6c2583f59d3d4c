"""The `models` actor: permits for model calls, shared fairly between chats.

A permit is an ask that stays in progress while the call runs. Its holder cancels the ask when the call is
over. A cancelled holder returns the permit in the same way, so no release can be forgotten.
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
    """Ask for a permit and hold it: this ask never returns; cancel it when the call is over.

    `granted` is set when the call may begin. `tokens` is the estimated size of the call. Before the holder
    returns the permit, it sets in `refused` how the call has ended: True if the server had too many calls;
    None if the call says nothing about that.
    """

    chat: str
    server: str
    model: str
    tokens: int
    granted: trio.Event = field(default_factory=trio.Event, init=False, repr=False)
    refused: bool | None = field(default=None, init=False, repr=False)


@dataclass(frozen=True, slots=True)
class HowLong(Request[Wait | None]):
    """Ask for the reason why a call has to wait now, and for how long; None if it could begin."""

    server: str
    model: str
    tokens: int


@dataclass(frozen=True, slots=True)
class LimitsSeen:
    """Report the limits that a server sent with an answer."""

    permit: HoldPermit
    limits: RateLimits


ModelsMessage: TypeAlias = HoldPermit | HowLong | LimitsSeen
ModelsRef: TypeAlias = ActorRef[ModelsMessage]


class Models(Actor[ModelsMessage]):
    """Grants permits, and owns the clients of the model servers.

    After a crash it starts with no held permits: running calls continue uncounted.
    """

    concurrency = 100_000  # every held permit is a message in progress

    def __init__(
        self,
        servers: Collection[ModelServer] = (),
        *,
        max_concurrent: int | None = None,
        part: Callable[[], float] = lambda: 1.0,
    ) -> None:
        """`part` is the share of all limits that this process may use."""
        self._servers = servers
        self._limits = CallLimits(max_concurrent, part)
        self._tickets: dict[int, Ticket] = {}
        self._changed = trio.Event()

    async def started(self) -> None:
        """Start the clock for calls that wait for a cool-down or a budget."""
        self.start_soon(self._watch_the_clock)

    async def receive(self, message: ModelsMessage) -> None:
        """Store the limits that a server reported."""
        if isinstance(message, LimitsSeen):
            ticket = self._tickets.get(id(message.permit))
            self._limits.saw(message.permit.model, ticket, message.limits, trio.current_time())
            self._wake()

    @answers(HowLong)
    async def how_long(self, message: HowLong) -> Wait | None:
        """Return the reason why a call has to wait now, or None."""
        return self._limits.wait(message.server, message.model, message.tokens, trio.current_time())

    async def stopped(self, reason: StopReason) -> None:
        """Close the clients' connections, except after a crash: running calls then continue."""
        if reason != "crashed":
            for server in tuple(self._servers):
                await server.aclose()

    def busy(self) -> bool:
        """Return True if a call runs or waits."""
        return bool(self._limits.running or self._limits.waiting)

    def activity(self) -> str:
        """Describe how many calls run and wait, and which models cool down."""
        return self._limits.describe(_now())

    def metrics(self) -> Mapping[str, object]:
        """Return the number of running and waiting calls, and each model's budget."""
        return self._limits.metrics(_now())

    @answers(HoldPermit)
    async def hold(self, permit: HoldPermit) -> None:
        """Keep the permit, or its place in the queue, until this is cancelled."""
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
        """Have the clock set again, if there is a call that it may have to let through."""
        if self._limits.waiting:
            self._changed.set()

    async def _watch_the_clock(self) -> None:
        while True:
            again = self._limits.pump(trio.current_time())
            self._changed = trio.Event()
            if again == inf:  # the usual case, and faster than a deadline
                await self._changed.wait()
            else:
                with trio.move_on_at(again):
                    await self._changed.wait()


def _now() -> float:
    """Return the current time, or infinity outside of trio."""
    try:
        return trio.current_time()
    except RuntimeError:
        return inf
