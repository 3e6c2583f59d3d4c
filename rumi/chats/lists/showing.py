"""A list as a reply: Markdown for all channels, and buttons that tick its items."""

from collections.abc import Sequence
from typing import Final

from rumi.chats.services import CommandReply
from rumi.platform.texts import lists as list_texts
from rumi.store.journal.lists import ListItem
from rumi.texts import Language

PAGE: Final = 30
"""Number of items on a page: such a reply is one message of Telegram, and has fewer than its 100 buttons."""


def shown(language: Language, name: str, items: Sequence[ListItem], page: int = 1, note: str = "") -> str:
    """Return a page of a list in Markdown, with a `note` below it."""
    if not items:
        return "\n\n".join(filter(None, (list_texts.no_such_list(language, name), note)))
    first, last = _bounds(len(items), page)
    open_ = sum(not item.ticked for item in items)
    lines = [list_texts.list_heading(language, name, open_, len(items)), ""]
    lines += [
        list_texts.list_line(at, item.text, ticked=item.ticked, ticker=item.ticker)
        for at, item in enumerate(items[first:last], first + 1)
    ]
    if len(items) > PAGE:
        following = 1 if last == len(items) else last // PAGE + 1
        lines += ["", list_texts.page_line(language, name, first + 1, last, len(items), following)]
    return "\n".join((*lines, *(("", note) if note else ())))


def reply(
    language: Language, name: str, items: Sequence[ListItem], page: int = 1, note: str = ""
) -> CommandReply:
    """Return a page of a list as the reply to a command. In place of a press's message where it can be."""
    first, last = _bounds(len(items), page)
    buttons = [
        list_texts.tick_button(name, item.id, item.text, ticked=item.ticked) for item in items[first:last]
    ]
    buttons += [
        list_texts.page_button(name, other, (other - 1) * PAGE + 1, min(other * PAGE, len(items)))
        for other in range(1, -(-len(items) // PAGE) + 1)
        if (other - 1) * PAGE != first
    ]
    return CommandReply(shown(language, name, items, page, note), buttons, in_place=True)


def page_of(position: int) -> int:
    """Return the page with the item at a position, both counted from 1."""
    return max(0, position - 1) // PAGE + 1


def _bounds(count: int, page: int) -> tuple[int, int]:
    """Return the index of a page's first item, and the index behind its last one."""
    first = PAGE * (min(max(page, 1), max(1, -(-count // PAGE))) - 1)
    return first, min(count, first + PAGE)
