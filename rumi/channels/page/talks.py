"""The talks of the page: each chat that a browser has opened, with what is followed of it."""

import trio

from rumi.channels.page.transcript import MOST_ENTRIES, Transcript
from rumi.chats import HubSubscription, LocalChat
from rumi.journal import ReadHistory


class Talk:
    """A chat as its windows see it. Its events are followed from when a browser opened it first."""

    def __init__(self, chat: LocalChat) -> None:
        self.chat = chat
        self.transcript = Transcript()
        self._events: HubSubscription = chat.subscribe()
        self._following = trio.CancelScope()
        self._begun = False

    @property
    def in_use(self) -> bool:
        """Return True while somebody looks at it, or a turn runs in it."""
        return bool(self.transcript.watchers) or self.transcript.working

    async def begin(self) -> None:
        """Add what was said before, and the replies that nobody has.

        Raises:
            ActorError: the chat or the journal cannot be asked.
        """
        if self._begun:
            return
        replies = await self.chat.undelivered()
        rows = await self.chat.journal.ask(ReadHistory(self.chat.chat, limit=MOST_ENTRIES))
        if not self._begun:  # another window may have been as fast
            self._begun = True
            self.transcript.begin(rows)
            for reply in replies:
                self.transcript.undelivered(reply)

    async def follow(self) -> None:
        """Follow the chat until it is forgotten. The subscription outlives servers: nothing is missed."""
        with trio.CancelScope() as self._following:
            while True:
                self.transcript.happened(await self._events.receive())

    def forget(self) -> None:
        """Follow it no longer."""
        self._events.close()
        self._following.cancel()
