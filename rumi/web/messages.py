"""The requests, answers and errors of the fetcher."""

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
    """A fetch failed.

    `answered` means that a server had answered, so the error may contain untrusted text.
    """

    code = "fetch"
    advises_models = True

    def __init__(
        self, message: str, advice: str = "", /, *, answered: bool = False, **fields: object
    ) -> None:
        super().__init__(message, advice, **fields)
        self.answered = answered


class FetchRefused(FetchError):
    """The guard refuses the URL. `address` is the IP address that it refuses; empty for other reasons."""

    address = ""


@dataclass(frozen=True, slots=True)
class Page:
    """The content of a URL, converted for models.

    `url` is the final URL after `redirects` redirects. `media_type` and `status` come from the server;
    `media_type` has no parameters. `text` is Markdown if the page was HTML. It is empty for `HEAD`, and for
    unreadable content; `described` then describes the content. `links` contains the URLs in the text, as
    normalized by the WHATWG parser. `cut` describes the omitted part, and is empty if the page is complete.
    `cached` means that the page came from the cache. `broken_off` means that its transfer ended too early.
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
    broken_off: bool = False


@dataclass(frozen=True, slots=True)
class Fetch(Request[Page]):
    """Fetch a URL. On cancellation, leaves no connection, no process and no slot of a limiter.

    The request counts towards the number of concurrent requests that `chat` may make. `progress` gets the
    steps of a long fetch, and must return immediately. With `whole`, the text is cut to
    `FetchLimits.whole_chars`. Otherwise it is cut to `FetchLimits.text_chars`, which fits into a prompt. With
    `fresh`, the page does not come from the cache.

    Raises:
        FetchRefused: The guard refuses the URL, or the target of a redirect.
        FetchError: The URL could not be fetched; the error says why.
    """

    url: str
    chat: str
    method: Method = "GET"
    progress: Callable[[str], None] = field(default=lambda step: None, compare=False, repr=False)
    whole: bool = False
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One result of a search. `date` is text from the provider, and is empty if the date is unknown."""

    title: str
    url: str
    snippet: str
    date: str = ""


@dataclass(frozen=True, slots=True)
class SearchResults:
    """A provider's results. `failed` contains the errors of the providers that were tried before it."""

    provider: str
    results: tuple[SearchResult, ...]
    failed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchWeb(Request[SearchResults]):
    """Search the web. On cancellation, no part of the search continues.

    Raises:
        FetchError: No provider answered; the error contains the reason that each provider gave.
    """

    query: str
    chat: str
    max_results: int = 5
    topic: Topic = "general"


class Sink(Protocol):
    """Receives the bytes of a download, in order. Both methods raise a `RumiError` if the disk is full."""

    async def reset(self) -> None:
        """Discard all bytes so far: the download begins again."""
        ...

    async def write(self, data: bytes) -> None:
        """Append bytes."""
        ...


@dataclass(frozen=True, slots=True)
class Saved:
    """A file that was downloaded completely.

    `url` is the final URL after `redirects` redirects; `media_type` and `suggested`, the file's name, come
    from the server. `head` is the beginning of the file, `lines` the number of its line ends. `tries` is the
    number of requests: more than one if the connection broke. With `sized`, the server had said the size, or
    marked the end; otherwise the end of the connection was the end of the file. `unpacked` means that the
    server had compressed the file for the transfer.
    """

    url: str
    media_type: str
    suggested: str
    size: int
    sha256: str
    head: bytes
    lines: int
    redirects: int = 0
    tries: int = 1
    sized: bool = True
    unpacked: bool = False


@dataclass(frozen=True, slots=True)
class Save(Request[Saved]):
    """Download a URL, byte by byte as it is, into `sink`. On cancellation, leaves no connection.

    A broken connection is continued where it broke, if the server can do that and the file has not changed;
    otherwise the download begins again. A file larger than `max_bytes` is refused. `name` is the name that
    the file will have, or empty; it tells whether a compressed file is meant to stay compressed.

    Raises:
        FetchRefused: The guard refuses the URL, or the target of a redirect.
        FetchError: The file did not arrive completely; the error says why.
    """

    url: str
    chat: str
    sink: Sink = field(compare=False, repr=False)
    max_bytes: int
    name: str = ""
    progress: Callable[[str], None] = field(default=lambda step: None, compare=False, repr=False)


WebMessage: TypeAlias = Fetch | SearchWeb | Save


@dataclass(frozen=True, slots=True)
class PageText:
    """The text of a page, converted for models.

    `text` is Markdown if the page was HTML, and plain text otherwise. It is empty for unreadable content;
    `described` then describes the content in one line. `links` contains the URLs in `text`, as normalized by
    the WHATWG parser, without duplicates and in order of appearance. `cut` describes the omitted part, and is
    empty if the text is complete. `refresh` is the URL to which the page redirects by itself; it is empty for
    most pages.
    """

    title: str = ""
    text: str = ""
    links: tuple[str, ...] = ()
    cut: str = ""
    described: str = ""
    refresh: str = ""


@dataclass(frozen=True, slots=True)
class Streamed:
    """An answer whose body is read piece by piece.

    `url` is the final URL; `status` and `media_type` come from the server. `more` returns the next piece, or
    an empty piece at the end of the body. It raises `FetchError` if the body is incomplete.
    """

    url: str
    status: int
    media_type: str
    more: Callable[[], Awaitable[bytes]]


class StreamFetcher(Protocol):
    """A client for requests with a body, and for answers that are too large for a `Page`."""

    def stream(
        self, url: str, headers: Sequence[tuple[str, str]], *, most_bytes: int, body: bytes | None = None
    ) -> AbstractAsyncContextManager[Streamed]:
        """Make a request, and yield its answer; the connection is closed when the block ends.

        Without a `body`, the request is a GET, and redirects are followed, each checked by the guard. With a
        `body`, the request is a POST, and a redirect is not followed. `most_bytes` limits the bytes read from
        the connection. The time is not limited; the caller must do this.

        Raises:
            FetchRefused: The guard refuses the URL, or the target of a redirect.
            FetchError: No answer came.
        """
        ...
