"""How much a bot may send: so much in a second in all, so much in a chat, so much in a group's minute."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil

from tests.fakes.bot_api_world import Chat, Refused


@dataclass(frozen=True, slots=True)
class Weight:
    """What one call counts against each of the limits."""

    overall: float = 1.0
    chat: float = 1.0
    group: float = 1.0


WEIGHTS: Mapping[str, Weight] = {
    "sendMessage": Weight(),
    "sendDocument": Weight(),
    "sendVoice": Weight(),
    "editMessageText": Weight(),
    "editMessageReplyMarkup": Weight(),
    "sendMessageDraft": Weight(chat=0.5),
    "sendChatAction": Weight(0.0, 0.0, 0.0),
}
"""Methods that are not named are free."""


@dataclass(frozen=True, slots=True)
class Limits:
    """`overall_per_s` calls a second; in a chat `chat_per_s` behind a burst of `chat_burst`; in a group
    `group_per_min` in any 60 s."""

    overall_per_s: float = 30.0
    chat_per_s: float = 1.0
    chat_burst: float = 3.0
    group_per_min: float = 20.0
    weights: Mapping[str, Weight] = field(default_factory=lambda: WEIGHTS)


UNLIMITED = Limits(weights={})


@dataclass(frozen=True, slots=True)
class TooMany:
    """A call that was refused. `early`: the client had been told to wait longer."""

    time: float
    method: str
    chat: int
    retry_after: int
    early: bool


class _Bucket:
    __slots__ = ("left", "time", "until")

    def __init__(self, burst: float, now: float) -> None:
        self.left = burst
        self.time = now
        self.until = 0.0

    def wait(self, weight: float, rate: float, burst: float, now: float) -> float:
        self.left = min(burst, self.left + (now - self.time) * rate)
        self.time = now
        return max(0.0, (weight - self.left) / rate)


class Rates:
    """`refused` is every 429 that was due to the limits."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.refused: list[TooMany] = []
        self._overall: _Bucket | None = None
        self._chats: dict[int, _Bucket] = {}
        self._minutes: dict[int, deque[tuple[float, float]]] = {}

    def take(self, method: str, chat: Chat, now: float) -> None:
        """Count a call that is about to be done, or raise `Refused` with what to wait."""
        weight = self.limits.weights.get(method)
        if weight is None:
            return
        limits = self.limits
        overall = self._overall = self._overall or _Bucket(limits.overall_per_s, now)
        bucket = self._chats.get(chat.id)
        if bucket is None:
            bucket = self._chats[chat.id] = _Bucket(limits.chat_burst, now)
        wait = overall.wait(weight.overall, limits.overall_per_s, limits.overall_per_s, now)
        wait = max(wait, bucket.wait(weight.chat, limits.chat_per_s, limits.chat_burst, now))
        minute = None
        if weight.group and chat.kind != "private":
            minute = self._minutes.setdefault(chat.id, deque())
            wait = max(wait, _window(minute, weight.group, limits.group_per_min, now))
        if any((weight.overall, weight.chat, weight.group)):
            # Once told to wait, every call here waits, also one that would fit.
            wait = max(wait, bucket.until - now)
        if wait > 1e-9:
            retry_after = max(1, ceil(wait - 1e-9))
            self.refused.append(TooMany(now, method, chat.id, retry_after, early=now < bucket.until - 1e-9))
            bucket.until = max(bucket.until, now + retry_after)
            raise too_many(retry_after)
        overall.left -= weight.overall
        bucket.left -= weight.chat
        if minute is not None:
            minute.append((now, weight.group))


def _window(minute: deque[tuple[float, float]], weight: float, most: float, now: float) -> float:
    while minute and minute[0][0] <= now - 60:
        minute.popleft()
    over = sum(one for _, one in minute) + weight - most
    wait = 0.0
    for time, one in minute:
        if over <= 1e-9:
            break
        over -= one
        wait = time + 60 - now
    return wait


def too_many(retry_after: int) -> Refused:
    """Telegram's 429."""
    text = f"Too Many Requests: retry after {retry_after}"
    return Refused(429, text, {"retry_after": retry_after})
