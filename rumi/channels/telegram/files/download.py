"""Download of a file from Telegram, within limits on size and time. A partial file is never kept."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import httpx
import trio
from telegram import Bot
from telegram.error import BadRequest, NetworkError, RetryAfter, TelegramError

from rumi.channels.telegram.api.bot import in_words, wait_of
from rumi.channels.telegram.api.guarded import NO_ANSWER
from rumi.channels.telegram.api.unspoken import UnspokenClient
from rumi.errors import FileError
from rumi.platform import http
from rumi.platform.spooled_file import SpooledFile
from rumi.texts import Text

MAX_BYTES: Final = 20 * 1024 * 1024
"""The Bot API's size limit for downloads, in bytes."""

MAX_WAIT_S: Final = 20.0
"""Longest wait that a download accepts if Telegram asks for a wait, in seconds. If Telegram asks for more,
the user gets an error.
"""

_MEGA: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class DownloadTimeouts:
    """Time limits of a download and pauses between its attempts, in seconds.

    `in_all_s` limits the whole download. `silence_s` limits the time without a received byte. `pauses_s`
    lists the pauses between attempts.
    """

    in_all_s: float = 120.0
    silence_s: float = 20.0
    pauses_s: tuple[float, ...] = (0.5, 2.0)


@dataclass(frozen=True, slots=True)
class _Trouble:
    """The reason why an attempt failed, as a sentence without its full stop.

    `transient` is True if another attempt may succeed. `wait_s`, if set, is the number of seconds to wait
    before that attempt.
    """

    words: str
    transient: bool = False
    wait_s: float | None = None


@dataclass(frozen=True, slots=True)
class _FileLocation:
    """URL and size of a file. `local` is True if the Bot API server gave a path on its own disk instead."""

    url: str
    size: int | None
    local: bool


class Downloads:
    """Downloads files that Telegram stores for the bot. The creator of this object closes it."""

    def __init__(self, bot: Bot, *, max_bytes: int, patience: DownloadTimeouts) -> None:
        self._bot = bot
        self._max_bytes = max_bytes
        self._patience = patience
        self._client = UnspokenClient(
            timeout=httpx.Timeout(self._patience.silence_s, pool=None),
            **http.settings(httpx.create_ssl_context()),
        )

    async def aclose(self) -> None:
        """Close idle connections. Takes a limited time, even when cancelled."""
        await http.close(self._client.aclose)

    async def fetch(self, reference: str, spooled: SpooledFile) -> None:
        """Download the file with Telegram's id `reference`. Cancellation closes the connection.

        Raises:
            FileError: The file could not be downloaded. Neither the error nor its causes contain the token.
        """
        trouble: _Trouble | None = _Trouble(
            Text("It did not come within {in_all_s} s", in_all_s=f"{self._patience.in_all_s:g}")
        )
        with trio.move_on_after(self._patience.in_all_s):
            trouble = await self._patiently(reference, spooled)
        if trouble is not None:
            raise FileError("{words}.", words=trouble.words)

    async def _patiently(self, reference: str, spooled: SpooledFile) -> _Trouble | None:
        for pause_s in self._patience.pauses_s:
            trouble = await self._attempt(reference, spooled)
            if trouble is None or not trouble.transient:
                return trouble
            wait_s = pause_s if trouble.wait_s is None else trouble.wait_s
            if wait_s > MAX_WAIT_S:
                return trouble
            await trio.sleep(wait_s)
        return await self._attempt(reference, spooled)

    async def _attempt(self, reference: str, spooled: SpooledFile) -> _Trouble | None:
        """Try the download once; return an error instead of raising it.

        A raised error would refer to the library's errors, and those errors refer to requests that contain
        the token.
        """
        location = await self._locate(reference)
        if isinstance(location, _Trouble):
            return location
        if location.size is not None and location.size > self._max_bytes:
            return self._too_large()
        # An earlier attempt may have left a part of the file.
        await spooled.reset()
        try:
            # `_receive` stores the raw bytes, so they must not be compressed.
            request = self._client.build_request("GET", location.url, headers={"Accept-Encoding": "identity"})
            response = await self._client.send(request, stream=True)
            try:
                return self._judge(response, location) or await self._receive(response, location, spooled)
            finally:
                await http.close(response.aclose)
        except httpx.InvalidURL:
            return _Trouble("Telegram does not say where the file is")
        except httpx.TimeoutException:
            return _Trouble(Text("Telegram did not answer in time"), transient=True)
        except httpx.HTTPError as error:
            return _Trouble(
                Text("Telegram cannot be reached ({name})", name=type(error).__name__), transient=True
            )

    async def _locate(self, reference: str) -> _FileLocation | _Trouble:
        try:
            file = await self._bot.get_file(reference)
        except RetryAfter as error:
            return _Trouble(in_words(error), transient=True, wait_s=wait_of(error))
        except TelegramError as error:
            transient = isinstance(error, NetworkError) and not isinstance(error, BadRequest)
            return _Trouble(in_words(error), transient)
        except (TypeError, AttributeError):  # the response was not a file
            return _Trouble(Text("Telegram has a problem: {no_answer}", no_answer=NO_ANSWER))
        path = file.file_path
        if not isinstance(path, str) or not path:
            return _Trouble("Telegram does not say where the file is")
        # The library prepends the URL, unless this machine happens to have a file with that path.
        base = self._bot.base_file_url
        path = path.removeprefix(f"{base}/")
        size = file.file_size if isinstance(file.file_size, int) else None
        return _FileLocation(f"{base}/{quote(path, errors='replace')}", size, path.startswith("/"))

    def _judge(self, response: httpx.Response, location: _FileLocation) -> _Trouble | None:
        status = response.status_code
        if status != httpx.codes.OK:
            if location.local:
                return _Trouble(
                    "The Bot API server runs with --local and keeps its files to itself: "
                    "run it without, or serve its folder under /file"
                )
            transient = status >= 500 or status == httpx.codes.TOO_MANY_REQUESTS
            return _Trouble(f"Telegram does not hand the file out ({status})", transient)
        if response.headers.get("content-encoding", "identity") != "identity":
            return _Trouble("Telegram sent the file in a way that was not asked for")
        if int(response.headers.get("content-length", 0)) > self._max_bytes:
            return self._too_large()
        return None

    async def _receive(
        self, response: httpx.Response, location: _FileLocation, spooled: SpooledFile
    ) -> _Trouble | None:
        chunks = response.aiter_raw()
        try:
            async for chunk in chunks:
                if spooled.size + len(chunk) > self._max_bytes:
                    return self._too_large()
                await spooled.write(chunk)
        finally:
            await http.unwind(chunks)
        await spooled.flush()
        # A body without a length ends with its connection, and may then be incomplete.
        framed = {"content-length", "transfer-encoding"} & set(response.headers)
        if not framed and location.size not in (None, spooled.size):
            return _Trouble("Telegram cannot be reached (the file was cut off)", transient=True)
        return None

    def _too_large(self) -> _Trouble:
        return _Trouble(f"It is larger than {self._max_bytes / _MEGA:g} MB")
