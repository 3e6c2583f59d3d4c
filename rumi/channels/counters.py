"""Counters of turns, tool calls, waits and restarts since the process started, and the latest of these."""

import time
from collections import Counter, deque
from dataclasses import asdict, dataclass
from typing import Final, get_args

from actors import TreeEvent
from rumi.agent.events import ToolFinished, TurnFinished
from rumi.agent.tool_names import BASH_TOOLS, FILE_TOOLS
from rumi.chats.events import ChatEvent, TurnStarted
from rumi.models.model import Waiting
from rumi.store.journal.records import Reason

_WEB: Final = ("web_fetch", "web_search", "research", "research_repo")
_OTHERS: Final = ("remember", "forget", "recall", "use_skill", "send_file", "find_tools", "todo", "delegate")
_LATER: Final = ("remind", "schedule", "list_schedules", "cancel_schedule", "nothing_new", "shared_list")
TOOLS: Final = frozenset({*BASH_TOOLS, *FILE_TOOLS, *_WEB, *_OTHERS, *_LATER})
"""Known tool names. A model may invent other names, which are counted as "other"."""

BUCKETS_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


MOST_TURNS: Final = 60
MOST_RESTARTS: Final = 20
MINUTES: Final = 60
"""Minutes whose restarts are counted; the others are the numbers of ended turns and of restarts kept."""


@dataclass(slots=True)
class _Turn:
    """A turn. `began` is a Unix timestamp."""

    chat: str
    turn: str
    began: float
    seconds: float = 0.0
    reason: str = ""
    tools: int = 0
    tokens: int = 0


class Counts:
    """Counts the events of all chats and of the supervision tree as they happen."""

    def __init__(self) -> None:
        self._turns: Counter[str] = Counter()
        self._tools: Counter[tuple[str, bool]] = Counter()
        self._restarts: Counter[str] = Counter()
        self._tokens: Counter[str] = Counter()
        self._waits = 0
        self._seconds = 0.0
        self._buckets: Counter[float] = Counter()
        self._begun: dict[str, _Turn] = {}  # by chat; a chat has one turn at a time
        self._ended: deque[_Turn] = deque(maxlen=MOST_TURNS)
        self._restarted: deque[dict[str, object]] = deque(maxlen=MOST_RESTARTS)
        self._minutes: Counter[int] = Counter()

    def chat_happened(self, event: ChatEvent) -> None:
        """Count an event of a chat."""
        match event.what:
            case TurnStarted():
                self._begun[event.chat] = _Turn(event.chat, event.turn, event.time)
            case ToolFinished(call, result):
                if (running := self._begun.get(event.chat)) is not None and running.turn == event.turn:
                    running.tools += 1
                self._tools[call.name if call.name in TOOLS else "other", result.ok] += 1
            case Waiting():
                self._waits += 1
            case TurnFinished(reason, _, usage):
                self._turns[reason] += 1
                self._tokens["prompt"] += usage.prompt_tokens
                self._tokens["completion"] += usage.completion_tokens
                self._tokens["cached"] += usage.cached_tokens
                turn = self._begun.pop(event.chat, None)
                if (
                    turn is not None and turn.turn == event.turn
                ):  # of an earlier process's, only the end is seen
                    turn.seconds, turn.reason = max(0.0, event.time - turn.began), reason
                    turn.tokens = usage.prompt_tokens + usage.completion_tokens
                    self._time(turn.seconds)
                    self._ended.append(turn)

    def tree_happened(self, event: TreeEvent) -> None:
        """Count an actor's restart, under the name of the root supervisor's child that is or contains it.

        The supervision tree waits for this method, so the method must be quick.
        """
        if event.kind not in ("restarted", "limit_reached"):
            return
        now = time.time()
        if event.kind == "restarted":
            self._restarts[(event.path.split("/")[1:2] or [event.path])[0]] += 1
            self._minutes[int(now // 60)] += 1
        for minute in [old for old in self._minutes if old < now // 60 - MINUTES]:
            del self._minutes[minute]
        self._restarted.append(
            {"time": round(now, 3), "path": event.path, "kind": event.kind, "incarnation": event.incarnation}
        )

    def dump(self) -> dict[str, object]:
        """Return the counters as values that JSON can represent. They identify no chat."""
        edges = (*BUCKETS_S, float("inf"))
        return {
            "turns": {str(reason): self._turns[reason] for reason in get_args(Reason)},
            "tools": [{"tool": tool, "ok": ok, "calls": n} for (tool, ok), n in sorted(self._tools.items())],
            "restarts": dict(sorted(self._restarts.items())),
            "tokens": {kind: self._tokens[kind] for kind in ("prompt", "completion", "cached")},
            "waits": self._waits,
            "turn_seconds": round(self._seconds, 3),
            "turn_buckets": {_edge(edge): self._buckets[edge] for edge in edges},
        }

    def history(self) -> dict[str, object]:
        """Return the latest turns and restarts, and the number of restarts in each of the last minutes."""
        this = int(time.time() // 60)
        return {
            "turns": [
                asdict(turn) | {"began": round(turn.began, 3), "seconds": round(turn.seconds, 3)}
                for turn in self._ended
            ],
            "restarts": list(self._restarted),
            "minutes": [self._minutes[minute] for minute in range(this - MINUTES + 1, this + 1)],
        }

    def _time(self, seconds: float) -> None:
        self._seconds += seconds
        self._buckets[next((edge for edge in BUCKETS_S if seconds <= edge), float("inf"))] += 1


def _edge(edge: float) -> str:
    """Return the upper bound of a histogram bucket as OpenMetrics writes it."""
    return "+Inf" if edge == float("inf") else repr(edge)
