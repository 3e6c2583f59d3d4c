"""State that all browser views share: the supervision tree, the chats, and recent turns and restarts."""

from collections import Counter
from collections.abc import Callable, Mapping

from rumi.agent.events import ConfirmationAsked, ConfirmationEnded
from rumi.channels.counters import Counts
from rumi.channels.page.view import view_of
from rumi.chats.events import ChatEvent, Replied, TurnStarted
from rumi.chats.hub import Hub


class Board:
    """Reads the supervision tree, and recent turns and restarts, on request.

    `own` returns True for a chat of the page's visitor. For other chats, the board shows only that a turn is
    running. `revisions` counts the changes of each topic: "board", "history",
    and "marks", which says which of the visitor's chats are working or asking.
    """

    def __init__(
        self,
        dump: Callable[[], Mapping[str, object]],
        counts: Counts,
        own: Callable[[str], bool],
        hub: Hub,
    ) -> None:
        self.dump = dump
        self._counts = counts
        self._own = own
        self._hub = hub
        self._replies = 0
        self.topics: dict[str, dict[str, object]] = {"board": {}, "history": {}, "marks": {}}
        self.revisions: Counter[str] = Counter()

    def look(self) -> bool:
        """Read the supervision tree and the chats. Return True if something changed."""
        return self._put("board", view_of(self.dump(), self._own)) | self.look_back()

    def look_back(self) -> bool:
        """Update recent turns and restarts only. Return True if something changed."""
        return self._put("history", self._counts.history())

    def happened(self, event: ChatEvent) -> bool:
        """Update the marks of chats after an event. Return True if something changed."""
        if not isinstance(event.what, TurnStarted | Replied | ConfirmationAsked | ConfirmationEnded):
            return False
        if not self._own(event.chat):
            return False
        self._replies += isinstance(event.what, Replied)
        marks = {
            chat: "asks" if turn.question is not None else "works"
            for chat, turn in self._hub.turns.items()
            if turn.turn and self._own(chat)
        }
        return self._put("marks", {"chats": marks, "replies": self._replies})

    def _put(self, topic: str, what: dict[str, object]) -> bool:
        if self.topics[topic] == what:
            return False
        self.topics[topic] = what
        self.revisions[topic] += 1
        return True
