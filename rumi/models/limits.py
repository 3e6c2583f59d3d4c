"""Who may call a model now, and who waits: the state behind the `models` actor, with no task and no clock.

Three things hold a call back: how many calls run at once at its server (one server is one provider and
key), a cool-down that the server asked for, and the budget of requests and tokens that the server told.
Groq counts cool-down and budget for each model, so they belong to a model here, and the number of calls
to a server.

Who is next is decided by use: the chat with the fewest tokens in the last minute, and among equals the
one that came first. A chat that asks for much therefore waits behind everyone else, but for a minute at
most, since its use is forgotten after that and its place in the order of arrival is not. Within one model
nobody overtakes whoever is next: a large request that has to wait for budget would starve behind small ones.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from math import inf
from typing import Final, Literal, TypeAlias

from rumi.models.rates import RateLimits, Window

USE_WINDOW_S: Final = 60.0

Cause: TypeAlias = Literal["busy", "cool_down", "budget"]


@dataclass(frozen=True, slots=True)
class Wait:
    """How long until a call could begin, as far as is known now: `seconds` is 0 where it is not known."""

    seconds: float
    cause: Cause


@dataclass(eq=False, slots=True)
class Ticket:
    """A place in the queue, then a running call. `grant` is called once, when the call may begin."""

    chat: str
    server: str
    model: str
    tokens: int
    grant: Callable[[], None]
    number: int
    granted: bool = False
    counted: bool = False
    """Whether the server's own figures already include this call."""


@dataclass(slots=True)
class _Budget:
    """A window as the server last told it. It fills up evenly until it is full at `full_at`."""

    limit: float
    remaining: float
    seen_at: float
    full_at: float

    @classmethod
    def of(cls, window: Window, now: float) -> "_Budget":
        return cls(window.limit, window.remaining, now, now + window.reset_s)

    def figures(self, now: float) -> dict[str, object]:
        """The limit, what is left of it as last told, and in how many seconds it is full again."""
        full_in_s = max(0.0, round(self.full_at - now, 3)) if now < inf else 0.0
        return {"limit": self.limit, "remaining": self.remaining, "full_in_s": full_in_s}

    def wait_s(self, amount: float, now: float) -> float:
        """Seconds until `amount` is there. More than the limit never is: let the server say that."""
        amount = min(amount, self.limit)
        if amount <= self.remaining or now >= self.full_at:
            return 0.0
        rate = (self.limit - self.remaining) / (self.full_at - self.seen_at)
        if rate <= 0:
            return 0.0
        return max(0.0, self.seen_at + (amount - self.remaining) / rate - now)


@dataclass(slots=True)
class _ModelState:
    cool_until: float = -inf
    requests: _Budget | None = None
    tokens: _Budget | None = None
    running: list[Ticket] = field(default_factory=list)

    def wait(self, tokens: float, now: float) -> Wait | None:
        """What holds back a call of so many tokens, or None."""
        if now < self.cool_until:
            return Wait(self.cool_until - now, "cool_down")
        unseen = [ticket for ticket in self.running if not ticket.counted]
        seconds = 0.0
        if self.requests is not None:
            seconds = self.requests.wait_s(len(unseen) + 1, now)
        if self.tokens is not None:
            seconds = max(seconds, self.tokens.wait_s(sum(t.tokens for t in unseen) + tokens, now))
        return Wait(seconds, "budget") if seconds > 0 else None


