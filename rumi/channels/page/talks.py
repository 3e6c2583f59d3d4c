"""The talks of the page: each chat that a browser has opened, with what is followed of it."""

from contextlib import suppress

import trio

from actors import ActorError
from rumi.channels.channel import RoutedPort
from rumi.channels.page.transcript import MOST_ENTRIES, Transcript
from rumi.chats.events import Moved
from rumi.chats.local import LocalChat
from rumi.chats.port import ChatSubscription
from rumi.store.journal.reading import ReadHistory


class Talk:
    """A chat as its windows see it. Its events are followed from when a browser opened it first."""

    def __init__(self, chat: LocalChat, reached: RoutedPort | None = None) -> None:
        """The chat is `reached` at the worker that serves it, where several share a database."""
        self.chat = chat
        self.transcript = Transcript()
        self._reached = reached
        self._events: ChatSubscription = chat.subscribe() if reached is None else reached.subscribe()
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
            async with trio.open_nursery() as nursery:
                if self._reached is not None:
                    nursery.start_soon(self._reached.keep_attached)
                while True:
                    event = await self._events.receive()
                    if isinstance(event.what, Moved):
                        await self._moved(event.what)
                    else:
                        self.transcript.happened(event)

    async def _moved(self, moved: Moved) -> None:
        """Go on with the chat at another worker: what ran has ended, and its replies are in the journal."""
        if not moved.back:
            return
        with suppress(ActorError):
            replies = await self.chat.undelivered()
            self.transcript.interrupted()
            for reply in replies:
                self.transcript.undelivered(reply)

    def shown(self, question: str) -> None:
        """Note that a person can read the question."""
        (self._reached or self.chat).shown(question)

    async def answer(self, question: str, yes: bool) -> bool:
        """Answer the question of the chat's turn; return False where it waits for none.

        Raises:
            RumiError: The worker that serves the chat is not reached.
        """
        if self._reached is not None:
            return await self._reached.answer(question, yes)
        return await self.chat.inbox.answer(self.chat.chat, question, yes)

    def forget(self) -> None:
        """Follow it no longer."""
        self._events.close()
        self._following.cancel()
