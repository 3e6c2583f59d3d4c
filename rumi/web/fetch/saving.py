"""Downloads of files, byte by byte as they are. A broken connection is continued where it broke.

Each try begins at the URL again, so the guard checks every request and every redirect of every try.
"""

import hashlib
import re
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Final

import httpcore
import trio

from rumi.errors import RumiError
from rumi.platform.texts.operating import short_size
from rumi.texts import Text
from rumi.web.codings import is_packed
from rumi.web.fetch.body import STEP_BYTES
from rumi.web.fetch.decoding import Broken, Decoder, decoder_for
from rumi.web.fetch.download import USER_AGENT, FetchLimits, Journey, Response, on_the_way, redirect
from rumi.web.fetch.headers import Headers
from rumi.web.fetch.http_exchange import HttpExchange, Interrupted, connected
from rumi.web.fetch.naming import suggested_name
from rumi.web.messages import FetchError, FetchRefused, Save, Saved
from rumi.web.url import Target

HEAD_BYTES: Final = 4096
_BESIDE_BYTES: Final = 512 * 1024
_UNPACK_BYTES: Final = 256 * 1024
_LONGEST_PAUSE_S: Final = 15.0
_LATER: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_CONTENT_RANGE: Final = re.compile(r"bytes\s+(\d{1,19})-(\d{1,19})/(\d{1,19}|\*)", re.IGNORECASE)
_STRONG_TAG: Final = re.compile(r"\"[\x21\x23-\x7e\x80-\xff]*\"")
_DATE: Final = re.compile(r"[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT")
_PACKED_TYPES: Final = frozenset(
    f"application/{name}"
    for name in ("gzip", "x-gzip", "x-gunzip", "gzip-compressed", "x-compressed", "x-tgz", "x-gtar", "zstd")
)
_PACKED_ENDINGS: Final = (".gz", ".tgz", ".svgz", ".zst", ".br", ".z", ".xz", ".bz2")

_OURS: Final = (
    ("User-Agent", USER_AGENT),
    ("Accept", "*/*"),
    ("Accept-Encoding", "identity"),
    ("Connection", "close"),
)


class FileSaver:
    """Downloads files, each try over a new connection. `network` is a `GuardedNetwork`."""

    def __init__(
        self,
        network: httpcore.AsyncNetworkBackend,
        tls: Callable[[], Awaitable[ssl.SSLContext]],
        limits: FetchLimits,
    ) -> None:
        self._network = network
        self._tls = tls
        self._limits = limits

    async def save(self, message: Save, target: Target, to_host: Callable[[str], Awaitable[None]]) -> Saved:
        """Download a file into the sink of `message`; see `Save`.

        `to_host` is awaited at each redirect, while no connection is open.
        """
        saving = _Saving(self._network, self._tls, self._limits, message, target, to_host)
        with trio.move_on_after(self._limits.saving_s):
            try:
                return await saving.run()
            except FetchError:
                raise
            except RumiError as error:  # from the sink: the disk is full
                raise FetchError("{error}", error=error.message) from error
        raise FetchError(
            "The file did not come completely within {minutes} minutes.",
            "Nothing was saved.",
            minutes=f"{self._limits.saving_s / 60:g}",
            answered=True,
        )


