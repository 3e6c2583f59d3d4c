"""Control calls for schedules: other processes send JSON objects, and get JSON objects as answers.

`list` (returns the schedules of one `owner`, or all); `show`, `pause`, `resume`, `run`, `delete` (with an
`id`); `add` (with a `when`, a `text`, a `kind`, its `options`, and a `chat`).
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import get_args

from rumi.errors import UsageError
from rumi.platform.caller import Caller, ControlCall
from rumi.platform.chat_ids import DEFAULT_CHAT, ChatIds
from rumi.platform.texts.language import known_language
from rumi.platform.timestamps import utc
from rumi.store.journal.records import ScheduleKind, ScheduleRecord
from rumi.tasks.schedules.firing import in_words, next_in_words
from rumi.tasks.schedules.schedules import Schedules
from rumi.tasks.schedules.stored import StoredSchedules
from rumi.tasks.schedules.times import NotATime, zone_names
from rumi.tasks.schedules.when import read_when
from rumi.texts import Language


def schedule_call(schedules: StoredSchedules, ids: ChatIds) -> ControlCall:
    """Return the function that answers control calls for schedules.

    A caller can see and change only schedules of owners that the caller has access to. New schedules belong
    to the caller's owner.
    """

    async def answer(caller: Caller, request: Mapping[str, object]) -> object:
        """Execute a request.

        Raises:
            UsageError: The request is invalid, or the schedule does not exist.
            RumiError: The request cannot be executed.
        """
        match request.get("do"):
            case "list":
                owner = str(request["owner"]) if request.get("owner") else None
                listed = await schedules.listed(caller.scope_in(owner))
                return [schedule_as_json(schedule, _language(request)) for schedule in listed]
            case "show":
                found = await schedules.show(_id(request), caller.scope)
            case "pause":
                found = await schedules.pause(_id(request), caller.scope)
            case "resume":
                found = await schedules.resume(_id(request), caller.scope)
            case "run":
                found = await schedules.run(_id(request), caller.scope)
            case "delete":
                await schedules.delete(_id(request), caller.scope)
                return None
            case "add":
                found = await _add(schedules, ids, caller, request)
            case _:
                raise UsageError(
                    "The schedules do not know this request.",
                    "They can list, show, pause, resume, run, delete and add.",
                )
        runs = isinstance(schedules, Schedules)
        return {**schedule_as_json(found, _language(request)), "runs": runs}

    return answer


async def _add(
    schedules: StoredSchedules, ids: ChatIds, caller: Caller, request: Mapping[str, object]
) -> ScheduleRecord:
    text, kind, options = request.get("text"), request.get("kind", "text"), request.get("options") or {}
    if not isinstance(text, str) or kind not in get_args(ScheduleKind) or not isinstance(options, dict):
        raise UsageError("The request names no schedule.")
    when = read_when(str(request.get("when") or ""))
    if when is None:
        raise UsageError(
            "This time is not understood.",
            'Write it like "in 20 minutes", "tomorrow 09:00", "2026-12-01 18:30", "every monday '
            '08:00" or "0 9 * * 1".',
        )
    zone = str(request.get("zone") or "")
    if zone and zone.casefold() not in zone_names():
        raise UsageError("Unknown time zone {zone}.", "Names are like Europe/Madrid.", zone=zone)
    new = ScheduleRecord(
        caller.owner,
        caller.chat_in(str(request.get("chat") or DEFAULT_CHAT), ids.owner_of),
        kind,  # type: ignore[arg-type]
        text,
        options=json.dumps(options),
        language=_language(request),
        model=str(request.get("model") or ""),
    )
    try:
        return await schedules.add(schedules.checked(new), when, zone and zone_names()[zone.casefold()])
    except NotATime:
        raise UsageError("This time never comes.", "Give another one.") from None


def schedule_as_json(schedule: ScheduleRecord, language: Language = "en") -> dict[str, object]:
    """Return a schedule as JSON.

    Times are in RFC 3339; the time of an event that has not happened is None.
    """
    active = schedule.state == "active"
    return {
        **asdict(schedule),
        "options": json.loads(schedule.options),
        "message": schedule.message or None,
        "instant": utc(schedule.instant) if active else None,
        "next_at": utc(schedule.next_at) if active else None,
        "missed_at": utc(schedule.missed_at) if schedule.missed else None,
        "created": utc(schedule.created),
        "fired": utc(schedule.fired) if schedule.fired else None,
        "when": next_in_words(schedule, language),
        "comes": in_words(schedule.next_at, schedule.zone, language) if active else None,
    }


def _id(request: Mapping[str, object]) -> int:
    value = request.get("id")
    if not isinstance(value, int):
        raise UsageError("The request names no schedule.")
    return value


def _language(request: Mapping[str, object]) -> Language:
    return known_language(request.get("language")) or "en"
