"""The web's requests, answers and refusals."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from actors import Request
from rumi.errors import RumiError

Method: TypeAlias = Literal["GET", "HEAD"]
Topic: TypeAlias = Literal["general", "news"]
ProviderName: TypeAlias = Literal["auto", "tavily", "kagi", "ddgs"]


class FetchError(RumiError):
    """Nothing came of a fetch. `answered`: some server had answered by then, so its words may be in here."""

    def __init__(self, message: str, advice: str = "", *, answered: bool = False) -> None:
        super().__init__(message, advice)
        self.answered = answered


class FetchRefused(FetchError):
    """The guard lets nobody go there."""


@dataclass(frozen=True, slots=True)
class Page:
    """What came from an address, as a model can read it.

    `url` is where it came from in the end, `redirects` how many led there. `media_type` has no parameters;
    it and `status` are the server's words. `text` is Markdown where the page was HTML; empty for `HEAD` and
    for what cannot be read, which `described` then says in words. `links` are the addresses that the text
    shows, as the WHATWG parse writes them. `cut` says what was left out, and is empty where nothing was.
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
    """Get what is at an address. Cancelled, it has no connection, no process and no permit left.

    `chat` is whose share of the fetcher it takes.

    Raises:
        Refused: the guard refuses the address, or one on the way.
        FetchError: nothing could be had; says why.
    """

    url: str
    chat: str
    method: Method = "GET"


@dataclass(frozen=True, slots=True)
class Found:
    """One result of a search. `date` is as the provider wrote it, empty if it is not known."""

    title: str
    url: str
    snippet: str
    date: str = ""


@dataclass(frozen=True, slots=True)
class SearchResults:
    """What a provider found. `failed` are the providers asked before it, each with why it gave nothing."""

    provider: str
    results: tuple[Found, ...]
    failed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Search(Request[SearchResults]):
    """Search the web. Cancelled, nothing of it goes on.

    Raises:
        FetchError: no provider gave anything; says what each of them said.
    """

    query: str
    chat: str
    max_results: int = 5
    topic: Topic = "general"


WebMessage: TypeAlias = Fetch | Search


@dataclass(frozen=True, slots=True)
class Text:
    """A page as a model can read it.

    `text` is Markdown where the page was HTML, otherwise what it is; empty for what cannot be read, and then
    `described` is one line that says what it is. `links` are the addresses that `text` shows, once each, in
    its order, as the WHATWG parse writes them. `cut` says how much was left out; empty where nothing was.
    """

    title: str = ""
    text: str = ""
    links: tuple[str, ...] = ()
    cut: str = ""
    described: str = ""
