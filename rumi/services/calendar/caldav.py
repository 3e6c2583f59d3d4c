"""Calendars at a CalDAV server (RFC 4791): found, read and written with the requests that this needs."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from rumi.platform.untrusted_text import one_line
from rumi.services.calendar import dav
from rumi.services.calendar.errors import CalendarError, EventChanged
from rumi.services.calendar.events import TimeWindow
from rumi.services.calendar.http import Elsewhere, HttpAnswer, ServerConnection, origin, unexpected
from rumi.services.calendar.reader import CalendarReader, FileReading
from rumi.texts import Text

MOST_COLLECTIONS: Final = 20
"""Maximum number of calendars of one account that are read."""

_MOST_FOUND_BYTES: Final = 2_000_000
_MOST_FILE_BYTES: Final = 1_000_000
_XML: Final = "application/xml; charset=utf-8"
_ADVICE: Final = Text("Check the address: it is that of the server, of the user or of a calendar.")


@dataclass(frozen=True, slots=True)
class Collection:
    """A calendar at a server: its address, the name that its owner gave it, and whether it can be written."""

    url: str
    name: str
    writable: bool = True


@dataclass(frozen=True, slots=True)
class CalendarAccount:
    """The calendars that were found for a user, and the user's own mail addresses."""

    collections: tuple[Collection, ...]
    addresses: tuple[str, ...] = ()


@dataclass(slots=True)
class CalDav:
    """A user's calendars at a server. `url` is the address of the server, of the user or of a calendar.

    With `only`, just the calendar of this name is used. What was found is kept in memory.
    """

    url: str
    user: str
    password: str = field(repr=False)
    reader: CalendarReader
    only: str = ""
    _account: CalendarAccount | None = None

    def _connection(self, url: str = "") -> ServerConnection:
        return ServerConnection(url or self.url, self.user, self.password)

    @property
    def known(self) -> CalendarAccount | None:
        """The user's calendars, if the server was asked before."""
        return self._account

    async def account(self) -> CalendarAccount:
        """Return the user's calendars; the first call asks the server.

        Raises:
            CalendarError: The server does not answer, refuses the user, or has no such calendar.
        """
        if self._account is None:
            found = await self._found()
            chosen = tuple(each for each in found.collections if not self.only or _is_named(each, self.only))
            if not chosen:
                names = ", ".join(one_line(each.name, 80) for each in found.collections[:MOST_COLLECTIONS])
                raise CalendarError(
                    "{host} has no calendar of the name {name}.",
                    "It has: {names}",
                    host=self._connection().host,
                    name=self.only or "…",
                    names=names or "-",
                )
            self._account = replace(found, collections=chosen[:MOST_COLLECTIONS])
        return self._account

    async def read(self, collection: Collection, window: TimeWindow) -> FileReading:
        """Return the events of a calendar in a window. `files` of the result have absolute addresses.

        Raises:
            CalendarError: The calendar cannot be read.
        """
        body = dav.query(window.start, window.end)
        addresses = (await self.account()).addresses
        async with self._connection(collection.url) as connection:
            headers = {"Depth": "1", "Content-Type": _XML}
            answer = await _sent(connection, "REPORT", collection.url, body=body, headers=headers)
        if answer.status != 207:
            self._account = None
            raise _status(connection, answer)
        mine = (self.user.casefold(),) if "@" in self.user else ()
        window = replace(window, addresses=(*addresses, *mine))
        reading = await self.reader.read(window, [answer.body], dav=True)
        return replace(reading, files=tuple((urljoin(answer.url, href), tag) for href, tag in reading.files))

    async def get(self, url: str) -> tuple[bytes, str] | None:
        """Return an event's file and its ETag; None if it does not exist.

        Raises:
            CalendarError: The server does not answer, or gives no ETag.
        """
        await self.account()
        self._check(url)
        async with self._connection(url) as connection:
            answer = await _sent(connection, "GET", url, most_bytes=_MOST_FILE_BYTES)
        if answer.status in (404, 410):
            return None
        if answer.status != 200 or "etag" not in answer.headers:
            raise _status(connection, answer)
        return answer.body, answer.headers["etag"]

    def address_of(self, collection: Collection, name: str) -> str:
        """Return the address of a file in a calendar."""
        return urljoin(collection.url.rstrip("/") + "/", quote(name))

    async def add(self, collection: Collection, name: str, file: bytes) -> bool:
        """Store a new event under a name; return False if there is one of this name already.

        Raises:
            CalendarError: It is not stored; `Unsettled` if nobody knows.
        """
        url = self.address_of(collection, name)
        headers = {"If-None-Match": "*", "Content-Type": "text/calendar; charset=utf-8"}
        async with self._connection(url) as connection:
            answer = await _sent(connection, "PUT", url, body=file, headers=headers)
        if answer.status in (200, 201, 204):
            return True
        if answer.status == 412:
            return False
        raise _status(connection, answer)

    async def put(self, url: str, file: bytes, etag: str) -> None:
        """Replace an event's file.

        Raises:
            EventChanged: The event has changed since its ETag was read.
            CalendarError: It is not stored; `Unsettled` if nobody knows.
        """
        headers = {"Content-Type": "text/calendar; charset=utf-8"}
        await self._change("PUT", url, etag, file, headers)

    async def delete(self, url: str, etag: str) -> None:
        """Delete an event with its series. Raises as `put` does."""
        await self._change("DELETE", url, etag, b"", {})

    async def _change(self, method: str, url: str, etag: str, body: bytes, headers: dict[str, str]) -> None:
        self._check(url)
        if not etag:
            raise CalendarError(
                "{host} gives events no ETag, so they cannot be changed safely.", host=self._connection().host
            )
        async with self._connection(url) as connection:
            answer = await _sent(connection, method, url, body=body, headers={"If-Match": etag, **headers})
        if answer.status in (404, 409, 410, 412):
            raise EventChanged(
                "The event has changed since it was read, so nothing was done.", "Read the calendar again."
            )
        if answer.status not in (200, 201, 204):
            raise _status(connection, answer)

    def _check(self, url: str) -> None:
        """Refuse an address at which none of the calendars is: a server may name any in its answers.

        Raises:
            CalendarError: The password must not be sent there.
        """
        found = () if self._account is None else self._account.collections
        if origin(url) not in {origin(self.url), *(origin(each.url) for each in found)}:
            raise CalendarError(
                "{host} names another server for the event.", "", host=self._connection().host
            )

    async def _found(self) -> CalendarAccount:
        """Find the user's calendars, as RFC 4791 and RFC 6764 say."""
        first = await self._asked(self.url, 0, missing=True)
        start = self.url
        if first is None or not (first.is_calendar or first.home or first.principal or first.is_collection):
            start = urljoin(self.url, "/.well-known/caldav")
            first = await self._asked(start, 0, missing=True)
        if first is None:
            raise CalendarError(
                "{host} has no calendars at this address.", _ADVICE, host=self._connection().host
            )
        if first.is_calendar:
            return CalendarAccount((self._collection(first),), first.addresses)
        user = first
        if not first.home and first.principal:
            user = await self._asked(self._within(first.href, first.principal), 0) or first
        home = self._within(user.href, user.home, home=True) if user.home else first.href
        found = await self._all(home)
        calendars = [each for each in found if each.is_calendar and each.takes_events]
        return CalendarAccount(tuple(map(self._collection, calendars)), user.addresses)

    async def _asked(self, url: str, depth: int, *, missing: bool = False) -> dav.Resource | None:
        """Return what the server says about an address; None with `missing`, if there is nothing."""
        found = await self._all(url, depth, missing=missing)
        return found[0] if found else None

    async def _all(self, url: str, depth: int = 1, *, missing: bool = False) -> list[dav.Resource]:
        headers = {"Depth": str(depth), "Content-Type": _XML}
        async with self._connection(url) as connection:
            answer = await _sent(
                connection, "PROPFIND", url, body=dav.ASK, headers=headers, most_bytes=_MOST_FOUND_BYTES
            )
        if answer.status != 207:
            if missing and answer.status in (200, 400, 403, 404, 405, 410, 501):
                return []
            raise _status(connection, answer)
        try:
            found = dav.resources(answer.body)
        except dav.NotDav:
            raise CalendarError("{host} does not speak CalDAV here.", _ADVICE, host=connection.host) from None
        return [replace(each, href=self._within(answer.url, each.href)) for each in found]

    def _collection(self, resource: dav.Resource) -> Collection:
        name = resource.name or urlsplit(resource.href).path.rstrip("/").rpartition("/")[2]
        return Collection(resource.href, name, resource.writable is not False)

    def _within(self, base: str, href: str, *, home: bool = False) -> str:
        """Return an address that the server names.

        Raises:
            CalendarError: It is at another server. Only the home of the calendars may be at another host of
                the same domain, by https: large services spread their users so.
        """
        target = urljoin(base, href)
        here, there = origin(base), origin(target)
        if here != there and not (home and _same_domain(here, there)):
            raise CalendarError(
                "{host} names another server for its calendars: {other}.",
                "If it is yours, set its address as url.",
                host=self._connection().host,
                other=there[1],
            )
        return target


