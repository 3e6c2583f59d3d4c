"""Comments: messages to the bot that are followed by what they comment on.

When people share a message or a file with a comment, Telegram sends two messages: the comment, which mentions
the bot, and then the forwarded message or the file, which mentions nobody.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, TypeAlias

FOLLOWS_S: Final = 2.0
"""Maximum time between a comment and what it comments on, in seconds, at Telegram and here."""

MOST: Final = 1000
"""Maximum number of remembered comments, and of messages that followed them, to bound memory."""

Place: TypeAlias = tuple[str, int]
"""A chat and a user in it."""


@dataclass(slots=True)
class Comments:
    """Remembers who has just addressed the bot where. Nothing is stored on disk.

    `now` is the time at which the current batch of updates arrived, on trio's clock.
    """

    now: float = 0.0
    _open: OrderedDict[Place, tuple[int, float]] = field(default_factory=OrderedDict)
    _following: OrderedDict[int, None] = field(default_factory=OrderedDict)

    def note(self, place: Place, date: int, *, comments: bool) -> None:
        """Note a message to the bot, sent at `date`. Something may follow only if the message `comments`."""
        self._open.pop(place, None)
        if comments:
            self._open[place] = (date, self.now)
            if len(self._open) > MOST:
                self._open.popitem(last=False)

    def belongs(self, place: Place, date: int, update: int, *, handed: bool) -> bool:
        """Return True if a message that mentions nobody belongs to a comment of its sender.

        Such a message is `handed` on: forwarded, or a file. Any other message ends the wait for it. An update
        that arrives again, because it could not be stored, belongs to the same comment.
        """
        if update in self._following:
            return True
        commented = self._open.pop(place, None)
        if commented is None or not handed:
            return False
        at, arrived = commented
        if abs(date - at) > FOLLOWS_S or self.now - arrived > FOLLOWS_S:
            return False
        self._open[place] = (date, self.now)
        self._following[update] = None
        if len(self._following) > MOST:
            self._following.popitem(last=False)
        return True
