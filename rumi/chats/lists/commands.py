"""The chat command `/list`, which shows and changes the lists of a chat; buttons below lists send it too."""

import re
from dataclasses import dataclass
from typing import Final

from rumi.chats.commands import ChatCommand
from rumi.chats.lists.rules import ITEM_CHARS, NAME_CHARS, list_name, split_items, verb_of
from rumi.chats.lists.showing import page_of, reply
from rumi.chats.services import CommandReply
from rumi.platform.texts import lists as list_texts
from rumi.store.journal.actor import AskJournal
from rumi.store.journal.lists import (
    MOST_ITEMS,
    MOST_LISTS,
    ListChange,
    change_list,
    items_of,
    lists_of,
)
from rumi.store.journal.records import Incoming
from rumi.texts import Language

_NUMBERS: Final = re.compile(r"#?\d{1,18}(?:[,\s]+#?\d{1,18})*")


@dataclass(frozen=True, slots=True)
class ListCommands:
    """Handles `/list`. The caller has checked the rights of the sender."""

    ask: AskJournal

    async def command(self, message: Incoming, language: Language, command: ChatCommand) -> CommandReply:
        """Show or change a list. A message that is handled twice changes a list once."""
        said, _, rest = command.rest.partition(" ")
        if "\n" in said:  # items may follow in lines
            said, _, first = said.partition("\n")
            rest = f"{first} {rest}"
        if not said:
            return await self._overview(message, language)
        name = list_name(said)
        if not name:
            return CommandReply(list_texts.not_a_name(language, NAME_CHARS))
        word, _, words = rest.strip().partition(" ")
        verb = verb_of(word)
        if not word or verb == "page":
            page = int(words) if words.isdecimal() and len(words) <= 4 else 1
            return reply(language, name, await self.ask(items_of(message.chat, name)), page)
        change = _change(verb, words if verb else rest, message)
        if change is None:
            return CommandReply(list_texts.list_usage(language))
        if any(len(item) > ITEM_CHARS for item in change.add):
            return CommandReply(list_texts.item_too_long(language, ITEM_CHARS))
        return await self._changed(message, language, name, change)

    async def _overview(self, message: Incoming, language: Language) -> CommandReply:
        lists = [(one.name, one.open, one.all) for one in await self.ask(lists_of(message.chat))]
        buttons = [(f"{name} ({open_})", f"{list_texts.COMMAND} {name}") for name, open_, _ in lists]
        return CommandReply(list_texts.lists_shown(language, lists), buttons, in_place=True)

    async def _changed(
        self, message: Incoming, language: Language, name: str, change: ListChange
    ) -> CommandReply:
        changed = await self.ask(change_list(message.chat, name, change))
        if changed.full:
            most = MOST_LISTS if changed.full == "lists" else MOST_ITEMS
            return CommandReply(list_texts.list_full(language, changed.full, most))
        # A button names an item by its id.
        unknown = [name for name in changed.unknown if not re.fullmatch(r"#\d+", name)]
        notes = (
            list_texts.items_removed(language, changed.removed) if changed.removed else "",
            list_texts.items_unknown(language, unknown) if unknown else "",
            list_texts.item_gone(language) if len(unknown) < len(changed.unknown) else "",
        )
        page = page_of(changed.position)
        return reply(language, name, changed.items, page, "\n".join(filter(None, notes)))


def _change(verb: str | None, words: str, message: Incoming) -> ListChange | None:
    """Return the change that a verb and the words after it mean; None if words are missing or too many."""
    change = ListChange(f"c{message.id}", user=message.user)
    named = split_items(words)
    if verb in ("tick", "untick", "remove", "delete") and _NUMBERS.fullmatch(words.strip()):
        named = tuple(words.replace(",", " ").split())
    match verb:
        case "clear":
            return None if named else change.having(clear=True)
        case "delete" if not named:
            return change.having(delete=True)
        case _ if not named:
            return None
        case "tick":
            return change.having(tick=named)
        case "untick":
            return change.having(untick=named)
        case "remove" | "delete":
            return change.having(remove=named)
        case _:
            return change.having(add=named)
