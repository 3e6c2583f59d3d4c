"""State that all browser views share: the supervision tree, the chats, and recent turns and restarts."""

from collections import Counter
from collections.abc import Callable, Mapping

from rumi.channels.counters import Counts
from rumi.channels.page.view import view_of


class Board:
    """Reads the supervision tree, and recent turns and restarts, on request.

    `own` returns True for a chat of the page's visitor. For other chats, the board shows only that a turn is
    running. `revisions` counts the changes of each topic ("board" and "history").
    """

    def __init__(
        self, dump: Callable[[], Mapping[str, object]], counts: Counts, own: Callable[[str], bool]
    ) -> None:
        self.dump = dump
        self._counts = counts
        self._own = own
        self.topics: dict[str, dict[str, object]] = {"board": {}, "history": {}}
        self.revisions: Counter[str] = Counter()

    def look(self) -> bool:
        """Read the supervision tree and the chats. Return True if something changed."""
        return self._put("board", view_of(self.dump(), self._own)) | self.look_back()

    def look_back(self) -> bool:
        """Update recent turns and restarts only. Return True if something changed."""
        return self._put("history", self._counts.history())

    def _put(self, topic: str, what: dict[str, object]) -> bool:
        if self.topics[topic] == what:
            return False
        self.topics[topic] = what
        self.revisions[topic] += 1
        return True
