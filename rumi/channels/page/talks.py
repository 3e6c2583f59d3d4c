"""The talks of the page: each chat that a browser has opened, with what is followed of it."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING, Final, TypeAlias

import trio

from actors import ActorError
from rumi.channels.page.transcript import MOST_ENTRIES, Transcript
from rumi.chats import ChatPort, LocalChat, Moved, Subscription
from rumi.errors import RumiError
from rumi.journal import ReadHistory

if TYPE_CHECKING:
    from rumi.windows import LastingChat, RemoteChat

AGAIN_S: Final = 0.5
"""The pause until a chat is opened once more whose worker has gone."""

Elsewhere: TypeAlias = "Callable[[str], AbstractAsyncContextManager[RemoteChat]]"
"""Opens a window on a chat at the worker that serves it."""


class Talk:
    """A chat as its windows see it. Its events are followed from when a browser opened it first."""

    def __init__(self, chat: LocalChat, elsewhere: Elsewhere | None = None) -> None:
        """`elsewhere` reaches the chat at whichever worker serves it, where several share a database."""
        self.chat = chat
        self.transcript = Transcript()
        self._elsewhere = elsewhere
        self._port = LastingChat(chat.chat, "en") if elsewhere is not None else None
        self._events: Subscription = (self._port or chat).subscribe()
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
                if self._port is not None and self._elsewhere is not None:
                    nursery.start_soon(_keep_open, self._port, self._elsewhere, self.chat.chat)
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
        (self._port or self.chat).shown(question)

    def forget(self) -> None:
        """Follow it no longer."""
        self._events.close()
        self._following.cancel()
