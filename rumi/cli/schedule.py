"""`rumi schedule`."""

from functools import partial
from typing import Any, Final

import click

from rumi.cli.asking import ask
from rumi.cli.daemon import say
from rumi.cli.printing import JSON, cut, echo, echo_json, flat_lines
from rumi.cli.speaking import Listing, reader, tr
from rumi.errors import UsageError
from rumi.platform.chat_ids import DEFAULT_CHAT
from rumi.platform.printable import flat
from rumi.texts import Text

_ask = partial(ask, "schedules")

ID = click.argument("schedule", type=click.IntRange(min=1), metavar="ID")

WORDS: Final = frozenset({"when", "comes", "last", "allowed"})
"""The fields of a schedule that are sentences for people, in their language and time zone."""

NOTHING_FIRES = Text("Nothing fires until Rumi runs: rumi serve")


@click.group(cls=Listing, default="list", members={"trigger": "rumi.cli.trigger"})
def command() -> None:
    """Add, list, show, edit, approve, pause, resume, run and delete reminders and schedules."""


@command.command()
@click.argument("when")
@click.argument("text", default="")
@click.option("--turn", is_flag=True, help="Work on TEXT in the chat, instead of sending it as it is.")
@click.option("--research", is_flag=True, help="Have TEXT researched on the web.")
@click.option("--bot", metavar="NAME", help="Run this bot with TEXT as its goal.")
@click.option(
    "--run", "run_", metavar="COMMAND", help="Run COMMAND in the chat's sandbox; send what it prints."
)
@click.option(
    "--if-changed",
    multiple=True,
    metavar="WHAT",
    help="Only after a change of a page (URL), a file of the chat (file:PATH) or an output (cmd:COMMAND).",
)
@click.option("--chat", default=DEFAULT_CHAT, show_default=True, help="The chat that it belongs to.")
@click.option(
    "--zone", default="", help="The time zone of WHEN; otherwise that of /timezone, or the machine's."
)
@JSON
def add(
    when: str,
    text: str,
    turn: bool,
    research: bool,
    bot: str | None,
    run_: str | None,
    if_changed: tuple[str, ...],
    chat: str,
    zone: str,
    as_json: bool,
) -> None:
    """Send TEXT at WHEN: "in 20 minutes", "tomorrow 09:00", "every monday 08:00", "0 9 * * 1"."""
    from rumi.platform.chat_ids import check_chat_id
    from rumi.platform.texts import schedules as schedule_texts

    if turn + research + (bot is not None) + (run_ is not None) > 1:
        raise UsageError("A schedule does one thing.", "Give one of --turn, --research, --bot and --run.")
    if run_ is not None and (text or if_changed):
        raise UsageError("--run takes neither a TEXT nor --if-changed.", "To watch an output: cmd:COMMAND.")
    kind = "turn" if turn else "research" if research else "bot" if bot is not None else "text"
    options: dict[str, Any] = {"bot": bot} if bot is not None else {}
    if if_changed:
        options["if_changed"] = list(if_changed)
    if run_ is not None:
        kind, text = "run", run_
    fields: dict[str, Any] = {"text": text, "kind": kind, "options": options, "zone": zone}
    added = _ask("add", when=when, chat=check_chat_id(chat), **fields)
    if as_json:
        echo_json(_for_programs(added), indent=2)
    else:
        language = reader()
        quiet = added["comes"] if added["next_at"] != added["instant"] else ""
        echo(
            schedule_texts.schedule_set(
                language, added["id"], kind, flat(added["when"]), flat(text), stays=True, quiet=quiet
            )
        )
        for one in added.get("watched", ()):
            echo(schedule_texts.watching(language, one["what"], one["title"], one["chars"]))
    if not added.get("runs"):
        say(tr(NOTHING_FIRES))


@command.command("list")
@click.option("--chat", default="", help="Only those of this chat.")
@click.option("--owner", default="", help="Only those of this owner: local, or a channel's user or group.")
@JSON
def list_(chat: str = "", owner: str = "", as_json: bool = False) -> None:
    """List the schedules: number, what it does, state, when, text."""
    from rumi.platform.texts import schedules as schedule_texts

    found = _ask("list", chat=chat, owner=owner)
    if as_json:
        echo_json([_for_programs(row) for row in found], indent=2)
        return
    language = reader()
    if not found:
        say(schedule_texts.schedule_list(language, ()))
    for schedule in found:
        kind, state = (
            schedule_texts.schedule_kind(language, schedule["kind"]),
            schedule_texts.schedule_state(language, schedule["state"], schedule.get("reason", "")),
        )
        text = flat(schedule["text"])
        last = f"  ({flat(schedule['last'])})" if schedule.get("last") else ""
        names = [flat(one["what"]) for one in schedule.get("watched", ())]
        text += f"  ({schedule_texts.if_changed(language, names)})" if names else ""
        echo(cut(f"{schedule['id']:>5}  {kind:<13} {state:<9} {flat(schedule['when'])}  {text}{last}"))


