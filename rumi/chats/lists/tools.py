"""Tools with which a chat's model reads and changes the lists of the chat."""

from collections.abc import Callable, Collection, Mapping
from typing import Final

from rumi.agent.tool import Question, Tool, ToolResult
from rumi.chats.lists.rules import ITEM_CHARS, NAME_CHARS, cleaned, list_name
from rumi.models.model import ToolSpec
from rumi.platform.untrusted_text import untrusted_block
from rumi.store.journal.actor import AskJournal
from rumi.store.journal.lists import (
    MOST_ITEMS,
    MOST_LISTS,
    ListChange,
    ListItem,
    change_list,
    items_of,
    lists_of,
)
from rumi.texts import Text

_NAME: Final = {"type": "string", "description": "Like: shopping"}
_ITEMS: Final = {"type": "array", "items": {"type": "string"}}

READ_LIST: Final = ToolSpec(
    "read_list",
    "Read a list that the people of this chat share; without `name`, the names of all.",
    {"type": "object", "properties": {"name": _NAME}},
)
CHANGE_LIST: Final = ToolSpec(
    "change_list",
    "Add items to such a list, tick, untick or remove them (by text or number). It begins a new list.",
    {
        "type": "object",
        "properties": {
            "name": _NAME,
            **dict.fromkeys(("add", "tick", "untick", "remove"), _ITEMS),
        },
        "required": ["name"],
    },
)


class _ListTool(Tool):
    """Base class of the tools. `user` returns the source's number of the sender of the turn's message."""

    concurrent = False

    def __init__(self, ask: AskJournal, chat: str, user: Callable[[], int | None]) -> None:
        self._ask = ask
        self._chat = chat
        self._user = user

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return None: lists stay in the chat, and `/undo` takes a turn's changes back."""
        return None

    def _result(self, name: str, items: tuple[ListItem, ...], note: str = "") -> ToolResult:
        """Return a list as a result. It is tainted if somebody else, or a page, has written an item."""
        if not items:
            return ToolResult(True, f"{note}The list {name} is empty.")
        user = self._user()
        tainted = any(item.tainted or item.user != user for item in items)
        lines = "\n".join(_line(position, item) for position, item in enumerate(items, 1))
        body = untrusted_block(f"the list {name}", lines) if tainted else lines
        return ToolResult(True, f"{note}The list {name}:\n{body}", tainted=tainted)


class ReadListTool(_ListTool):
    """Tool that reads a list, or the names of all lists of the chat."""

    spec = READ_LIST
    only_reads = True

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Return the list, with what is ticked and who did it."""
        said = arguments.get("name")
        if isinstance(said, str) and said.strip():
            name = list_name(said)
            return _no_name() if not name else self._result(name, await self._ask(items_of(self._chat, name)))
        lists = await self._ask(lists_of(self._chat))
        names = "\n".join(f"- {one.name}: {one.open} open of {one.all}" for one in lists)
        return ToolResult(True, names or "There are no lists.")


class ChangeListTool(_ListTool):
    """Tool that changes a list. `turn` is the turn that can be undone; `tainted` marks the added items."""

    spec = CHANGE_LIST

    def __init__(
        self,
        ask: AskJournal,
        chat: str,
        user: Callable[[], int | None],
        turn: str,
        tainted: Callable[[], bool],
    ) -> None:
        super().__init__(ask, chat, user)
        self._turn = turn
        self._tainted = tainted

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Change the list and return it. On cancellation, the change is stored completely or not at all."""
        name = list_name(str(arguments.get("name") or ""))
        if not name:
            return _no_name()
        named = {verb: _texts(arguments.get(verb)) for verb in ("add", "tick", "untick", "remove")}
        add, tick, untick, remove = named.values()
        if add is None or tick is None or untick is None or remove is None:
            return ToolResult(False, Text("change_list takes `add`, `tick`, `untick` and `remove` as lists"))
        if not (add or tick or untick or remove):
            return ToolResult(False, Text("change_list needs `add`, `tick`, `untick` or `remove`"))
        if any(len(item) > ITEM_CHARS for item in add):
            return ToolResult(False, Text("an item has at most {most} characters", most=ITEM_CHARS))
        change = ListChange(
            self._turn,
            *(add, tick, untick, remove),
            user=self._user(),
            tainted=self._tainted(),
            once=False,
        )
        changed = await self._ask(change_list(self._chat, name, change))
        if changed.full:
            return ToolResult(
                False,
                Text(
                    "nothing was changed: a chat has at most {lists} lists, and a list {items} items",
                    lists=MOST_LISTS,
                    items=MOST_ITEMS,
                ),
            )
        note = f"No single item fits: {', '.join(changed.unknown)}.\n" if changed.unknown else ""
        return self._result(name, changed.items, note)


LIST_TOOLS: Final = (ReadListTool, ChangeListTool)


def _no_name() -> ToolResult:
    return ToolResult(
        False,
        Text("`name` is letters, digits, - and _, at most {most} characters, like shopping", most=NAME_CHARS),
    )


def _texts(value: object) -> tuple[str, ...] | None:
    """Read an argument with items: models also write one item as a text or a number, and none as null."""
    if value is None:
        return ()
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, str | int) and not isinstance(item, bool) for item in items):
        return None
    return cleaned(str(item) for item in items)


def _line(position: int, item: ListItem) -> str:
    who = f" (by {item.author})" if item.author else ""
    done = (f", ticked by {item.ticker}" if item.ticker else ", ticked") if item.ticked else ""
    return f"{position}. [{'x' if item.ticked else ' '}] {item.text}{who}{done}"
