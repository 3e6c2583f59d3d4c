"""The web's part of the supervision tree, and how tools reach it."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeVar

import trio

from actors import ActorError, ActorRef, ChildSpec, Request, Supervisor
from rumi.web.messages import (
    Fetch,
    FetchError,
    Method,
    Page,
    ProviderName,
    SearchResults,
    SearchWeb,
    StreamFetcher,
    Topic,
    WebMessage,
)

if TYPE_CHECKING:
    from rumi.web.fetch.fetcher import Fetcher

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class WebSettings:
    """The web's part of the configuration; a missing key is empty."""

    timeout_s: float = 10.0
    max_bytes: int = 1_000_000
    max_redirects: int = 5
    allow: Collection[str] = ()
    provider: ProviderName = "auto"
    tavily_key: str = field(default="", repr=False)
    kagi_key: str = field(default="", repr=False)
    kagi_session: str = field(default="", repr=False)
    reader: Literal["own", "tabstack"] = "own"
    tabstack_key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Web:
    """The web as a chat's tools see it. The chat is an argument: each has its share of parallel requests."""

    fetcher: ActorRef[WebMessage]

    async def fetch(
        self,
        chat: str,
        url: str,
        method: Method = "GET",
        progress: Callable[[str], None] = lambda step: None,
        *,
        whole: bool = False,
    ) -> Page:
        """Return the page of an address; see `Fetch`."""
        return await self._ask(Fetch(url, chat, method, progress, whole))

    async def search(self, chat: str, query: str, max_results: int, topic: Topic) -> SearchResults:
        """Return the results of a search; see `Search`."""
        return await self._ask(SearchWeb(query, chat, max_results, topic))

    async def _ask(self, request: Request[R]) -> R:
        try:
            return await self.fetcher.ask(request)
        except ActorError as error:
            raise FetchError("The fetcher has just failed and is being restarted.", "Try again.") from error


def add_fetcher(root: Supervisor, settings: WebSettings) -> Web:
    """Add the fetcher to the tree; the requests of a turn end with the turn."""

    def make() -> "Fetcher":
        # Imported with the actor's start and not with the program: other commands need none of it.
        from rumi.web.fetch.download import FetchLimits
        from rumi.web.fetch.fetcher import Fetcher
        from rumi.web.guard import AddressGuard
        from rumi.web.network import GuardedNetwork
        from rumi.web.readers.pages.readers import Readers
        from rumi.web.resolver import SystemResolver
        from rumi.web.search.searching import Searching
        from rumi.web.tabstack import Tabstack

        resolver = SystemResolver(lookups, settings.timeout_s)
        guard = AddressGuard(resolver, settings.allow)
        return Fetcher(
            GuardedNetwork(guard),
            Readers(),
            Searching(
                settings.provider,
                tavily_key=settings.tavily_key,
                kagi_key=settings.kagi_key,
                kagi_session=settings.kagi_session,
                timeout_s=settings.timeout_s,
            ),
            FetchLimits(
                timeout_s=settings.timeout_s,
                max_bytes=settings.max_bytes,
                max_redirects=settings.max_redirects,
            ),
            tabstack=Tabstack(settings.tabstack_key, guard) if settings.reader == "tabstack" else None,
        )

    # Outlives incarnations, as the threads do that lookups without an answer have left behind.
    lookups = trio.CapacityLimiter(64)
    return Web(root.add(ChildSpec("fetcher", make, capacity=10_000)))


def guarded_streams(settings: WebSettings) -> StreamFetcher:
    """Return the way to answers that are read piece by piece, with the guard and limits of the fetcher."""
    from rumi.web.fetch.stream import GuardedStreams
    from rumi.web.guard import AddressGuard
    from rumi.web.network import GuardedNetwork
    from rumi.web.resolver import SystemResolver

    resolver = SystemResolver(trio.CapacityLimiter(8), settings.timeout_s)
    network = GuardedNetwork(AddressGuard(resolver, settings.allow))
    return GuardedStreams(network, max_redirects=settings.max_redirects)


async def fetch_once(url: str, settings: WebSettings, method: Method = "GET") -> Page:
    """Return the page that the assistant would get: by the same actor, guard, limits and readers.

    Afterwards, also if it is cancelled, no connection and no process is left.

    Raises:
        FetchRefused: The guard refuses the address.
        FetchError: The address could not be fetched; the error says why.
    """
    root = Supervisor("web")
    web = add_fetcher(root, settings)
    async with root.running():
        return await web.fetch("cli", url, method)