async def _sent(
    connection: ServerConnection,
    method: str,
    url: str,
    *,
    body: bytes = b"",
    headers: dict[str, str] | None = None,
    most_bytes: int = 0,
) -> HttpAnswer:
    try:
        more = {"most_bytes": most_bytes} if most_bytes else {}
        return await connection.request(method, url, body=body, headers=headers, **more)
    except Elsewhere as redirect:
        raise CalendarError(
            "{host} redirects to {other}, which gets no password.",
            "If it is yours, set its address as url.",
            host=connection.host,
            other=origin(redirect.url)[1],
        ) from None


def _status(connection: ServerConnection, answer: HttpAnswer) -> CalendarError:
    if answer.status in (200, 404, 405, 410):
        return CalendarError("{host} has no calendar at this address.", _ADVICE, host=connection.host)
    return unexpected(connection.host, answer.status)


def _is_named(collection: Collection, name: str) -> bool:
    last = urlsplit(collection.url).path.rstrip("/").rpartition("/")[2]
    return name.casefold() in (collection.name.casefold(), last.casefold())


def _same_domain(here: Sequence[object], there: Sequence[object]) -> bool:
    """Return True for two hosts of one domain by https, such as caldav.example.org and p01.example.org."""
    parent = str(here[1]).partition(".")[2]
    ours = parent.count(".") >= 1 and (str(there[1]) == parent or str(there[1]).endswith(f".{parent}"))
    return here[0] == there[0] == "https" and here[2] == there[2] == 443 and ours