class Limits:
    """Grants tickets. Every method takes `now`, in seconds of a monotonic clock, and grants what it can.

    `concurrency` is how many calls may run at once at one server.
    """

    def __init__(self, concurrency: int = 32) -> None:
        self._concurrency = concurrency
        self._numbers = count()
        self._waiting: list[Ticket] = []
        self._models: dict[str, _ModelState] = {}
        self._running: dict[str, int] = {}
        self._used: deque[tuple[float, str, int]] = deque()
        self._use: dict[str, int] = {}

    @property
    def running(self) -> int:
        """How many calls run."""
        return sum(self._running.values())

    @property
    def waiting(self) -> int:
        """How many calls wait."""
        return len(self._waiting)

    def enter(
        self, chat: str, server: str, model: str, tokens: int, grant: Callable[[], None], now: float
    ) -> Ticket:
        """Queue a call. It is granted before this returns if nothing holds it back."""
        ticket = Ticket(chat, server, model, max(tokens, 1), grant, next(self._numbers))
        self._waiting.append(ticket)
        self.pump(now)
        return ticket

    def leave(self, ticket: Ticket, now: float) -> None:
        """The call has ended, or its chat waits no more."""
        if ticket.granted:
            self._model(ticket.model).running.remove(ticket)
            self._running[ticket.server] -= 1
        else:
            self._waiting.remove(ticket)
        self.pump(now)

    def saw(self, model: str, ticket: Ticket | None, limits: RateLimits, now: float) -> None:
        """A server told its limits, in answer to `ticket`'s call where that still runs."""
        state = self._model(model)
        if limits.requests is not None:
            state.requests = _Budget.of(limits.requests, now)
        if limits.tokens is not None:
            state.tokens = _Budget.of(limits.tokens, now)
        if limits.retry_after_s is not None:
            state.cool_until = max(state.cool_until, now + limits.retry_after_s)
        if ticket is not None:
            ticket.counted = True
        self.pump(now)

    def wait(self, server: str, model: str, tokens: int, now: float) -> Wait | None:
        """What would hold back a call of so many tokens to this model, or None."""
        if (wait := self._model(model).wait(max(tokens, 1), now)) is not None:
            return wait
        queued = any(ticket.model == model for ticket in self._waiting)
        return Wait(0.0, "busy") if queued or self._full(server) else None

    def pump(self, now: float) -> float:
        """Grant what may begin. Returns when to call again if nothing else happens, `inf` for never."""
        self._forget_use(now)
        again = inf
        held_back: set[str] = set()
        while True:
            ticket = min(self._eligible(held_back), key=self._rank, default=None)
            if ticket is None:
                return again
            wait = self._model(ticket.model).wait(ticket.tokens, now)
            if wait is None:
                self._grant(ticket, now)
            else:
                held_back.add(ticket.model)
                again = min(again, now + wait.seconds)

    def figures(self, now: float) -> dict[str, object]:
        """For the status: calls, and of each model its cool-down and what its server last told of budgets."""
        return {
            "running": self.running,
            "waiting": self.waiting,
            "models": {
                name: {
                    "running": len(state.running),
                    "cool_down_s": max(0.0, round(state.cool_until - now, 3)) if now < inf else 0.0,
                    "requests": state.requests and state.requests.figures(now),
                    "tokens": state.tokens and state.tokens.figures(now),
                }
                for name, state in self._models.items()
            },
        }

    def describe(self, now: float) -> str:
        """One line for the status: what runs, what waits, and which models cool down."""
        parts = [f"{self.running} running", f"{self.waiting} waiting"]
        for name, state in self._models.items():
            if (seconds := state.cool_until - now) > 0:
                parts.append(f"{name} cools down for {seconds:.0f} s")
        return ", ".join(parts)

    def _eligible(self, held_back: set[str]) -> Iterable[Ticket]:
        return (t for t in self._waiting if t.model not in held_back and not self._full(t.server))

    def _rank(self, ticket: Ticket) -> tuple[int, int]:
        return self._use.get(ticket.chat, 0), ticket.number

    def _full(self, server: str) -> bool:
        return self._running.get(server, 0) >= self._concurrency

    def _model(self, name: str) -> _ModelState:
        return self._models.setdefault(name, _ModelState())

    def _grant(self, ticket: Ticket, now: float) -> None:
        self._waiting.remove(ticket)
        self._model(ticket.model).running.append(ticket)
        self._running[ticket.server] = self._running.get(ticket.server, 0) + 1
        self._used.append((now, ticket.chat, ticket.tokens))
        self._use[ticket.chat] = self._use.get(ticket.chat, 0) + ticket.tokens
        ticket.granted = True
        ticket.grant()

    def _forget_use(self, now: float) -> None:
        while self._used and self._used[0][0] <= now - USE_WINDOW_S:
            _, chat, tokens = self._used.popleft()
            self._use[chat] -= tokens
            if not self._use[chat]:
                del self._use[chat]
