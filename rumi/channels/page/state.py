"""What the page shows, whom it lets in, and who looks now: the state that its routes read."""

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import trio
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp

from actors import ActorRef
from rumi.channels.channel import RoutedPort
from rumi.channels.page.board import Board
from rumi.channels.page.browser_view import BrowserView
from rumi.channels.page.login import Entrance
from rumi.channels.page.talks import Talk
from rumi.channels.uploads import LocalUploads
from rumi.chats.hub import Hub, HubSubscription
from rumi.chats.inbox import Inbox
from rumi.chats.local import LocalChat
from rumi.platform.chat_ids import DEFAULT_CHAT
from rumi.platform.threads import Threads
from rumi.store.journal.reading import ListChats, SearchHistory
from rumi.store.journal.records import StoredChat, StoredEntry
from rumi.store.journal.transaction import JournalMessage

NAME: Final = "page"
"""The name of the channel."""

MOST_TALKS: Final = 16
"""Chats whose talk is in memory; more only while they are looked at or at work."""

MOST_SLICES: Final = 50
"""Slices of the history that one search looks at, each with `rumi.store.journal`'s bound."""

MOST_FOUND: Final = 30
"""Entries that a search shows."""

MOST_BROWSERS: Final = 32


class Endpoint(Protocol):
    """An application for programs below the page, such as the one of MCP."""

    @property
    def path(self) -> str:
        """Its path."""
        ...

    def admits(self, authorizations: Iterable[str]) -> bool:
        """Return True if a request with these values of the header `Authorization` may come in."""
        ...

    def running(self) -> AbstractAsyncContextManager[ASGIApp]:
        """Yield the application while the server runs."""
        ...


class PageState:
    """What the page shows, whom it lets in, and who looks now. It outlives the server's incarnations."""

    board: Board
    events: HubSubscription
    uploads: LocalUploads
    workspaces: Path
    inbox: Inbox
    journal: ActorRef[JournalMessage]

    def __init__(self, entrance: Entrance, endpoint: Endpoint | None = None) -> None:
        self.entrance = entrance
        self.endpoint = endpoint
        self.talks: dict[str, Talk] = {}  # the one that was asked for last is the last
        self.windows: set[BrowserView] = set()
        self.ending = False
        self.watched = trio.Event()
        self.stirred = trio.Event()
        self.follow: Callable[[Talk], None] = lambda talk: None
        """Makes the present server follow a talk."""
        self._hub: Hub
        self._reached: Callable[[str], RoutedPort] | None = None
        self.offload = Threads()

    # Chats: those of the owner of this machine's clients, and no others

    def talk(self, chat: str) -> Talk:
        """Return the talk of a chat that the page may show.

        Raises:
            UsageError: It is no chat id, or the chat is another owner's.
        """
        self.inbox.ids.check_chosen(chat)  # which leaves the chats of `LOCAL`
        talk = self.talks.pop(chat, None)
        if talk is None:
            local = LocalChat(chat, self.inbox, self._hub, self.journal, channel=NAME)
            talk = Talk(local, None if self._reached is None else self._reached(chat))
            self.follow(talk)
        self.talks[chat] = talk
        for other in list(self.talks.values())[:-MOST_TALKS]:
            if not other.in_use:
                del self.talks[other.chat.chat]
                other.forget()
        return talk

    def chat_of(self, request: HTTPConnection, talk: Talk) -> LocalChat:
        """Return the chat for a browser's request, which is answered in the browser's language."""
        return replace(talk.chat, language=self.entrance.language_of(request))

    async def chats(self) -> list[StoredChat]:
        """Return the chats with messages, the latest first, and the terminal's in any case."""
        found = list(await self.journal.ask(ListChats(self._others)))
        if all(chat.chat != DEFAULT_CHAT for chat in found):
            found.append(StoredChat(DEFAULT_CHAT, "", "", 0.0))
        return found

    async def search(self, words: str) -> list[StoredEntry]:
        """Return what was said in these chats with all of the words, the latest first."""
        found: list[StoredEntry] = []
        request = SearchHistory(words, without=self._others)
        for _ in range(MOST_SLICES):
            part = await self.journal.ask(request)
            found += part.entries
            if len(found) >= MOST_FOUND or not part.next:
                break
            request = replace(request, before=part.next)
        return found[:MOST_FOUND]

    @property
    def _others(self) -> tuple[str, ...]:
        """The beginnings of the ids of chats that have other owners."""
        return tuple(prefix.text for prefix in self.inbox.ids.prefixes)

    async def new_window(self, session: str, talk: Talk) -> BrowserView | None:
        """Return a window on a talk for a browser that is logged in; None where there are too many.

        Raises:
            ActorError: the chat or the journal cannot be asked.
        """
        await talk.begin()
        if len(self.windows) >= MOST_BROWSERS:
            return None
        self.board.look()
        goes_on = partial(self.entrance.door.knows, session)
        return BrowserView(self.board, talk.transcript, goes_on, self.offload)

    def enter(self, window: BrowserView) -> None:
        """Add a window in which somebody looks."""
        self.windows.add(window)
        window.transcript.watchers.add(window)
        self.watched.set()

    def leave(self, window: BrowserView) -> None:
        """Remove a window in which nobody looks any more."""
        self.windows.discard(window)
        window.transcript.watchers.discard(window)

    def wake(self) -> None:
        """Make all windows check for news."""
        for window in self.windows:
            window.wake()
