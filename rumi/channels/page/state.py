"""State that the page's routes read: content, login, and connected browser views."""

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

import trio
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp

from actors import ActorRef
from rumi.channels.channel import RoutedPort
from rumi.channels.page.board import Board
from rumi.channels.page.calls import VisitorCalls
from rumi.channels.page.login import Entrance
from rumi.channels.page.socket import SocketView
from rumi.channels.page.talks import Talk
from rumi.channels.uploads import LocalUploads
from rumi.chats.hub import Hub, HubSubscription
from rumi.chats.inbox import Inbox
from rumi.chats.local import LocalChat
from rumi.platform.threads import Threads
from rumi.sandbox.chat_files import ChatFiles
from rumi.store.journal.transaction import JournalMessage

NAME: Final = "page"
"""Name of the channel."""

MOST_TALKS: Final = 16
"""Maximum number of talks in memory. Talks that are viewed or have a running turn may exceed it."""

MOST_SLICES: Final = 50
"""Maximum number of history slices that one search reads; `rumi.store.journal` limits the size of a slice."""

MOST_FOUND: Final = 30
"""Maximum number of entries that a search returns."""

MOST_BROWSERS: Final = 32


class Endpoint(Protocol):
    """An ASGI application that the page's server serves to programs, such as the MCP endpoint."""

    @property
    def path(self) -> str:
        """URL path of the endpoint on the page's server."""
        ...

    def admits(self, authorizations: Iterable[str]) -> bool:
        """Return True if a request with these values of the `Authorization` header is allowed."""
        ...

    def running(self) -> AbstractAsyncContextManager[ASGIApp]:
        """Yield the application while the server runs."""
        ...


class PageState:
    """Content, login and connected browser views of the page. Outlives restarts of the server."""

    board: Board
    uploads: LocalUploads
    files: ChatFiles
    inbox: Inbox
    journal: ActorRef[JournalMessage]

    def __init__(self, entrance: Entrance, endpoint: Endpoint | None = None) -> None:
        self.entrance = entrance
        self.endpoint = endpoint
        self.visitor = VisitorCalls({}, {})
        self.talks: dict[str, Talk] = {}  # ordered by last use
        self.windows: set[SocketView] = set()
        self.ending = False
        self.watched = trio.Event()
        self.stirred = trio.Event()
        self.follow: Callable[[Talk], None] = lambda talk: None
        """Makes the current incarnation of the server follow a talk."""
        self._hub: Hub
        self._reached: Callable[[str], RoutedPort] | None = None
        self.offload = Threads()

    # Chats: only those of the local owner

    def talk(self, chat: str) -> Talk:
        """Return the `Talk` (a followed chat) of a chat id, creating it if needed.

        Raises:
            UsageError: The chat id is not valid, or the chat has another owner.
        """
        self.inbox.chats.ids.check_chosen(chat)  # passes only chats of the owner `LOCAL`
        # Popped and inserted again, which keeps the order of last use.
        talk = self.talks.pop(chat, None)
        if talk is None:
            local = LocalChat(chat, self.inbox, self._hub, self.journal, channel=NAME)
            talk = Talk(local, self.offload, None if self._reached is None else self._reached(chat))
            self.follow(talk)
        self.talks[chat] = talk
        for other in list(self.talks.values())[:-MOST_TALKS]:
            if not other.in_use:
                del self.talks[other.chat.chat]
                other.forget()
        return talk

    def chat_of(self, request: HTTPConnection, talk: Talk) -> LocalChat:
        """Return the chat of a `Talk`, in the language of the browser that made the request."""
        return replace(talk.chat, language=self.entrance.language_of(request))

    async def new_window(self, session: str, talk: Talk) -> SocketView | None:
        """Return a new view of a chat for a browser with a session; None if there are too many views.

        Raises:
            ActorError: The chat or the journal is unreachable.
        """
        await talk.begin()
        # Checked after the await, because other views may have been added during it.
        if len(self.windows) >= MOST_BROWSERS:
            return None
        self.board.look()
        may_continue = partial(self.entrance.door.knows, session)
        return SocketView(self.board, talk.transcript, may_continue, self.offload)

    def enter(self, window: SocketView) -> None:
        """Add a connected view."""
        self.windows.add(window)
        window.transcript.watchers.add(window)
        self.watched.set()

    def leave(self, window: SocketView) -> None:
        """Remove a view whose browser has disconnected."""
        self.windows.discard(window)
        window.transcript.watchers.discard(window)

    def listening(self) -> AbstractContextManager[HubSubscription]:
        """Return a context manager that subscribes to the events of all chats."""
        return self._hub.listening()

    def wake(self) -> None:
        """Make all views check for changes."""
        for window in self.windows:
            window.wake()
