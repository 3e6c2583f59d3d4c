"""Tools with which a chat's model sets reminders and schedules. Times are typed arguments, never guessed."""

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from typing_extensions import override

from rumi.agent.tool import Question, Tool, ToolResult
from rumi.errors import RumiError
from rumi.models.model import ToolSpec
from rumi.platform.texts import schedules as schedule_texts
from rumi.store.journal.records import ScheduleKind, ScheduleRecord
from rumi.tasks.schedules.schedules import Schedules
from rumi.tasks.schedules.times import NotATime, checked_cron
from rumi.tasks.schedules.watched import watched_by
from rumi.tasks.schedules.when import MOST_MINUTES, After, Every, On, When, read_when
from rumi.texts import Text

IF_CHANGED: Final = "if_changed"
_NUMBER: Final = re.compile(r"\d{1,9}(?:\.\d{1,6})?")
_TEXT: Final = {"type": "string"}
_WHEN: Final = {
    "at": {"type": "string", "description": "Local, like 2026-12-01T09:00"},
    "in_minutes": {"type": "integer"},
    "cron": {"type": "string", "description": "5 fields"},
}

REMIND: Final = ToolSpec(
    "remind",
    "Send the user a text later: `at`, `in_minutes`, or again and again by `cron`.",
    {"type": "object", "properties": {"text": _TEXT, **_WHEN}, "required": ["text"]},
)
SCHEDULE: Final = ToolSpec(
    "schedule",
    "The same, but you work on `prompt` then.",
    {
        "type": "object",
        "properties": {
            "prompt": _TEXT,
            "at": _TEXT,
            "in_minutes": {"type": "integer"},
            "cron": _TEXT,
            "research": {"type": "boolean"},
            "if_changed": {
                "type": "string",
                "description": "URL: only after a change of its page; needs cron",
            },
        },
        "required": ["prompt"],
    },
)
LIST: Final = ToolSpec(
    "list_schedules", "List reminders and schedules.", {"type": "object", "properties": {}}
)
CANCEL: Final = ToolSpec(
    "cancel_schedule",
    "Delete one.",
    {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
)


def schedule_tools(
    schedules: Callable[[], Schedules], present: Callable[[], ScheduleRecord]
) -> tuple[Tool, ...]:
    """Return a chat's schedule tools. `present` returns an unfinished schedule for the chat."""
    return (
        RemindTool(schedules, present),
        ScheduleTool(schedules, present),
        ListSchedulesTool(schedules, present),
        CancelScheduleTool(schedules, present),
    )


class _ScheduleTool(Tool):
    """Base class of the schedule tools. `present` returns an unfinished schedule.

    Its owner and its chat are set; its text and its time are still missing.
    """

    concurrent = False

    def __init__(self, schedules: Callable[[], Schedules], present: Callable[[], ScheduleRecord]) -> None:
        self._schedules = schedules
        self._present = present

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return None by default, because a call that changes nothing needs no approval."""
        return None


class RemindTool(_ScheduleTool):
    """Tool that sends a text to the user at a later time."""

    spec = REMIND
    words = "text"

    def kind(self, arguments: Mapping[str, object]) -> ScheduleKind:
        """Return the kind of the new schedule."""
        return "text"

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return a question that shows the text and the time of the new schedule.

        If the text is in the user's own words and the schedule fires only once, no approval is needed. A
        recurrence always needs approval.
        """
        when = when_of(arguments)
        text = arguments.get(self.words)
        if isinstance(when, str) or not isinstance(text, str):
            return None
        times = {name: str(arguments[name]) for name in ("at", "in_minutes", "cron") if arguments.get(name)}
        research = {"research": "true"} if self.kind(arguments) == "research" else {}
        page = {"url": url} if (url := arguments.get(IF_CHANGED)) and isinstance(url, str) else {}
        details = {**page, **times, **research, self.words: text}
        return Question("schedule", details, () if isinstance(when, Every) else (text,))

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Store the schedule. On cancellation, the schedule is stored completely or not at all."""
        when, text = when_of(arguments), arguments.get(self.words)
        if isinstance(when, str):
            return ToolResult(False, when)
        if not isinstance(text, str) or not text.strip():
            return ToolResult(
                False,
                Text(
                    "{name} needs `{words}`, a string that is not empty",
                    name=self.spec.name,
                    words=self.words,
                ),
            )
        new = replace(self._present(), kind=self.kind(arguments), text=text)
        schedules, url = self._schedules(), arguments.get(IF_CHANGED) if self.spec is SCHEDULE else None
        if url:
            # A page only: files and commands are watched by those who may run commands themselves.
            if not isinstance(url, str) or not url.startswith(("http://", "https://")):
                return ToolResult(False, Text("schedule takes `if_changed` as a URL"))
            if not isinstance(when, Every):
                return ToolResult(False, Text("schedule takes `if_changed` only with `cron`"))
            new = replace(new, options=json.dumps({IF_CHANGED: [url]}))
        try:
            stored = await schedules.add(await schedules.first_read(schedules.checked(new)), when)
        except RumiError as error:
            return ToolResult(False, f"{error.message} {error.advice}")
        said = [schedules.understood(stored, new.language)]
        # The title of a page is not told to the model: it is text from outside.
        said += [schedule_texts.watching(new.language, one.what, "", one.chars) for one in watched_by(stored)]
        return ToolResult(True, "\n".join(said))


class ScheduleTool(RemindTool):
    """Tool that starts a turn or a research task at a later time."""

    spec = SCHEDULE
    words = "prompt"

    @override
    def kind(self, arguments: Mapping[str, object]) -> ScheduleKind:
        return "research" if arguments.get("research") is True else "turn"


class ListSchedulesTool(_ScheduleTool):
    """Tool that lists the owner's schedules."""

    spec = LIST
    only_reads = True

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Return the list. If one of the schedules is tainted, the result is tainted."""
        present, schedules = self._present(), self._schedules()
        listed = await schedules.listed(present.owner)
        tainted = any(schedule.tainted for schedule in listed)
        # Without the reasons of silent ends and of failures, which other turns and servers wrote.
        words = schedules.list_in_words(listed, present.language, reasons=False)
        return ToolResult(True, words, tainted=tainted)


class CancelScheduleTool(_ScheduleTool):
    """Tool that deletes one of the owner's schedules."""

    spec = CANCEL

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return a question that names the number of the schedule."""
        id = arguments.get("id")
        return Question("unschedule", {"id": str(id)}) if isinstance(id, int) else None

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Delete the schedule."""
        id, present = arguments.get("id"), self._present()
        if not isinstance(id, int) or isinstance(id, bool):
            return ToolResult(False, Text("cancel_schedule needs `id`, a number"))
        try:
            await self._schedules().delete(id, present.owner, present.turn)
        except RumiError as error:
            return ToolResult(False, f"{error.message} {error.advice}")
        return ToolResult(True, schedule_texts.schedule_changed(present.language, id, "delete"))


SCHEDULE_TOOLS: Final = (RemindTool, ScheduleTool, ListSchedulesTool, CancelScheduleTool)


def when_of(arguments: Mapping[str, object]) -> When | str:
    """Parse the typed time arguments; return the time, or an error message for the model."""
    times = {name: arguments[name] for name in ("at", "in_minutes", "cron") if arguments.get(name)}
    if len(times) != 1:
        return "give exactly one of `at` (local time), `in_minutes`, `cron` (five fields)"
    ((name, value),) = times.items()
    match name, value:
        case "in_minutes", int() | float() | str() if not isinstance(value, bool):
            return _in_minutes(value)
        case "cron", str(expression):
            try:
                return Every(checked_cron(expression))
            except NotATime:
                return f"{expression!r} is not a recurrence of cron's five fields, or never comes"
        case "at", str(text):
            return _at(text)
    return f"{name} has a wrong value"


def _in_minutes(value: float | str) -> When | str:
    """Parse a number of minutes: models also write it as a text, with a fraction, or with its unit."""
    wrong = f"in_minutes is a number from 1 to {MOST_MINUTES}, not {str(value)[:60]!r}"
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()) is None:
        text = value.strip().casefold()
        when = read_when(text if text.startswith(("in ", "en ")) else f"in {text}")
        return when if isinstance(when, After) else wrong
    number = float(value)
    return After(round(number)) if 0.5 < number <= MOST_MINUTES else wrong


def _at(text: str) -> When | str:
    """Parse the time of a call: a local one, or one with a zone or an offset."""
    if (when := read_when(text)) is not None:
        return when
    try:
        local = datetime.fromisoformat(text.strip())
    except ValueError:
        return f"{text[:60]!r} is not a local time like 2026-12-01T09:00"
    if "T" in text.upper() and local.tzinfo is None:
        return On(local.time().replace(second=0, microsecond=0), local.date())
    return f"{text[:60]!r} has no time of day: ask the user, or choose one, like {text.strip()}T09:00"
