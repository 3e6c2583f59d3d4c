"""The decision about a due schedule: fire, fire late, count the time as missed, or wait for quiet hours."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Final, TypeAlias

from rumi.errors import RumiError
from rumi.platform.texts import schedules as schedule_texts
from rumi.platform.texts import snoozing as snooze_texts
from rumi.platform.texts.translation import error_text
from rumi.store.journal.records import (
    Attachment,
    Button,
    Buttons,
    Firing,
    Incoming,
    ScheduleRecord,
    TaskRecord,
)
from rumi.tasks.schedules.times import QuietHours, following, latest, local_time
from rumi.texts import Language, gettext

ON_TIME_S: Final = 60.0
"""Maximum delay of a firing that is not reported as late, in seconds."""

GRACE_S: Final = (120.0, 7200.0)
"""Minimum and maximum of the delay that a recurring firing may have, in seconds.

Between the two limits, the allowed delay is half the time to the next firing.
"""


@dataclass(frozen=True, slots=True)
class Later:
    """A firing is postponed. `until` is the end of the quiet hours, in seconds since 1970."""

    until: float


_NO_MARKS: Final = str.maketrans("[]<>`*_~|", "()()'    ")


MakeTask: TypeAlias = Callable[[ScheduleRecord], TaskRecord]
"""Returns the task that a firing starts. Raises a `RumiError` if the task cannot be started now."""


def plan(schedule: ScheduleRecord, now: float, quiet: QuietHours | None, task_of: MakeTask) -> Firing | Later:
    """Decide what a due schedule does at `now`: fire, fire late, count as missed, or wait out quiet hours."""
    if quiet is not None and (until := quiet.until(now, schedule.zone)) > now:
        return Later(until)
    due = schedule.next_at
    if not schedule.cron:  # a one-time schedule is never missed, however late it fires
        late = _late(schedule, schedule.instant) if now - due > ON_TIME_S else ""
        return work(schedule, Firing(schedule.id, schedule.instant), late, task_of)
    zone, cron = schedule.zone, schedule.cron
    then = following(cron, zone, now)
    # `next_at` is later than the instant: quiet hours held the schedule back. All its instants in the quiet
    # hours become one firing, which is not late.
    if due > schedule.instant and now - due <= ON_TIME_S:
        return work(schedule, Firing(schedule.id, schedule.instant, then=then), "", task_of)
    last, before = latest(cron, zone, schedule.instant, now)
    firing = Firing(schedule.id, schedule.instant, of=last, then=then)
    if before == 0 and now - due <= ON_TIME_S:
        return work(schedule, firing, "", task_of)
    # The delay counts from the end of the quiet hours: an earlier firing was not allowed.
    held = last if quiet is None else quiet.until(last, zone)
    least, most = GRACE_S
    if now - held <= min(max((then - last) / 2, least), most):
        return work(schedule, firing, _late(schedule, last, before), task_of)
    return replace(firing, missed=before + 1, missed_at=schedule.instant)


def work(schedule: ScheduleRecord, firing: Firing, late: str, task_of: MakeTask) -> Firing:
    """Return the firing of a schedule, with the message or the task to store."""
    language = schedule.language
    match schedule.kind:
        case "text":
            fired = notice(schedule, schedule_texts.fire_text(language, schedule.text, late))
            return replace(firing, message=replace(fired, buttons=_snooze_buttons(language)))
        case "turn":
            text = f"{schedule.text}\n\n{late}" if late else schedule.text
            message = Incoming(
                chat=schedule.chat,
                text=text,
                language=language,
                model=schedule.model,
                schedule=schedule.id,
                tainted=schedule.tainted,
                user=schedule.user,
            )
            return replace(firing, message=message)
        case "run":
            command = Incoming(
                chat=schedule.chat,
                text=schedule.text,
                language=language,
                schedule=schedule.id,
                user=schedule.user,
                attachments=(Attachment("command", text=schedule.text),),
            )
            return replace(firing, message=command)
    try:
        task = task_of(schedule)
    except RumiError as error:
        why = gettext(
            language,
            "❌ Schedule {id} could not begin. {why}",
            id=schedule.id,
            why=error_text(language, error),
        )
        return replace(firing, message=notice(schedule, why), failed=True)
    late_notice = (
        notice(schedule, gettext(language, "⏰ Schedule {id} begins now. {late}", id=schedule.id, late=late))
        if late
        else None
    )
    return replace(firing, task=task, message=late_notice)


def notice(schedule: ScheduleRecord, text: str) -> Incoming:
    """Return a message to the schedule's chat. Its text is shown as a reply and starts no turn."""
    return Incoming(
        chat=schedule.chat,
        text=text,
        language=schedule.language,
        schedule=schedule.id,
        notice=True,
        tainted=schedule.tainted,
    )


def _snooze_buttons(language: Language) -> Buttons:
    return tuple(Button(token_hex(8), label, words) for label, words in snooze_texts.snooze_buttons(language))


def research_of(schedule: ScheduleRecord) -> TaskRecord:
    """Return the research task that a firing starts."""
    return TaskRecord(
        "web",
        schedule.owner,
        schedule.text,
        schedule.chat,
        options=json.dumps({"urls": []}),
        language=schedule.language,
        model=schedule.model,
        schedule=schedule.id,
    )


def next_in_words(schedule: ScheduleRecord, language: Language) -> str:
    """Describe when a schedule fires: its recurrence, if any, and its next fire time.

    For a schedule that is done, describe its last fire time.
    """
    if schedule.state == "done":
        fired = in_words(schedule.fired, schedule.zone, language) if schedule.fired else ""
        return schedule_texts.schedule_fired(language, fired)
    at = in_words(schedule.instant, schedule.zone, language)
    return f"{schedule_texts.recurrence(language, schedule.cron)} → {at}" if schedule.cron else at


def last_in_words(schedule: ScheduleRecord, language: Language, now: float, *, reasons: bool = True) -> str:
    """Say how the work of a schedule's last fire ended, and when; empty if that is not known.

    The reason may be text from outside: it has no mark of Markdown, and is left out without `reasons`.
    """
    try:
        outcome = json.loads(schedule.outcome or "{}")
        at, zone = float(outcome["at"]), schedule.zone
        when = schedule_texts.outcome_time(language, local_time(at, zone), local_time(now, zone))
        why = str(outcome["why"]).translate(_NO_MARKS) if reasons else ""
        return schedule_texts.last_outcome(language, str(outcome["how"]), why, when)
    except (ValueError, KeyError, TypeError, OverflowError):  # damaged, or there is none
        return ""


def in_words(instant: float, zone: str, language: Language) -> str:
    """Describe an instant as a local time in words."""
    return schedule_texts.moment(language, local_time(instant, zone), zone)


def _late(schedule: ScheduleRecord, instant: float, missed: int = 0) -> str:
    return schedule_texts.fire_late(
        schedule.language, in_words(instant, schedule.zone, schedule.language), missed
    )
