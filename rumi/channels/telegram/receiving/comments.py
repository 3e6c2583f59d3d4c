"""Comments: messages to the bot that are followed by what they comment on.

When people share a message or a file with a comment, Telegram sends two messages: the comment, which mentions
the bot, and then the forwarded message or the file, which mentions nobody. Others send the file first and ask
about it afterwards. And a client cuts a long text: only one of its pieces contains the mention.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from rumi.store.journal.records import Attachment

FOLLOWS_S: Final = 2.0
"""Maximum time between a comment and what it comments on, in seconds, at Telegram and here."""

MOST: Final = 1000
"""Maximum number of remembered comments, and of messages that followed them, to bound memory."""

MOST_BEFORE: Final = 20
"""Maximum number of remembered messages of one person that came before a message to the bot."""

MOST_TAKEN: Final = 50
"""Maximum number of messages to the bot whose earlier messages are remembered, in case they arrive again."""

Place: TypeAlias = tuple[str, int]
"""A chat and a user in it."""


@dataclass(frozen=True, slots=True)
class Handed:
    """What somebody handed to a group, in a message sent at `date`, before they address the bot."""

    update: int
    date: int
    text: str
    attachments: tuple[Attachment, ...]


@dataclass(slots=True)
class Comments:
    """Remembers who has just addressed the bot where, and what they handed to a group just before.

    Nothing is stored on disk: a message that is not for the bot is forgotten after `FOLLOWS_S`.

    `now` is the time at which the current batch of updates arrived, on trio's clock.
    """

    now: float = 0.0
    _open: OrderedDict[Place, tuple[int, float, bool]] = field(default_factory=OrderedDict)
    _before: OrderedDict[Place, list[tuple[Handed, float]]] = field(default_factory=OrderedDict)
    _taken: OrderedDict[int, tuple[Handed, ...]] = field(default_factory=OrderedDict)
    _following: OrderedDict[int, None] = field(default_factory=OrderedDict)

    def note(self, place: Place, date: int, *, comments: bool, cut: bool = False) -> None:
        """Note a message to the bot, sent at `date`. Something may follow only if the message `comments`.

        `cut` is True if a client may have cut its text; then the rest follows, whatever it contains.
        """
        self._open.pop(place, None)
        if comments:
            self._open[place] = (date, self.now, cut)
            if len(self._open) > MOST:
                self._open.popitem(last=False)

    def belongs(self, place: Place, date: int, update: int, *, handed: bool, cut: bool = False) -> bool:
        """Return True if a message that mentions nobody belongs to a comment of its sender.

        Such a message is `handed` on: forwarded, or a file; or the comment was cut. Any other message ends
        the wait for it. An update that arrives again, because it could not be stored, belongs to the same
        comment.
        """
        if update in self._following:
            return True
        commented = self._open.pop(place, None)
        if commented is None or not (handed or commented[2]):
            return False
        at, arrived, _ = commented
        if abs(date - at) > FOLLOWS_S or self.now - arrived > FOLLOWS_S:
            return False
        self._open[place] = (date, self.now, cut)
        self._following[update] = None
        if len(self._following) > MOST:
            self._following.popitem(last=False)
        return True

    def keep(self, place: Place, handed: Handed | None) -> None:
        """Remember what somebody handed to a group, for the case that they ask the bot about it next.

        Without `handed`, their message was something else, and what came before it is forgotten.
        """
        kept = self._before.pop(place, [])
        if handed is None:
            return
        kept = [one for one in kept if one[0].update != handed.update and self._recent(one, handed.date)]
        self._before[place] = [*kept, (handed, self.now)][-MOST_BEFORE:]
        if len(self._before) > MOST:
            self._before.popitem(last=False)

    def before(self, place: Place, date: int, update: int) -> tuple[Handed, ...]:
        """Return what the sender of this message to the bot, sent at `date`, has handed over just before.

        Nothing is returned for two messages. For an update that arrives again, the same is returned again.
        """
        if update not in self._taken:
            kept = [one for one in self._before.pop(place, []) if self._recent(one, date)]
            if not kept:
                return ()
            self._taken[update] = tuple(handed for handed, _ in kept)
            if len(self._taken) > MOST_TAKEN:
                self._taken.popitem(last=False)
        return self._taken[update]

    def _recent(self, kept: tuple[Handed, float], date: int) -> bool:
        handed, arrived = kept
        return abs(date - handed.date) <= FOLLOWS_S and self.now - arrived <= FOLLOWS_S
