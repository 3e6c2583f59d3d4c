"""The web's requests, answers and refusals."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from actors import Request
from rumi.errors import RumiError

Method: TypeAlias = Literal["GET", "HEAD"]
Topic: TypeAlias = Literal["general", "news"]
ProviderName: TypeAlias = Literal["auto", "tavily", "kagi", "ddgs"]


class FetchError(RumiError):
    """A fetch failed. `answered`: a server had answered before, so the error may contain its words."""

    code = "fetch"

    def __init__(self, message: str, advice: str = "", *, answered: bool = False) -> None:
        super().__init__(message, advice)
        self.answered = answered


class FetchRefused(FetchError):
    """The guard refuses the address."""


@dataclass(frozen=True, slots=True)
class Page:
    """The content of an address, as a model can read it.

    `url` is the final address, after `redirects` redirects. `media_type` has no parameters; it and `status`
    are the server's words. `text` is Markdown if the page was HTML; it is empty for `HEAD` and for content
    that cannot be read, which `described` describes. `links` are the addresses that the text shows, in the
    form of the WHATWG parser. `cut` says what was left out, and is empty if nothing was.
    """

    url: str
    status: int
    media_type: str = ""
    title: str = ""
    text: str = ""
    links: tuple[str, ...] = ()
    cut: str = ""
    described: str = ""
    redirects: int = 0
    cached: bool = False


@dataclass(frozen=True, slots=True)
class Fetch(Request[Page]):
    """Fetch an address. Cancelled, it leaves no connection, no process and no turn.

    `chat` is the chat whose share of the fetcher it takes. `progress` gets the steps of a fetch that takes
    long, and returns at once. `whole`: the page's text is not cut to what a prompt takes, but to
    `FetchLimits.whole_chars`.

    Raises:
        FetchRefused: The guard refuses the address, or one on the way.
        FetchError: The address could not be fetched; the error says why.
    """

    url: str
    chat: str
    method: Method = "GET"
    progress: Callable[[str], None] = field(default=lambda step: None, compare=False, repr=False)
    whole: bool = False


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One result of a search. `date` is in the provider's words, empty if it is not known."""

    title: str
    url: str
    snippet: str
    date: str = ""


@dataclass(frozen=True, slots=True)
class SearchResults:
    """A provider's results. `failed` has the reason of each provider that was asked before and failed."""

    provider: str
    results: tuple[SearchResult, ...]
    failed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchWeb(Request[SearchResults]):
    """Search the web. Cancelled, no part of it continues.

    Raises:
        FetchError: No provider answered; the error has the reason of each.
    """

    query: str
    chat: str
    max_results: int = 5
    topic: Topic = "general"


WebMessage: TypeAlias = Fetch | SearchWeb


@dataclass(frozen=True, slots=True)
class PageText:
    """A page as a model can read it.

    `text` is Markdown if the page was HTML, otherwise plain; it is empty for content that cannot be read, and
    then `described` describes it in one line. `links` are the addresses that `text` shows, once each, in its
    order, in the form of the WHATWG parser. `cut` says how much was left out, and is empty if nothing was.
    """

    title: str = ""
    text: str = ""
    links: tuple[str, ...] = ()
    cut: str = ""
    described: str = ""


@dataclass(frozen=True, slots=True)
class Streamed:
    """An answer whose body is read piece by piece.

    `url` is the final address; `status` and `media_type` are the server's words. `more` returns the next
    piece, empty at the end of the body; it raises `FetchError` if the rest does not come.
    """

    url: str
    status: int
    media_type: str
    more: Callable[[], Awaitable[bytes]]


class StreamFetcher(Protocol):
    """Requests whose answers are too large for a page, or that have a body."""

    def stream(
        self, url: str, headers: Sequence[tuple[str, str]], *, most_bytes: int, body: bytes | None = None
    ) -> AbstractAsyncContextManager[Streamed]:
        """Make a request for a block, at whose end the connection is closed.

        Without a `body` it is a GET, and redirects are followed, each through the guard. With one it is a
        POST, and a redirect is an answer like any other. `most_bytes` bounds what is read. The caller bounds
        the time.

        Raises:
            FetchRefused: The guard refuses the address, or one on the way.
            FetchError: No answer came.
        """
        ...
