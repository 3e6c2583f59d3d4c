"""`rumi import`."""

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, cast

import click

from rumi.cli import run_async
from rumi.cli.printing import JSON, cut, echo, echo_json, prompt
from rumi.cli.speaking import ntr, reader, say, tr, translate
from rumi.errors import UsageError
from rumi.platform.printable import flat
from rumi.texts import Text

if TYPE_CHECKING:
    from rumi.app.moving.records import ForeignHome, Kind, NotImported, Part
    from rumi.app.moving.report import ImportReport
    from rumi.memory.actor import AskMemory
    from rumi.platform.home import Home
    from rumi.store.journal.actor import AskJournal

KINDS: Final = ("openclaw", "nanobot", "hermes", "openbot", "chatgpt")

PARTS: Final = {
    "sessions": Text("sessions"),
    "memory": Text("memory"),
    "skills": Text("skills"),
    "schedules": Text("schedules"),
    "people": Text("people"),
    "config": Text("settings"),
}
"""The names of the parts for `--only`, and for people."""

MOST_SHOWN: Final = 25
"""Number of things that are not taken over that a terminal shows; the report has all of them."""


EXAMPLE_CHARS: Final = 32


@click.command()
@click.argument("kind", type=click.Choice(KINDS), metavar="PROGRAM")
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only show what would be taken over.")
@click.option("-y", "--yes", is_flag=True, help="Import without asking. People get rights only with --only.")
@click.option(
    "--only", default=None, metavar="PARTS", help="Of: sessions,memory,skills,schedules,people,config."
)
@JSON
def command(kind: str, path: Path | None, dry_run: bool, yes: bool, only: str | None, as_json: bool) -> None:
    """Move in from another assistant: openclaw, nanobot, hermes, openbot or chatgpt.

    PATH is the program's home, or the export of ChatGPT (a ZIP file or a folder). It is only read. You see
    what will be taken over, and what will not, before anything is stored. Sessions become chats, notes become
    facts, skills are off, schedules are paused. A second import adds only what is new.

    docs/moving-in.md says what goes where.
    """
    from rumi.app.moving.homes import usual_home
    from rumi.platform.config.files import home_from
    from rumi.platform.home import Home

    program = cast("Kind", kind)
    parts = _parts(only)
    source = usual_home(program) if path is None else Path(os.path.expanduser(path)).absolute()
    home = Home(home_from(os.environ)).make()
    moved = run_async(_read, program, source)
    with _locked(home, dry_run) as into:
        if into != home.root and not as_json:
            say("A running Rumi uses the home, so this does not tell what is here already.", err=True)
        preview = run_async(_move, into, moved, parts, True, False)
        if not as_json:
            _show(preview)
        people = only is not None and "people" in parts and yes
        if dry_run or preview.is_empty(people=people or not yes):
            if as_json:
                echo_json(preview.as_json(reader()), indent=2)
            elif not dry_run:
                say("There is nothing new to take over.")
            return
        if not yes:
            people = _asked(preview)
        done = run_async(_move, into, moved, parts, False, people)
    if as_json:
        echo_json(done.as_json(reader()), indent=2)
        return
    _show_done(done, preview)


def _parts(only: str | None) -> "tuple[Part, ...]":
    """Return the parts that `--only` names: people get rights by it, so it must name at least one.

    Raises:
        UsageError: It names none, or one that there is not.
    """
    names = list(PARTS) if only is None else [name.strip() for name in only.split(",") if name.strip()]
    if unknown := [name for name in names if name not in PARTS] or [only or ""] * (not names):
        raise UsageError(
            "{name} is not a part.", "The parts are {parts}.", name=repr(unknown[0]), parts=", ".join(PARTS)
        )
    return tuple(cast("Part", name) for name in PARTS if name in names)


@contextmanager
def _locked(home: "Home", dry_run: bool) -> "Iterator[Path]":
    """Lock the home, and yield it; for a preview while a Rumi runs, yield a temporary home instead.

    Raises:
        HomeLocked: A running Rumi has locked the home, and something is to be stored.
    """
    from rumi.cli.control import yield_home
    from rumi.platform.home import HomeLocked

    yield_home(home)
    with TemporaryDirectory(prefix="rumi-import-") as folder:
        lock = home.lock("rumi import")
        try:
            lock.__enter__()
        except HomeLocked:
            if not dry_run:
                raise
            yield Path(folder)
            return
        try:
            yield home.root
        finally:
            lock.__exit__(None, None, None)


async def _read(kind: "Kind", path: Path) -> "ForeignHome":
    """Read the foreign home in a thread; Ctrl-C ends the reading soon."""
    import signal

    import trio

    from rumi.app.moving.homes import read_home
    from rumi.app.moving.reading import Budget, Stopped
    from rumi.channels.terminal.progress import show_progress

    budget = Budget()

    async def stop() -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                budget.stop.set()

    async with show_progress(reader()) as steps:
        steps.step(Text("Reading {path}", path=path))
        budget.tell = lambda what: trio.from_thread.run_sync(steps.detail, what)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(stop)
                moved = await trio.to_thread.run_sync(read_home, kind, path, budget)
                nursery.cancel_scope.cancel()
        except* Stopped:
            raise KeyboardInterrupt from None
    return moved


async def _move(
    root: Path, moved: "ForeignHome", parts: "tuple[Part, ...]", dry: bool, people: bool
) -> "ImportReport":
    """Store what was found, or with `dry` only compare it with what is here."""
    from rumi.app.moving.writing import HomeWriter, Into
    from rumi.channels.terminal.progress import show_progress
    from rumi.platform.config.cascade import load_settings
    from rumi.platform.home import Home

    home, loaded = Home(root), load_settings(root, os.environ, {})
    async with show_progress(reader()) as steps, _databases(home) as (journal, memory):
        steps.step(Text("Comparing with what is here") if dry else Text("Storing"))
        writer = HomeWriter(Into(home, loaded, journal, memory, reader(), steps.detail), moved, dry=dry)
        report = await writer.move_in(parts, people=people)
        if moved.kind == "openbot":
            await _bots(home, moved.home, report)
        if not dry:
            await writer.save()
    return report


