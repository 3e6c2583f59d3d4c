"""The questions of `rumi setup` about a calendar: its address, user and password, which are tried out."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from rumi.cli import run_async
from rumi.cli.printing import echo
from rumi.cli.setup_asking import Asks, say_whose
from rumi.texts import Text

if TYPE_CHECKING:
    from rumi.platform.config.cascade import Loaded
    from rumi.services.calendar.calendars import CalendarReading, Calendars

SHOWN_EVENTS: Final = 3
DAYS: Final = 30
_PASSWORD: Final = Text("The password: of an app, if the service has such; or !command")
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,30}")


def ask_calendar(asks: Asks) -> None:
    """Ask for a calendar, try it, and note what is to be stored."""
    asks.say(
        Text(
            "A calendar: the private address of an ICS file, which can be read only, or the address of a "
            "CalDAV server with a user and a password. docs/calendar.md says where services show them."
        )
    )
    name = "home"
    while address := asks.ask_line(Text("Its address (Enter: none)")):
        name = _name(asks, name)
        user = asks.ask_line(Text("The user (Enter: it is the private address of a file)"))
        password = asks.ask_line(_PASSWORD, hidden=True) if user else ""
        if _tried(asks, name, address, user, password):
            _note(asks, name, address, user, password)
            say_whose(asks, "calendars", name)
            return


def _name(asks: Asks, before: str) -> str:
    """Ask for the name of the section."""
    while True:
        name = asks.ask_line(Text("A short name for it"), before).casefold()
        if _NAME.fullmatch(name):
            return name
        asks.say(Text("A name has small letters, digits and hyphens."))


def _note(asks: Asks, name: str, address: str, user: str, password: str) -> None:
    """Note what is stored: a private address and a password go to .env, unless they are commands."""
    begin, variable = f"calendars.{name}", "CALENDAR_" + re.sub(r"[^A-Z0-9]+", "_", name.upper())

    def reference(value: str, suffix: str) -> str:
        if value.startswith(("$", "!")):
            return value
        asks.secrets[variable + suffix] = value
        return f"${variable}{suffix}"

    asks.keys[f"{begin}.url"] = address if user else reference(address, "_URL")
    if user:
        asks.keys[f"{begin}.user"] = user
        asks.keys[f"{begin}.password"] = reference(password, "_PASSWORD")


def _tried(asks: Asks, name: str, address: str, user: str, password: str) -> bool:
    """Read the next events; return False if the person should answer again."""
    asks.say(Text("Trying it out …"))
    try:
        calendars = _calendars(asks.loaded, name, address, user, password)
        found = run_async(next_events, calendars, (name,))
        for one in found:
            if one.error is not None:
                raise one.error
    except ValueError:  # of the section's checks
        asks.say(Text("The address begins with https, http or webcal, and contains no user."))
        return False
    except Exception as error:  # noqa: BLE001  # raised again, unless it is expected
        asks.explain(error)
        return asks.keep_anyway()
    show(asks.say, found)
    return True


def _calendars(loaded: "Loaded", name: str, address: str, user: str, password: str) -> "Calendars":
    """Return the calendar as the answers describe it."""
    from dataclasses import replace

    from rumi.platform.config.commands import read_keys
    from rumi.platform.config.schema import CalendarSection
    from rumi.platform.config.secrets import Secret, calendar_key, calendar_url_key
    from rumi.services.calendar.calendars import configured_calendars

    section = CalendarSection.model_validate({"url": address, "user": user})
    names = {calendar_key(name): password, calendar_url_key(name): address}
    given = {key: value for key, value in names.items() if value.startswith("!")}
    keys = {key: Secret(value) for key, value in names.items() if value and value[0] not in "$!"}
    commands = {key: value[1:].strip() for key, value in given.items()}
    settings = loaded.settings.model_copy(update={"calendars": {name: section}})
    secrets = replace(loaded.secrets, keys=keys, commands=commands, faults={})
    return configured_calendars(run_async(read_keys, replace(loaded, settings=settings, secrets=secrets)))


async def next_events(calendars: "Calendars", names: tuple[str, ...]) -> "list[CalendarReading]":
    """Read the calendars of the next days."""
    import time

    from rumi.platform.zones import zone_of_machine
    from rumi.services.calendar.events import TimeWindow

    now = time.time()
    return await calendars.read(names, TimeWindow(now, now + DAYS * 86_400, zone_of_machine()))


def show(say: Callable[[str], None], found: "list[CalendarReading]") -> None:
    """Print the names of calendars, and their next events."""
    from rumi.platform.printable import flat
    from rumi.platform.zones import zone_of_machine

    for one in found:
        count = len(one.reading.events) + one.reading.more
        say(
            Text(
                "✓ {name}: {count} events in the next {days} days",
                name=flat(one.label),
                count=count,
                days=DAYS,
            )
        )
        for event in one.reading.events[:SHOWN_EVENTS]:
            when = event.first_day or f"{event.starts(zone_of_machine()):%Y-%m-%d %H:%M}"
            echo(f"  {when} {flat(event.title)[:80]}")
