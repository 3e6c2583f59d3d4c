"""The `calendar_write` tool: adds, changes and deletes events of a chat's CalDAV calendars."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from hashlib import sha256
from typing import Final

import trio

from rumi.agent.tool import Question, Tool, ToolResult
from rumi.agent.tools.calendar_read import ChatCalendars
from rumi.agent.tools.calendar_times import span, span_in_numbers
from rumi.errors import RumiError
from rumi.models.model import ToolSpec
from rumi.platform.texts.questions import ActionKind, Detail
from rumi.platform.unaccented import unaccented
from rumi.platform.untrusted_text import one_line
from rumi.services.calendar.calendars import Shown, WriteTarget, is_meant
from rumi.services.calendar.changes import Action, Change, EventChanges, Outcome
from rumi.services.calendar.errors import Unsettled
from rumi.services.calendar.events import EventDraft
from rumi.texts import Text

MOST_TEXT_CHARS: Final = 5000
MOST_ALARM_MINUTES: Final = 60 * 24 * 28
TARGETS_S: Final = 20.0

SPEC: Final = ToolSpec(
    name="calendar_write",
    description=(
        "Add, change or delete an event in the user's calendar. Change and delete take an `id` of "
        "calendar_read; of an event that repeats, only this date unless `all` is true. It invites nobody."
    ),
    parameters={
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": ["add", "change", "delete"]},
            "id": {"type": "string"},
            "all": {"type": "boolean", "description": "The whole series"},
            "calendar": {"type": "string", "description": "For add, if there are several"},
            "title": {"type": "string"},
            "start": {"type": "string", "description": "Local, like 2026-12-01T09:00; a date is all-day"},
            "end": {"type": "string", "description": "Of all-day events the last day"},
            "place": {"type": "string"},
            "notes": {"type": "string"},
            "repeat": {"type": "string", "description": "RRULE, like FREQ=WEEKLY;BYDAY=MO;COUNT=10"},
            "alarm_minutes": {"type": "integer", "description": "Alarm before the start; -1 removes it"},
        },
        "required": ["action"],
    },
)

_ACTIONS: Final[Mapping[str, ActionKind]] = {
    "add": "add_event",
    "change": "change_event",
    "delete": "delete_event",
}
_ASKS: Final = re.compile(
    r"\b(?:calendars?|calendario|agenda\w*|events?|eventos?|appointments?|citas?|compromissos?|meetings?|"
    r"reuni(?:on|ones|ao|oes)|schedule|book|put (?:it|this|that)|add|agrega\w*|anad\w*|anota\w*|apunta\w*|"
    r"program\w*|marca\w*|reserva\w*|adiciona\w*|coloca\w*|pon(?:er|lo|la|me)?)\b"
)
_RULE: Final = re.compile(r"(?:RRULE:)?[A-Za-z0-9=;,:+-]{6,200}")


class _Wrong(RumiError):
    """An argument is wrong; the text is for models."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A call's checked arguments. `event` is the event that is changed or deleted; None for a new one."""

    action: Action
    draft: EventDraft
    event: Shown | None = None
    occurrence: str = ""
    calendar: str = ""