@asynccontextmanager
async def _databases(home: "Home") -> AsyncIterator[tuple["AskJournal", "AskMemory"]]:
    from rumi.cli.stored import stored_of
    from rumi.memory.actor import open_memory
    from rumi.store.journal.actor import open_journal

    stored = stored_of(home)
    async with open_journal(stored.state) as journal, open_memory(stored.memory) as memory:
        yield journal, memory


async def _bots(home: "Home", folder: str, report: "ImportReport") -> None:
    """Take over the bots of openbot, by the importer that `rumi bot import` uses."""
    import trio

    from rumi.cli.at_rest import part_at_rest
    from rumi.platform.caller import TERMINAL
    from rumi.platform.calls import answer
    from rumi.tasks.bots.files import BotFiles
    from rumi.tasks.bots.importing import foreign_bots

    if report.dry:
        files = BotFiles(home.root)
        for bot in await trio.to_thread.run_sync(foreign_bots, Path(folder)):
            report.bots.count(bot.name, not bot.fault and not files.has(bot.name))
        return
    async with part_at_rest(home, "bots") as part:
        done = cast(
            "dict[str, list[dict[str, Any]]]",
            await answer(part, "bots", TERMINAL, {"do": "import", "folder": folder}),
        )
    for taken in done["bots"]:
        report.bots.count(taken["name"], taken["taken"])


def _asked(preview: "ImportReport") -> bool:
    """Ask whether to import; return whether the people get rights.

    Raises:
        UsageError: The person says no, or nobody can answer.
    """
    from rumi.platform.texts.questions import yes_or_no

    if not sys.stdin.isatty():
        raise UsageError("Nothing was imported.", "Use --yes to import without a question.")
    if yes_or_no(prompt(tr("Take it over? [yes/no]"), "", show_default=False)) is not True:
        raise UsageError("Nothing was imported.")
    if not preview.people:
        return False
    question = tr(
        "May these people talk to Rumi, as guests: {people}? [yes/no]", people=flat(", ".join(preview.people))
    )
    return yes_or_no(prompt(question, "", show_default=False)) is True


def _show(report: "ImportReport") -> None:
    """Print what would be taken over, and what would not."""
    from rumi.app.moving.records import TITLES

    say("From {program}, {path}:", program=TITLES[report.kind], path=flat(report.home))
    _show_parts(report)
    _show_left_out(report.left_out)


def _show_parts(report: "ImportReport") -> None:
    rows: list[tuple[str, str, list[str]]] = []
    if report.kind == "openbot":
        rows.append((tr("bots"), _figures(report.bots.new, report.bots.here), report.bots.examples))
    for part, one in report.parts.items():
        text = _figures(one.new, one.here)
        if part == "sessions" and one.new:
            text += " " + ntr("({count} turn)", "({count} turns)", one.within)
        elif part == "skills" and one.new:
            text += " " + tr("(off)")
        elif part == "schedules" and one.new:
            text += " " + tr("(paused)")
        elif part == "people" and one.new:
            text += " " + tr("(only if you say so)") if report.dry else ""
        if one.new or one.here:
            rows.append((translate(PARTS[part]), text, one.examples))
    if report.kept:
        rows.append((tr("kept unused"), str(len(report.kept)), [Path(kept).name for kept in report.kept]))
    first = max((len(name) for name, _, _ in rows), default=0)
    second = max((len(text) for _, text, _ in rows), default=0)
    for name, text, examples in rows:
        shown = ", ".join(f"“{one}”" if " " in one else one for one in map(_short, examples))
        echo(cut(f"  {name:<{first}}  {text:<{second}}  {shown}".rstrip()))


def _short(text: str) -> str:
    text = flat(text)
    return text if len(text) <= EXAMPLE_CHARS else f"{text[: EXAMPLE_CHARS - 1]}…"


def _figures(new: int, here: int) -> str:
    parts = [tr("{count} new", count=new)] if new or not here else []
    return ", ".join([*parts, *([tr("{count} here already", count=here)] if here else [])])


def _show_left_out(left_out: "list[NotImported]") -> None:
    if not left_out:
        return
    say("Not taken over:")
    for one in left_out[:MOST_SHOWN]:
        times = f" ({one.count})" if one.count > 1 else ""
        about = f"{flat(one.what)[:60]}: " if one.what else ""
        echo(f"  {translate(PARTS[one.part])}: {about}{flat(translate(one.why))}{times}")
    if len(left_out) > MOST_SHOWN:
        say("  and {count} more, which the report lists", count=len(left_out) - MOST_SHOWN)


def _show_done(report: "ImportReport", preview: "ImportReport") -> None:
    from rumi.app.moving.records import TITLES

    say("Taken over from {program}:", program=TITLES[report.kind])
    _show_parts(report)
    _show_left_out([one for one in report.left_out if one not in preview.left_out])
    if report.chats:
        say("To go on in one of the chats: rumi chat --chat {chat}", chat=report.chats[-1])
    if (one := report.parts.get("memory")) and one.new:
        say("The facts count as read from outside: look at them with rumi memory list --sources")
    if (one := report.parts.get("skills")) and one.new:
        say("To switch a skill on: rumi skills enable {name}", name=one.examples[0])
    if (one := report.parts.get("schedules")) and one.new:
        say("The schedules are paused: rumi schedule list, then rumi schedule resume ID")
    say("The report: {path}", path=report.file)
