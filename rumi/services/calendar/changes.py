"""Writes events, each once: what is done is stored before, and a later process finds out how it ended.

See docs/decisions/0142-effects-are-reserved.md.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal, TypeAlias

from rumi.errors import RumiError
from rumi.services.calendar.caldav import CalDav
from rumi.services.calendar.calendars import Calendars, Shown, WriteTarget
from rumi.services.calendar.errors import EventChanged, Unsettled
from rumi.services.calendar.events import EventDraft
from rumi.store.journal.actor import AskJournal
from rumi.store.journal.effects import Effect, mark_effect, read_effect, reserve_effect

KIND: Final = "event"
"""The kind of these effects."""

Action: TypeAlias = Literal["add", "change", "delete"]
HandOver: TypeAlias = Callable[[str, str], Awaitable[None]]
"""Stores, right before a request, to which address it goes and the ETag of the event there."""

Outcome: TypeAlias = Literal["done", "done before", "not done"]


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be written. `what` says it for people.

    `target` is the calendar of a new event. `shown` is the event that is changed or deleted, and `occurrence`
    the one of its series; empty for the whole series.
    """

    action: Action
    what: str
    draft: EventDraft
    target: WriteTarget | None = None
    shown: Shown | None = None
    occurrence: str = ""

    @property
    def calendar(self) -> str:
        """The configured name of the calendar."""
        return self.target.calendar if self.target is not None else self.shown.calendar if self.shown else ""


@dataclass(frozen=True, slots=True)
class EventChanges:
    """Writes the events of one turn of a chat."""

    calendars: Calendars
    ask: AskJournal
    chat: str
    turn: str

    async def make(self, change: Change, arguments: Mapping[str, object]) -> Outcome:
        """Write an event. The same arguments are written once in a turn.

        On cancellation, a request that was sent may have been carried out.

        Raises:
            EventChanged: The event has changed since it was read.
            Unsettled: Nobody knows whether it was written.
            RumiError: It was not written.
        """
        key = key_of(arguments)
        earlier = await self.ask(reserve_effect(self.chat, self.turn, key, KIND, change.what))
        if earlier is not None:
            return await self._earlier(earlier)

        async def hand_over(url: str, etag: str) -> None:
            note = {"action": _at_server(change), "calendar": change.calendar, "url": url, "etag": etag}
            await self.ask(mark_effect(self.chat, self.turn, key, "handed_over", json.dumps(note)))

        try:
            await self._write(change, key, hand_over)
        except Unsettled as error:
            if not await self._was_done(key):
                raise error from None
        except RumiError:
            await self.ask(mark_effect(self.chat, self.turn, key, "failed"))
            raise
        await self.ask(mark_effect(self.chat, self.turn, key, "done"))
        return "done"

    async def outcome(self, arguments: Mapping[str, object]) -> Outcome | None:
        """Return how a call of this turn ended that was interrupted; None if nobody can know it.

        Raises:
            RumiError: The server cannot be asked now.
        """
        stored = await self.ask(read_effect(self.turn, key_of(arguments)))
        if stored is None:
            return "not done"
        found = await self._look(stored)
        if found == "done":
            await self.ask(mark_effect(self.chat, self.turn, stored.key, "done"))
        return found

    async def _earlier(self, earlier: Effect) -> Outcome:
        """Return the outcome of an effect that was begun before in this turn."""
        if await self._look(earlier) == "done":
            await self.ask(mark_effect(self.chat, self.turn, earlier.key, "done"))
            return "done before"
        raise Unsettled(
            "Nobody knows whether this was written before: {what}.",
            "Look into the calendar.",
            what=earlier.what,
        )

    async def _was_done(self, key: str) -> bool:
        """Return True if the server shows that an effect of this turn was done."""
        try:
            stored = await self.ask(read_effect(self.turn, key))
            return stored is not None and await self._look(stored) == "done"
        except RumiError:
            return False

    async def _look(self, stored: Effect) -> Outcome | None:
        """Return how an effect ended, by the journal or by what is at the server; None if nobody can know."""
        if stored.state != "handed_over":
            return "done" if stored.state == "done" else "not done"
        note: dict[str, str] = json.loads(stored.note)
        one = self.calendars.configured.get(note["calendar"])
        if one is None or not isinstance(one.source, CalDav):
            return None
        file = await one.source.get(note["url"])
        match note["action"]:
            case "add":
                return "not done" if file is None else "done"
            case "delete" if file is None:
                return "done"
        if file is None:
            return None
        body, etag = file
        if note["action"] == "change" and await self.calendars.reader.effect_in(body) == stored.key:
            return "done"
        return "not done" if etag == note["etag"] else None

    async def _write(self, change: Change, key: str, hand_over: HandOver) -> None:
        reader = self.calendars.reader
        if change.target is not None:
            uid = uid_of(self.turn, key)
            file = await reader.made(change.draft, uid, key)
            source, collection = change.target.source, change.target.collection
            await hand_over(source.address_of(collection, f"{uid}.ics"), "")
            await source.add(collection, f"{uid}.ics", file)  # if it is there, an earlier call has stored it
            return
        assert change.shown is not None
        shown, one = change.shown, self.calendars.configured[change.shown.calendar]
        assert isinstance(one.source, CalDav)
        if change.action == "delete" and not change.occurrence:
            await hand_over(shown.url, shown.etag)
            await one.source.delete(shown.url, shown.etag)
            return
        stored = await one.source.get(shown.url)
        if stored is None or stored[1] != shown.etag:
            raise EventChanged(
                "The event has changed since it was read, so nothing was done.", "Read the calendar again."
            )
        if change.action == "delete":
            file = await reader.without(stored[0], change.occurrence, key)
        else:
            file = await reader.changed(stored[0], change.draft, change.occurrence, key)
        await hand_over(shown.url, shown.etag)
        await one.source.put(shown.url, file, shown.etag)


def _at_server(change: Change) -> str:
    """Return what happens at the server: one occurrence is deleted by changing its series."""
    return "change" if change.action == "delete" and change.occurrence else change.action


def key_of(arguments: Mapping[str, object]) -> str:
    """Return the key of a call's effect, which follows from its arguments."""
    return sha256(json.dumps(arguments, sort_keys=True, default=str).encode()).hexdigest()[:32]


def uid_of(turn: str, key: str) -> str:
    """Return the UID of a new event: the same call of a turn can make only one."""
    return f"rumi-{sha256(f'{turn} {key}'.encode()).hexdigest()[:32]}"
