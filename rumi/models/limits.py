"""Scheduling of model calls: the state of the `models` actor, in code that uses no tasks and no clock.

Three things can make a call wait: the limit on simultaneous calls to the server (`rumi.models.concurrency`),
a cool-down that the server asked for, and the budget of requests and tokens that the server reported. A
server here is a combination of provider and key. Cool-down and budget are tracked per model, because Groq
counts them per model. The number of calls is tracked per server.

The chat that used the fewest tokens in the last minute comes first; among chats with equal usage, the oldest
request comes first. So a chat that uses many tokens waits behind all other chats, but for at most a minute:
then its usage no longer counts, and its request is the oldest. No call to a model overtakes the first call in
that model's queue: otherwise a large request that waits for budget would starve behind small requests.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Final, Literal, TypeAlias

from rumi.models.concurrency import AT_FIRST, AT_MOST, Concurrency
from rumi.models.rates import RateLimits, Window

USE_WINDOW_S: Final = 60.0

Cause: TypeAlias = Literal["busy", "cool_down", "budget"]


@dataclass(frozen=True, slots=True)
class Wait:
    """The expected wait of a call and its cause. `seconds` is 0 if the duration is not known."""

    seconds: float
    cause: Cause


@dataclass(eq=False, slots=True)
class Ticket:
    """A call that is queued or running. `grant` is called once, when the call may start.

    `left` is True if the call has ended, or if its chat has stopped waiting for the call.
    """

    chat: str
    server: str
    model: str
    tokens: int
    grant: Callable[[], None]
    number: int
    granted: bool = False
    left: bool = False
    begun: int = 0
    """Number of calls that had started at the server before this one."""
    counted: bool = False
    """True if the figures that the server reported already include this call."""


@dataclass(slots=True)
class _Budget:
    """A budget of requests or tokens, as the server last reported it. It refills linearly until `full_at`."""

    limit: float
    remaining: float
    seen_at: float
    full_at: float

    @classmethod
    def of(cls, window: Window, now: float) -> "_Budget":
        return cls(window.limit, window.remaining, now, now + window.reset_s)

    def metrics(self, now: float) -> dict[str, object]:
        """Return the limit, the last reported remaining amount, and the seconds until the budget is full."""
        full_in_s = max(0.0, round(self.full_at - now, 3)) if now < inf else 0.0
        return {"limit": self.limit, "remaining": self.remaining, "full_in_s": full_in_s}

    def wait_s(self, amount: float, now: float) -> float:
        """Return the seconds until `amount` is available.

        Amounts above the limit must wait for a full budget.
        """
        amount = min(amount, self.limit)
        if amount <= self.remaining or now >= self.full_at:
            return 0.0
        rate = (self.limit - self.remaining) / (self.full_at - self.seen_at)
        if rate <= 0:
            return 0.0
        return max(0.0, self.seen_at + (amount - self.remaining) / rate - now)


@dataclass(slots=True)
class _ModelState:
    """The limits and the queue of one model.

    The running calls that the server's last figures do not include yet are uncounted: `unseen` is their
    number, and `unseen_tokens` is the sum of their tokens. `queue` is a heap, sorted by the chat's usage and
    the call's number. The top entry may be out of date, because the usage of chats changes and calls leave
    the queue.
    """

    cool_until: float = -inf
    requests: _Budget | None = None
    tokens: _Budget | None = None
    running: int = 0
    waiting: int = 0
    unseen: int = 0
    unseen_tokens: int = 0
    queue: list[tuple[int, int, Ticket]] = field(default_factory=list)

    def wait(self, tokens: float, now: float, part: float = 1.0) -> Wait | None:
        """Return the wait for a call with `tokens` tokens, or None if the call may start now.

        `part` is this process's share of the limits. The number of uncounted calls is divided by `part`,
        which assumes that the other workers have uncounted calls in proportion to their shares.
        """
        if now < self.cool_until:
            return Wait(self.cool_until - now, "cool_down")
        seconds = 0.0
        if self.requests is not None:
            seconds = self.requests.wait_s((self.unseen + 1) / part, now)
        if self.tokens is not None:
            seconds = max(seconds, self.tokens.wait_s((self.unseen_tokens + tokens) / part, now))
        return Wait(seconds, "budget") if seconds > 0 else None

    def spent(self, tokens: float, now: float) -> bool:
        """Return True if the last reported budget is too small for a call with `tokens` tokens."""
        requests, budget = self.requests, self.tokens
        return (requests is not None and requests.wait_s(1, now) > 0) or (
            budget is not None and budget.wait_s(tokens, now) > 0
        )

    def count(self, ticket: Ticket, calls: int) -> None:
        """Add a call to the uncounted calls (`calls` is 1), or remove a call from them (`calls` is -1)."""
        self.unseen += calls
        self.unseen_tokens += calls * ticket.tokens


@dataclass(slots=True)
class _ServerState:
    concurrency: Concurrency
    running: int = 0
    begun: int = 0

    def full(self, part: float) -> bool:
        # At least one call, so that a worker with a small share makes progress.
        return self.running >= max(1, int(self.concurrency.now * part))


class CallLimits:
    """The queues and limits of all models, which grant tickets to calls in a fair order.

    `now` is the current time, in seconds of a monotonic clock. The methods that change a limit also grant
    tickets to the calls that may then start. `max_concurrent` is the maximum number of simultaneous calls to
    one server; if it is None, the limit adapts. Even with a fixed maximum, a server that refuses calls gets
    fewer calls.
    """

    def __init__(self, max_concurrent: int | None = None, part: Callable[[], float] = lambda: 1.0) -> None:
        """Start without calls. `part` returns the share of all limits that this process may use."""
        self._part = part
        self._at_first = AT_FIRST if max_concurrent is None else max_concurrent
        self._at_most = AT_MOST if max_concurrent is None else max_concurrent
        self._numbers = count()
        self._models: dict[str, _ModelState] = {}
        self._servers: dict[str, _ServerState] = {}
        self._used: deque[tuple[float, str, int]] = deque()
        self._use: dict[str, int] = {}
        # By chat, because all waiting calls of a chat get a new rank when its old usage is forgotten.
        self._waiting: dict[str, dict[int, Ticket]] = {}

    @property
    def running(self) -> int:
        """The number of running calls."""
        return sum(server.running for server in self._servers.values())

    @property
    def waiting(self) -> int:
        """The number of waiting calls."""
        return sum(model.waiting for model in self._models.values())

    def enter(
        self, chat: str, server: str, model: str, tokens: int, grant: Callable[[], None], now: float
    ) -> Ticket:
        """Queue a call and return its ticket. If no limit applies, the ticket is already granted."""
        ticket = Ticket(chat, server, model, max(tokens, 1), grant, next(self._numbers))
        self._waiting.setdefault(chat, {})[ticket.number] = ticket
        self._model(model).waiting += 1
        self._push(ticket)
        self.pump(now)
        return ticket

    def leave(self, ticket: Ticket, now: float, refused: bool | None = None) -> None:
        """Remove a call that has ended, or a queued call that its chat has given up.

        `refused` is True if the server had too many calls, False if the server answered, None if the outcome
        is not known.
        """
        ticket.left = True
        if ticket.granted:
            if refused is not None:
                self._adjust_concurrency(ticket, refused, now)
            state = self._model(ticket.model)
            state.running -= 1
            state.count(ticket, 0 if ticket.counted else -1)
            self._server(ticket.server).running -= 1
        else:
            self._wait_no_more(ticket)
        self.pump(now)

    def _adjust_concurrency(self, ticket: Ticket, refused: bool, now: float) -> None:
        """Adjust the server's limit on simultaneous calls after a call has ended.

        A refusal does not change the limit if the server's budget was used up, because the used-up budget
        explains the refusal.
        """
        server = self._server(ticket.server)
        if not refused:
            server.concurrency.went_well(server.running)
        elif not self._model(ticket.model).spent(ticket.tokens, now):
            server.concurrency.refused(ticket.begun, server.running, server.begun)

    def saw(self, model: str, ticket: Ticket | None, limits: RateLimits, now: float) -> None:
        """Store the limits that a server reported.

        The server sent the limits with its answer to a call. If that call is still running, `ticket` is its
        ticket.
        """
        state = self._model(model)
        if limits.requests is not None:
            state.requests = _Budget.of(limits.requests, now)
        if limits.tokens is not None:
            state.tokens = _Budget.of(limits.tokens, now)
        if limits.retry_after_s is not None:
            # A shorter cool-down, from another call's answer, must not end a longer one.
            state.cool_until = max(state.cool_until, now + limits.retry_after_s)
        # The reported remainder already includes this call, so counting it here would charge it twice.
        if ticket is not None and ticket.granted and not ticket.counted:
            ticket.counted = True
            state.count(ticket, -1)
        self.pump(now)

    def wait(self, server: str, model: str, tokens: int, now: float) -> Wait | None:
        """Return the wait of a new call with `tokens` tokens to this model, or None if it could start now."""
        if (wait := self._model(model).wait(max(tokens, 1), now, self._part())) is not None:
            return wait
        queued = self._model(model).waiting > 0
        return Wait(0.0, "busy") if queued or self._server(server).full(self._part()) else None

    def pump(self, now: float) -> float:
        """Grant tickets to the calls that may start. Return the time at which to call this method again.

        The time is `inf` if no call waits for time to pass. If the first call of a model waits for budget or
        a cool-down, the whole model is skipped, so that smaller calls cannot overtake the first call.
        """
        self._forget_use(now)
        again = inf
        held_back: set[str] = set()
        while self._waiting and (ticket := self._next(held_back)) is not None:
            wait = self._model(ticket.model).wait(ticket.tokens, now, self._part())
            if wait is None:
                self._grant(ticket, now)
            else:
                held_back.add(ticket.model)
                again = min(again, now + wait.seconds)
        return again

    def metrics(self, now: float) -> dict[str, object]:
        """Return the status figures: numbers of calls, and each model's cool-down and reported budgets."""
        return {
            "running": self.running,
            "waiting": self.waiting,
            "servers": {
                name: {"running": server.running, "limit": server.concurrency.now}
                for name, server in self._servers.items()
            },
            "models": {
                name: {
                    "running": state.running,
                    "cool_down_s": max(0.0, round(state.cool_until - now, 3)) if now < inf else 0.0,
                    "requests": state.requests and state.requests.metrics(now),
                    "tokens": state.tokens and state.tokens.metrics(now),
                }
                for name, state in self._models.items()
            },
        }

    def describe(self, now: float) -> str:
        """Return one line for the status: running calls, waiting calls, and models that cool down."""
        parts = [f"{self.running} running", f"{self.waiting} waiting"]
        for name, server in self._servers.items():
            if server.concurrency.now != self._at_first:
                parts.append(f"{name} gets {server.concurrency.now} at once")
        for name, state in self._models.items():
            if (seconds := state.cool_until - now) > 0:
                parts.append(f"{name} cools down for {seconds:.0f} s")
        return ", ".join(parts)

    def _next(self, held_back: set[str]) -> Ticket | None:
        """Return the next call that should start, of a model whose server can take another call."""
        tops = [self._top(state) for name, state in self._models.items() if name not in held_back]
        ready = [
            top for top in tops if top is not None and not self._server(top[2].server).full(self._part())
        ]
        return min(ready)[2] if ready else None

    def _top(self, state: _ModelState) -> tuple[int, int, Ticket] | None:
        """Return the first valid entry of a model's queue; remove or re-rank outdated entries before it."""
        while state.queue:
            use, _, ticket = state.queue[0]
            waits, used = not (ticket.granted or ticket.left), self._use.get(ticket.chat, 0)
            if waits and use == used:
                return state.queue[0]
            heappop(state.queue)
            # Usage grew since the entry was pushed. If it shrank, `_forget_use` has pushed a newer entry
            # already, and this one is a duplicate.
            if waits and use < used:
                self._push(ticket)
        return None

    def _push(self, ticket: Ticket) -> None:
        entry = self._use.get(ticket.chat, 0), ticket.number, ticket
        heappush(self._model(ticket.model).queue, entry)

    def _wait_no_more(self, ticket: Ticket) -> None:
        self._model(ticket.model).waiting -= 1
        of_chat = self._waiting[ticket.chat]
        del of_chat[ticket.number]
        if not of_chat:
            del self._waiting[ticket.chat]

    def _server(self, name: str) -> _ServerState:
        if name not in self._servers:
            self._servers[name] = _ServerState(Concurrency(self._at_first, self._at_most))
        return self._servers[name]

    def _model(self, name: str) -> _ModelState:
        return self._models.setdefault(name, _ModelState())

    def _grant(self, ticket: Ticket, now: float) -> None:
        self._wait_no_more(ticket)
        state, server = self._model(ticket.model), self._server(ticket.server)
        state.running += 1
        state.count(ticket, 1)
        ticket.begun = server.begun
        server.running += 1
        server.begun += 1
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
            # The heap would not notice the lower rank of an entry, so push a new one; `_top` drops the old.
            for ticket in self._waiting.get(chat, {}).values():
                self._push(ticket)
