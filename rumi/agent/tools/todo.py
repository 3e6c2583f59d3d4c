"""The `todo` tool: replaces the todo list (`rumi.agent.todo_list`)."""

from collections.abc import Collection, Mapping
from typing import get_args

import trio

from rumi.agent.todo_list import ITEM_CHARS, MOST_ITEMS, TODO, TodoState, done_of, todo_items
from rumi.agent.tool import Question, Tool, ToolResult
from rumi.models.model import ToolSpec
from rumi.texts import Text


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
                            "state": {"type": "string", "enum": list(get_args(TodoState))},
                        },
                    },
                }
            },
            "required": ["items"],
        },
    )
    concurrent = False
    turn_only = True
    only_reads = True

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
