"""The configured calendars: which there are, what was read of each, and the events that were shown."""

import time
from collections import OrderedDict
from collections.abc import Collection as AnyOf
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from rumi.errors import ConfigError, RumiError
from rumi.platform.config.cascade import Loaded
from rumi.platform.config.schema import CalendarSection
from rumi.platform.config.secrets import calendar_key, calendar_url_key
from rumi.platform.timestamps import utc
from rumi.services.calendar.caldav import CalDav, Collection
from rumi.services.calendar.errors import CalendarError
from rumi.services.calendar.events import Event, TimeWindow
from rumi.services.calendar.files import CalendarFile, Fetch
from rumi.services.calendar.http import host_of, origin
from rumi.services.calendar.reader import CalendarReader, FileReading
from rumi.texts import Language, translate
from rumi.web.tree import fetch_bytes

MOST_SHOWN: Final = 5000
"""Maximum number of events that are remembered by their ids, of all chats together."""


@dataclass(frozen=True, slots=True)
class Shown:
    """An event that a chat has read. `label` names its calendar; `url` and `etag` are those of its file."""

    calendar: str
    label: str
    event: Event
    url: str = ""
    etag: str = ""


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """A calendar that can be written: its configured name, its label, the server's host, and where it is."""

    calendar: str
    label: str
    host: str
    source: CalDav
    collection: Collection


@dataclass(frozen=True, slots=True)
class CalendarReading:
    """What was read of one calendar, or the error. `label` names the calendar."""

    label: str
    reading: FileReading = field(default_factory=FileReading)
    shown: Mapping[str, Shown] = field(default_factory=dict)
    error: RumiError | None = None


@dataclass(slots=True)
class ConfiguredCalendar:
    """A section `[calendars.NAME]`, and how its last reading went.

    `fault` is why it cannot be used: its password or its address is missing.
    """

    name: str
    section: CalendarSection
    source: CalendarFile | CalDav | None
    host: str
    fault: RumiError | None = None
    read_at: float = 0.0
    error: RumiError | None = None

    @property
    def may_write(self) -> bool:
        """Return True if events can be written to the calendar, as far as the configuration says."""
        return self.section.write and not isinstance(self.source, CalendarFile)

    @property
    def insecure(self) -> bool:
        """Return True if the password goes to another machine without TLS."""
        scheme, host, _ = origin(self.source.url) if self.source is not None else ("", "", 0)
        return scheme == "http" and host not in ("localhost", "127.0.0.1", "::1")

    async def collections(self) -> tuple[Collection, ...]:
        """Return the calendars of the account; one without an address for a file.

        Raises:
            RumiError: The server does not answer, or the configuration lacks something.
        """
        if self.source is None:
            raise self.fault or CalendarError("The calendar {name} has no address.", name=self.name)
        if isinstance(self.source, CalendarFile):
            return (Collection("", self.name, writable=False),)
        return (await self.source.account()).collections

    def label(self, collection: Collection, collections: AnyOf[Collection]) -> str:
        """Return the name of a calendar for people and models."""
        return self.name if len(collections) == 1 else f"{self.name}/{collection.name}"

    def targets(self, source: CalDav, collections: AnyOf[Collection]) -> list[WriteTarget]:
        """Return those of the account's calendars that can be written."""
        return [
            WriteTarget(self.name, self.label(each, collections), self.host, source, each)
            for each in collections
            if each.writable
        ]

    async def read(self, collection: Collection, window: TimeWindow) -> FileReading:
        """Read one of the account's calendars, and note how it went."""
        assert self.source is not None
        try:
            if isinstance(self.source, CalendarFile):
                reading = await self.source.read(window)
            else:
                reading = await self.source.read(collection, window)
        except RumiError as error:
            self.error = error
            raise
        self.read_at, self.error = time.time(), None
        return reading


