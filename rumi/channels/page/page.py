"""The page's state and its actor. What browsers see outlives the server: it is there again when that is."""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, Never, Protocol

import trio
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp

from actors import Actor, ActorRef, Backoff, ChildSpec, Supervisor, TreeEvent
from rumi.channels.channel import Channel, Process, Reached
from rumi.channels.handed import Handed
from rumi.channels.page.board import Board
from rumi.channels.page.entrance import Entrance
from rumi.channels.page.guard import Programs
from rumi.channels.page.talks import Talk
from rumi.channels.page.windows import Window
from rumi.chats.hub import Hub, HubSubscription
from rumi.chats.inbox import Inbox
from rumi.chats.local import LocalChat
from rumi.platform.chat_ids import DEFAULT_CHAT, LOCAL
from rumi.platform.threads import Threads
from rumi.store.journal.reading import ListChats, SearchHistory
from rumi.store.journal.records import StoredChat, StoredEntry
from rumi.store.journal.transaction import JournalMessage

MOST_TALKS: Final = 16
"""Chats whose talk is in memory; more only while they are looked at or at work."""

MOST_SLICES: Final = 50
"""Slices of the history that one search looks at, each with `rumi.store.journal`'s bound."""

LOOK_S: Final = 0.5
"""How often the page reads the tree while somebody watches; less often where reading takes long."""

SHARE: Final = 20
"""Looking takes at most 1 / SHARE of the time."""

STIR_S: Final = 0.1
"""The pause between two looks at restarts."""

MOST_FOUND: Final = 30
"""Entries that a search shows."""

MOST_WINDOWS: Final = 32

MOST_RESTARTS: Final = 100
"""In five seconds; with the waits between them there are three at most."""


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


class Page(Channel):
    """What the page shows, whom it lets in, and who looks now. Outlives the server's incarnations.

    Its chats are those that every client may choose, the terminal's among them, so it has no prefix.
    """

    name = "page"
    board: Board
    events: HubSubscription
    handed: Handed
    workspaces: Path
    inbox: Inbox
    journal: ActorRef[JournalMessage]

    def __init__(self, entrance: Entrance, endpoint: Endpoint | None = None) -> None:
        self.entrance = entrance
        self.endpoint = endpoint
        self.talks: dict[str, Talk] = {}  # the one that was asked for last is the last
        self.windows: set[Window] = set()
        self.ending = False
        self.watched = trio.Event()
        self.stirred = trio.Event()
        self.follow: Callable[[Talk], None] = lambda talk: None
        """Makes the present server follow a talk."""
        self._hub: Hub
        self._reached: Callable[[str], Reached] | None = None
        self.offload = Threads()

    def open(self, process: Process) -> AbstractAsyncContextManager[None]:
        """Remember where files are and belong to; there are no connections."""
        self.workspaces = process.home.workspaces
        session = process.loaded.settings.session
        self.handed = Handed(process.home, process.user, process.limits, session.file_mb)
        return super().open(process)

    def among_workers(self, reached: Callable[[str], Reached]) -> None:
        """Follow each chat at the worker that serves it."""
        self._reached = reached

    def add_view(
        self,
        root: Supervisor,
        inbox: Inbox,
        journal: ActorRef[JournalMessage],
        hub: Hub,
        status: Callable[[], Mapping[str, object]],
    ) -> None:
        """Add the server, under a supervisor of its own.

        It comes back from crashes after a growing wait, and they are not counted together with others:
        whatever the page does, the process goes on.
        """
        self.inbox, self.journal, self._hub = inbox, journal, hub
        self.board = Board(status, lambda chat: inbox.ids.owner_of(chat) == LOCAL)
        self.events = hub.subscribe()
        own = root.add_supervisor(Supervisor("page", max_restarts=MOST_RESTARTS))
        backoff = Backoff(first_s=0.2, factor=5, cap_s=60)
        own.add(ChildSpec("server", lambda: PageServer(self), shutdown=2.0, backoff=backoff))

    # Chats: those of the owner of this machine's clients, and no others

    def talk(self, chat: str) -> Talk:
        """Return the talk of a chat that the page may show.

        Raises:
            UsageError: It is no chat id, or the chat is another owner's.
        """
        self.inbox.ids.check_chosen(chat)  # which leaves the chats of `LOCAL`
        talk = self.talks.pop(chat, None)
        if talk is None:
            local = LocalChat(chat, self.inbox, self._hub, self.journal, channel=self.name)
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
        if all(each.chat != DEFAULT_CHAT for each in found):
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

    def tree_happened(self, event: TreeEvent) -> None:
        """Follow the tree; the `observe` of its root."""
        if self.board.tree_happened(event):
            self.stirred.set()

    async def introduce(self, say: Callable[[str], None]) -> None:
        """Say how to come in."""
        self.entrance.introduce()

    async def stop_receiving(self) -> None:
        """Take no more messages. Windows go on showing how the program ends."""
        self.ending = True

    async def new_window(self, session: str, talk: Talk) -> Window | None:
        """Return a window on a talk for a browser that is logged in; None where there are too many.

        Raises:
            ActorError: the chat or the journal cannot be asked.
        """
        await talk.begin()
        if len(self.windows) >= MOST_WINDOWS:
            return None
        self.board.look()
        goes_on = partial(self.entrance.door.knows, session)
        return Window(self.board, talk.transcript, goes_on, self.offload)

    def enter(self, window: Window) -> None:
        """Add a window in which somebody looks."""
        self.windows.add(window)
        window.transcript.watchers.add(window)
        self.watched.set()

    def leave(self, window: Window) -> None:
        """Remove a window in which nobody looks any more."""
        self.windows.discard(window)
        window.transcript.watchers.discard(window)

    def wake(self) -> None:
        """Make all windows check for news."""
        for window in self.windows:
            window.wake()


