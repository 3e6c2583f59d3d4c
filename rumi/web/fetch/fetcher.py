"""The `fetcher` actor, which fetches all pages and makes all searches, many of them concurrently."""

import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

import httpcore
import trio

from actors import Actor, Refused, answers
from rumi.platform.fair_limiter import FairLimiter, LimiterBounds, NoTurn
from rumi.platform.http import Tls
from rumi.texts import Text
from rumi.web.codings import is_packed
from rumi.web.fetch.body import STEP_BYTES, PartialBody
from rumi.web.fetch.cache import Cache
from rumi.web.fetch.download import Download, Downloader, FetchLimits
from rumi.web.fetch.headers import Headers
from rumi.web.fetch.saving import FileSaver
from rumi.web.messages import (
    Fetch,
    FetchError,
    Page,
    PageText,
    Save,
    Saved,
    SearchResults,
    SearchWeb,
    WebMessage,
)
from rumi.web.readers.pages.kinds import SNIFFED_BYTES, looks_like
from rumi.web.readers.pages.readers import Readers
from rumi.web.refresh import refresh_url
from rumi.web.tabstack import Tabstack
from rumi.web.url import parse_target

A = TypeVar("A")

logger = logging.getLogger(__name__)

ELSEWHERE_S: Final = 60.0
"""Cache lifetime of a page that Tabstack has read, in seconds."""


class Fetcher(Actor[WebMessage]):
    """Fetches pages, searches the web and downloads files; see `Fetch`, `SearchWeb` and `Save`.

    `network` must be a `GuardedNetwork`, because this actor does not check addresses again. `tls` has the
    trusted certificates; by default, httpx's certificates are trusted. If `tabstack` is not None, it reads
    pages instead of `readers`. If a request fails, its sender gets a refusal; the actor never crashes.
    """

    concurrency = 100_000  # the limiters of `FetchLimits` bound the requests that really run

    def __init__(
        self,
        network: httpcore.AsyncNetworkBackend,
        readers: Readers,
        search: Callable[[SearchWeb], Awaitable[SearchResults]],
        limits: FetchLimits | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        tabstack: Tabstack | None = None,
    ) -> None:
        self._limits = limits or FetchLimits()
        self._readers = readers
        self._search = search
        self._tabstack = tabstack
        self._downloader = Downloader(network, Tls(tls).context, self._limits)
        self._saver = FileSaver(network, Tls(tls).context, self._limits)
        at = self._limits
        self._fetching = self._turns(at.at_once, at.per_chat, at.per_host)
        self._reading = self._turns(at.reading_at_once, at.reading_per_chat)
        self._searching = self._turns(at.searches_at_once, at.searches_per_chat)
        self._saving = self._turns(at.saving_at_once, at.saving_per_chat, at.per_host)
        self._cache = Cache()

    def _turns(self, at_once: int, per_chat: int, per_host: int | None = None) -> FairLimiter:
        at = self._limits
        return FairLimiter(
            LimiterBounds(at_once, per_chat, per_host or at_once, at.waiting_per_chat, at.wait_s)
        )

    async def started(self) -> None:
        """Start the task that owns the reading processes.

        The processes end with this incarnation of the actor.
        """
        await self.start(self._readers.run)

    @answers(Fetch)
    async def fetch(self, message: Fetch) -> Page:
        """Return a page. On cancellation, leaves no connection, no process and no slot of a limiter."""
        return await _settled(partial(self._fetch, message))

    @answers(SearchWeb)
    async def search(self, message: SearchWeb) -> SearchResults:
        """Return search results. On cancellation, leaves no connection, no process and no slot."""
        return await _settled(partial(self._find, message))

    @answers(Save)
    async def save(self, message: Save) -> Saved:
        """Download a file. On cancellation, leaves no connection and no slot of a limiter."""
        return await _settled(partial(self._save, message))

    def activity(self) -> str:
        """Return the numbers of running and waiting fetches, of running searches, and of downloads if any."""
        fetching, searches, saving = self._fetching, self._searching.running, self._saving.running
        downloads = f", {saving} downloading" if saving else ""
        return f"{fetching.running} fetching, {fetching.waiting} waiting, {searches} searching{downloads}"

    def metrics(self) -> Mapping[str, object]:
        """Return the numbers of running fetches, readings and searches, and of waiting fetches."""
        return {
            "fetching": self._fetching.running,
            "waiting": self._fetching.waiting,
            "reading": self._reading.running,
            "searching": self._searching.running,
        }

    async def _save(self, message: Save) -> Saved:
        target = parse_target(message.url)
        async with self._saving.turn(message.chat, target.host) as turn:
            return await self._saver.save(message, target, partial(self._saving.move, turn))

    async def _find(self, message: SearchWeb) -> SearchResults:
        async with self._searching.turn(message.chat):
            return await self._search(message)

    async def _fetch(self, message: Fetch) -> Page:
        target = parse_target(message.url)
        key = f"{target.page} whole" if message.whole else target.page  # unambiguous: a URL has no space
        cached = message.method == "GET" and not message.fresh
        if cached and (page := self._cache.get(key)) is not None:
            await trio.lowlevel.checkpoint()
            return page
        async with self._fetching.turn(message.chat, target.host) as turn:
            if self._tabstack is not None and message.method == "GET":
                page = await self._tabstack.page(target, self._most_chars(message))
                if page is not None:
                    self._cache.put(key, page, ELSEWHERE_S)
                    return page
            to_host = partial(self._fetching.move, turn)
            download = await self._downloader.download(target, message.method, to_host, message.progress)
            # The connection is closed: reading the page must not count as a request to this host.
            self._fetching.leave_host(turn)
            if download.answer.body is not None and len(download.answer.body.data) >= STEP_BYTES:
                message.progress(Text("turning the page into text"))
            page, refresh = await self._page(download, message)
            while refresh:
                try:
                    following = await self._downloader.refresh(download, refresh, to_host)
                    if following is None:
                        break
                    self._fetching.leave_host(turn)
                    download = following
                    page, refresh = await self._page(download, message)
                except FetchError as error:
                    why = f"it refers to another page, which could not be fetched: {error.message}"
                    page, refresh = replace(page, cut="; ".join(filter(None, (page.cut, why)))), ""
        if message.method == "GET" and page.status == 200:
            # A body that broke off is not cached: another attempt may receive all of it.
            body = download.answer.body
            self._cache.put(key, page, 0 if body is None or body.broken_off else download.ttl_s)
        return page

    def _most_chars(self, message: Fetch) -> int:
        return self._limits.whole_chars if message.whole else self._limits.text_chars

    async def _page(self, download: Download, message: Fetch) -> tuple[Page, str]:
        """Return a page, and the URL to which it refers with a refresh, or an empty string."""
        answer, body = download.answer, download.answer.body
        page = Page(
            url=download.target.page,
            status=answer.status,
            media_type=answer.headers.media_type,
            redirects=download.redirects,
            broken_off=body is not None and body.broken_off,
        )
        if body is None:
            return replace(page, described=describe_head(answer.headers)), ""
        if not body.text:
            return replace(page, described=describe_body(answer.headers, body)), ""
        refresh = refresh_url(answer.headers.first("refresh"))
        if not body.data:
            described = "" if body.cut else "The page is empty."
            return replace(page, described=described, cut=body.cut), refresh
        text = await self._read(download, body, message)
        page = replace(
            page,
            title=text.title,
            text=text.text,
            links=text.links,
            described=text.described,
            cut="; ".join(filter(None, (body.cut, text.cut))),
        )
        return page, refresh or text.refresh

    async def _read(self, download: Download, body: PartialBody, message: Fetch) -> PageText:
        """Return the text of a body.

        Raises:
            FetchError: The body cannot be read, or not within `reading_s`.
        """
        headers = download.answer.headers
        with trio.move_on_after(self._limits.reading_s):
            # Pages that take long to read, perhaps by design, delay only the chat that fetches them.
            async with self._reading.turn(message.chat):
                return await self._readers.read(
                    body.data,
                    media_type=headers.media_type,
                    charset=headers.charset,
                    url=download.target.href,
                    max_chars=self._most_chars(message),
                )
        raise FetchError(
            "The page came, but could not be read within {reading_s} s.",
            "Try again later.",
            reading_s=f"{self._limits.reading_s:g}",
            answered=True,
        )


