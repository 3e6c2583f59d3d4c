"""`rumi chats`."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import click

from rumi.cli.asking import ask
from rumi.cli.printing import JSON, Styled, cut, echo, echo_json, local_time
from rumi.cli.speaking import Listing, confirms_deletion, ntr, reader, say, tr
from rumi.platform.printable import flat
from rumi.platform.texts import sessions as session_texts

_ask = partial(ask, "chats")

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
"""Colours of a diff's lines, by their first character."""

SHOWN = 20
"""Default number of entries that `rumi chats show` prints."""


@click.group(
    cls=Listing,
    default="list",
    members={
        "reset": "rumi.cli.reset",
        "search": "rumi.cli.search",
        "stop": "rumi.cli.stop",
        "undo": "rumi.cli.undo",
    },
)
def command() -> None:
    """List, show, search, export and delete chats and what was said in them."""


@command.command("list")
@JSON
def list_(as_json: bool) -> None:
    """List the chats, the latest first: id, last message, its beginning."""
    chats = _ask("list")
    if as_json:
        echo_json(chats, indent=2)
        return
    if not chats:
        say("There are no chats yet.", err=True)
    width = max((len(chat["chat"]) for chat in chats), default=0)
    for chat in chats:
        title = f"{flat(chat['title'])}: " if chat["title"] else ""
        echo(cut(f"{chat['chat']:<{width}}  {local_time(chat['at'])}  {title}{flat(chat['text'])}"))


@command.command()
@click.argument("chat")
@click.option("-n", "--lines", type=click.IntRange(min=1), default=SHOWN, show_default=True,
              help="Only the last N entries.")  # fmt: skip
@click.option("--turn", default="", metavar="ID", help="Only this turn, such as t12.")
@click.option("--session", type=click.IntRange(min=1), help="Only the session of that number.")
@JSON
def show(chat: str, lines: int, turn: str, session: int | None, as_json: bool) -> None:
    """Show what was last said in CHAT, oldest first, with the tools that were called."""
    entries: list[dict[str, Any]] = []
    for page in _pages(chat):
        wanted = [row for row in page if turn in ("", row["turn"]) and session in (None, row["session"])]
        entries = wanted + entries
        if len(_shown(entries)) >= lines:
            break
    if as_json:
        echo_json(entries[-lines:], indent=2)
        return
    for entry in _shown(entries)[-lines:]:
        echo(Styled(f"{local_time(entry['time'])}  {who_said(entry)}", bold=True))
        for line in _text(entry).splitlines():
            echo(f"  {line}")


@command.command()
@click.argument("chat")
@JSON
def sessions(chat: str, as_json: bool) -> None:
    """List the sessions of CHAT, the latest first: number, last message, messages, first words.

    rumi --resume CHAT:NUMBER reopens one.
    """
    found = _ask("sessions", chat=chat)
    if as_json:
        echo_json(found, indent=2)
        return
    if not found:
        say("There are no sessions yet.", err=True)
    width = max((len(str(each["number"])) for each in found), default=0)
    for each in found:
        mark = "*" if each["current"] else " "
        count = ntr("{count} message", "{count} messages", each["messages"])
        echo(cut(f"{each['number']:>{width}}{mark} {local_time(each['at'])}  {count}  {flat(each['text'])}"))


@command.command()
@click.argument("chat")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines, with every field.")
def export(chat: str, as_json: bool) -> None:
    """Print all that was said in CHAT, as Markdown: oldest first, with tool calls and their results.

    Its lists come last.
    """
    after = 0
    while True:
        page = _ask("export", chat=chat, form="json" if as_json else "markdown", after=after)
        for entry in (*page["entries"], *page["lists"]) if as_json else ():
            echo_json(entry)
        if not as_json:
            echo(page["text"].removesuffix("\n"))
        after = page["next"]
        if not after:
            return


@command.command()
@click.argument("chat")
@click.argument("files", nargs=-1)
@click.option("--stat", is_flag=True, help="Print only the names, each with a letter for what changed.")
@click.option("--json", "as_json", is_flag=True, help="Print the changes and the diff as JSON.")
def diff(chat: str, files: tuple[str, ...], stat: bool, as_json: bool) -> None:
    """Print what CHAT changed in its folder and did not apply yet, or only FILES, as a unified diff.

    A is a new file, D a deleted one, M a changed one, R a moved one, m one whose mode changed.
    """
    from rumi.platform.texts import folders as folder_texts

    found = page = _ask("diff", chat=chat, files=list(files))
    while page["next"] and not stat:
        page = _ask("diff", chat=chat, files=list(files), token=found["token"], after=page["next"])
        found["lines"] += page["lines"]
    if as_json:
        echo_json({key: value for key, value in found.items() if key not in ("next", "token")}, indent=2)
        return
    if not found["files"]:
        echo(folder_texts.unchanged(reader(), found["folder"]), err=True)
    for path, reason in found["left_out"]:
        echo(folder_texts.left_out(reader(), path, reason), err=True)
    conflicts = [one["path"] for one in found["files"] if one["conflict"]]
    if conflicts:
        echo(folder_texts.conflicts(reader(), conflicts, found["folder"]), err=True)
    if stat:
        for one in found["files"]:
            echo(f"{one['letter']} {one['path']}")
        return
    for line in found["lines"]:
        echo(Styled(line, fg=_COLOURS.get(line[:1])))


@command.command()
@click.argument("chat")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(chat: str, yes: bool) -> None:
    """Delete CHAT: its messages, history, sandbox and files. Facts and the audit log stay.

    A turn that runs is stopped first.

    docs/forgetting.md compares the ways to forget.
    """
    from rumi.errors import UsageError

    _ask("show", chat=chat, before=1)  # fails for an unknown chat, before the question is asked
    unattended = UsageError("Can't ask for confirmation here. Use --yes to delete the chat.")
    if not yes and not confirms_deletion(
        tr("Delete all of {chat}, and its files? (y/n)", chat=chat), unattended
    ):
        return
    _ask("delete", chat=chat)
    say("{chat} was deleted.", chat=chat)


def _pages(chat: str) -> Iterator[list[dict[str, Any]]]:
    """Yield the chat's entries page by page, the latest page first."""
    before = 0
    while page := _ask("show", chat=chat, before=before)["entries"]:
        yield page
        before = page[0]["id"]


def _shown(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry for entry in entries if entry["role"] in ("user", "assistant") and _text(entry)]


def who_said(entry: dict[str, Any]) -> str:
    """Return the name of the side that said an entry, in the reader's language."""
    return session_texts.who_said(reader(), str(entry["role"]))


def _text(entry: dict[str, Any]) -> str:
    """Return the text of one entry of a chat, with its tool calls."""
    calls = [f"→ {call['name']} {call['arguments']}" for call in entry["tool_calls"]]
    return "\n".join(part for part in (entry["text"], *calls) if part)
