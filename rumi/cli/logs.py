"""`rumi debug logs`."""

import os
import sys
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from rumi.cli import run_async
from rumi.cli.printing import Styled, echo, echo_json
from rumi.cli.speaking import tr
from rumi.texts import gettext

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from rumi.platform.logs.entries import Wanted
    from rumi.texts import Language

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

LAST = 10
"""Default number of earlier entries that `rumi debug logs --follow` shows first."""


class Since(click.ParamType[datetime]):
    """A time: `2h`, `3d`, `2026-08-01`, `2026-08-01T12:00`; local time if no zone is given."""

    name = "when"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return the time, with its zone."""
        text = str(value).strip()
        try:
            if text[:-1].isdecimal() and text[-1:] in UNITS:
                return datetime.now().astimezone() - timedelta(**{UNITS[text[-1]]: int(text[:-1])})
            found = datetime.fromisoformat(text)
            return found if found.tzinfo is not None else found.astimezone()
        except (ValueError, OverflowError):  # not a time, or one before the first possible date
            self.fail(
                tr(
                    "{text} is not a time. Examples: 30m, 2h, 3d, 2026-08-01, 2026-08-01T12:00.",
                    text=repr(text),
                ),
                param,
                ctx,
            )


@click.command()
@click.option(
    "-f", "--follow", "following", is_flag=True, help="Show new entries as they come, until Ctrl-C."
)
@click.option(
    "--chat", "chats", multiple=True, metavar="ID", help="Only this chat's entries; may be repeated."
)
@click.option(
    "--event", "events", multiple=True, metavar="E", help="Only these: command, tool, turn_finished …"
)
@click.option("--since", type=Since(), help="From then on: 30m, 2h, 3d, 2026-08-01, 2026-08-01T12:00.")
@click.option("-n", "--lines", type=click.IntRange(min=0), help="Only the last N entries; with -f, 10.")
@click.option("--json", "as_json", is_flag=True, help="JSON lines, with every field.")
@click.option("--summary", is_flag=True, help="Turns, tools, failures, tokens and time by chat and day.")
def command(
    following: bool,
    chats: tuple[str, ...],
    events: tuple[str, ...],
    since: datetime | None,
    lines: int | None,
    as_json: bool,
    summary: bool,
) -> None:
    """Read the audit log: what was run, in which chat, and how it ended."""
    if summary and (following or lines is not None):
        raise click.UsageError(tr("--summary counts everything: it goes with neither -f nor -n."))
    from rumi.platform.config.files import home_from
    from rumi.platform.home import Home
    from rumi.platform.logs.entries import Wanted, read

    wanted = Wanted(frozenset(chats), frozenset(events), since)
    path = Home(home_from(os.environ)).logs / "audit.jsonl"
    language = _language()
    if summary:
        _print_summary(read(path, wanted), as_json, language)
    elif following:
        run_async(_follow, path, wanted, LAST if lines is None else lines, as_json, language)
    elif not _print(_last(read(path, wanted), lines), as_json, language):
        echo(gettext(language, "{path} has no such entries.", path=str(path)), err=True)


def _language() -> "Language":
    """Return the configured language, or the environment's language if the configuration is invalid.

    The log must be readable even with an invalid configuration.
    """
    from rumi.errors import RumiError
    from rumi.platform.config.cascade import load_settings
    from rumi.platform.config.files import home_from
    from rumi.platform.texts.language import detect_language

    try:
        setting = load_settings(home_from(os.environ), os.environ, {}).settings.language
    except RumiError:
        setting = "auto"
    return detect_language(setting, os.environ)


def _last(entries: "Iterable[dict[str, Any]]", lines: int | None) -> "Iterable[dict[str, Any]]":
    from collections import deque

    return entries if lines is None else deque(entries, maxlen=lines)


async def _follow(path: "Path", wanted: "Wanted", lines: int, as_json: bool, language: "Language") -> None:
    from rumi.platform.logs.entries import follow

    there, coming = follow(path, wanted)
    _print(_last(there, lines), as_json, language)
    async with aclosing(coming):
        async for entry in coming:
            _print([entry], as_json, language)
            sys.stdout.flush()


def _print(entries: "Iterable[dict[str, Any]]", as_json: bool, language: "Language") -> bool:
    """Print the entries. Return True if there were any."""
    import shutil

    from rumi.platform.logs.lines import colour_of, line_of, parts_of

    terminal = sys.stdout.isatty()
    width = max(40, shutil.get_terminal_size().columns) if terminal else None
    none = True
    for entry in entries:
        none = False
        if as_json:
            echo_json(entry, ascii=not terminal)
        elif terminal:
            when, chat, words = parts_of(entry, language, width=width)
            echo(Styled(when, dim=True), " ", Styled(chat, bold=True), " ", Styled(words, colour_of(entry)))
        else:
            echo(line_of(entry, language, width=width))
    return not none


def _print_summary(entries: "Iterable[dict[str, Any]]", as_json: bool, language: "Language") -> None:
    from rumi.platform.logs.summary import summed_up, table

    days = summed_up(entries)
    if as_json:
        for day in days:
            echo_json(day.fields())
        return
    for line in table(days, language, whole=not sys.stdout.isatty()):
        echo(line)
