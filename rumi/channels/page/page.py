"""The page channel, and the actor that serves the page."""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Final, Never

import trio
from typing_extensions import override

from actors import Actor, ActorRef, Backoff, ChildSpec, Supervisor, TreeEvent
from rumi.channels.channel import Channel, Process, RoutedPort
from rumi.channels.counters import Counts
from rumi.channels.page.board import Board
from rumi.channels.page.calls import PageModels, PageTexts, VisitorCalls
from rumi.channels.page.guard import Programs
from rumi.channels.page.logins import PageLogins
from rumi.channels.page.state import NAME, PageState
from rumi.channels.page_calls import PageCalls
from rumi.channels.uploads import LocalUploads
from rumi.chats.hub import Hub
from rumi.chats.inbox import Inbox
from rumi.platform.caller import ControlCall
from rumi.platform.calls import Declaration
from rumi.platform.chat_ids import LOCAL
from rumi.store.journal.transaction import JournalMessage

LOOK_S: Final = 0.5
"""Interval at which the supervision tree is read while a browser is connected, in seconds; longer if reading
is slow.
"""

SHARE: Final = 20
"""Reading the supervision tree takes at most 1 / SHARE of the time."""

STIR_S: Final = 0.1
"""Minimum pause between two updates after restarts, in seconds."""

MOST_RESTARTS: Final = 100
"""Maximum restarts in five seconds. The backoff allows at most three, so this limit is never reached."""


class PageChannel(PageState, Channel):
    """The page as a channel. Its state outlives the server, so browsers see the same after a server crash.

    The page has no chat id prefix, because it uses the chats that every local client may use, such as the
    terminal's.
    """

    name = NAME

    @override
    def open(self, process: Process) -> AbstractAsyncContextManager[None]:
        """Read settings and paths from the process; the page has no connections of its own."""
        self.files = process.files
        session = process.loaded.settings.session
        self.uploads = LocalUploads(
            process.home, process.files, process.user, process.limits, session.file_mb
        )
        return super().open(process)

    @override
    def calls(self) -> tuple[object, ...]:
        """Return the control calls about logins."""
        return (PageCalls(PageLogins(self.entrance, self.wake)),)

    @override
    def among_workers(self, reached: Callable[[str], RoutedPort]) -> None:
        """From now on, follow each chat's events at the worker process that serves the chat."""
        self._reached = reached

    @override
    def add_calls(self, calls: Mapping[str, ControlCall], declared: Mapping[str, Declaration]) -> None:
        """Let the visitor make these calls."""
        self.visitor = VisitorCalls(calls, declared, (PageModels(self), PageTexts(self.offload)))

    @override
    def add_view(
        self,
        root: Supervisor,
        inbox: Inbox,
        journal: ActorRef[JournalMessage],
        hub: Hub,
        status: Callable[[], Mapping[str, object]],
        counts: Counts,
    ) -> None:
        """Add the server under a separate supervisor.

        After a crash, the server restarts with a growing delay. Its crashes do not count towards the limits
        of other actors, so the page can never end the process.
        """
        self.inbox, self.journal, self._hub = inbox, journal, hub
        self.board = Board(status, counts, lambda chat: inbox.chats.ids.owner_of(chat) == LOCAL, hub)
        own = root.add_supervisor(Supervisor("page", max_restarts=MOST_RESTARTS))
        backoff = Backoff(first_s=0.2, factor=5, cap_s=60)
        own.add(ChildSpec("server", lambda: PageServer(self), shutdown=2.0, backoff=backoff))

    @override
    def tree_happened(self, event: TreeEvent) -> None:
        """Show a restart at once. The root supervisor calls this method as `observe`."""
        if event.kind in ("restarted", "limit_reached"):
            self.stirred.set()

    @override
    async def introduce(self, say: Callable[[str], None]) -> None:
        """Print the login link."""
        self.entrance.introduce()

    @override
    async def stop_receiving(self) -> None:
        """Stop accepting messages. Browsers stay connected and show the shutdown."""
        self.ending = True


class PageServer(Actor[Never]):
    """Serves the page, and reads the supervision tree while a browser is connected."""

    def __init__(self, page: PageChannel) -> None:
        self._page = page

    async def started(self) -> None:
        """Start to serve on a duplicate of the listening socket, which was opened earlier."""
        self.start_soon(self._look)
        self.start_soon(self._mark)
        # Talks outlive the server, but their tasks ended with the previous incarnation.
        for talk in self._page.talks.values():
            self.start_soon(talk.follow)
        # The page outlives this incarnation: new talks must start their task here and not in an ended one.
        self._page.follow = lambda talk: self.start_soon(talk.follow)
        await self.start(self._serve)

    @override
    def activity(self) -> str:
        """Return the number of connected browser views."""
        open_views = len(self._page.windows)
        return f"{open_views} window{'s' if open_views != 1 else ''}" if open_views else ""

    @override
    def metrics(self) -> Mapping[str, object]:
        """Return the number of connected browser views, and the page's URL."""
        return {"windows": len(self._page.windows), "url": self._page.entrance.address.url}

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

    async def _mark(self) -> None:
        """Show at once which chats are working, asking or have a new answer."""
        with self._page.listening() as events:
            while True:
                if self._page.board.happened(await events.receive()):
                    self._page.wake()

    async def _look(self) -> None:
        """Read the supervision tree at intervals while a browser is connected; show restarts immediately."""
        page = self._page
        while True:
            if not page.windows:
                page.watched = trio.Event()
                await page.watched.wait()
            begun = time.perf_counter()
            if page.board.look():
                page.wake()
            # Reading a large tree takes long and blocks the event loop.
            until = trio.current_time() + max(LOOK_S, SHARE * (time.perf_counter() - begun))
            while trio.current_time() < until:
                with trio.move_on_at(until):
                    await page.stirred.wait()
                    page.stirred = trio.Event()
                    page.board.look_back()
                    page.wake()
                    await trio.sleep(STIR_S)
