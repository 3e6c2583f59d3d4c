"""What all windows see: the tree and the chats now, turns and restarts of late, and counts."""

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

from actors import TreeEvent
from rumi.agent import ToolFinished, TurnFinished
from rumi.channels.page.view import TOOLS, view_of
from rumi.chats import ChatEvent, TurnStarted
from rumi.models import Waiting

MOST_TURNS = 60
MOST_RESTARTS = 20
MINUTES = 60
"""How far back the chart of restarts goes."""

BUCKETS_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn that has ended. `began` is in seconds since 1970."""

    chat: str
    turn: str
    began: float
    seconds: float
    reason: str
    tools: int
    tokens: int


@dataclass(slots=True)
class Counts:
    """What has been counted since the process began. Nothing in it names a chat."""

    turns: Counter[str] = field(default_factory=Counter)
    tools: Counter[tuple[str, bool]] = field(default_factory=Counter)
    restarts: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    waits: int = 0
    seconds: float = 0.0
    buckets: Counter[float] = field(default_factory=Counter)


@dataclass(slots=True)
class _Begun:
    turn: str
    at: float
    tools: int = 0


class Board:
    """Follows the events of all chats and of the tree; looks at the tree only when it is asked to.

    `own` says if a chat is the visitor's: of the others' turns nothing is shown but that they run.
    `revisions` goes up, topic by topic, when there is something new to see.
    """

    def __init__(self, dump: Callable[[], Mapping[str, object]], own: Callable[[str], bool]) -> None:
        self.dump = dump
        self._own = own
        self.counts = Counts()
        self.topics: dict[str, dict[str, object]] = {"board": {}, "history": {}}
        self.revisions: Counter[str] = Counter()
        self._turns: deque[Turn] = deque(maxlen=MOST_TURNS)
        self._begun: dict[str, _Begun] = {}  # by chat: it has one turn at a time
        self._restarts: deque[dict[str, object]] = deque(maxlen=MOST_RESTARTS)
        self._minutes: Counter[int] = Counter()

    def look(self) -> bool:
        """Read the tree and the chats. Return True if something has changed."""
        return self._put("board", view_of(self.dump(), self._own)) | self.look_back()

    def look_back(self) -> bool:
        """Sum up turns and restarts, without a look at the tree. Return True if something has changed."""
        return self._put("history", self._history())

    def chat_happened(self, event: ChatEvent) -> None:
        """Follow an event of a chat."""
        begun = self._begun.get(event.chat)
        if begun is not None and begun.turn != event.turn:
            begun = None
        match event.what:
            case TurnStarted():
                self._begun[event.chat] = _Begun(event.turn, event.time)
            case ToolFinished(call, result):
                self.counts.tools[call.name if call.name in TOOLS else "other", result.ok] += 1
                if begun is not None:
                    begun.tools += 1
            case Waiting():
                self.counts.waits += 1
            case TurnFinished(reason, _, usage):
                self.counts.turns[reason] += 1
                self.counts.tokens["prompt"] += usage.prompt_tokens
                self.counts.tokens["completion"] += usage.completion_tokens
                self.counts.tokens["cached"] += usage.cached_tokens
                if begun is not None:  # a turn of an earlier process has an end only
                    del self._begun[event.chat]
                    seconds = max(0.0, event.time - begun.at)
                    tokens = usage.prompt_tokens + usage.completion_tokens
                    self._time(seconds)
                    self._turns.append(
                        Turn(event.chat, event.turn, begun.at, seconds, reason, begun.tools, tokens)
                    )
            case _:
                pass

    def tree_happened(self, event: TreeEvent) -> bool:
        """Follow an event of the tree. Return True if it is worth a look. Must be quick: the tree tells it in
        the middle of its work."""
        if event.kind not in ("restarted", "limit_reached"):
            return False
        now = time.time()
        actor = event.path.split("/")[1:2]
        if event.kind == "restarted":
            self.counts.restarts[actor[0] if actor else event.path] += 1
            self._minutes[int(now // 60)] += 1
        for minute in [old for old in self._minutes if old < now // 60 - MINUTES]:
            del self._minutes[minute]
        self._restarts.append(
            {"time": round(now, 3), "path": event.path, "kind": event.kind, "incarnation": event.incarnation}
        )
        return True

    def _time(self, seconds: float) -> None:
        self.counts.seconds += seconds
        self.counts.buckets[next((edge for edge in BUCKETS_S if seconds <= edge), float("inf"))] += 1

    def _history(self) -> dict[str, object]:
        this = int(time.time() // 60)
        return {
            "turns": [
                asdict(turn) | {"began": round(turn.began, 3), "seconds": round(turn.seconds, 3)}
                for turn in self._turns
            ],
            "restarts": list(self._restarts),
            "minutes": [self._minutes[minute] for minute in range(this - MINUTES + 1, this + 1)],
        }

    def _put(self, topic: str, what: dict[str, object]) -> bool:
        if self.topics[topic] == what:
            return False
        self.topics[topic] = what
        self.revisions[topic] += 1
        return True
