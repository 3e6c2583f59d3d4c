"""The tool with which a chat's model reads and changes the lists of the chat."""

from collections.abc import Callable, Collection, Mapping
from typing import Final, Literal, TypeAlias, get_args

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

Do: TypeAlias = Literal["read", "add", "tick", "untick", "remove"]

SHARED_LIST: Final = ToolSpec(
    "shared_list",
    "A list of this chat, like shopping. Items by text or number.",
    {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "do": {"type": "string", "enum": list(get_args(Do))},
            "items": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["do"],
    },
)


class SharedListTool(Tool):
    """The tool `shared_list`: reads a list of the chat, or the names of all lists, or changes a list.

    `user` returns the source's number of the sender of the turn's message. `turn` is the turn, which can be
    undone. `tainted` returns True if the session has read untrusted content: added items are marked then.
    """

    spec = SHARED_LIST
    concurrent = False

    def __init__(
        self,
        ask: AskJournal,
        chat: str,
        user: Callable[[], int | None],
        turn: str,
        tainted: Callable[[], bool],
    ) -> None:
        self._ask = ask
        self._chat = chat
        self._user = user
        self._turn = turn
        self._tainted = tainted

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return None: lists stay in the chat, and `/undo` takes a turn's changes back."""
        return None

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Read or change a list and return it. On cancellation, a change is stored completely or not."""
        said, do = arguments.get("name"), str(arguments.get("do") or "read").casefold()
        if do not in get_args(Do):
            return ToolResult(False, Text("`do` is one of {verbs}", verbs=", ".join(get_args(Do))))
        if do == "read" and not said:
            return await self._names()
        name = list_name(said) if isinstance(said, str) else ""
        if not name:
            return ToolResult(
                False,
                Text(
                    "`name` is letters, digits, - and _, at most {most} characters, like shopping",
                    most=NAME_CHARS,
                ),
            )
        if do == "read":
            return self._result(name, await self._ask(items_of(self._chat, name)))
        items = _texts(arguments.get("items"))
        if not items:
            return ToolResult(False, Text("`items` is a list of texts that is not empty"))
        if do == "add" and any(len(item) > ITEM_CHARS for item in items):
            return ToolResult(False, Text("an item has at most {most} characters", most=ITEM_CHARS))
        return await self._change(name, do, items)

    async def _names(self) -> ToolResult:
        lists = await self._ask(lists_of(self._chat))
        names = "\n".join(f"- {one.name}: {one.open} open of {one.all}" for one in lists)
        return ToolResult(True, names or "There are no lists.")

    async def _change(self, name: str, do: str, items: tuple[str, ...]) -> ToolResult:
        change = ListChange(self._turn, user=self._user(), tainted=self._tainted(), once=False)
        changed = await self._ask(change_list(self._chat, name, change.having(**{do: items})))
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

    def _result(self, name: str, items: tuple[ListItem, ...], note: str = "") -> ToolResult:
        """Return a list as a result. It is tainted if somebody else, or a page, has written an item."""
        if not items:
            return ToolResult(True, f"{note}The list {name} is empty.")
        user = self._user()
        tainted = any(item.tainted or item.user != user for item in items)
        lines = "\n".join(_line(position, item) for position, item in enumerate(items, 1))
        body = untrusted_block(f"the list {name}", lines) if tainted else lines
        return ToolResult(True, f"{note}The list {name}:\n{body}", tainted=tainted)


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