@command.command()
@ID
@JSON
def show(schedule: int, as_json: bool) -> None:
    """Show schedule ID."""
    from rumi.platform.texts import schedules as schedule_texts

    found = _ask("show", id=schedule)
    if as_json:
        echo_json(_for_programs(found), indent=2)
        return
    language = reader()
    kind, state = (
        schedule_texts.schedule_kind(language, found["kind"]),
        schedule_texts.schedule_state(language, found["state"], found.get("reason", "")),
    )
    last = f" · {flat(found['last'])}" if found.get("last") else ""
    echo(f"{found['id']} · {kind} · {state} · {flat(found['when'])}{last}\n")
    echo(flat_lines(found["text"]))
    for one in found.get("watched", ()):
        echo(schedule_texts.watching(language, one["what"], one["title"], one["chars"]))
    if found["allowed"]:
        echo(f"\n{_shown(found['allowed'])}")


@command.command()
@ID
@click.argument("text")
@JSON
def edit(schedule: int, text: str, as_json: bool) -> None:
    """Give schedule ID a new TEXT. What it was allowed to do without asking ends."""
    from rumi.platform.texts import standing as standing_texts

    found = _ask("edit", id=schedule, text=text)
    if as_json:
        echo_json(_for_programs(found), indent=2)
        return
    echo(standing_texts.edited(reader(), schedule, flat(text), ended=found["ended"]))


@command.command()
@ID
@click.option("--host", "hosts", multiple=True, help="Open pages of exactly this server: example.com.")
@click.option("--tool", "tools", multiple=True, help="Call this tool of an MCP server, or send_file.")
@click.option(
    "--to", multiple=True, help="Where the tool may send: NAME=VALUE of an argument, or a value for any."
)
@click.option("--per-fire", type=int, help="How often in one run; otherwise once.")
@click.option("--days", type=float, help="How many days; otherwise 30.")
@click.option("--revoke", is_flag=True, help="Take back what it is allowed to do.")
@JSON
def approve(
    schedule: int,
    hosts: tuple[str, ...],
    tools: tuple[str, ...],
    to: tuple[str, ...],
    per_fire: int | None,
    days: float | None,
    revoke: bool,
    as_json: bool,
) -> None:
    """Allow schedule ID something in all its runs without asking; without options, say what it may do."""
    from rumi.platform.texts import standing as standing_texts

    given = {"hosts": list(hosts), "tools": list(tools), "to": list(to), "per_run": per_fire, "days": days}
    wanted: dict[str, Any] = {name: value for name, value in given.items() if value not in (None, [])}
    if revoke and wanted:
        raise UsageError("--revoke takes everything back.", "Give it alone.")
    found = _ask("revoke", id=schedule) if revoke else None
    if wanted:
        found = _ask("approve", id=schedule, **wanted)
    if found is None:
        found = _ask("show", id=schedule)
    if as_json:
        echo_json(_for_programs(found), indent=2)
    elif revoke:
        echo(standing_texts.revoked(reader(), schedule))
    else:
        echo(_shown(found["allowed"]) or standing_texts.nothing_granted(reader(), schedule))


def _for_programs(schedule: dict[str, Any]) -> dict[str, Any]:
    """Return a schedule as the object that `--json` prints: without what the control calls say in words."""
    return {key: value for key, value in schedule.items() if key not in WORDS}


def _shown(text: str) -> str:
    """Return what a schedule may do, for a terminal: without the marks of the code block."""
    lines = [line for line in text.splitlines() if line != "```"]
    return "\n".join(f"{line[: len(line) - len(line.lstrip())]}{flat(line)}" for line in lines)


@command.command()
@ID
def pause(schedule: int) -> None:
    """Pause schedule ID until it is resumed."""
    _change("pause", schedule)


@command.command()
@ID
def resume(schedule: int) -> None:
    """Resume schedule ID at its next time."""
    _change("resume", schedule)


@command.command()
@ID
def run(schedule: int) -> None:
    """Run schedule ID now. Its next run doesn't change."""
    _change("run", schedule)


@command.command()
@ID
def delete(schedule: int) -> None:
    """Delete schedule ID. Work that it has started continues."""
    _change("delete", schedule)


def _change(do: str, id: int) -> None:
    from rumi.platform.texts import schedules as schedule_texts

    found = _ask(do, id=id)
    echo(schedule_texts.schedule_changed(reader(), id, do, flat(found["when"]) if found else ""))
