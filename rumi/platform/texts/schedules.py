"""Texts for people about reminders and schedules."""

import re
from collections.abc import Sequence
from datetime import datetime

from rumi.platform.markdown import plain
from rumi.platform.printable import clean, flat
from rumi.platform.texts.formats import full_date, weekday
from rumi.platform.texts.tasks import shortly
from rumi.texts import Language, gettext, ngettext


def moment(language: Language, local: datetime, zone: str) -> str:
    """Return a local date and time in words."""
    return f"{full_date(language, local)}, {local:%H:%M}, {zone}"


def recurrence(language: Language, cron: str) -> str:
    """Describe a recurrence in words; return the cron expression itself if no short description exists."""
    minute, hour, day, month, weekdays = cron.split()
    at = f"{int(hour):02}:{int(minute):02}" if hour.isdigit() and minute.isdigit() else ""
    if at and (month, day) == ("*", "*") and (days := _weekdays(language, weekdays)):
        return f"{days}, {at}"
    if at and month == weekdays == "*" and day.isdigit():
        return gettext(language, "on day {day} of each month, {at}", day=day, at=at)
    if hour == day == month == weekdays == "*":
        if minute == "*":
            return gettext(language, "every minute")
        if (step := re.fullmatch(r"\*/(\d+)", minute)) is not None:
            return gettext(language, "every {step} minutes", step=step[1])
        if minute == "0":
            return gettext(language, "every hour")
    if (minute, day, month, weekdays) == ("0", "*", "*", "*") and (step := re.fullmatch(r"\*/(\d+)", hour)):
        return gettext(language, "every {step} hours", step=step[1])
    return f"cron {cron}"


def _weekdays(language: Language, field: str) -> str:
    if field == "*":
        return gettext(language, "every day")
    if field == "1-5":
        return gettext(language, "Monday to Friday")
    if re.fullmatch(r"[0-7](,[0-7])*", field) is None:
        return ""
    names = [weekday(language, (int(number) - 1) % 7) for number in field.split(",")]
    *first, last = names
    listed = gettext(language, "{days} and {day}", days=", ".join(first), day=last) if first else last
    return gettext(language, "every {listed}", listed=listed)


def schedule_set(
    language: Language, id: int, kind: str, when: str, text: str, *, stays: bool, quiet: str = ""
) -> str:
    """Confirm a new schedule and say how to change it. `stays` means that the daemon runs without clients."""
    name = gettext(language, "Reminder") if kind == "text" else gettext(language, "Schedule")
    lines = [
        f"⏰ {name} {id}: {when}",
        gettext(language, "   “{text}”", text=shortly(text)),
        gettext(
            language,
            "To change the text: /schedules edit {id} TEXT. To cancel it: /schedules delete {id}",
            id=id,
        ),
    ]
    if quiet:
        lines.insert(
            1,
            gettext(language, "   In quiet hours: it comes {quiet}.", quiet=quiet),
        )
    if not stays:
        lines.append(gettext(language, "It only fires while Rumi is running. `rumi serve` keeps it running."))
    return "\n".join(lines)


def schedule_state(language: Language, state: str, reason: str = "") -> str:
    """Return the name of a schedule's state.

    `reason` is the refusal of the chat's source, if the schedule is paused because of it.
    """
    if state == "paused" and reason:
        return gettext(language, "paused, nothing could be delivered: {reason}", reason=flat(reason))
    return {
        "active": gettext(language, "active"),
        "paused": gettext(language, "paused"),
        "done": gettext(language, "done"),
    }.get(state, state)


def schedule_fired(language: Language, when: str) -> str:
    """Say when a finished schedule last fired; `when` is empty if it never fired."""
    if not when:
        return gettext(language, "did not fire")
    return gettext(language, "fired on {when}", when=when)


def schedule_kind(language: Language, kind: str) -> str:
    """Return the name of a schedule's kind, which is the action that it performs when it fires."""
    return {
        "text": gettext(language, "reminder"),
        "turn": gettext(language, "turn"),
        "research": gettext(language, "research"),
        "bot": "bot",
        "run": gettext(language, "command"),
    }.get(kind, kind)


