"""`rumi memory`."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import click

from rumi.cli.asking import ask
from rumi.cli.printing import JSON, console, echo, echo_json, local_day
from rumi.cli.speaking import Listing, confirms_deletion, tr
from rumi.texts import gettext

if TYPE_CHECKING:
    from rumi.platform.home import Home
    from rumi.texts import Language

OWNER = click.option("--owner", default="local", help="Whose facts: local, or such as tg11111111.")


@click.group(cls=Listing, default="list")
def command() -> None:
    """Show, change and export what the assistant knows about its users."""


@command.command("list")
@OWNER
@click.option("--sources", is_flag=True, help="Show the chat and the turn that each fact is from.")
@JSON
def list_(owner: str, sources: bool, as_json: bool) -> None:
    """List the facts: stated ones first, then the latest first. --json is the export."""
    facts: list[dict[str, Any]] = []
    while True:
        answer = _ask("list", owner=owner, after=len(facts))
        facts += answer["facts"]
        if not answer["facts"] or len(facts) >= answer["all"]:
            break
    if as_json:
        echo_json(facts, indent=2)
    else:
        _show(facts)
    if sources and not as_json:
        for fact in facts:
            _source(fact)


@command.command("set")
@click.argument("key")
@click.argument("value")
@OWNER
@click.option("--also", is_flag=True, help="Keep other values of KEY.")
@JSON
def set_(key: str, value: str, owner: str, also: bool, as_json: bool) -> None:
    """Remember that KEY is VALUE; its history keeps the old value."""
    from rumi.platform.texts import memory as memory_texts

    answer = _ask("set", owner=owner, key=key, value=value, also=also)
    said = memory_texts.remembered(
        _language(), answer["key"], answer["value"], answer["others"], replaced=not also
    )
    _say(answer, as_json, said)


@command.command()
@click.argument("key")
@OWNER
@JSON
def history(key: str, owner: str, as_json: bool) -> None:
    """Show what KEY was before and is now. Each value has its dates and its source."""
    from rumi.platform.texts import memory as memory_texts

    found = cast("list[dict[str, Any]]", _ask("history", owner=owner, key=key))
    if as_json:
        echo_json(found, indent=2)
    elif not found:
        echo(memory_texts.forgotten(_language(), key, 0))
    for fact in found if not as_json else ():
        ended = local_day(fact["ended"]) if fact["ended"] else " " * 10
        echo(f"{local_day(fact['created'])} – {ended}  {fact['value']}")
        _source(fact)


@command.command("forget-everything")
@OWNER
@click.option("--yes", is_flag=True, help="Do not ask.")
@JSON
def forget_everything(owner: str, yes: bool, as_json: bool) -> None:
    """Delete all that is stored of an owner. Facts, history, index, tasks and schedules go; files stay.

    The browser's profile goes too, and, of the owner of the home, the logins at MCP servers.

    docs/forgetting.md compares the ways to forget.
    """
    from rumi.errors import UsageError
    from rumi.platform.texts import recall as recall_texts

    unattended = UsageError("Can't ask for confirmation here. Use --yes to delete everything.")
    if not yes and not confirms_deletion(
        tr("Delete all that is stored of {owner}? (y/n)", owner=owner), unattended
    ):
        return
    answer = _ask("forget_everything", owner=owner)
    _say(answer, as_json, recall_texts.everything_forgotten(_language(), answer["deleted"]))


def _source(fact: dict[str, Any]) -> None:
    """Print the command that shows the source of a fact, or the file that it was taken over from."""
    if fact["turn"].startswith("import "):
        program, _, file = fact["turn"].removeprefix("import ").partition(": ")
        echo(f"  {fact['key']}: {tr('taken over from {program}, {file}', program=program, file=file)}")
    if fact["chat"]:
        option = f" --turn {fact['turn']}" if fact["turn"].startswith("t") else ""
        session = f" --session {fact['turn'].split()[1]}" if fact["turn"].startswith("session ") else ""
        echo(f"  {fact['key']}: rumi chats show {fact['chat']}{option}{session}")


@command.command()
@click.argument("key")
@OWNER
@JSON
def forget(key: str, owner: str, as_json: bool) -> None:
    """Forget all values of KEY.

    docs/forgetting.md compares the ways to forget.
    """
    from rumi.platform.texts import memory as memory_texts

    answer = _ask("forget", owner=owner, key=key)
    _say(answer, as_json, memory_texts.forgotten(_language(), answer["key"], answer["forgotten"]))


@command.command()
@OWNER
@JSON
def extract(owner: str, as_json: bool) -> None:
    """Extract facts from the conversation so far, now."""
    from rumi.platform.texts import memory as memory_texts

    answer = _ask("extract", owner=owner)
    new_facts, language = answer["learned"], _language()
    text = (
        memory_texts.facts_extracted(language, new_facts)
        if new_facts is not None
        else gettext(language, "Still reading what was said; that will take a little longer.")
    )
    _say(answer, as_json, text)


def _ask(do: str, **fields: object) -> dict[str, Any]:
    """Execute a request about the home's memory: in the daemon, or directly on the database."""
    from rumi.memory.memory_calls import check
    from rumi.platform.chat_ids import BUILT_IN

    # First, so that an invalid request neither waits for the home nor starts Rumi.
    check({"do": do, **fields}, BUILT_IN)
    answer: dict[str, Any] = ask(
        "memory", do, _in_full if do in ("extract", "forget_everything") else None, **fields
    )
    return answer


