"""Rate limits of a homeserver, which every account has for itself: Synapse's default is a message in 5 s.

No limit is known in advance. What a server refuses waits as long as the server asks, and then goes in turn,
one message at a time. Growing answers, which may be left out, pause longer after each refusal.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import trio

TIGHT_S: Final = 60.0
"""For how long messages go one at a time after a limit, in seconds."""

FIRST_PAUSE_S: Final = 20.0
MOST_PAUSE_S: Final = 600.0
"""Pause of growing answers after a limit, in seconds; each limit within the pause doubles it."""


class AccountLimits:
    """What is known of an account's limits. Outlives restarts of the sender; times are on trio's clock.

    `part` returns the share of all chats that this process serves.
    """

    def __init__(self, part: Callable[[], float] = lambda: 1.0) -> None:
        self.limited = 0
        self.closed_until = 0.0
        self._part = part
        self._line = trio.Lock()
        self._tight_until = 0.0
        self._pause_s = FIRST_PAUSE_S
        self._growing_from = 0.0
        self._waiting = 0

    def note(self, wait_s: float) -> None:
        """Record that the server has refused a message, and asks for a wait."""
        self.limited += 1
        self.slow_down()
        self.closed_until = max(self.closed_until, trio.current_time() + wait_s)

    def slow_down(self) -> None:
        """Send fewer messages for a while."""
        now = trio.current_time()
        if now < self._growing_from:
            self._pause_s = min(2 * self._pause_s, MOST_PAUSE_S)
        elif now > self._growing_from + self._pause_s:
            self._pause_s = FIRST_PAUSE_S
        self._growing_from = now + self._pause_s
        self._tight_until = now + TIGHT_S

    @property
    def may_grow(self) -> bool:
        """Return True if a growing answer may be shown now, without delaying other messages."""
        now = trio.current_time()
        return not self._waiting and now >= max(self._growing_from, self.closed_until)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until a message may be sent; the block sends it."""
        self._waiting += 1
        try:
            if trio.current_time() >= max(self._tight_until, self.closed_until):
                yield
                return
            async with self._line:
                while self.closed_until > trio.current_time():  # noqa: ASYNC110  # it is the clock that is waited for
                    await trio.sleep_until(self.closed_until)
                yield
        finally:
            self._waiting -= 1
