"""Starts the confined process that reads and writes calendar files, and speaks with it."""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import trio

from rumi.errors import RumiError
from rumi.platform.extras import MissingExtra, require_extra
from rumi.sandbox.confined.parent import Child, ChildFailed
from rumi.services.calendar.errors import CalendarError, NotACalendar
from rumi.services.calendar.events import Event, EventDraft, TimeWindow
from rumi.texts import Text

AT_ONCE: Final = 2
"""Maximum number of processes at the same time; other readings wait."""

READ_S: Final = 20.0
"""Maximum time of one reading or change, in seconds."""

_MOST_ANSWER_BYTES: Final = 16_000_000
_PROGRAM: Final = ("-m", "rumi.services.calendar.process")


class WriteRefused(RumiError):
    """The event cannot be written as asked for; the text is for models."""

    advises_models = True


@dataclass(frozen=True, slots=True)
class FileReading:
    """Events of files. `files` are the address and the ETag of each file, as the server wrote them.

    `left_out` names events that could not be read, `unknown_zones` are zones that were taken as the
    reader's, and `more` is the number of events that were too many.
    """

    events: tuple[Event, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    left_out: tuple[str, ...] = ()
    unknown_zones: tuple[str, ...] = ()
    more: int = 0


class CalendarReader:
    """Reads and writes calendar files, each time in a process of its own."""

    def __init__(self) -> None:
        self._slots = trio.CapacityLimiter(AT_ONCE)

    @asynccontextmanager
    async def _child(self) -> AsyncIterator[Child]:
        async with self._slots, await Child.start(_PROGRAM, most_bytes=_MOST_ANSWER_BYTES) as child:
            child.left_s = READ_S
            yield child

    async def read(self, window: TimeWindow, bodies: list[bytes], *, dav: bool = False) -> FileReading:
        """Return the events of a file in a window or, with `dav`, of the files in answers of CalDAV.

        On cancellation, kills the process.

        Raises:
            NotACalendar: It is not a calendar.
            CalendarError: It cannot be read within the limits of time and memory, or the extra `calendar` is
                not installed.
        """
        form = "dav" if dav else "file"
        heard = await self._ask({"do": "read", "form": form, "window": window.to_json()}, *bodies)
        try:  # the answer is untrusted, because a file may have taken over the process
            return FileReading(
                tuple(Event(**event) for event in heard["events"]),
                tuple((str(href), str(etag)) for href, etag in heard["files"]),
                tuple(map(str, heard["left_out"])),
                tuple(map(str, heard["unknown_zones"])),
                int(heard["more"]),
            )
        except (KeyError, TypeError, ValueError):
            raise _broken(Text("its reader has failed")) from None

    async def made(self, draft: EventDraft, uid: str, effect: str) -> bytes:
        """Return the file of a new event. Raises as `changed` does."""
        return await self._file({"do": "make", "draft": draft.to_json(), "uid": uid, "effect": effect})

    async def changed(self, file: bytes, draft: EventDraft, occurrence: str, effect: str) -> bytes:
        """Return the file of a changed event; with an `occurrence`, only this one of a series is changed.

        Raises:
            WriteRefused: The event cannot be changed so.
            CalendarError: The file cannot be read.
        """
        ask = {"do": "change", "draft": draft.to_json(), "occurrence": occurrence, "effect": effect}
        return await self._file(ask, file)

    async def without(self, file: bytes, occurrence: str, effect: str) -> bytes:
        """Return the file of a series without one occurrence. Raises as `changed` does."""
        return await self._file({"do": "drop", "occurrence": occurrence, "effect": effect}, file)

    async def effect_in(self, file: bytes) -> str:
        """Return the key of Rumi's last change in a file; empty if there is none."""
        return str((await self._ask({"do": "effect"}, file)).get("effect", ""))

    async def _file(self, ask: Mapping[str, object], *bodies: bytes) -> bytes:
        heard = await self._ask({**ask, "now": time.time()}, *bodies)
        if "refused" in heard:
            raise WriteRefused("{why}.", why=str(heard["refused"]))
        return str(heard["file"]).encode()

    async def _ask(self, ask: Mapping[str, object], *bodies: bytes) -> dict[str, Any]:
        try:
            require_extra("calendar")
            async with self._child() as child:
                await child.say({**ask, "bodies": len(bodies)}, *bodies)
                heard = await child.hear()
        except MissingExtra as error:
            raise CalendarError(error.message, error.advice) from None
        except ChildFailed as error:
            raise _broken(error.text) from None
        if heard.get("failed") == "not a calendar":
            raise NotACalendar("It is not a calendar.")
        if heard.get("failed"):
            raise _broken(str(heard["failed"]))
        return heard


def _broken(why: str) -> CalendarError:
    return CalendarError("The calendar's file cannot be read: {why}.", why=why)
