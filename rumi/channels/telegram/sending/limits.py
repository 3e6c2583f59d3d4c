"""Rate limits of the bot: a limit for all chats together, limits for each chat, and limits for each group.

If a bot exceeds Telegram's limits, Telegram rejects its messages with "too many requests", and a bot that
keeps sending must wait longer and longer. So the sender itself delays messages. A final reply waits in two
queues, first in that of its chat and then in that of all chats, each in order of arrival. All other calls are
made at once or not at all.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf

import trio


@dataclass(frozen=True, slots=True)
class Rate:
    """A limit of `count` messages in any `seconds` seconds, counted with a sliding window.

    Telegram may count with a sliding window or with a token bucket of `count` tokens that refills evenly.
    A sliding window respects both. With `refills`, this limit is itself such a token bucket: a burst of
    `count` messages, then one message whenever `seconds / count` have passed.
    """

    count: int
    seconds: float
    refills: bool = False


EVERYWHERE = (Rate(30, 1.0),)
"""Limit of the whole bot; see "broadcasting to users" in the Bot API's FAQ."""

CHAT = (Rate(3, 3.0, refills=True),)
"""Limits of a private chat: one message per second, and short bursts.

The Bot API's FAQ allows bots to "go over this limit briefly" and gives no number. A bucket that refills has
room for a reply's parts again soon after the edits of its preview. If Telegram refuses a burst nevertheless,
the chat gets none for `NO_BURST_S` seconds.
"""

GROUP = (Rate(3, 3.0), Rate(20, 60.0))
"""Limits of one group."""

JITTER_S = 0.3
"""Additional wait, in seconds, for a bucket that was empty: Telegram may receive a burst later than this
process counts it.
"""

NO_BURST_S = 300.0
"""Time without bursts for a chat after Telegram asked the bot to wait there, in seconds."""

MARGIN = 1.05
"""Factor that lengthens each window beyond its rate's `seconds`, because the latency of requests varies."""

NOW_SHARE = 2 / 3
"""Share of a rate that previews may use, so that capacity remains for a final reply."""

SPARE_SHARE = 0.5
"""The typing action is sent only while less than this share of a rate is used. It does not count as a
message.
"""

SLOW_S = 30.0
SLOW_SHARE = 0.5
"""Share of the bot's rate that each worker uses for `SLOW_S` seconds after Telegram asked any worker to wait.
"""


