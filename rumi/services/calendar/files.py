"""A calendar at a private address: a file in the format of RFC 5545, which is only read."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from urllib.parse import unquote

import trio

from rumi.services.calendar.errors import CalendarError, NotACalendar
from rumi.services.calendar.events import TimeWindow
from rumi.services.calendar.http import Elsewhere, HttpAnswer, ServerConnection, unexpected
from rumi.services.calendar.reader import CalendarReader, FileReading
from rumi.texts import Text

FRESH_S: Final = 60.0
"""Time for which a file is not asked for again, in seconds."""

_LOGIN: Final = Text("Copy the private address in iCal format once more: it may have been replaced.")
_ADDRESS: Final = re.compile(r"[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+")

Fetch: TypeAlias = Callable[[str], Awaitable[bytes]]
"""Fetches a file from an address at another server, with the guard for addresses; raises a `RumiError`."""


@dataclass(slots=True)
class CalendarFile:
    """A calendar file. The last one is kept in memory with its ETag, and asked for only if it has changed.

    `fetch` follows redirects to other servers.
    """

    url: str = field(repr=False)
    reader: CalendarReader
    fetch: Fetch
    _body: bytes = field(default=b"", repr=False)
    _marks: dict[str, str] = field(default_factory=dict)
    _read_at: float = float("-inf")

    async def read(self, window: TimeWindow) -> FileReading:
        """Return the events in a window.

        Raises:
            CalendarError: The file cannot be fetched or read.
        """
        if trio.current_time() - self._read_at > FRESH_S:
            self._body = await self._fetched()
            self._read_at = trio.current_time()
        # Google's private address names the calendar's owner.
        address = _ADDRESS.search(unquote(self.url))
        mine = (address[0].casefold(),) if address else ()
        window = TimeWindow(window.start, window.end, window.zone, mine)
        try:
            return await self.reader.read(window, [self._body])
        except NotACalendar:
            self._read_at = float("-inf")
            raise NotACalendar(
                "The address at {host} serves no calendar, but something else.",
                _LOGIN,
                host=self._connection.host,
            ) from None

    @property
    def _connection(self) -> ServerConnection:
        return ServerConnection(self.url.replace("webcal://", "https://", 1))

    async def _fetched(self) -> bytes:
        async with self._connection as connection:
            try:
                answer = await connection.request("GET", connection.url, headers=self._marks)
            except Elsewhere as redirect:
                self._marks = {}
                return await self.fetch(redirect.url)
        if answer.status == 304:
            return self._body
        if answer.status in (404, 410):
            raise CalendarError("{host} has no calendar at this address.", _LOGIN, host=connection.host)
        if answer.status != 200:
            raise unexpected(connection.host, answer.status)
        self._marks = _marks(answer)
        return answer.body


def _marks(answer: HttpAnswer) -> dict[str, str]:
    """Return the headers with which the next request asks whether the file has changed."""
    named = {"If-None-Match": "etag", "If-Modified-Since": "last-modified"}
    return {name: answer.headers[of] for name, of in named.items() if of in answer.headers}
