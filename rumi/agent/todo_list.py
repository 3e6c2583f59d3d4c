"""The todo list: the model's steps of a task, which front ends show and update in place.

A call of the tool `todo` (`rumi.agent.tools.todo`) replaces the whole list. The list is not stored anywhere
else: it is the arguments of the last valid call in the history, and a part of each summary
(`rumi.agent.compaction.record`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

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
