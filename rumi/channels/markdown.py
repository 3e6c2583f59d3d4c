"""The Markdown that all channels read: CommonMark with tables, strike-through, task lists and formulas."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from rumi.channels.formulas import GROWING, read_formulas

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token

_TASKS: Final = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}


@cache
def parser() -> "MarkdownIt":
    """Return a parser for CommonMark with tables, strike-through and task lists.

    HTML and formulas in the source are parsed as plain text, so that they stay visible in the output.
    """
    from markdown_it import MarkdownIt

    parser = configured(MarkdownIt("commonmark", {"html": False, "breaks": True}))
    read_formulas(parser, as_text=True)
    return parser


def configured(parser: "MarkdownIt") -> "MarkdownIt":
    """Enable what all channels read beyond CommonMark: tables, strike-through and task lists."""
    parser.enable(["table", "strikethrough"]).core.ruler.before("inline", "tasks", _mark_tasks)
    return parser


def html_of(text: str) -> str:
    """Return Markdown as HTML that loads nothing: pictures are links. HTML in the text stays visible."""
    rendered: str = _renderer().render(text)
    return rendered


@cache
def _renderer() -> "MarkdownIt":
    from markdown_it import MarkdownIt
    from markdown_it.common.utils import escapeHtml

    renderer = configured(MarkdownIt("commonmark", {"html": False, "breaks": True}))

    def image(tokens: "Sequence[Token]", index: int, options: Any, env: Any) -> str:
        where = escapeHtml(str(tokens[index].attrGet("src") or ""))
        words = escapeHtml(tokens[index].content)
        return f'<a href="{where}">{words or where}</a>'

    renderer.renderer.rules["image"] = image  # type: ignore[attr-defined]
    return renderer


def finished_lines(text: str) -> int:
    """Return the number of leading lines whose blocks cannot change when more text is appended.

    Only the last block of a Markdown text can still grow or become another kind of block. For example, a
    paragraph can become a heading, and a line with bars a table.
    """
    starts = [
        token.map[0]
        for token in parser().parse(text, {GROWING: True})
        if token.level == 0 and token.nesting >= 0 and token.map is not None
    ]
    return starts[-1] if len(starts) > 1 else 0


def _mark_tasks(state: "StateCore") -> None:
    """Replace the checkbox of a task, such as "[x] " at the start of a list item, with a character."""
    for index, token in enumerate(state.tokens):
        if token.type == "inline" and index >= 2 and state.tokens[index - 2].type == "list_item_open":
            token.content = _TASKS.get(token.content[:4], token.content[:4]) + token.content[4:]
