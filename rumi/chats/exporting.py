"""What was said in a chat, written out as Markdown, part by part."""

from collections.abc import Iterable, Sequence

from rumi.platform.markdown import fenced
from rumi.platform.printable import flat
from rumi.platform.texts import sessions as session_texts
from rumi.platform.timestamps import utc
from rumi.store.journal.lists import ListItem
from rumi.store.journal.records import StoredEntry
from rumi.texts import Language, gettext


def entry_text(entry: StoredEntry) -> str:
    """Return the text of one entry of a chat, with its tool calls."""
    message = entry.entry.message
    calls = [f"→ {call.name} {call.arguments}" for call in message.tool_calls]
    return "\n".join(part for part in (message.content, *calls) if part)


def entries_markdown(language: Language, entries: Iterable[StoredEntry], session: int | None) -> str:
    """Return entries as Markdown. A heading stands before each session other than `session`."""
    lines = list[str]()
    for stored in entries:
        role = stored.entry.message.role
        if role == "system":
            continue
        if stored.session != session:
            session = stored.session
            lines.append(f"\n## {gettext(language, 'Session')} {session}")
        lines.append(f"\n**{session_texts.who_said(language, role)}** · {utc(stored.at)}\n")
        text = entry_text(stored)
        lines.append(fenced(text) if role == "tool" else text)
    return "".join(f"{line}\n" for line in lines)


def lists_markdown(language: Language, lists: Iterable[tuple[str, Sequence[ListItem]]]) -> str:
    """Return the lists of a chat as Markdown."""
    lines = list[str]()
    for name, items in lists:
        lines.append(f"\n## {gettext(language, 'List')} {name}\n")
        lines += [f"- [{'x' if item.ticked else ' '}] {flat(item.text)}" for item in items]
    return "".join(f"{line}\n" for line in lines)