async def _in_full(home: "Home", request: Mapping[str, object]) -> object:
    """Execute the request in a complete app in this process.

    A complete app is needed because extracting facts calls the model, and forgetting everything concerns all
    parts of the app.
    """
    from rumi.channels.attach.connection import connect
    from rumi.cli.at_rest import app_at_rest
    from rumi.platform.caller import TERMINAL
    from rumi.platform.home import socket_path

    async with (
        app_at_rest(home, f"rumi memory {request['do']}"),
        connect(socket_path(home.run, home.installation()), TERMINAL) as client,
    ):
        return await client.call("memory", **request)


def _language() -> "Language":
    from rumi.platform.config.cascade import load_settings
    from rumi.platform.config.files import home_from
    from rumi.platform.texts.language import detect_language

    return detect_language(load_settings(home_from(os.environ), os.environ, {}).settings.language, os.environ)


def _say(answer: dict[str, Any], as_json: bool, text: str) -> None:
    if as_json:
        echo_json(answer)
    else:
        echo(text)


def _show(facts: list[dict[str, Any]]) -> None:
    """Print a table; if the output is a pipe, print lines that are not cut or wrapped instead."""
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    from rumi.platform.texts import memory as memory_texts

    language = _language()
    if not facts:
        echo(memory_texts.facts_known(language, 0))
        return
    rows = [
        (
            fact["key"],
            fact["value"],
            memory_texts.fact_origin(language, fact["source"] == "explicit", fact["tainted"]),
            local_day(fact["updated"]),
        )
        for fact in facts
    ]
    screen = console()
    if not screen.is_terminal:
        widths = [max(cell_len(row[column]) for row in rows) for column in range(4)]
        for key, value, how, when in rows:
            echo(f"{when}  {_padded(how, widths[2])}  {_padded(key, min(widths[0], 24))}  {value}")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    headings = memory_texts.fact_columns(language)
    table.add_column(headings[0], max_width=24, overflow="fold")
    table.add_column(headings[1], overflow="fold", ratio=1)
    table.add_column(headings[2], no_wrap=True, style="dim")
    table.add_column(headings[3], no_wrap=True, style="dim")
    for row in rows:
        table.add_row(*map(Text, row))
    screen.print(table)


def _padded(text: str, width: int) -> str:
    from rich.cells import cell_len

    return text + " " * (width - cell_len(text))