class Calendars:
    """All configured calendars of the process. Nothing that was read is stored: it is kept in memory only."""

    def __init__(self, configured: Mapping[str, ConfiguredCalendar], reader: CalendarReader) -> None:
        self.configured = configured
        self.reader = reader
        self._shown: OrderedDict[str, Shown] = OrderedDict()

    def shown(self, id: str, names: AnyOf[str]) -> Shown | None:
        """Return an event that was read, by its id, if it is in one of the named calendars."""
        found = self._shown.get(id)
        return found if found is not None and found.calendar in names else None

    def forget(self, id: str) -> None:
        """Forget an event that was changed: it must be read again."""
        self._shown.pop(id, None)

    async def read(self, names: AnyOf[str], window: TimeWindow, only: str = "") -> list[CalendarReading]:
        """Read calendars, one after the other. `only` is the label of the one to read; empty for all.

        An error of one calendar is part of its result, so it does not hide the others.
        """
        found: list[CalendarReading] = []
        for name in names:
            one = self.configured[name]
            try:
                collections = await one.collections()
            except RumiError as error:
                one.error = error
                found.append(CalendarReading(name, error=error))
                continue
            for collection in collections:
                label = one.label(collection, collections)
                if not only or is_meant(only, label):
                    found.append(await self._read(one, collection, label, window))
        return found

    async def _read(
        self, one: ConfiguredCalendar, collection: Collection, label: str, window: TimeWindow
    ) -> CalendarReading:
        try:
            reading = await one.read(collection, window)
        except RumiError as error:
            return CalendarReading(label, error=error)
        shown = {}
        for event in reading.events:
            url, etag = reading.files[event.file] if event.file < len(reading.files) else ("", "")
            shown[event.id(f"{label}\n{url}")] = Shown(one.name, label, event, url, etag)
        for id, each in shown.items():
            self._shown[id] = each
            self._shown.move_to_end(id)
        while len(self._shown) > MOST_SHOWN:
            self._shown.popitem(last=False)
        return CalendarReading(label, reading, shown)

    async def targets(self, names: AnyOf[str]) -> list[WriteTarget]:
        """Return the calendars to which events can be written.

        Raises:
            RumiError: A server does not answer, and no other calendar can be written.
        """
        found, failed = list[WriteTarget](), list[RumiError]()
        for name in names:
            one = self.configured[name]
            if not one.may_write:
                continue
            try:
                collections = await one.collections()
            except RumiError as error:
                failed.append(error)
                continue
            assert isinstance(one.source, CalDav)
            found += one.targets(one.source, collections)
        if failed and not found:
            raise failed[0]
        return found

    def known_targets(self, names: AnyOf[str]) -> list[WriteTarget] | None:
        """Return the calendars to which events can be written; None if a server was not asked yet."""
        found = list[WriteTarget]()
        for name in names:
            one = self.configured[name]
            if not one.may_write:
                continue
            if not isinstance(one.source, CalDav) or one.source.known is None:
                return None
            found += one.targets(one.source, one.source.known.collections)
        return found

    def state(self, language: Language) -> list[dict[str, object]]:
        """Return a row per calendar for the status dump: its name, the last reading and the last error."""
        return [
            {
                "name": each.name,
                "read": utc(each.read_at) if each.read_at else None,
                "error": translate(language, each.error.message) if each.error else "",
            }
            for each in self.configured.values()
        ]


def is_meant(said: str, label: str) -> bool:
    """Return True if `said` names the calendar with a label: by all of it, or by one of its parts."""
    name = label.casefold()
    return said.strip().casefold() in (name, *name.split("/", 1))


def configured_calendars(loaded: Loaded) -> Calendars:
    """Return the calendars of the configuration. Nothing is asked for yet."""
    reader = CalendarReader()
    fetch = partial(fetch_bytes, loaded.settings.fetch)
    sections = loaded.settings.calendars.items()
    return Calendars({name: _calendar(name, each, loaded, reader, fetch) for name, each in sections}, reader)


def _calendar(
    name: str, section: CalendarSection, loaded: Loaded, reader: CalendarReader, fetch: Fetch
) -> ConfiguredCalendar:
    keys, faults = loaded.secrets.keys, loaded.secrets.faults
    url, fault = section.url, faults.get(calendar_url_key(name)) or faults.get(calendar_key(name))
    if url.startswith(("$", "!")):
        secret = keys.get(calendar_url_key(name))
        url = "" if secret is None else secret.reveal().strip()
    password = keys.get(calendar_key(name))
    if fault is None and not url.startswith(("http://", "https://", "webcal://")):
        fault = ConfigError(
            "The address of the calendar {name} is not an http or https address.",
            "Correct calendars.{name}.url.",
            name=name,
        )
    if fault is None and section.user and password is None:
        fault = ConfigError(
            "The calendar {name} has a user and no password.", "Set calendars.{name}.password.", name=name
        )
    if fault is not None:
        return ConfiguredCalendar(name, section, None, "", fault, error=fault)
    source: CalendarFile | CalDav = CalendarFile(url, reader, fetch)
    if section.user and password is not None:
        source = CalDav(url, section.user, password.reveal(), reader, section.calendar)
    return ConfiguredCalendar(name, section, source, host_of(url))
