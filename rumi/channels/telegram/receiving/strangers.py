"""Replies to users without permission: each gets their own Telegram id, which the owner can then allow.

The content of these users' messages is not stored.
"""

import logging
from collections import OrderedDict
from typing import Final

import trio

from actors import ActorRef, ActorStopped, MailboxFull
from rumi.channels.telegram.messages import Say, Toast
from rumi.channels.telegram.receiving.reading import Stranger
from rumi.platform.texts import telegram as telegram_texts
from rumi.texts import Language

logger = logging.getLogger(__name__)

AGAIN_S: Final = 3600.0
"""Interval after which a stranger who continues to write gets their id again, in seconds."""

ANONYMOUS_AGAIN_S: Final = 60.0
"""Interval after which people who write in the name of a group or a channel are told again, in seconds. They
may be people on the list.
"""

MOST: Final = 10_000
"""Maximum number of remembered strangers, to bound memory. A forgotten stranger may get their id twice."""


class Strangers:
    """Remembers when each stranger was sent their Telegram id, on trio's clock. Nothing is stored on disk."""

    def __init__(self, sender: ActorRef[Say | Toast], *, most: int = MOST) -> None:
        self._sender = sender
        self._most = most
        self._notified_at: OrderedDict[int, float] = OrderedDict()

    def meet(self, stranger: Stranger) -> None:
        """Send a stranger their Telegram id, unless it was sent within the last hour. Does not block.

        People who write anonymously are told that the bot can't see who they are, at most once per minute.

        If the sender's mailbox is full, the text is dropped, because strangers must not delay anyone.
        """
        if stranger.anonymous:
            words, again_s = telegram_texts.anonymous(stranger.language), ANONYMOUS_AGAIN_S
        else:
            words, again_s = telegram_texts.stranger(stranger.language, stranger.user), AGAIN_S
        self._notify(stranger.user, Say(stranger.chat, words, stranger.origin), again_s)

    def pressed(self, user: int, query: str, language: Language) -> None:
        """Show strangers who pressed a button their Telegram id, at most once per hour.

        Only the stranger sees the notice.
        """
        self._notify(user, Toast(query, telegram_texts.stranger(language, user)))

    def _notify(self, user: int, words: Say | Toast, again_s: float = AGAIN_S) -> None:
        now = trio.current_time()
        last = self._notified_at.get(user)
        if last is not None and now - last < again_s:
            return
        try:
            self._sender.tell_nowait(words)
        except (MailboxFull, ActorStopped):
            logger.info("a stranger was not told: the sender has no room")
            return
        self._notified_at[user] = now
        self._notified_at.move_to_end(user)
        if len(self._notified_at) > self._most:
            self._notified_at.popitem(last=False)
