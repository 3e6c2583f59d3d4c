"""What this process knows of the messages in the journal: how far chats are with them, and who waits."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import trio


@dataclass(slots=True)
class Cursor:
    """How far a chat is with its messages. It outlives the chat's incarnations.

    The chat has judged its messages up to `judged`: those of them that are open and that no incarnation works
    on get their reply from recovery. Of one up to `missed` it may not know; if that is more, it reads the
    journal.
    """

    judged: int
    missed: int = 0


@dataclass(slots=True)
class PendingMessages:
    """The messages whose final reply was not told yet, by chat, and the chats' cursors.

    Messages up to `boot` are earlier processes'.
    """

    boot: int | None = None
    untold: dict[str, set[int]] = field(default_factory=dict)
    cursors: dict[str, Cursor] = field(default_factory=dict)
    changed: trio.Event = field(default_factory=trio.Event)

    def begin(self, last: int) -> None:
        """Messages up to `last` are earlier processes'. Only the first time counts."""
        if self.boot is None:
            self.boot = last

    def cursor(self, chat: str) -> Cursor:
        """The chat's cursor."""
        return self.cursors.setdefault(chat, Cursor(self.boot or 0))

    def add(self, chat: str, number: int) -> None:
        """The message is stored, and its reply will be told."""
        self.untold.setdefault(chat, set()).add(number)

    def told(self, chat: str, messages: Sequence[int]) -> bool:
        """Note that the final reply to these is told now; False if it was told before."""
        untold = self.untold.get(chat, set())
        first = not untold.isdisjoint(messages)
        untold.difference_update(messages)
        if first and not untold:
            del self.untold[chat]
        self.changed.set()
        self.changed = trio.Event()
        return first

    async def all_told(self, chat: str | None = None) -> None:
        """Return when every message of the chat, or of all chats, has its final reply."""
        while self.untold if chat is None else chat in self.untold:
            await self.changed.wait()