def command_output(output: str) -> str:
    """Return a command's output as code, in which no mark counts, and without control characters."""
    output = clean(output)
    longest = max((len(run) for run in re.findall("`+", output)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{output}\n{fence}"


def command_failed(language: Language, id: int, command: str, why: str, output: str = "") -> str:
    """Say that the command of a schedule failed, and what it has printed."""
    said = gettext(
        language,
        "❌ The command of schedule {id} (“{command}”) failed: {why}",
        id=id,
        command=shortly(flat(command)),
        why=why,
    )
    return f"{said}\n\n{command_output(output)}" if output else said


def changed(language: Language, name: str) -> str:
    """Say what has changed, before its difference."""
    return gettext(language, "Changed: {name}", name=shortly(flat(name)))


def text_of_change(text: str, names: str) -> str:
    """Return the text of a task that a change begins: what to do, and the names of what has changed."""
    return f"{text}\n\n(Changed since the last look: {flat(names)})"


def check_fails(language: Language, id: int, text: str, why: str) -> str:
    """Say that what a schedule watches cannot be read."""
    return gettext(
        language,
        "⚠️ Schedule {id} (“{text}”) can't read what it watches: {why} It keeps trying, and tells you when "
        "it works.",
        id=id,
        text=shortly(text),
        why=plain(why, 400),  # a site chooses the address to which it redirects
    )


def check_works(language: Language, id: int, text: str) -> str:
    """Say that what a schedule watches can be read again."""
    return gettext(
        language, "✅ Schedule {id} (“{text}”) can read what it watches again.", id=id, text=shortly(text)
    )


def watching(language: Language, name: str, title: str, chars: int | None) -> str:
    """Say what a new schedule watches, and what was read of it."""
    if chars is None:
        return gettext(
            language, "Watching {name}: it is read for the first time when Rumi runs.", name=flat(name)
        )
    titled = f"{flat(name)} ({shortly(flat(title))})" if title and title != name else flat(name)
    return ngettext(
        language,
        "Watching {name}: {count} character now.",
        "Watching {name}: {count} characters now.",
        chars,
        name=titled,
    )


def last_outcome(language: Language, how: str, why: str, when: str) -> str:
    """Say how the work of a schedule's last fire ended: `last: nothing new, 14:00 (no letter came)`."""
    said = {
        "said": gettext(language, "last: sent"),
        "nothing_new": gettext(language, "last: nothing new"),
        "unchanged": gettext(language, "last: unchanged"),
        "changed": gettext(language, "last: changed"),
        "failed": gettext(language, "last: failed"),
        "parked": gettext(language, "last: asks for a yes"),
        "stopped": gettext(language, "last: stopped"),
    }.get(how)
    if said is None:
        return ""
    return f"{said}, {when} ({flat(why)})" if why else f"{said}, {when}"


def outcome_time(language: Language, local: datetime, now: datetime) -> str:
    """Return the local time of an outcome, with its date if that is another day than today."""
    if local.date() == now.date():
        return f"{local:%H:%M}"
    return f"{full_date(language, local)}, {local:%H:%M}"


def schedule_list(language: Language, rows: Sequence[tuple[int, str, str, str, str, str, str, str]]) -> str:
    """List schedules in Markdown.

    Each row has a number, a kind, a state, its reason, a time, a text, what is watched, and the last outcome.
    """
    if not rows:
        return gettext(language, "There are no reminders or schedules.")
    return "\n".join(
        " · ".join(
            (
                *(f"- {id}", schedule_kind(language, kind), schedule_state(language, state, reason)),
                *(when, shortly(text), *filter(None, (watched, last))),
            )
        )
        for id, kind, state, reason, when, text, watched, last in rows
    )


def if_changed(language: Language, names: Sequence[str]) -> str:
    """Return what a schedule watches, for a list of schedules; empty without names."""
    return gettext(language, "if changed: {names}", names=", ".join(names)) if names else ""


def schedule_changed(language: Language, id: int, what: str, when: str = "") -> str:
    """Say that a schedule was paused, resumed or deleted, or that it fires now."""
    return {
        "pause": gettext(language, "⏸ Schedule {id} is paused.", id=id),
        "resume": gettext(language, "▶ Schedule {id} is resumed: {when}", id=id, when=when),
        "run": gettext(language, "⏰ Schedule {id} runs now.", id=id),
        "delete": gettext(language, "🗑 Schedule {id} is deleted.", id=id),
    }[what]


def schedules_usage(language: Language) -> str:
    """Say how to use `/schedules`."""
    return gettext(
        language,
        "I did not understand that. N is the number of a schedule; /schedules lists them:\n"
        "- /schedules pause N, resume N, run N, delete N; /schedules resume all\n"
        "- /schedules edit N TEXT gives it a new text\n"
        "- /schedules approve N shows what it may do without asking, /schedules revoke N takes it back",
    )


def schedule_usage(language: Language) -> str:
    """Say how to use `/remind`, `/schedules` and `/timezone`, with examples of times."""
    return gettext(
        language,
        "I did not understand when. Use /remind WHEN: TEXT, for example:\n"
        "- /remind in 20 minutes: take out the pizza\n"
        "- /remind tomorrow 09:00: call the dentist\n"
        "- /remind 2026-12-01 18:30: dinner\n"
        "- /remind every monday 08:00: water the plants\n"
        "- /remind 0 9 1 * *: pay the rent\n"
        "Times go from 00:00 to 23:59. /schedules shows what there is; /schedules "
        "pause|resume|run|delete N changes it, /schedules edit N TEXT gives it a new text, and /schedules "
        "approve|revoke N shows or takes back what it may do without asking; /timezone Europe/Madrid sets "
        "your zone.",
    )


def zone_is(language: Language, zone: str, now: str = "") -> str:
    """Say which time zone is used, and what time it is there: an offset is easily taken for the opposite."""
    if not zone:
        return gettext(
            language, "I do not know your time zone. Say it once, for example: /timezone Europe/Madrid"
        )
    said = gettext(language, "🕰 Your time zone is {zone}. Existing schedules keep theirs.", zone=zone)
    offset = "/" not in zone and zone != "UTC"
    return f"{said}\n{gettext(language, 'There it is {now} now.', now=now)}" if offset else said


def zone_proposed(language: Language, zone: str, kept: str = "") -> str:
    """Say which time zone was taken from a person's device or place, or that the `kept` one stays."""
    if kept:
        return gettext(
            language,
            "🕰 Your place has the time zone {zone}, and I still go by {kept}. To change it: /timezone {zone}",
            zone=zone,
            kept=kept,
        )
    return gettext(
        language,
        "🕰 I take {zone} for your time zone, as your device says. If it is another one: /timezone NAME",
        zone=zone,
    )


def zone_unknown(language: Language, name: str, like: str) -> str:
    """Say that the time zone is unknown, and suggest similar ones."""
    if like:
        return gettext(language, "❌ Unknown zone {name}. Perhaps: {like}?", name=name, like=like)
    return gettext(
        language, "❌ Unknown zone {name}. Names are like Europe/Madrid or America/New_York.", name=name
    )


def fire_text(language: Language, text: str, late: str = "") -> str:
    """Return the message of a reminder."""
    return f"⏰ {text}\n\n{late}" if late else f"⏰ {text}"


def fire_late(language: Language, when: str, missed: int = 0) -> str:
    """Say when a late reminder was due, and how many earlier firings were missed."""
    said = gettext(language, "(Late: it was for {when}.", when=when)
    if missed:
        said += gettext(language, " Missed before it: {missed}.", missed=missed)
    return f"{said})"


def schedule_paused(language: Language, id: int, times: int, text: str) -> str:
    """Say that a schedule is paused because it failed several times."""
    return gettext(
        language,
        "⏸ Schedule {id} (“{text}”) failed {times} times in a row and is paused. /schedules resume "
        "{id} resumes it.",
        id=id,
        text=shortly(text),
        times=times,
    )


def schedules_resumed(language: Language, rows: Sequence[tuple[int, str]]) -> str:
    """Say that schedules were resumed; each row has a schedule's number, and when it fires next."""
    if not rows:
        return gettext(language, "No schedule is paused.")
    return "\n".join(schedule_changed(language, id, "resume", when) for id, when in rows)


def unreachable_chat(language: Language, chat: str, why: str, count: int) -> str:
    """Tell an admin that `count` schedules of a chat are paused, because nothing can be delivered to it."""
    paused = ngettext(
        language,
        "⏸ Nothing can be delivered to the chat {chat} ({why}): {count} schedule is paused.",
        "⏸ Nothing can be delivered to the chat {chat} ({why}): {count} schedules are paused.",
        count,
        chat=chat,
        why=flat(why),
    )
    then = gettext(language, "When somebody writes there again, the chat is told how to resume them.")
    return f"{paused} {then}"


RESUME_ALL = "/schedules resume all"
"""The command that resumes all paused schedules of an owner."""


def schedules_waited(language: Language, rows: Sequence[tuple[int, str]]) -> str:
    """Say that schedules were paused while nothing could be delivered; each row has a number and a text."""
    first = ngettext(
        language,
        "⏸ {count} schedule was paused, because I could not reach you here:",
        "⏸ {count} schedules were paused, because I could not reach you here:",
        len(rows),
    )
    lines = [f"- {id} “{shortly(text)}”" for id, text in rows]
    last = gettext(language, "{command} resumes all; /schedules resume N resumes one.", command=RESUME_ALL)
    return "\n".join((first, *lines, last))


def resume_all(language: Language) -> str:
    """Return the label of the button that resumes all schedules."""
    return gettext(language, "▶ Resume all")


def schedules_missed(language: Language, rows: Sequence[tuple[int, str, int, str]]) -> str:
    """Say which firings were missed, because Rumi did not run or the previous firing had not ended.

    Each row has a schedule's number and text, the count of missed firings, and the time of the first one.
    """
    first = gettext(language, "⏰ Missed, because Rumi was not running or the previous run had not ended:")
    lines = [
        ngettext(
            language,
            "- {id} “{text}”: {count} (on {since})",
            "- {id} “{text}”: {count} (since {since})",
            many,
            id=id,
            text=shortly(text),
            since=since,
        )
        for id, text, many, since in rows
    ]
    return "\n".join((first, *lines))
