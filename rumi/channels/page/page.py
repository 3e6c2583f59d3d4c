"""The page as a channel, and the actor that serves it."""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Final, Never

import trio

from actors import Actor, ActorRef, Backoff, ChildSpec, Supervisor, TreeEvent
from rumi.channels.channel import Channel, Process, RoutedPort
from rumi.channels.page.board import Board
from rumi.channels.page.guard import Programs
from rumi.channels.page.state import NAME, PageState
from rumi.channels.uploads import LocalUploads
from rumi.chats.hub import Hub
from rumi.chats.inbox import Inbox
from rumi.platform.chat_ids import LOCAL
from rumi.store.journal.transaction import JournalMessage

LOOK_S: Final = 0.5
"""How often the page reads the tree while somebody watches; less often where reading takes long."""

SHARE: Final = 20
"""Looking takes at most 1 / SHARE of the time."""

STIR_S: Final = 0.1
"""The pause between two looks at restarts."""

MOST_RESTARTS: Final = 100
"""In five seconds; with the waits between them there are three at most."""


class PageChannel(PageState, Channel):
    """The page as a channel. Its state outlives the server: browsers see the same after a crash of it.

    Its chats are those that every client may choose, the terminal's among them, so it has no prefix.
    """

    name = NAME

    def open(self, process: Process) -> AbstractAsyncContextManager[None]:
        """Remember where files are and belong to; there are no connections."""
        self.workspaces = process.home.workspaces
        session = process.loaded.settings.session
        self.uploads = LocalUploads(process.home, process.user, process.limits, session.file_mb)
        return super().open(process)

    def among_workers(self, reached: Callable[[str], RoutedPort]) -> None:
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


class PageServer(Actor[Never]):
    """Serves the page, follows what happens, and reads the tree while somebody watches."""

    def __init__(self, page: PageChannel) -> None:
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
        open_views = len(self._page.windows)
        return f"{open_views} window{'s' if open_views != 1 else ''}" if open_views else ""

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
            for view in list(self._page.windows):
                self._page.leave(view)

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
