"""Adds the fetcher to the supervision tree, and gives tools an interface to the web."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import trio

from actors import ActorError, ActorRef, ChildSpec, Request, Supervisor
from rumi.texts import Text
from rumi.web.messages import (
    Fetch,
    FetchError,
    Method,
    Page,
    ProviderName,
    Save,
    Saved,
    SearchResults,
    SearchWeb,
    Sink,
    StreamFetcher,
    Topic,
    WebMessage,
)

if TYPE_CHECKING:
    from rumi.platform.config.schema import FetchSection
    from rumi.platform.config.secrets import Secrets
    from rumi.web.fetch.fetcher import Fetcher

R = TypeVar("R")

FILE_S = 60.0
"""Maximum time to fetch a file that is no page, in seconds."""


@dataclass(frozen=True, slots=True)
class Web:
    """The web interface for the tools of chats. Each chat has a share of the concurrent requests."""

    fetcher: ActorRef[WebMessage]

    async def fetch(
        self,
        chat: str,
        url: str,
        method: Method = "GET",
        progress: Callable[[str], None] = lambda step: None,
        *,
        whole: bool = False,
        fresh: bool = False,
    ) -> Page:
        """Fetch a page; see `Fetch`."""
        return await self._ask(Fetch(url, chat, method, progress, whole, fresh))

    async def save(
        self,
        chat: str,
        url: str,
        sink: Sink,
        max_bytes: int,
        name: str = "",
        progress: Callable[[str], None] = lambda step: None,
    ) -> Saved:
        """Download a file; see `Save`."""
        return await self._ask(Save(url, chat, sink, max_bytes, name, progress))

    async def search(self, chat: str, query: str, max_results: int, topic: Topic) -> SearchResults:
        """Search the web; see `SearchWeb`."""
        return await self._ask(SearchWeb(query, chat, max_results, topic))

    async def _ask(self, request: Request[R]) -> R:
        try:
            return await self.fetcher.ask(request)
        except ActorError as error:
            raise FetchError(
                "The fetcher has just failed and is being restarted.", Text("Try again.")
            ) from error


def add_fetcher(root: Supervisor, settings: "FetchSection", search: ProviderName, secrets: "Secrets") -> Web:
    """Add the fetcher to the actor tree; return the interface to the web. `search` names the provider."""

    def make() -> "Fetcher":
        # Imported when the actor starts, not the program, because most commands do not need the web.
        from rumi.platform.config.secrets import plain
        from rumi.web.fetch.download import FetchLimits
        from rumi.web.fetch.fetcher import Fetcher
        from rumi.web.guard import AddressGuard
        from rumi.web.network import GuardedNetwork
        from rumi.web.readers.pages.readers import Readers
        from rumi.web.resolver import SystemResolver
        from rumi.web.search.searching import Searching
        from rumi.web.tabstack import Tabstack

        tabstack_key = plain(secrets.tabstack_api_key)
        resolver = SystemResolver(lookups, settings.timeout_s)
        guard = AddressGuard(resolver, settings.allow)
        return Fetcher(
            GuardedNetwork(guard),
            Readers(),
            Searching(
                search,
                tavily_key=plain(secrets.tavily_api_key),
                kagi_key=plain(secrets.kagi_api_key),
                kagi_session=plain(secrets.kagi_session_token),
                timeout_s=settings.timeout_s,
            ),
            FetchLimits(
                timeout_s=settings.timeout_s,
                max_bytes=settings.max_bytes,
                max_redirects=settings.max_redirects,
            ),
            tabstack=Tabstack(tabstack_key, guard) if settings.reader == "tabstack" else None,
        )

    # The limiter survives restarts of the actor, because threads of unanswered lookups do so too: a new one
    # for each incarnation would not count them.
    lookups = trio.CapacityLimiter(64)
    return Web(root.add(ChildSpec("fetcher", make, capacity=10_000)))


def guarded_streams(settings: "FetchSection") -> StreamFetcher:
    """Return a client that reads answers piece by piece, with the fetcher's guard and redirect limit."""
    from rumi.web.fetch.stream import GuardedStreams
    from rumi.web.guard import AddressGuard
    from rumi.web.network import GuardedNetwork
    from rumi.web.resolver import SystemResolver

    resolver = SystemResolver(trio.CapacityLimiter(8), settings.timeout_s)
    network = GuardedNetwork(AddressGuard(resolver, settings.allow))
    return GuardedStreams(network, max_redirects=settings.max_redirects)


async def fetch_bytes(settings: "FetchSection", url: str, *, most_bytes: int = 20 * 1024 * 1024) -> bytes:
    """Return the bytes at a URL, through the fetcher's guard; for files that are no pages.

    On cancellation, closes the connection.

    Raises:
        FetchRefused: The guard refuses the URL.
        FetchError: The URL could not be fetched, or has more than `most_bytes`.
    """
    content = bytearray()
    with trio.move_on_after(FILE_S):
        async with guarded_streams(settings).stream(
            url, (("Accept", "*/*"),), most_bytes=most_bytes
        ) as answer:
            if answer.status != 200:
                raise FetchError("{url} answers with status {status}.", url=answer.url, status=answer.status)
            while piece := await answer.more():
                content += piece
        return bytes(content)
    raise FetchError("{url} did not answer within {seconds} s.", url=url, seconds=f"{FILE_S:g}")


async def fetch_once(url: str, settings: "FetchSection", secrets: "Secrets", method: Method = "GET") -> Page:
    """Fetch a page like the assistant does: with the same actor, guard, limits and readers.

    Leaves no connection and no process, even on cancellation.

    Raises:
        FetchRefused: The guard refuses the URL.
        FetchError: The URL could not be fetched; the error says why.
    """
    root = Supervisor("web")
    web = add_fetcher(root, settings, "auto", secrets)
    async with root.running():
        return await web.fetch("cli", url, method)
