"""What goes wrong on demand between a bot and Telegram."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Flood:
    """429 whatever the rates are; the request isn't done."""

    retry_after: int = 5


@dataclass(frozen=True, slots=True)
class Broken:
    """A server's error with a page instead of JSON; the request isn't done."""

    status: int = 502


@dataclass(frozen=True, slots=True)
class Error:
    """An error of the Bot API's: 401, 403, 409 or what the test likes; the request isn't done."""

    status: int
    description: str = ""


@dataclass(frozen=True, slots=True)
class Reset:
    """The connection is reset. `after`: the request was done and its answer is lost."""

    after: bool = False


@dataclass(frozen=True, slots=True)
class Silent:
    """There is never an answer. `after`: the request was done."""

    after: bool = False


@dataclass(frozen=True, slots=True)
class Slow:
    """The request is done at once, the answer takes its time."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Late:
    """The request is done only after so many seconds, also if the client gave it up long before."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Truncated:
    """The request is done; half of the answer comes, and looks complete."""


@dataclass(frozen=True, slots=True)
class Redelivered:
    """A getUpdates gives the last confirmed updates again."""

    number: int = 1


@dataclass(frozen=True, slots=True)
class Shuffled:
    """The updates of a batch are out of order."""


@dataclass(frozen=True, slots=True)
class Doubled:
    """The first update of a batch stands in it twice."""


Fault: TypeAlias = (
    Flood | Broken | Error | Reset | Silent | Slow | Late | Truncated | Redelivered | Shuffled | Doubled
)

_UPDATES_ONLY = (Redelivered, Shuffled, Doubled)


@dataclass(frozen=True, slots=True)
class Injected:
    """A fault that happened."""

    time: float
    method: str
    chat: int | None
    fault: Fault


@dataclass(slots=True)
class _Rule:
    fault: Fault
    method: str | None
    chat: int | None
    times: int | None
    probability: float


class Faults:
    """Rules for what fails: the first that fits a call is the call's fault. `injected` is what happened."""

    def __init__(self, random: Random, now: Callable[[], float]) -> None:
        self.injected: list[Injected] = []
        self._random = random
        self._now = now
        self._rules: list[_Rule] = []

    def next(self, fault: Fault, method: str | None = None, chat: int | None = None, times: int = 1) -> None:
        """The next so many calls that fit fail."""
        self._rules.append(_Rule(fault, method, chat, times, 1.0))

    def often(
        self, probability: float, fault: Fault, method: str | None = None, chat: int | None = None
    ) -> None:
        """Each call that fits may fail, until `clear`."""
        self._rules.append(_Rule(fault, method, chat, None, probability))

    def clear(self) -> None:
        self._rules.clear()

    def choose(self, method: str, chat: int | None) -> Fault | None:
        for rule in self._rules:
            if rule.method is None:
                if isinstance(rule.fault, _UPDATES_ONLY) and method != "getUpdates":
                    continue
            elif rule.method != method:
                continue
            if rule.chat is not None and rule.chat != chat:
                continue
            if rule.probability < 1 and self._random.random() >= rule.probability:
                continue
            if rule.times is not None:
                rule.times -= 1
                if not rule.times:
                    self._rules.remove(rule)
            self.injected.append(Injected(self._now(), method, chat, rule.fault))
            return rule.fault
        return None
