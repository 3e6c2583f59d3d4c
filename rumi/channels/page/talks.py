"""A `Talk` is a chat that a browser has opened and whose events the page follows."""

from contextlib import suppress

import trio

from actors import ActorError
from rumi.channels.channel import RoutedPort
from rumi.channels.page.transcript import MOST_ENTRIES, Transcript
from rumi.chats.events import Moved
from rumi.chats.local import LocalChat
from rumi.chats.port import ChatSubscription
from rumi.store.journal.reading import read_history


class Talk:
    """A chat on the page. The page follows its events once a browser has opened it."""

    def __init__(self, chat: LocalChat, reached: RoutedPort | None = None) -> None:
        """Create the talk.

        If there are several workers, `reached` is the connection to the worker that serves the chat.
        """
        self.chat = chat
        self.transcript = Transcript()
        self._reached = reached
        self._events: ChatSubscription = chat.subscribe() if reached is None else reached.subscribe()
        self._following = trio.CancelScope()
        self._begun = False

    @property
    def in_use(self) -> bool:
        """Return True while a browser views the chat, or a turn runs in it."""
        return bool(self.transcript.watchers) or self.transcript.working

    async def begin(self) -> None:
        """Load the history and the replies that were not acknowledged yet.

        Raises:
            ActorError: The chat or the journal is unreachable.
        """
        if self._begun:
            return
        replies = await self.chat.undelivered()
        rows = await self.chat.journal.ask(read_history(self.chat.chat, limit=MOST_ENTRIES, told=True))
        if not self._begun:  # another view may have loaded it meanwhile
            self._begun = True
            self.transcript.begin(rows)
            for reply in replies:
                self.transcript.undelivered(reply)

    async def follow(self) -> None:
        """Follow the chat until `forget` is called.

        The subscription outlives a crash of the page's server, so no event is lost.
        """
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
        """Continue at another worker: end the interrupted turn, and add replies from the journal."""
        if not moved.back:
            return
        with suppress(ActorError):
            replies = await self.chat.undelivered()
            self.transcript.interrupted()
            for reply in replies:
                self.transcript.undelivered(reply)

    def shown(self, question: str) -> None:
        """Report that a person can read the chat's pending question."""
        (self._reached or self.chat).shown(question)

    async def answer(self, question: str, yes: bool) -> bool:
        """Answer the pending question of the chat's turn; return False if no question is pending.

        Raises:
            RumiError: The worker that serves the chat is unreachable.
        """
        if self._reached is not None:
            return await self._reached.answer(question, yes)
        return await self.chat.inbox.chats.answer(self.chat.chat, question, yes)

    def forget(self) -> None:
        """Stop following the chat."""
        self._events.close()
        self._following.cancel()
