"""Texts for people about the lists that a chat shares, such as a shopping list. Lists are Markdown."""

from collections.abc import Sequence

from rumi.platform.markdown import plain
from rumi.texts import Language, gettext, ngettext

COMMAND = "/list"
SHOWN_CHARS = 64
"""Maximum length of an item in a shown list, in characters."""
LABEL_CHARS = 40
"""Maximum length of an item on a button, in characters; Telegram allows 64."""
NAMED = 10
"""Maximum number of items that a reply names."""


def list_heading(language: Language, name: str, open_: int, all_: int) -> str:
    """Return the first line of a list."""
    counted = gettext(language, "{open} open of {all}", open=open_, all=all_)
    return f"**{plain(name, SHOWN_CHARS)}** · {counted}"


def list_line(position: int, text: str, *, ticked: bool, ticker: str) -> str:
    """Return an item of a list as a line; `ticker` is the name of who ticked it, or empty."""
    who = f" — {plain(ticker, SHOWN_CHARS)}" if ticked and ticker else ""
    return f"- {'☑' if ticked else '☐'} {position}. {plain(text, SHOWN_CHARS)}{who}"


def tick_button(name: str, id: int, text: str, *, ticked: bool) -> tuple[str, str]:
    """Return the button that ticks an item or removes its tick: its label, and the command that it sends."""
    label = " ".join(text.split())
    label = label if len(label) <= LABEL_CHARS else f"{label[: LABEL_CHARS - 1]}…"
    return f"{'☑' if ticked else '☐'} {label}", f"{COMMAND} {name} {'untick' if ticked else 'tick'} #{id}"


def page_button(name: str, page: int, first: int, last: int) -> tuple[str, str]:
    """Return the button that shows another page of a list."""
    return f"📄 {first}–{last}", f"{COMMAND} {name} page {page}"


def page_line(language: Language, name: str, first: int, last: int, all_: int, page: int) -> str:
    """Say which part of a list is shown, and how to see another one."""
    return gettext(
        language,
        "Items {first} to {last} of {all}. Another page: /list {name} page {page}",
        first=first,
        last=last,
        all=all_,
        name=name,
        page=page,
    )


def lists_shown(language: Language, lists: Sequence[tuple[str, int, int]]) -> str:
    """Show the lists of a chat; each has a name, and the numbers of its open items and of all its items."""
    how = list_usage(language)
    if not lists:
        return f"{gettext(language, 'There are no lists here yet.')}\n\n{how}"
    rows = [f"- {list_heading(language, name, open_, all_)}" for name, open_, all_ in lists]
    return "\n".join((*rows, "", how))


def list_usage(language: Language) -> str:
    """Say how to use `/list`."""
    return gettext(
        language,
        "`/list shopping` shows a list, `/list shopping milk, bread` adds to it, `/list shopping done 2` "
        "ticks, `untick 2` removes a tick, `remove 2` an item, `clear` what is ticked, `delete` the list.",
    )


def no_such_list(language: Language, name: str) -> str:
    """Say that a list is empty or does not exist, and how to begin it."""
    return gettext(
        language,
        "The list {name} is empty. To start it: /list {name} milk, bread",
        name=plain(name, SHOWN_CHARS),
    )


def not_a_name(language: Language, most: int) -> str:
    """Say which names lists may have."""
    return gettext(
        language,
        "❌ A list's name is one word of letters, digits, - and _, at most {most} characters, and not a "
        "command such as add or delete.",
        most=most,
    )


def item_too_long(language: Language, most: int) -> str:
    """Say that an item is too long."""
    return gettext(language, "❌ An item has at most {most} characters. Write a shorter one.", most=most)


def list_full(language: Language, full: str, most: int) -> str:
    """Say that a limit prevented a change, and what helps."""
    if full == "lists":
        return gettext(
            language,
            "❌ This chat has {most} lists already. Delete one first: /list NAME delete",
            most=most,
        )
    return gettext(
        language,
        "❌ A list has at most {most} items, so I added none. Remove the ticked ones first: /list NAME clear",
        most=most,
    )


def items_unknown(language: Language, names: Sequence[str]) -> str:
    """Say which words fit no item, or several."""
    words = ", ".join(f"“{plain(name, SHOWN_CHARS)}”" for name in names[:NAMED])
    return gettext(language, "❌ {words} matches no item, or several. Use its number.", words=words)


def item_gone(language: Language) -> str:
    """Say that the item of a button was removed."""
    return gettext(language, "That item is no longer on the list.")


def items_removed(language: Language, texts: Sequence[str]) -> str:
    """Name removed items, so that a person can add them again."""
    words = ", ".join(plain(text, SHOWN_CHARS) for text in texts[:NAMED])
    if len(texts) > NAMED:
        words += " …"
    return ngettext(
        language,
        "🗑 Removed {count} item: {words}",
        "🗑 Removed {count} items: {words}",
        len(texts),
        words=words,
    )
