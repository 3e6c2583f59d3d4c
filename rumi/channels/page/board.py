"""State that all browser views share: the supervision tree, the chats, and recent turns and restarts."""

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from actors import TreeEvent
from rumi.agent.events import ToolFinished, TurnFinished
from rumi.channels.page.view import view_of
from rumi.chats.events import ChatEvent, TurnStarted

MOST_TURNS = 60
MOST_RESTARTS = 20
MINUTES = 60
"""Length of the restart chart, in minutes."""


@dataclass(frozen=True, slots=True)
class EndedTurn:
    """A completed turn. `began` is a Unix timestamp."""

    chat: str
    turn: str
    began: float
    seconds: float
    reason: str
    tools: int
    tokens: int


@dataclass(slots=True)
class _RunningTurn:
    turn: str
    at: float
    tools: int = 0


class Board:
    """Follows the events of all chats and of the supervision tree. Reads the tree itself only on request.

    `own` returns True for a chat of the page's visitor. For other chats, the board shows only that a turn is
    running. `revisions` counts the changes of each topic ("board" and "history").
    """

    def __init__(self, dump: Callable[[], Mapping[str, object]], own: Callable[[str], bool]) -> None:
        self.dump = dump
        self._own = own
        self.topics: dict[str, dict[str, object]] = {"board": {}, "history": {}}
        self.revisions: Counter[str] = Counter()
        self._turns: deque[EndedTurn] = deque(maxlen=MOST_TURNS)
        self._begun: dict[str, _RunningTurn] = {}  # by chat; a chat has one turn at a time
        self._restarts: deque[dict[str, object]] = deque(maxlen=MOST_RESTARTS)
        self._minutes: Counter[int] = Counter()

    def look(self) -> bool:
        """Read the supervision tree and the chats. Return True if something changed."""
        return self._put("board", view_of(self.dump(), self._own)) | self.look_back()

    def look_back(self) -> bool:
        """Update recent turns and restarts only. Return True if something changed."""
        return self._put("history", self._history())

    def chat_happened(self, event: ChatEvent) -> None:
        """Apply an event of a chat."""
        begun = self._begun.get(event.chat)
        if begun is not None and begun.turn != event.turn:
            begun = None
        match event.what:
            case TurnStarted():
                self._begun[event.chat] = _RunningTurn(event.turn, event.time)
            case ToolFinished():
                if begun is not None:
                    begun.tools += 1
            case TurnFinished(reason, _, usage):
                if begun is not None:  # of a turn of an earlier process, only the end is seen
                    del self._begun[event.chat]
                    seconds = max(0.0, event.time - begun.at)
                    tokens = usage.prompt_tokens + usage.completion_tokens
                    self._turns.append(
                        EndedTurn(event.chat, event.turn, begun.at, seconds, reason, begun.tools, tokens)
                    )
            case _:
                pass

    def tree_happened(self, event: TreeEvent) -> bool:
        """Record an event of the supervision tree. Return True if browsers should be updated.

        The supervision tree waits for this method, so the method must be quick.
        """
        if event.kind not in ("restarted", "limit_reached"):
            return False
        now = time.time()
        if event.kind == "restarted":
            self._minutes[int(now // 60)] += 1
        for minute in [old for old in self._minutes if old < now // 60 - MINUTES]:
            del self._minutes[minute]
        self._restarts.append(
            {"time": round(now, 3), "path": event.path, "kind": event.kind, "incarnation": event.incarnation}
        )
        return True

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
