"""Errors of calendars. None contains a private address, a user or a password."""

from rumi.errors import RumiError


class CalendarError(RumiError):
    """A calendar cannot be read or written now."""


class NotACalendar(CalendarError):
    """What the address serves is not a calendar."""


class EventChanged(CalendarError):
    """The event was changed or deleted by others since it was read, so nothing was written."""

    advises_models = True


class Unsettled(CalendarError):
    """Nobody knows whether the event was written: the connection ended before the server's answer."""
