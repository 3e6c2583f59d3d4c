"""The `todo` tool: the model's list of steps, which front ends show and update in place.

A call replaces the whole list. The list is not stored anywhere else: it is the arguments of the last valid
call in the history, and a part of each summary (`rumi.agent.compaction.record`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

import trio

from rumi.agent.tool import Question, Tool, ToolResult
from rumi.models.model import ToolSpec
from rumi.texts import Text

TODO: Final = "todo"
"""The name of the tool."""

TodoState: TypeAlias = Literal["open", "doing", "done"]

MOST_ITEMS: Final = 20
ITEM_CHARS: Final = 200

MARKS: Final[Mapping[TodoState, str]] = {"open": "○", "doing": "◐", "done": "●"}
"""The marks that front ends show before the items."""


@dataclass(frozen=True, slots=True)
class TodoItem:
    """A step and its state. `text` is one line."""

    text: str
    state: TodoState


def todo_items(arguments: Mapping[str, object]) -> tuple[TodoItem, ...] | None:
    """Return the list in the arguments of a call; None if they are not a valid list."""
    items = arguments.get("items")
    if not isinstance(items, list) or len(items) > MOST_ITEMS:
        return None
    found = tuple(map(_item, items))
    return tuple(item for item in found if item is not None) if all(found) else None


def _item(value: object) -> TodoItem | None:
    if not isinstance(value, Mapping):
        return None
    text, state = value.get("text"), value.get("state", "open")
    if not isinstance(text, str) or state not in get_args(TodoState):
        return None
    line = " ".join(text.split())
    return TodoItem(line, state) if 0 < len(line) <= ITEM_CHARS else None


def shown_lines(items: Sequence[TodoItem], most: int = MOST_ITEMS) -> list[str]:
    """Return a line for each item, with its mark; of a longer list, `most` lines around the first undone."""
    first = next((n for n, item in enumerate(items) if item.state != "done"), len(items))
    start = max(0, min(first, len(items) - most))
    return [f"{MARKS[item.state]} {item.text}" for item in items[start : start + most]]


def done_of(items: Sequence[TodoItem]) -> str:
    """Return how many items are done, such as `3/5`; empty for an empty list."""
    return f"{sum(item.state == 'done' for item in items)}/{len(items)}" if items else ""


class TodoTool(Tool):
    """The `todo` tool. Its calls have no effect: the arguments are the list."""

    spec = ToolSpec(
        TODO,
        "Show the user your list of steps, for work of three or more. Each call replaces it.",
        {
            "type": "object",
            "properties": {
                "items": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "text": {"type": "string"},
                            "state": {"enum": list(get_args(TodoState))},
                        },
                    },
                }
            },
            "required": ["items"],
        },
    )
    concurrent = False
    turn_only = True

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return None: no approval is needed, because a call changes nothing."""
        return None

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Check the list, and return how much of it is done."""
        await trio.lowlevel.checkpoint()
        items = todo_items(arguments)
        if items is None:
            return ToolResult(
                False,
                Text(
                    "todo takes at most {most} `items`, each with `text` of at most {chars} characters and a "
                    "`state`: open, doing or done",
                    most=MOST_ITEMS,
                    chars=ITEM_CHARS,
                ),
                refused=True,
            )
        return ToolResult(True, f"{done_of(items) or 'empty'}")
