"""Shows the status dump to a person, as a tree that fits into 80 columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, TypeAlias

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rumi.channels.attach.activity_text import activity_of, age_of, duration, works
from rumi.channels.status_dump import Item, chats, is_chat, rows, trouble
from rumi.platform.texts.operating import short_size
from rumi.platform.texts.words import in_words
from rumi.texts import Language, gettext, ngettext

STATES = {"running": "green", "starting": "cyan", "stopping": "yellow", "restarting": "yellow"}

STORAGE = {
    "full": "the disk is full; no message is taken, make room",
    "locked": "another program has locked state.db",
    "failing": "the disk refuses to write",
    "away": "the database does not answer; no message is taken, start it or look at the network",
    "replaced": "state.db was deleted or replaced; end this process, restore the file, start again",
}
"""Reasons why the databases cannot be written, with advice."""

MANY = 12
"""A node shows all its children up to this number. If it has more, it shows the busy ones and a count."""

MOST = 30
"""Maximum number of busy children that a node shows."""

MOST_OTHERS = 5
"""Maximum number of busy children that are not chats: a chat's row already shows its sandbox."""

SLOW_S = 60.0
"""Work that has been running for more seconds than this is coloured."""

Order: TypeAlias = Literal["age", "name", "restarts", "mail"]


@dataclass(frozen=True, slots=True)
class StatusFilter:
    """Display options: order of the children, selected chat, and maximum number of children per node.

    `terse` hides each actor that has no chats below it and is in its usual state.
    """

    order: Order = "age"
    selected: str = ""
    most: int = MOST
    many: int = MANY
    terse: bool = False
    language: Language = "en"


def render(status: Item, choice: StatusFilter | None = None) -> RenderableType:
    """Return the headline, the problems and the actor tree of the status dump."""
    choice = choice or StatusFilter()

    language = choice.language
    word = partial(in_words, language)
    lines: list[RenderableType] = [_headline(status, choice.language)]
    if why := trouble(status):
        what, since = word(STORAGE.get(why, why)), duration(status["storage"]["trouble_s"] or 0.0)
        storage = gettext(language, "storage: {what}, since {since}", what=what, since=since)
        lines.append(Text(storage, style="bold red"))
    lines.extend(
        Text(gettext(language, "degraded: {why}", why=word(why)), style="yellow")
        for why in status["sandbox"]["degraded"]
    )
    lines.extend(
        Text(
            gettext(language, "calendar {name}: {error}", name=each["name"], error=each["error"]),
            style="yellow",
        )
        for each in status.get("calendars") or ()
        if each["error"]
    )
    table = Table(box=None, padding=(0, 1, 0, 0), expand=False)
    table.add_column(gettext(language, "actor"), no_wrap=True, overflow="ellipsis", max_width=28)
    table.add_column(gettext(language, "state"), no_wrap=True)
    table.add_column(gettext(language, "re"), justify="right", no_wrap=True)
    table.add_column(gettext(language, "mail"), justify="right", no_wrap=True)
    table.add_column(gettext(language, "doing"))  # the only column that shrinks in a narrow terminal
    for _, prefix, item in rows(status["tree"], partial(_shown, choice)):
        if isinstance(item, str):
            table.add_row(f"{prefix}{item}", style="dim")
            continue
        failed = status["failed"].get(item["id"]) if is_chat(item) else None
        state = "failed" if failed else item["state"]
        activity = (
            gettext(language, "gave up: {error}", error=failed["error"])
            if failed
            else activity_of(item, choice.language)
        )
        slow = is_chat(item) and age_of(item) >= SLOW_S
        table.add_row(
            f"{prefix}{item['id']}",
            Text(word(state), style=STATES.get(state, "red")),
            str(item["restarts"] or ""),
            str(item["mailbox"]["depth"] or ""),
            Text(activity, no_wrap=True, overflow="ellipsis", style="yellow" if slow else ""),
            style="reverse" if is_chat(item) and item["id"] == choice.selected else "",
        )
    here = {item["id"] for item in chats_of(status, choice)}
    lines.append(table)
    for chat, failed in status["failed"].items():
        if chat not in here:
            text = gettext(language, "{chat} failed: {error}", chat=chat, error=failed["error"])
            lines.append(Text(text, style="red", no_wrap=True, overflow="ellipsis"))
    return Group(*lines)


COLUMNS: Final = ("partitions", "turns", "queued", "undelivered")
"""The counts that the table shows for each worker. Their names are the column titles."""