async def _settled(work: Callable[[], Awaitable[A]]) -> A:
    try:
        return await work()
    except FetchError as error:
        refusal = error.with_traceback(None)  # the frames of the traceback would keep the page in memory
    except NoTurn as error:
        refusal = (
            FetchError("Too many requests wait for the web at the moment.", "Try again in a minute.")
            if error.late
            else FetchError(
                "Too many requests of this chat already wait for the web.", "Ask for fewer pages at once."
            )
        )
    except Exception:
        # An unexpected failure of one request must not crash the actor and so end all other requests.
        logger.exception("a request to the web failed")
        refusal = FetchError("Rumi itself failed.", "The program's log says what.", answered=True)
    raise Refused(refusal)


_MOST_CHARS = 60


def describe_head(headers: Headers) -> str:
    """Describe the media type, size and date in the headers; leave out those that the server did not send."""
    facts = [headers.media_type or "no type told", _size(headers)]
    if modified := _plain(headers.first("last-modified")):
        facts.append(f"last modified {modified}")
    return ", ".join(filter(None, facts))


def describe_body(headers: Headers, body: PartialBody) -> str:
    """Describe a body that cannot be read as text."""
    seems = looks_like(body.data[:SNIFFED_BYTES])
    facts = [headers.media_type or "no type told", _size(headers), f"looks like {seems}" if seems else ""]
    return f"Not a text: {', '.join(filter(None, facts))}. It was not downloaded."


def _size(headers: Headers) -> str:
    size = headers.size
    packed = " compressed" if is_packed(headers.all("content-encoding")) else ""
    return "" if size is None else f"{size:,} bytes{packed}"


def _plain(words: str) -> str:
    """Return a text from a server if it is short printable ASCII; otherwise return an empty string."""
    return words if len(words) <= _MOST_CHARS and words.isascii() and words.isprintable() else ""
