"""Counters of turns, tool calls, waits and restarts since the process started. They identify no chat."""

from collections import Counter
from typing import Final, get_args

from actors import TreeEvent
from rumi.agent.events import ToolFinished, TurnFinished
from rumi.agent.tools.file_access import FILE_TOOLS
from rumi.chats.events import ChatEvent, TurnStarted
from rumi.models.model import Waiting
from rumi.store.journal.records import Reason

_WEB: Final = ("web_fetch", "web_search", "research", "research_repo")
_OTHERS: Final = ("remember", "forget", "recall", "use_skill", "send_file", "find_tools")
_LATER: Final = ("remind", "schedule", "list_schedules", "cancel_schedule")
TOOLS: Final = frozenset({"bash", *FILE_TOOLS, *_WEB, *_OTHERS, *_LATER})
"""Known tool names. A model may invent other names, which are counted as "other"."""

BUCKETS_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


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
        self._begun: dict[str, tuple[str, float]] = {}  # by chat; a chat has one turn at a time

    def chat_happened(self, event: ChatEvent) -> None:
        """Count an event of a chat."""
        match event.what:
            case TurnStarted():
                self._begun[event.chat] = (event.turn, event.time)
            case ToolFinished(call, result):
                self._tools[call.name if call.name in TOOLS else "other", result.ok] += 1
            case Waiting():
                self._waits += 1
            case TurnFinished(reason, _, usage):
                self._turns[reason] += 1
                self._tokens["prompt"] += usage.prompt_tokens
                self._tokens["completion"] += usage.completion_tokens
                self._tokens["cached"] += usage.cached_tokens
                turn, began = self._begun.pop(event.chat, ("", 0.0))
                if turn == event.turn:  # of a turn of an earlier process, only the end is seen
                    self._time(max(0.0, event.time - began))

    def tree_happened(self, event: TreeEvent) -> None:
        """Count an actor's restart, under the name of the root supervisor's child that is or contains it."""
        if event.kind == "restarted":
            self._restarts[(event.path.split("/")[1:2] or [event.path])[0]] += 1

    def dump(self) -> dict[str, object]:
        """Return the counters as values that JSON can represent."""
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

    def _time(self, seconds: float) -> None:
        self._seconds += seconds
        self._buckets[next((edge for edge in BUCKETS_S if seconds <= edge), float("inf"))] += 1


def _edge(edge: float) -> str:
    """Return the upper bound of a histogram bucket as OpenMetrics writes it."""
    return "+Inf" if edge == float("inf") else repr(edge)
