"""The rate limits of the bot: in all, in a chat, and in a group's minute.

Telegram answers a faster bot with "too many requests", and a bot that continues has to wait longer and
longer. So the sender waits by itself. A final reply waits its turn, in its own chat first and then among all
chats, each in the order of arrival; all other calls are made at once or not at all.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import trio


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `count` in any `seconds`.

    A sliding window counts them. This also satisfies a bucket of `count` that refills evenly, so both ways of
    counting accept it.
    """

    count: int
    seconds: float


EVERYWHERE = (Rate(30, 1.0),)
"""For the whole bot; see "broadcasting to users" in the Bot API's FAQ."""

CHAT = (Rate(3, 3.0),)
"""For one chat: a message a second, and short bursts."""

GROUP = (*CHAT, Rate(20, 60.0))
"""For one group."""

MARGIN = 1.05
"""How much longer than a rate's seconds its window is, because the delay of requests varies."""

NOW_SHARE = 2 / 3
"""The share of a rate that previews may use, so that a final reply finds the rest."""

SPARE_SHARE = 0.5
"""The same for the typing action, which is not counted as a message."""

SLOW_S = 30.0
SLOW_SHARE = 0.5
"""After Telegram has asked a worker to wait, all use this share of the bot's rate for so long."""


class SendLimits:
    """The rates of the bot and of its chats, on trio's clock. Chats are identified by Telegram's number.

    A chat's record is forgotten when it does not limit sending any more.
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
        """`part` is the share of the bot's rate that this process may use: other workers use the rest."""
        self._slow_until = -inf
        self._everywhere = _Window(everywhere, margin, lambda: part() * self._slowness())
        self._chat = chat
        self._group = group
        self._margin = margin
        self._windows: dict[int, _Window] = {}
        self._sweep_at = -inf
        self._sweep_every_s = margin * max(rate.seconds for rate in (*everywhere, *chat, *group))

    async def turn(self, number: int) -> None:
        """Wait until a message may be sent to this chat, and count it. Cancelled, it has counted nothing."""
        window = self._window(number)
        async with window.line:
            await window.free()
            async with self._everywhere.line:
                await self._everywhere.free()
                # Counted when it is sent, not when it began to wait for the others.
                window.count()
                self._everywhere.count()

    def take(self, number: int, share: float = NOW_SHARE) -> bool:
        """Count a message for this chat if it may go now, no reply waits, and `share` of no rate is used
        up.
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
        return not any(window.line.locked() or window.free_at(share) > now for window in windows)

    def pause(self, number: int, seconds: float) -> None:
        """Send nothing to this chat for that time, because Telegram asked for it."""
        window = self._window(number)
        window.closed_until = max(window.closed_until, trio.current_time() + seconds)

    def slow_down(self) -> None:
        """Use half of the bot's rate for a while, because Telegram asked some worker to wait."""
        self._slow_until = trio.current_time() + SLOW_S

    def _slowness(self) -> float:
        return SLOW_SHARE if trio.current_time() < self._slow_until else 1.0

    def closed_until(self, number: int) -> float:
        """Return until when nothing is sent to this chat."""
        window = self._windows.get(number)
        return -inf if window is None else window.closed_until

    def __len__(self) -> int:
        """Return how many chats have a record at this moment."""
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
    """When the last messages were sent. The next sender holds the `line`: first come, first served."""

    __slots__ = ("_part", "_rates", "_times", "closed_until", "line")

    def __init__(self, rates: Sequence[Rate], margin: float, part: Callable[[], float] = lambda: 1.0) -> None:
        self._part = part
        self.line = trio.Lock()
        self.closed_until = -inf
        self._rates = tuple(Rate(rate.count, rate.seconds * margin) for rate in rates)
        self._times: deque[float] = deque(maxlen=max(rate.count for rate in rates))

    def free_at(self, share: float = 1.0) -> float:
        """Return the moment from which another one stays within `share` of each rate."""
        at, part = self.closed_until, self._part()
        for rate in self._rates:
            allowed = max(1, int(rate.count * share * part))
            if len(self._times) >= allowed:
                at = max(at, self._times[-allowed] + rate.seconds)
        return at

    async def free(self) -> None:
        """Wait until another one may be sent. The wait may become longer meanwhile."""
        while (at := self.free_at()) > trio.current_time():  # noqa: ASYNC110  # it is the clock that is waited for
            await trio.sleep_until(at)

    def count(self) -> None:
        """Count one that is sent now."""
        self._times.append(trio.current_time())

    def idle(self, now: float) -> bool:
        """Return True if it is equal to a new one."""
        if self.line.locked() or self.closed_until > now:
            return False
        return not self._times or self._times[-1] + max(rate.seconds for rate in self._rates) <= now