def render_workers(found: Item, language: Language = "en") -> RenderableType:
    """Return a table of the workers that share a database, and counts of the messages that none serves."""

    word = partial(in_words, language)
    table = Table(box=None, padding=(0, 1, 0, 0), expand=False)
    table.add_column(gettext(language, "worker"), no_wrap=True)
    table.add_column(gettext(language, "version"), no_wrap=True)
    table.add_column(gettext(language, "state"), no_wrap=True)
    for name in (*COLUMNS, "lease", "lag"):
        table.add_column(word(name), justify="right", no_wrap=True)
    lines: list[RenderableType] = [table]
    for worker in found["workers"]:
        live = worker["state"] != "ended"
        counts = ["" if worker[key] is None else str(worker[key]) for key in COLUMNS]
        lag = "" if worker["lag_s"] is None else f"{worker['lag_s']:.0f} s"
        table.add_row(
            f"{worker['name']}\n{worker['address']}".strip(),
            worker["version"],
            Text(word(worker["state"]), style=STATES.get(worker["state"], "yellow" if live else "red")),
            *counts,
            f"{worker['lease_left_s']:.0f} s",
            lag,
            style="" if live else "dim",
        )
        if trouble := worker["trouble"]:
            what = word(STORAGE.get(trouble, trouble))
            lines.append(Text(f"{worker['name']}: {what}", style="bold red"))
    left = found["unserved"]
    if left["queued"] or left["undelivered"]:
        words = gettext(
            language,
            "no worker serves: {queued} queued, {undelivered} undelivered",
            queued=left["queued"],
            undelivered=left["undelivered"],
        )
        lines.append(Text(words, style="bold red"))
    return Group(*lines)


def _headline(status: Item, language: Language) -> Text:
    files = ", ".join(f"{name} {short_size(count)}" for name, count in status["databases"].items())
    found, busy = chats(status)
    in_turns = ngettext(
        language, "{count} chat, {busy} in turns", "{count} chats, {busy} in turns", len(found), busy=busy
    )
    parts = [gettext(language, "outbox {count}", count=status["outbox"] or 0), files, in_turns]
    first = gettext(
        language,
        "rumi {program} · process {pid} · up {uptime_s} · model {model} · sandbox {engine}",
        program=status["program"],
        pid=status["pid"],
        uptime_s=duration(status["uptime_s"]),
        model=status["model"],
        engine=status["sandbox"]["engine"],
    )
    return Text.assemble(
        ("rumi", "bold"),
        first.removeprefix("rumi"),
        "\n",
        " · ".join(part for part in parts if part),
    )


def chats_of(status: Item, choice: StatusFilter) -> list[Item]:
    """Return the chats that the tree shows, in the order of the tree."""
    return [
        item
        for _, _, item in rows(status["tree"], partial(_shown, choice))
        if not isinstance(item, str) and is_chat(item)
    ]


def _shown(choice: StatusFilter, item: Item) -> tuple[Sequence[Item], str]:
    """Return the children to show, and a text about the hidden ones. Static children are not sorted."""
    children: Sequence[Item] = item["children"]
    if item["kind"] != "dynamic_supervisor":
        shown = [child for child in children if _matters(child)] if choice.terse else children
        hidden = len(children) - len(shown)
        return shown, gettext(choice.language, "… {count} at rest", count=hidden) if hidden else ""
    ordered = sorted(children, key=lambda child: _rank(child, choice.order))
    of_chats = bool(ordered) and is_chat(ordered[0])
    if choice.terse and not of_chats:
        return (), ""
    if len(ordered) <= choice.many:
        return ordered, ""
    busy = [child for child in ordered if works(child) or child["id"] == choice.selected]
    most = choice.most if of_chats else min(choice.most, MOST_OTHERS)
    # Scroll so that the selected chat is among the shown ones: the keys of `--watch` act on it.
    first = next((at - most + 1 for at, child in enumerate(busy) if child["id"] == choice.selected), 0)
    shown = busy[max(0, first) :][:most]
    parts = []
    if more := len(busy) - len(shown):
        parts.append(gettext(choice.language, "{count} more", count=more))
    if idle := len(ordered) - len(busy):
        parts.append(gettext(choice.language, "{count} idle", count=idle))
    return shown, f"… {', '.join(parts)}" if parts else ""


def _matters(item: Item) -> bool:
    """Return True if the actor has chats below it, or is in an unusual state."""
    unusual = item["state"] != "running" or item["restarts"] or item["mailbox"]["depth"] or item["last_error"]
    return bool(unusual) or any(is_chat(child) for child in item["children"])


def _rank(child: Item, order: Order) -> tuple[float, str]:
    match order:
        case "age":
            return -age_of(child) if works(child) else 1.0, child["id"]
        case "restarts":
            return -float(child["restarts"]), child["id"]
        case "mail":
            return -float(child["mailbox"]["depth"]), child["id"]
        case "name":
            return 0.0, child["id"]
