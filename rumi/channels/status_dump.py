"""Reads the status dump: what its views (terminal, page, `/status`, metrics) count and walk alike.

docs/status.md describes the dump.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

Item: TypeAlias = Mapping[str, Any]
"""A dump, or a node of its tree."""


def top(dump: Item) -> dict[str, Item]:
    """Return the children of the root supervisor by their ids."""
    return {node["id"]: node for node in dump["tree"]["children"]}


def below(dump: Item, id: str) -> list[Item]:
    """Return the children of a child of the root supervisor. If the child does not exist, return none."""
    return list(top(dump).get(id, {}).get("children", ()))


def figures(dump: Item, id: str) -> Item:
    """Return the figures of a child of the root supervisor. If the child does not exist, return none."""
    found: Item = top(dump).get(id, {}).get("figures", {})
    return found


def is_chat(item: Item) -> bool:
    """Return True if this node describes a chat."""
    return "history" in item["figures"]


def chats(dump: Item) -> tuple[list[Item], int]:
    """Return the chats in memory, and how many of them work on something."""
    found = below(dump, "chats")
    return found, sum(bool(chat["figures"].get("job")) for chat in found)


def trouble(dump: Item) -> str:
    """Return why the databases cannot be written; empty if they can."""
    return (dump.get("storage") or {}).get("trouble") or ""


class Row(NamedTuple):
    """A row of the shown tree: a node, or a text about its siblings that are not shown.

    `lead` draws the branch that leads to the row.
    """

    depth: int
    lead: str
    what: Item | str


def rows(node: Item, shown: Callable[[Item], tuple[Sequence[Item], str]]) -> Iterator[Row]:
    """Yield the rows of a tree from the top down.

    `shown` returns a node's children to show, and a text about the others; empty if there are none.
    """
    return _rows(node, shown, 0, "", "")


def _rows(
    node: Item, shown: Callable[[Item], tuple[Sequence[Item], str]], depth: int, lead: str, under: str
) -> Iterator[Row]:
    yield Row(depth, lead, node)
    children, rest = shown(node)
    for index, child in enumerate(children):
        last = index == len(children) - 1 and not rest
        branch, further = ("└ ", "  ") if last else ("├ ", "│ ")
        yield from _rows(child, shown, depth + 1, under + branch, under + further)
    if rest:
        yield Row(depth + 1, f"{under}└ ", rest)
