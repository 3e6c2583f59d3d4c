"""Checks of the configured calendars: whether they can be read, and written."""

from functools import partial

from rumi.cli.doctor.check import Check, Examination
from rumi.platform.config.cascade import Loaded
from rumi.platform.config.commands import read_keys
from rumi.texts import Text

DAYS = 30


async def calendars(examination: Examination, loaded: Loaded) -> None:
    """Read each configured calendar; nothing is written."""
    if not loaded.settings.calendars:
        return
    loaded = await read_keys(loaded)
    for name in loaded.settings.calendars:
        await examination.look(f"calendar {name}", partial(_calendar, loaded, name))


async def _calendar(loaded: Loaded, name: str) -> list[Check]:
    from rumi.cli.setup_calendar import next_events
    from rumi.services.calendar.calendars import configured_calendars

    check = f"calendar {name}"
    configured = configured_calendars(loaded)
    found = await next_events(configured, (name,))
    failed = [one.error for one in found if one.error is not None]
    if failed:
        return [Check(check, "failure", failed[0].message, failed[0].advice)]
    count = sum(len(one.reading.events) + one.reading.more for one in found)
    wanted = configured.configured[name]
    writable = len(await configured.targets((name,))) if wanted.may_write else 0
    checks = [Check(check, "ok", _said(count, writable))]
    left_out = sum(len(one.reading.left_out) for one in found)
    if left_out:
        what = Text("{count} events cannot be read and are left out", count=left_out)
        checks.append(Check(check, "warning", what, Text("Correct them in the program that made them.")))
    if wanted.may_write and not writable:
        what = Text("the server lets nothing be written")
        checks.append(Check(check, "warning", what, Text("Give the user the right, or set write = false.")))
    if wanted.section.user and wanted.insecure:
        what = Text("the password goes through the network unencrypted")
        checks.append(Check(check, "warning", what, Text("Use an address that begins with https.")))
    return checks


def _said(count: int, writable: int) -> Text:
    if writable:
        return Text("{count} events in the next {days} days; events can be written", count=count, days=DAYS)
    return Text("{count} events in the next {days} days; it is only read", count=count, days=DAYS)