class SendLimits:
    """Rate limits of the bot and of its chats, on trio's clock.

    Chats are identified by their Telegram number. The record of a chat is deleted when it no longer limits
    sending.
    """

    def __init__(
        self,
        *,
        everywhere: Sequence[Rate] = EVERYWHERE,
        chat: Sequence[Rate] = CHAT,
        group: Sequence[Rate] = GROUP,
        margin: float = MARGIN,
        part: Callable[[], float] = lambda: 1.0,
    ) -> None:
        """Create the limits. `part` returns the fraction of the bot's rate that this process may use.

        Other workers use the remainder.
        """
        self._slow_until = -inf
        self._everywhere = _Window(everywhere, margin, lambda: part() * self._slowness())
        self._chat = chat
        self._group = group
        self._margin = margin
        self._windows: dict[int, _Window] = {}
        self._sweep_at = -inf
        self._sweep_every_s = margin * max(rate.seconds for rate in (*everywhere, *chat, *group))

    async def turn(self, number: int) -> None:
        """Wait until a message may be sent to this chat, and count it. If cancelled, nothing is counted."""
        window = self._window(number)
        # The chat's lock comes first: a chat at its own limit then does not hold up the queue of all chats.
        async with window.line:
            while True:
                await window.free()
                async with self._everywhere.line:
                    await self._everywhere.free()
                    # During the wait for the bot's limit, Telegram may have asked the bot to wait in this
                    # chat. Then the queue of all chats goes on without it.
                    if window.free_at() <= trio.current_time():
                        # Counted at the time of sending, not when the wait for the bot's limit began.
                        window.count()
                        self._everywhere.count()
                        return

    def take(self, number: int, share: float = NOW_SHARE) -> bool:
        """If a message may be sent now without delaying a final reply, count it and return True; else False.

        The result is True if no final reply is waiting and if, with this message, at most the fraction
        `share` of every rate is used.
        """
        if not self.has_capacity(number, share):
            return False
        self._window(number).count()
        self._everywhere.count()
        return True

    def has_capacity(self, number: int, share: float = NOW_SHARE) -> bool:
        """Return True if a message could be sent to this chat now. Counts nothing."""
        now = trio.current_time()
        windows = (self._window(number), self._everywhere)
        # A locked line means that a final reply waits, which goes first.
        return not any(window.line.locked() or window.free_at(share) > now for window in windows)

    def pause(self, number: int, seconds: float) -> None:
        """Block sending to this chat for `seconds`, because Telegram asked the bot to wait.

        After that, the chat gets no bursts for a while.
        """
        window, now = self._window(number), trio.current_time()
        window.closed_until = max(window.closed_until, now + seconds)
        window.even_until = max(window.even_until, now + seconds + NO_BURST_S)

    def slow_down(self) -> None:
        """Use half of the bot's rate for a while, because Telegram asked a worker to wait."""
        self._slow_until = trio.current_time() + SLOW_S

    def _slowness(self) -> float:
        return SLOW_SHARE if trio.current_time() < self._slow_until else 1.0

    def closed_until(self, number: int) -> float:
        """Return the time until which sending to this chat is blocked; -inf if sending is not blocked."""
        window = self._windows.get(number)
        return -inf if window is None else window.closed_until

    def __len__(self) -> int:
        """Return the number of chats that have a record."""
        return len(self._windows)

    def _window(self, number: int) -> "_Window":
        self._sweep()
        window = self._windows.get(number)
        if window is None:
            window = _Window(self._group if number < 0 else self._chat, self._margin)
            self._windows[number] = window
        return window

    def _sweep(self) -> None:
        now = trio.current_time()
        if now >= self._sweep_at:
            self._sweep_at = now + self._sweep_every_s
            self._windows = {
                number: window for number, window in self._windows.items() if not window.idle(now)
            }


class _Window:
    """A sliding window over the send times of messages. `line` is a FIFO lock: its holder may send next."""

    __slots__ = ("_full", "_part", "_rates", "_times", "closed_until", "even_until", "line")

    def __init__(self, rates: Sequence[Rate], margin: float, part: Callable[[], float] = lambda: 1.0) -> None:
        self._part = part
        self.line = trio.Lock()
        self.closed_until = -inf
        self.even_until = -inf  # no bursts before this time
        self._rates = tuple(replace(rate, seconds=rate.seconds * margin) for rate in rates)
        self._full = [-inf] * len(self._rates)  # when each bucket that refills is full again
        self._times: deque[float] = deque(maxlen=max(rate.count for rate in rates))

    def free_at(self, share: float = 1.0) -> float:
        """Return the earliest time at which one more message uses at most the part `share` of each rate."""
        at, part = self.closed_until, self._part()
        for rate, full in zip(self._rates, self._full, strict=True):
            # At least one: a small share must slow a worker down, never block it completely.
            allowed = max(1, int(rate.count * share * part))
            if rate.refills:
                burst = 1 if trio.current_time() < self.even_until else allowed
                refilled = full - (burst - 1) * rate.seconds / rate.count
                at = max(at, refilled + JITTER_S if self._times and refilled > self._times[-1] else refilled)
            elif len(self._times) >= allowed:
                at = max(at, self._times[-allowed] + rate.seconds)
        return at

    async def free(self) -> None:
        """Wait until another message may be sent. Pauses and messages during the wait may extend the wait."""
        while (at := self.free_at()) > trio.current_time():  # noqa: ASYNC110  # it is the clock that is waited for
            await trio.sleep_until(at)

    def count(self) -> None:
        """Count a message that is being sent now."""
        now = trio.current_time()
        self._times.append(now)
        self._full = [
            max(full, now) + rate.seconds / rate.count
            for rate, full in zip(self._rates, self._full, strict=True)
        ]

    def idle(self, now: float) -> bool:
        """Return True if this window no longer limits sending, so that a new window can replace it."""
        # A window in use must stay: a second window of the same chat would not know the sends of the first.
        if self.line.locked() or max(self.closed_until, self.even_until) > now:
            return False
        return not self._times or self._times[-1] + max(rate.seconds for rate in self._rates) <= now
