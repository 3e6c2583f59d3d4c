"""Reminders and schedules: what fires once, or again and again, in the local time of its owner."""

from rumi.schedules.clock import ScheduleClock
from rumi.schedules.firing import Later, next_in_words, plan
from rumi.schedules.schedules import Schedules, ScheduleServices
from rumi.schedules.serving import schedules_calls
from rumi.schedules.stored import ScheduleLimits, StoredSchedules, bot_of
from rumi.schedules.times import NotATime, Quiet, checked_cron, following, instant_of, latest, quiet_hours
from rumi.schedules.tools import SCHEDULE_TOOLS, schedule_tools
from rumi.schedules.when import After, Every, On, When, instants, read_when, read_when_and_text

__all__ = [
    "SCHEDULE_TOOLS",
    "After",
    "Every",
    "Later",
    "NotATime",
    "On",
    "Quiet",
    "ScheduleClock",
    "ScheduleLimits",
    "ScheduleServices",
    "Schedules",
    "StoredSchedules",
    "When",
    "bot_of",
    "checked_cron",
    "following",
    "instant_of",
    "instants",
    "latest",
    "next_in_words",
    "plan",
    "quiet_hours",
    "read_when",
    "read_when_and_text",
    "schedule_tools",
    "schedules_calls",
]
