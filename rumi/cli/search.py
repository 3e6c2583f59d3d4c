"""`rumi chats search WORDS`: what has all the words, and otherwise what is about them."""

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from rumi.cli.asking import ask
from rumi.cli.chats import SHOWN, who_said
from rumi.cli.printing import JSON, cut, echo, echo_json, local_time
from rumi.cli.speaking import say
from rumi.platform.printable import flat

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Entry = dict[str, Any]

_FOR_PAGES: Final = frozenset({"entry", "title", "excerpt", "marks"})


@click.command()
@click.argument("words", nargs=-1, required=True)
@click.option("--chat", default="", metavar="ID", help="Only in this chat.")
@click.option("--owner", default="", help="Only conversations of this owner: local, or such as tg11111111.")
@click.option("--since", default="", metavar="DAY", help="Nothing before this day.")
@click.option("--until", default="", metavar="DAY", help="Nothing after this day.")
@click.option("--who", type=click.Choice(["user", "assistant"]), help="Only what one side said.")
@click.option("--about", is_flag=True, help="Find what is about WORDS, the best first, also in other words.")
@click.option("-n", "--lines", type=click.IntRange(min=1), default=SHOWN, show_default=True,
              help="At most N places.")  # fmt: skip
@JSON
def command(
    words: tuple[str, ...],
    chat: str,
    owner: str,
    since: str,
    until: str,
    who: str | None,
    about: bool,
    lines: int,
    as_json: bool,
) -> None:
    """Find what users and the assistant said with all WORDS, the latest first.

    If nothing has all of them, it finds what is about them, the best first. Case and accents do not matter. A
    day is like 2026-11-23, yesterday, march, or "el martes pasado". The exit code is 1 if nothing is found.
    """
    wanted = " ".join(words)
    found: list[Entry] = []
    if not about:
        found = _with_all(wanted, chat, lines, _filter(owner, since, until, who))
    if not found and (about or not chat):
        found = _about(wanted, lines, chat=chat, owner=owner, since=since, until=until, who=who or "")
        if found and not about and not as_json:
            say("Nothing has all of these words. This is about them:", err=True)
    if as_json:
        echo_json(found, indent=2)
    for entry in () if as_json else found:
        heading = f"{entry['chat']}  {local_time(entry['time'])}  {who_said(entry)}: "
        echo(cut(f"{heading}{_around(flat(entry['text']), words[0])}"))
    if not found:
        say("Nothing was found.", err=True)
        raise click.exceptions.Exit(1)


def _with_all(words: str, chat: str, lines: int, wanted: "Callable[[Entry], bool]") -> list[Entry]:
    """Return the latest entries that have all words and that are `wanted`."""
    found: list[Entry] = []
    before = 0
    while len(found) < lines:
        answer = ask("chats", "search", words=words, chat=chat, before=before)
        found += [_hit(entry) for entry in answer["entries"] if wanted(entry)]
        before = answer["next"]
        if not before:
            break
    return found[:lines]


def _hit(entry: Entry) -> Entry:
    """Return a found entry as the command shows it, without what only a page shows of it."""
    return {key: entry[key] for key in entry.keys() - _FOR_PAGES} | {"score": None}


def _filter(owner: str, since: str, until: str, who: str | None) -> "Callable[[Entry], bool]":
    """Return a function that is True for an entry of this owner, side and time.

    Raises:
        UsageError: A day is not understood.
    """
    first = last = None
    if since or until:
        import time

        from rumi.memory.recall.request import times_of

        first, last = times_of({"since": since, "until": until}, time.time())

    def wanted(entry: "Mapping[str, Any]") -> bool:
        from rumi.platform.chat_ids import BUILT_IN

        if owner and BUILT_IN.owner_of(entry["chat"]) != BUILT_IN.owner(owner):
            return False
        at = datetime.fromisoformat(entry["time"]).timestamp()
        in_time = (first is None or at >= first) and (last is None or at <= last)
        return in_time and who in (None, entry["role"])

    return wanted


def _about(words: str, lines: int, *, chat: str, owner: str, since: str, until: str, who: str) -> list[Entry]:
    """Return passages of an owner's conversations that are about the words, one entry for each side."""
    from rumi.memory.recall.messages import MOST_TOKENS

    asked = {"query": words, "owner": owner or "local", "since": since, "until": until, "who": who}
    passages = ask("recall", "recall", None, tokens=MOST_TOKENS, **asked)
    sides = (
        (passage, role, passage[field])
        for passage in passages
        for role, field in (("user", "said"), ("assistant", "answered"))
        if passage[field] and chat in ("", passage["chat"])
    )
    found = [_entry(passage, role, text) for passage, role, text in sides]
    return found[:lines]


def _entry(passage: "Mapping[str, Any]", role: str, text: str) -> Entry:
    """Return one side of a passage with the fields of an entry; None where the index does not have one."""
    return {
        "id": None,
        "chat": passage["chat"],
        "session": None,
        "time": passage["at"],
        "turn": passage["turn"],
        # An episode is a line about a whole session, which neither side said.
        "role": "session" if passage["kind"] == "episode" else role,
        "text": text,
        "tool_calls": [],
        "tool_call_id": None,
        "tainted": passage["tainted"],
        "undone": False,
        "score": passage["score"],
    }


def _around(text: str, word: str) -> str:
    """Return the part of the text that begins shortly before the searched word."""
    at = text.casefold().find(word.casefold())
    return f"…{text[at - 30 :]}" if at > 40 else text
