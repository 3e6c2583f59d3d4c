"""The listener for other machines. It accepts deliveries, and serves health and metrics. It has no chats."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Never

import trio
from typing_extensions import override

from actors import Actor, ActorRef, Backoff, ChildSpec, Supervisor
from rumi.channels.channel import Channel
from rumi.channels.counters import Counts
from rumi.channels.http.address import BoundSocket, listen
from rumi.channels.http.listener_state import ListenerState
from rumi.channels.takers import Taker
from rumi.chats.hub import Hub
from rumi.chats.inbox import Inbox
from rumi.store.journal.transaction import JournalMessage
from rumi.texts import Language, gettext

MOST_RESTARTS: Final = 100
"""Maximum restarts in five seconds. The backoff allows at most three, so this limit is never reached."""


class Listener(ListenerState, Channel):
    """The listener as a channel. Its socket `bound` stays open when the server restarts."""

    name = "listener"

    def __init__(self, bound: BoundSocket, language: Language, takers: Sequence[Taker] = ()) -> None:
        super().__init__(takers)
        self.bound = bound
        self._language = language

    @override
    def add_takers(self, takers: Sequence[Taker]) -> str:
        """Accept these deliveries too. Return the URL of the listener."""
        self.takers += tuple(takers)
        return self.bound.url

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
        """Add the server under a separate supervisor, so that its crashes affect no other actor."""
        self.status = status
        own = root.add_supervisor(Supervisor("listener", max_restarts=MOST_RESTARTS))
        backoff = Backoff(first_s=0.2, factor=5, cap_s=60)
        own.add(ChildSpec("server", lambda: ListenerServer(self), shutdown=2.0, backoff=backoff))

    @override
    async def introduce(self, say: Callable[[str], None]) -> None:
        """Print the URL of the listener and its paths, with a warning if other machines can reach it."""
        say(
            gettext(
                self._language,
                "Health and metrics: {url}/healthz, {url}/readyz, {url}/metrics",
                url=self.bound.url,
            )
        )
        if self.takers:
            paths = ", ".join(taker.path for taker in self.takers)
            say(gettext(self._language, "It takes what other programs send to: {paths}", paths=paths))
        if not self.bound.loopback:
            say(
                gettext(
                    self._language,
                    "⚠️ Other machines can reach this address, without TLS: they can read the "
                    "metrics. Better: 127.0.0.1 behind a load balancer.",
                )
            )

    @override
    async def stop_receiving(self) -> None:
        """Report "not ready" from now on. Health and metrics remain available until the process ends."""
        self.ending = True


class ListenerServer(Actor[Never]):
    """Serves the listener's socket."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    async def started(self) -> None:
        """Start to serve on a duplicate of the listening socket, which was opened earlier."""
        await self.start(self._serve)

    @override
    def metrics(self) -> Mapping[str, object]:
        """Return the listener's URL, and the number of responses per status code."""
        requests = {str(code): n for code, n in sorted(self._listener.requests.items())}
        return {"url": self._listener.bound.url, "requests": requests}

    async def _serve(self, task_status: trio.TaskStatus[None]) -> None:
        from rumi.channels.http.routes import make_app
        from rumi.channels.http.server import serve

        await serve(make_app(self._listener), self._listener.bound, task_status=task_status)


@contextmanager
def open_listener(where: str, language: Language, takers: Sequence[Taker] = ()) -> Iterator[Listener]:
    """Listen at `HOST:PORT` until the `with` block ends.

    Raises:
        UsageError: The address does not exist, or the port is in use.
    """
    bound = listen(where, "--listen")
    try:
        yield Listener(bound, language, takers)
    finally:
        bound.close()
