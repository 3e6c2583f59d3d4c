"""The todo tool: which lists it takes, and that a call asks nothing, changes nothing and taints nothing."""

from typing import Any

import pytest

from rumi.agent.todo_list import ITEM_CHARS, MOST_ITEMS, TodoItem, done_of, shown_lines, todo_items
from rumi.agent.tools.todo import TodoTool


def item(text: str, state: str = "open") -> dict[str, str]:
    return {"text": text, "state": state}


async def test_a_call_takes_the_list_and_says_how_much_is_done() -> None:
    tool = TodoTool()
    items = [item("read\nall", "done"), item("write", "doing"), item("test")]
    result = await tool.call({"items": items})
    assert (result.ok, result.content, result.tainted) == (True, "1/3", False)
    assert todo_items({"items": items}) == (
        TodoItem("read all", "done"),
        TodoItem("write", "doing"),
        TodoItem("test", "open"),
    )
    assert (await tool.call({"items": []})).content == "empty"
    assert tool.question({"items": items}, ()) is None


@pytest.mark.parametrize(
    "items",
    [
        None,
        "read, write",
        ["read"],
        [item("")],
        [item(" \n ")],
        [item("x" * (ITEM_CHARS + 1))],
        [item("read", "later")],
        [{"state": "open"}],
        [item("read"), 7],
        [item("read")] * (MOST_ITEMS + 1),
    ],
)
async def test_what_is_no_list_is_refused(items: Any) -> None:
    result = await TodoTool().call({"items": items})
    assert (result.ok, result.refused) == (False, True)
    assert str(MOST_ITEMS) in result.content
    assert todo_items({"items": items}) is None


def test_a_long_list_shows_the_part_that_is_worked_on() -> None:
    items = [TodoItem(f"step {n}", "done" if n < 7 else "open") for n in range(10)]
    assert shown_lines(items, 4) == ["● step 6", "○ step 7", "○ step 8", "○ step 9"]
    assert shown_lines(items[:9], 3) == ["● step 6", "○ step 7", "○ step 8"]
    assert len(shown_lines(items)) == 10
    assert shown_lines([]) == []
    assert (done_of(items), done_of([])) == ("7/10", "")


def test_the_tool_takes_few_tokens_in_a_prompt() -> None:
    assert len(TodoTool.spec.description) < 110
    assert TodoTool.spec.tokens < 130