class PageServer(Actor[Never]):
    """Serves the page, follows what happens, and reads the tree while somebody watches."""

    def __init__(self, page: Page) -> None:
        self._page = page

    async def started(self) -> None:
        """Begin to serve. The socket is open already; this incarnation gets a duplicate of it."""
        self.start_soon(self._follow)
        self.start_soon(self._look)
        for talk in self._page.talks.values():
            self.start_soon(talk.follow)
        self._page.follow = lambda talk: self.start_soon(talk.follow)
        await self.start(self._serve)

    def activity(self) -> str:
        """Return how many windows are open."""
        windows = len(self._page.windows)
        return f"{windows} window{'s' if windows != 1 else ''}" if windows else ""

    def metrics(self) -> Mapping[str, object]:
        """Return how many windows are open, and the address of the page."""
        return {"windows": len(self._page.windows), "url": self._page.entrance.bound.url}

    async def _serve(self, task_status: trio.TaskStatus[None]) -> None:
        from rumi.channels.http.server import serve
        from rumi.channels.page.routes import make_app

        page, endpoint = self._page, self._page.endpoint
        try:
            async with AsyncExitStack() as stack:
                programs = None
                if endpoint is not None:
                    app = await stack.enter_async_context(endpoint.running())
                    programs = Programs(endpoint.path, endpoint.admits, app)
                await serve(make_app(page, programs), page.entrance.bound, task_status=task_status)
        finally:
            for window in list(self._page.windows):
                self._page.leave(window)

    async def _follow(self) -> None:
        """Follow all chats. The subscription is older than this incarnation: nothing is missed in between."""
        page = self._page
        while True:
            event = await page.events.receive()
            page.board.chat_happened(event)

    async def _look(self) -> None:
        """Read the tree while somebody watches: restarts as they come, all else now and then."""
        page = self._page
        while True:
            if not page.windows:
                page.watched = trio.Event()
                await page.watched.wait()
            begun = time.perf_counter()
            if page.board.look():
                page.wake()
            until = trio.current_time() + max(LOOK_S, SHARE * (time.perf_counter() - begun))
            while trio.current_time() < until:
                with trio.move_on_at(until):
                    await page.stirred.wait()
                    page.stirred = trio.Event()
                    page.board.look_back()
                    page.wake()
                    await trio.sleep(STIR_S)
