"""The chat command `/snooze`, which puts off a reminder that has fired; its buttons send the command too."""

import re
from datetime import time, timedelta
from typing import Final

from rumi.chats.services import CommandReply
from rumi.platform.texts import snoozing as snooze_texts
from rumi.platform.unaccented import unaccented
from rumi.store.journal.actor import AskJournal
from rumi.store.journal.records import Incoming, ScheduleRecord
from rumi.store.journal.reminders import FiredReminder, find_reminder
from rumi.tasks.schedules.firing import in_words
from rumi.tasks.schedules.stored import StoredSchedules
from rumi.tasks.schedules.times import local_time
from rumi.tasks.schedules.watched import watches
from rumi.tasks.schedules.when import After, Every, On, When, read_when
from rumi.texts import Language

MORNING: Final = time(9)
"""The time of a reminder that is put off until tomorrow and was for a time at night."""

NIGHT: Final = (time(23), time(6))
"""Beginning and end of the night."""

NEW_DAY: Final = time(5)
"""Before this time, "tomorrow" is the day that has just begun: the person has not slept yet."""

MOST_CHARS: Final = 3500
"""A longer reminder keeps its message; the reply about it is a message of its own."""

_TOMORROW: Final = frozenset({"tomorrow", "manana", "amanha"})
_NUMBER: Final = re.compile(r"(?P<when>.*?)\s*#(?P<number>\d{1,18})", re.DOTALL)
_SHORT: Final = re.compile(r"([1-9]\d{0,5}) ?(m|mins?|minutes?|minutos?|h|hs|hours?|horas?|d|days?|dias?)")


async def snooze_command(
    schedules: StoredSchedules, ask: AskJournal, owner: str, message: Incoming, language: Language, said: str
) -> str | CommandReply:
    """Put off a reminder of the message's chat for an owner; return the reply. A reminder is put off once.

    Raises:
        RumiError: The time is over or too far ahead, or there are too many schedules.
    """
    numbered = _NUMBER.fullmatch(said)
    words, number = (numbered["when"], int(numbered["number"])) if numbered else (said, 0)
    if not words:
        return snooze_texts.snooze_usage(language)
    reminder = await ask(find_reminder(message.chat, number))
    if reminder is None:
        return snooze_texts.no_reminder(language)
    fired = await schedules.show(reminder.schedule, None)
    if reminder.snoozed:
        again = await schedules.show(reminder.snoozed, None)
        return _reply(reminder, fired, _already(again, language))
    zone = await schedules.zone_of(owner) or fired.zone
    when = snooze_time(words, reminder, zone, message.said_at)
    if when is None:
        return snooze_texts.snooze_usage(language)
    new = ScheduleRecord(
        *(owner, message.chat, "text", fired.text),
        language=fired.language,
        tainted=fired.tainted,
        message=reminder.key,
        user=message.user,
        asked_at=message.said_at,
    )
    stored = await schedules.add(new, when, zone)
    at = in_words(stored.next_at, stored.zone, language)
    return _reply(reminder, fired, snooze_texts.snoozed(language, fired.text, stored.id, at))


def _already(again: ScheduleRecord, language: Language) -> str:
    if again.state == "done":
        return snooze_texts.came_again(language, again.text)
    at = in_words(again.next_at, again.zone, language)
    return snooze_texts.snoozed_already(language, again.text, again.id, at)


def _reply(reminder: FiredReminder, fired: ScheduleRecord, text: str) -> CommandReply:
    # The message of a reminder that watches something also shows what has changed: nothing else does.
    in_place = reminder.alone and len(fired.text) <= MOST_CHARS and not watches(fired)
    return CommandReply(text, in_place=in_place)


def snooze_time(words: str, reminder: FiredReminder, zone: str, now: float) -> When | None:
    """Return the time that the words after `/snooze` mean; None if they are not understood or recur.

    "tomorrow" is the time of day that the reminder was for, or nine o'clock if that was at night.
    """
    plain = " ".join(unaccented(words).split())
    if plain in _TOMORROW:
        return _tomorrow(reminder.at, zone, now)
    if (short := _SHORT.fullmatch(plain)) is not None:
        count, unit = int(short[1]), short[2][0]
        return After(days=count) if unit == "d" else After(count * (60 if unit == "h" else 1))
    when = read_when(words)
    return None if isinstance(when, Every) else when


def _tomorrow(at: float, zone: str, now: float) -> On:
    here = local_time(now, zone)
    of_day = local_time(at, zone).time().replace(second=0, microsecond=0, fold=0)
    begins, ends = NIGHT
    if of_day >= begins or of_day < ends:
        of_day = MORNING
    ahead = 0 if here.time() < NEW_DAY else 1
    return On(of_day, here.date() + timedelta(days=ahead))
