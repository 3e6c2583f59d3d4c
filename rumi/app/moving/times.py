"""Translates the times of other programs' schedules."""

import time
from datetime import datetime
from typing import Any, Final

from rumi.app.moving.reading import instant, mapping, word
from rumi.app.moving.records import ForeignHome, MovedSchedule, hidden, number_of
from rumi.platform.zones import zone_of_machine
from rumi.tasks.schedules.stored import FAR_S, MOST_CHARS
from rumi.tasks.schedules.times import NotATime, checked_cron, local_time, named_zone
from rumi.texts import Text

MOST_SCHEDULES: Final = 1_000


def add_schedule(
    moved: ForeignHome,
    id: str,
    name: str,
    text: str,
    when: dict[str, Any],
    action: str = "turn",
    began: float = 0.0,
) -> None:
    """Add a schedule, or note why it is left out.

    `when` has a `kind`: `cron` with `expr` and `tz`, `every` with `seconds`, or `at` with `at`. `began` is
    the time from which an interval of a day or more counts, in seconds since 1970. Without an `id`, the text
    stands for the schedule in later imports.
    """
    text = hidden(text.strip())
    id = id or f"text {number_of(text):x}"
    shown = name or id
    if len(moved.schedules) >= MOST_SCHEDULES:
        moved.leave("schedules", shown, Text("there are more than {most} schedules", most=MOST_SCHEDULES))
        return
    if not text:
        moved.leave("schedules", shown, Text("it has no text: it runs a script or a check of its own"))
        return
    if len(text) > MOST_CHARS:
        moved.leave("schedules", shown, Text("its text has more than {most} characters", most=MOST_CHARS))
        return
    kind = when.get("kind")
    zone = _zone(moved, word(when.get("tz")), shown)
    found: MovedSchedule | None = None
    act = "text" if action == "text" else "turn"
    if kind == "cron":
        try:
            found = MovedSchedule(id, name, text, act, checked_cron(word(when.get("expr"))), zone)  # type: ignore[arg-type]
        except NotATime:
            expression = word(when.get("expr"))[:80]
            moved.leave(
                "schedules", shown, Text("Rumi cannot fire at {expression}", expression=f"“{expression}”")
            )
    elif kind == "every":
        cron = _interval(when.get("seconds"), began or time.time(), zone or moved.zone)
        if cron:
            found = MovedSchedule(id, name, text, act, cron, zone)  # type: ignore[arg-type]
        else:
            moved.leave("schedules", shown, Text("no schedule of Rumi has its interval"))
    elif kind == "at":
        at = instant(when.get("at"))
        if at <= time.time():
            moved.leave("schedules", shown, Text("it fires once, and its time has passed"))
        elif at - time.time() > FAR_S:
            moved.leave("schedules", shown, Text("its time is too far ahead"))
        else:
            found = MovedSchedule(id, name, text, act, "", zone, at)  # type: ignore[arg-type]
    else:
        moved.leave("schedules", shown, Text("its kind is unknown"))
    if found is not None:
        moved.schedules.append(found)


def known_zone(name: str) -> str:
    """Return the name of a time zone as Rumi writes it; empty if it is none."""
    try:
        return named_zone(name) if name else ""
    except NotATime:
        return ""


def _zone(moved: ForeignHome, name: str, schedule: str) -> str:
    zone = known_zone(name)
    if name and not zone:
        moved.leave("schedules", schedule, Text("its time zone, which is unknown: it gets yours"))
    return zone


def _interval(seconds: object, began: float, zone: str) -> str:
    """Return the recurrence that fires at an interval; empty if there is none."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 60 <= seconds <= 1e9:
        return ""
    minutes, rest = divmod(int(seconds), 60)
    if rest:
        return ""
    if minutes < 60:
        return f"*/{minutes} * * * *" if 60 % minutes == 0 else ""
    local = _local(began, zone)
    hours, rest = divmod(minutes, 60)
    if rest:
        return ""
    if hours < 24:
        return f"{local.minute} */{hours} * * *" if 24 % hours == 0 else ""
    if hours == 24:
        return f"{local.minute} {local.hour} * * *"
    return f"{local.minute} {local.hour} * * {local.isoweekday() % 7}" if hours == 168 else ""


def _local(at: float, zone: str) -> datetime:
    return local_time(at, zone or zone_of_machine() or "UTC")


def when_of(stored: object) -> dict[str, Any]:
    """Return the time of a job of nanobot or OpenClaw, in either spelling of its keys."""
    found = mapping(stored)

    def get(*names: str) -> Any:
        return next((found[name] for name in names if found.get(name) not in (None, "")), None)

    every = get("everyMs", "every_ms")
    return {
        "kind": found.get("kind"),
        "expr": get("expr", "cron"),
        "tz": get("tz", "timezone"),
        "at": get("atMs", "at_ms", "at"),
        "seconds": every / 1000 if isinstance(every, int | float) and not isinstance(every, bool) else None,
    }