class CalendarWrite(Tool):
    """The `calendar_write` tool, bound to one turn of a chat.

    The calendars that can be written are found once in a turn, and an event stays as it was when a question
    showed it, so that a call writes what the question has said.
    """

    spec = SPEC
    concurrent = False

    def __init__(self, calendars: ChatCalendars, changes: EventChanges) -> None:
        self._calendars = calendars
        self._changes = changes
        self._targets: Sequence[WriteTarget] | None = None
        self._pinned: dict[str, Shown] = {}

    async def prepare(self) -> None:
        """Find the calendars that can be written, so that a question names the right one.

        Raises:
            RumiError: No server answers.
        """
        with trio.move_on_after(TARGETS_S):
            await self._found()

    async def _found(self) -> Sequence[WriteTarget]:
        if self._targets is None:
            self._targets = await self._calendars.all.targets(self._calendars.names)
        return self._targets

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return a question with the calendar, its server, and every value.

        A new event needs no question if the message asks for one and contains its texts; one that repeats
        always does. An approval holds for one call: what a calendar has, stays.
        """
        try:
            asked = self._checked(arguments)
            label, host = self._destination(asked)
        except RumiError:
            return None
        details: dict[str, Detail] = {"calendar": label, "host": host}
        if asked.event is not None:
            when = span_in_numbers(asked.event.event, self._zone)
            details["event"] = f"{asked.event.event.title or '-'}, {when}"
            if asked.event.event.rule:
                details["series"] = Text("only this date") if asked.occurrence else Text("all dates")
        texts = ("title", "start", "end", "place", "notes", "repeat", "alarm_minutes")
        if asked.action != "delete":
            details |= {name: str(arguments[name]) for name in texts if arguments.get(name) not in (None, "")}
            details |= {name: "-" for name in texts if arguments.get(name) == "" and asked.event is not None}
        consent = tuple(filter(None, (asked.draft.title, asked.draft.place, asked.draft.notes)))
        alone = asked.action != "add" or asked.draft.rule
        # A yes that comes after the turn holds for the event as the question has shown it.
        state = "" if asked.event is None else f"event {sha256(asked.event.etag.encode()).hexdigest()[:16]}"
        return Question(
            _ACTIONS[asked.action], details, () if alone else consent, _asks_for_event, state=state
        )

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Write the event. On cancellation, a request that was sent may have been carried out."""
        try:
            asked = self._checked(arguments)
            await self._found()
            change = self._change(asked)
            outcome = await self._changes.make(change, arguments)
        except Unsettled as error:
            return ToolResult(False, str(error.text), tainted=True, may_change=True)
        except RumiError as error:
            self._pinned.pop(str(arguments.get("id")), None)
            # Titles of events and names of calendars, which others may have given, can be in it.
            return ToolResult(
                False,
                f"not written: {error.for_model}",
                tainted=True,
                advice=error.for_people,
                may_change=True,
            )
        if asked.event is not None:
            id = str(arguments.get("id"))
            self._pinned.pop(id, None)
            self._calendars.all.forget(id)
        return ToolResult(True, _said(outcome, asked.action))

    async def outcome(self, arguments: Mapping[str, object]) -> ToolResult | None:
        """Return the result of a call of this turn that a restart interrupted."""
        found = await self._changes.outcome(arguments)
        if found is None:
            return None
        if found == "not done":
            return ToolResult(False, "not written: a restart came first. Call it again if it is still wanted")
        return ToolResult(True, _said(found, str(arguments.get("action"))))

    @property
    def _zone(self) -> str:
        return self._calendars.clock.zone

    def _destination(self, asked: _Asked) -> tuple[str, str]:
        """Return the label of the calendar and the host of its server."""
        configured = self._calendars.all.configured
        if asked.event is not None:
            return asked.event.label, configured[asked.event.calendar].host
        if self._targets is None:
            self._targets = self._calendars.all.known_targets(self._calendars.names)
        if self._targets is None:  # no server has answered yet: name all that it may be
            may = [configured[name] for name in self._calendars.names if configured[name].may_write]
            hosts = ", ".join(dict.fromkeys(each.host for each in may))
            return asked.calendar or ", ".join(each.name for each in may), hosts
        target = self._target(asked.calendar)
        return target.label, target.host

    def _target(self, said: str) -> WriteTarget:
        """Return the calendar of a new event.

        Raises:
            _Wrong: It is not clear which.
        """
        targets = self._targets or ()
        meant = [each for each in targets if not said or is_meant(said, each.label)]
        if len(meant) == 1:
            return meant[0]
        names = ", ".join(one_line(each.label, 80) for each in targets)
        if not targets:
            raise _Wrong("no calendar of this chat can be written")
        raise _Wrong("`calendar` is one of: {names}", names=names)

    def _change(self, asked: _Asked) -> Change:
        label, _ = self._destination(asked)
        if asked.event is None:
            when = asked.draft.start.isoformat() if asked.draft.start else ""
            return Change(
                "add", f"{asked.draft.title}, {when}, {label}", asked.draft, self._target(asked.calendar)
            )
        what = f"{asked.action}: {asked.event.event.title}, {span(asked.event.event, self._zone)}, {label}"
        return Change(asked.action, what, asked.draft, None, asked.event, asked.occurrence)

    def _checked(self, arguments: Mapping[str, object]) -> _Asked:
        """Return the checked arguments.

        Raises:
            RumiError: One is wrong.
        """
        action = arguments.get("action")
        if action == "add":
            draft = self._draft(arguments)
            if not draft.title or draft.start is None:
                raise _Wrong("a new event needs `title` and `start`")
            calendar = arguments.get("calendar")
            return _Asked("add", draft, calendar=calendar if isinstance(calendar, str) else "")
        if action not in ("change", "delete"):
            raise _Wrong("`action` is add, change or delete")
        id = str(arguments.get("id"))
        shown = self._pinned.get(id) or self._calendars.all.shown(id, self._calendars.names)
        if shown is None:
            raise _Wrong("`id` is none that calendar_read has shown lately: call calendar_read first")
        self._pinned[id] = shown
        if not self._calendars.all.configured[shown.calendar].may_write:
            raise _Wrong("this calendar can only be read")
        if shown.event.attended:
            raise _Wrong("it has attendees, to whom the server would write: the user changes it themselves")
        occurrence = "" if arguments.get("all") is True else shown.event.occurrence
        if action == "delete":
            return _Asked("delete", EventDraft(), shown, occurrence)
        draft = self._draft(arguments, shown)
        if draft == EventDraft(zone=draft.zone):
            raise _Wrong("a change needs a new value")
        return _Asked("change", draft, shown, occurrence)

    def _draft(self, arguments: Mapping[str, object], shown: Shown | None = None) -> EventDraft:
        """Return the values of the arguments. The end of an event is not part of it, also in days."""
        texts = {name: self._text(arguments, name) for name in ("title", "place", "notes")}
        start, end = self._time(arguments, "start"), self._time(arguments, "end")
        if type(end) is date:
            end += timedelta(days=1)
        if end is not None and start is None and shown is not None:
            event = shown.event
            start = (
                date.fromisoformat(event.first_day)
                if event.all_day
                else event.starts(self._zone).replace(tzinfo=None)
            )
        if start is not None and end is not None and (type(start) is not type(end) or end <= start):
            raise _Wrong("`end` is after `start`; both are dates, or both are times")
        rule = arguments.get("repeat")
        if rule is not None and (
            not isinstance(rule, str) or (rule and _RULE.fullmatch(rule.strip()) is None)
        ):
            raise _Wrong("`repeat` is an RRULE, like FREQ=WEEKLY;BYDAY=MO")
        alarm = arguments.get("alarm_minutes")
        if alarm is not None and (not isinstance(alarm, int) or not -1 <= alarm <= MOST_ALARM_MINUTES):
            raise _Wrong("`alarm_minutes` is a number of minutes before the start")
        return EventDraft(**texts, start=start, end=end, zone=self._zone, rule=rule, alarm=alarm)

    def _text(self, arguments: Mapping[str, object], name: str) -> str | None:
        value = arguments.get(name)
        if value is None:
            return None
        if not isinstance(value, str) or len(value) > MOST_TEXT_CHARS:
            raise _Wrong("`{name}` is a text of at most {most} characters", name=name, most=MOST_TEXT_CHARS)
        return value.strip()

    def _time(self, arguments: Mapping[str, object], name: str) -> datetime | date | None:
        value = arguments.get(name)
        if value in (None, ""):
            return None
        at = self._calendars.clock.read(name, value)
        if self._calendars.clock.skipped(at):
            raise _Wrong("`{name}` does not exist on that day: clocks are put forward then", name=name)
        return at


def _asks_for_event(words: str) -> bool:
    """Return True if a message asks to put something into a calendar."""
    return _ASKS.search(unaccented(words)) is not None


def _said(outcome: Outcome, action: str) -> str:
    if outcome == "done before":
        return "it was done before in this turn: nothing was done a second time"
    return {"add": "added to the calendar", "change": "changed", "delete": "deleted"}[action]