class _Saving:
    """One download: what has come so far, and how it can be continued."""

    def __init__(
        self,
        network: httpcore.AsyncNetworkBackend,
        tls: Callable[[], Awaitable[ssl.SSLContext]],
        limits: FetchLimits,
        message: Save,
        target: Target,
        to_host: Callable[[str], Awaitable[None]],
    ) -> None:
        self._network = network
        self._tls = tls
        self._limits = limits
        self._message = message
        self._first = target
        self._to_host = to_host
        self._journey = Journey(target)
        self._tries = 0
        self._headers = Headers(())
        self._forget()

    def _forget(self) -> None:
        self._come = self._packed = self._lines = self._shown = 0
        self._digest = hashlib.sha256()
        self._head = b""
        self._whole: int | None = None
        self._validator = ""
        self._origin = ("", "", 0)
        self._ends = False
        self._decoder: Decoder | None = None

    async def run(self) -> Saved:
        await self._message.sink.reset()
        while True:
            self._tries += 1
            try:
                if await self._try():
                    return self._result()
                why: Exception | None = None
            except FetchRefused:
                raise
            except FetchError as error:
                if not self._packed or error.answered:
                    raise
                why = error  # the server that had begun to send cannot be reached
            except Interrupted as error:
                why = error
            if self._tries >= self._limits.tries:
                raise self._broken_off(why)
            if why is not None:
                if self._come:
                    self._message.progress(
                        Text("connection broken after {come}, trying again", come=short_size(self._come))
                    )
                await trio.sleep(min(_LONGEST_PAUSE_S, self._limits.pause_s * 2 ** (self._tries - 1)))

    async def _try(self) -> bool:
        """Make a request and take its body; return False if the download must begin again from its start."""
        journey = self._journey = Journey(self._first)
        resumes = bool(self._packed and self._validator)
        asked = [("Range", f"bytes={self._packed}-"), ("If-Range", self._validator)] if resumes else []
        async with AsyncExitStack() as stack:
            while True:
                journey.been_at.add(journey.visit)
                attempt = await stack.enter_async_context(AsyncExitStack())
                try:
                    with trio.move_on_after(self._limits.stall_s) as bound:
                        answer, exchange = await self._ask(attempt, journey, asked)
                    if bound.cancelled_caught:
                        raise self._silent(journey.target.host)
                except FetchError as error:
                    if journey.redirects == 0:
                        raise
                    answered = error.answered or not self._packed
                    raise on_the_way(
                        error, f"After a redirect to {journey.target.host}", answered=answered
                    ) from error
                journey.cookies.set(journey.target, answer.headers.all("set-cookie"))
                if not answer.location:
                    break
                # Closed before the next request: only one connection is open at a time.
                await attempt.aclose()
                redirect(journey, answer.location, self._limits.max_redirects)
                self._message.progress(Text("redirected to {host}", host=journey.target.host))
                await self._to_host(journey.target.host)
            if not await self._begin(answer, resumes):
                return False
            await self._take(exchange)
        return True

    async def _ask(
        self, attempt: AsyncExitStack, journey: Journey, asked: Sequence[tuple[str, str]]
    ) -> tuple[Response, HttpExchange]:
        target, cookies = journey.target, journey.cookies.header(journey.target)
        sent = (*_OURS, *asked, *((("Cookie", cookies),) if cookies else ()))
        stream = await attempt.enter_async_context(connected(self._network, target, self._tls))
        # Twice: a body in chunks has more bytes around it than inside if the chunks are tiny.
        exchange = HttpExchange(stream, target.host, 2 * self._message.max_bytes + _BESIDE_BYTES)
        await exchange.send("GET", target, sent)
        status, headers = await exchange.head()
        return Response(status, headers), exchange

    async def _begin(self, answer: Response, resumes: bool) -> bool:
        """Decide by its head whether an answer continues the download, begins it, or must be given up.

        Raises:
            Interrupted: The server may answer better later.
            FetchError: The answer is not the file.
        """
        status, headers, host = answer.status, answer.headers, self._journey.target.host
        if resumes and (status == 416 or (status == 206 and not self._continues(headers))):
            await self._restart()  # the file is another one by now, or the server cannot continue it
            return False
        if status == 206 and resumes:
            return True
        if status in _LATER and self._tries > 1:
            raise Interrupted(f"the server answered with status {status}")
        if status == 206 and not _is_whole(headers):
            raise FetchError(
                "{host} sent only a part of the file, although all of it was requested.",
                "Nothing was saved.",
                host=host,
                answered=True,
            )
        if status not in (200, 203, 206):
            raise FetchError(
                "{host} answers with status {status}.",
                "Nothing was saved.",
                host=host,
                status=status,
                answered=True,
            )
        await self._restart()
        target = self._journey.target
        self._headers = headers
        self._origin = (target.scheme, target.host, target.port)
        if is_packed(headers.all("content-encoding")) and not self._stays_packed(headers):
            self._decoder = decoder_for(headers.all("content-encoding"))
        else:
            self._whole = headers.size
            self._validator = _validator(headers)
        self._ends = headers.size is not None or "chunked" in headers.first("transfer-encoding").lower()
        if self._whole is not None and self._whole > self._message.max_bytes:
            raise self._too_large()
        return True

    async def _restart(self) -> None:
        if self._packed:
            await self._message.sink.reset()
        self._forget()

    def _continues(self, headers: Headers) -> bool:
        """Return True if a part is the rest of the same file, from where the connection broke."""
        found = _CONTENT_RANGE.fullmatch(headers.first("content-range"))
        target = self._journey.target
        if found is None or (target.scheme, target.host, target.port) != self._origin:
            return False
        start, end = int(found[1]), int(found[2])
        whole = end + 1 if found[3] == "*" else int(found[3])
        if start != self._packed or end + 1 != whole or (self._whole is not None and whole != self._whole):
            return False
        if headers.size is not None and headers.size != whole - start:
            return False
        tag, before = headers.first("etag"), self._headers.first("etag")
        changed = headers.first("last-modified"), self._headers.first("last-modified")
        if (tag and tag != before) or (all(changed) and changed[0] != changed[1]):
            return False
        self._whole = whole
        return headers.all("content-encoding") == self._headers.all("content-encoding")

    def _stays_packed(self, headers: Headers) -> bool:
        """Return True for a compressed file that a server labels as compressed for the transfer."""
        path = self._journey.target.path_and_query.partition("?")[0]
        names = (self._message.name, path, suggested_name(headers, self._journey.target))
        return headers.media_type in _PACKED_TYPES or any(
            name.lower().endswith(_PACKED_ENDINGS) for name in names
        )

    async def _take(self, exchange: HttpExchange) -> None:
        """Read a body to its end.

        Raises:
            Interrupted: The body is incomplete.
            FetchError: It is too large, or its compression is damaged.
        """
        limits = self._limits
        checked_at, checked_bytes = trio.current_time(), self._packed
        while True:
            with trio.move_on_after(limits.stall_s) as bound:
                piece = await exchange.more()
            if bound.cancelled_caught:
                raise Interrupted(f"nothing came for {limits.stall_s:g} s")
            if not piece:
                break
            self._packed += len(piece)
            await self._unpack(piece)
            if trio.current_time() - checked_at >= limits.pace_s:
                if self._packed - checked_bytes < limits.pace_bytes:
                    raise Interrupted("the server was too slow")
                checked_at, checked_bytes = trio.current_time(), self._packed
            self._show()
        if self._decoder is not None:
            await self._unpack(b"", last=True)
        elif self._whole is not None and self._come != self._whole:
            if self._come > self._whole:
                await self._restart()
            raise Interrupted("the server sent another size than it said")

    async def _unpack(self, piece: bytes, *, last: bool = False) -> None:
        if self._decoder is None:
            await self._add(piece)
            return
        try:
            data = self._decoder.rest(_UNPACK_BYTES) if last else self._decoder.decode(piece, _UNPACK_BYTES)
            while data:
                await self._add(data)
                data = self._decoder.decode(b"", _UNPACK_BYTES) if len(data) >= _UNPACK_BYTES else b""
        except Broken as error:
            raise FetchError(
                "The file's compression is damaged.", "Nothing was saved.", answered=True
            ) from error
        if last and not self._decoder.whole():
            raise Interrupted("the compressed bytes end early")

    async def _add(self, data: bytes) -> None:
        self._come += len(data)
        # Counted, because a server may send more than it says, and a compressed file says nothing.
        if self._come > self._message.max_bytes:
            raise self._too_large()
        if len(self._head) < HEAD_BYTES:
            self._head += data[: HEAD_BYTES - len(self._head)]
        self._lines += data.count(b"\n")
        self._digest.update(data)
        await self._message.sink.write(data)

    def _show(self) -> None:
        if self._come - self._shown < STEP_BYTES:
            return
        self._shown, come = self._come, short_size(self._come)
        if self._whole is None:
            self._message.progress(Text("received {come}", come=come))
        else:
            size = short_size(self._whole)
            self._message.progress(Text("received {come} of {size}", come=come, size=size))

    def _result(self) -> Saved:
        target = self._journey.target
        return Saved(
            url=target.page,
            media_type=self._headers.media_type,
            suggested=suggested_name(self._headers, target),
            size=self._come,
            sha256=self._digest.hexdigest(),
            head=self._head,
            lines=self._lines,
            redirects=self._journey.redirects,
            tries=self._tries,
            sized=self._ends,
            unpacked=self._decoder is not None,
        )

    def _too_large(self) -> FetchError:
        size = "" if self._whole is None else short_size(self._whole)
        whole_mb, rest = divmod(self._message.max_bytes, 1024 * 1024)
        # As the setting has it, unless it is the room in the workspace.
        most = short_size(self._message.max_bytes) if rest else f"{whole_mb} MB"
        if size:
            return FetchError(
                "The file has {size}, and at most {most} are saved.",
                "Nothing was saved. The limit is [session] file_mb, or the room in the workspace.",
                size=size,
                most=most,
                answered=True,
            )
        return FetchError(
            "The file is larger than {most}.",
            "Nothing was saved. The limit is [session] file_mb, or the room in the workspace.",
            most=most,
            answered=True,
        )

    def _silent(self, host: str) -> FetchError:
        return FetchError(
            "{host} did not answer within {timeout_s} s.",
            "Try again later.",
            host=host,
            timeout_s=f"{self._limits.stall_s:g}",
        )

    def _broken_off(self, why: Exception | None) -> FetchError:
        return FetchError(
            "{host} did not send the whole file in {tries} tries: {why}.",
            "Nothing was saved. Try again later.",
            host=self._journey.target.host,
            tries=self._tries,
            why=str(getattr(why, "message", why) or "it changes all the time").rstrip("."),
            answered=True,
        )


def _is_whole(headers: Headers) -> bool:
    """Return True if the part that a server sent unasked is the whole file."""
    found = _CONTENT_RANGE.fullmatch(headers.first("content-range"))
    return found is not None and int(found[1]) == 0 and found[3] == str(int(found[2]) + 1)


def _validator(headers: Headers) -> str:
    """Return the value for `If-Range`; empty if the file cannot be recognized or continued.

    A weak tag does not promise the same bytes. A date only does if the file is older than the answer (RFC
    9110, 8.8.2.2): otherwise it may have changed twice within the second.
    """
    if headers.first("accept-ranges").lower() == "none":
        return ""
    tag, changed, now = (headers.first(name) for name in ("etag", "last-modified", "date"))
    if tag:
        return tag if _STRONG_TAG.fullmatch(tag) else ""
    return changed if _DATE.fullmatch(changed) and _DATE.fullmatch(now) and changed != now else ""
