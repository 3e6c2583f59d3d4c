"""Rich things to lines of text with colours, for a terminal of a given width.

What is painted has often been written by a model or a tool. Whatever way it took (a character reference
in Markdown, say), each piece of text is cleaned once more here, the last place before the terminal.
"""

import io
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rich import box
from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS, Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, TableElement
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from rumi.channels.terminal.clean import clean
from rumi.markdown import parser

if TYPE_CHECKING:
    from markdown_it.token import Token

_THEME = Theme(
    {
        "markdown.h1": "bold underline",
        "markdown.h2": "bold underline",
        "markdown.h3": "bold",
        "markdown.h4": "bold",
        "markdown.code": "cyan",
        "markdown.block_quote": "dim",
        "markdown.item.bullet": "cyan",
        "markdown.item.number": "cyan",
        "markdown.link": "none",
        "markdown.link_url": "underline",
        "markdown.hr": "dim",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
    }
)


class Painter:
    """Paints in the colours that the environment allows (`TERM`, `COLORTERM`, `NO_COLOR`)."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._console = Console(
            file=io.StringIO(),
            force_terminal=True,
            force_interactive=False,
            legacy_windows=False,
            theme=_THEME,
            highlight=False,
            markup=False,
            emoji=False,
            _environ=dict(os.environ if environment is None else environment),
        )
        system = self._console.color_system
        self._colours: ColorSystem | None = COLOR_SYSTEMS[system] if system is not None else None

    def paint(self, what: RenderableType, width: int) -> list[str]:
        """`what` as lines of at most `width` cells, without spaces at their ends."""
        options = self._console.options.update(width=max(1, width), height=None)
        lines = self._console.render_lines(what, options, pad=False)
        return [self._encode(line) for line in lines]

    def _encode(self, line: list[Segment]) -> str:
        segments: Iterable[Segment] = _without_end(line)
        if self._console.no_color:
            segments = Segment.remove_color(segments)
        written = []
        for text, style, control in segments:
            safe = "" if control else clean(text).replace("\n", " ")
            if self._colours is None or style is None:
                written.append(safe)
            else:
                written.append(style.render(safe, color_system=self._colours))
        return "".join(written)


def _without_end(line: list[Segment]) -> list[Segment]:
    """The line without the spaces that only fill it up: they would wrap when the window shrinks."""
    kept = list(line)
    while kept:
        text, style, control = kept.pop()
        if control:
            continue
        stripped = text if _visible(style) else text.rstrip(" ")
        if stripped:
            kept.append(Segment(stripped, style))
            break
    return kept


def _visible(style: Style | None) -> bool:
    return style is not None and bool(
        style.reverse or style.underline or (style.bgcolor is not None and not style.bgcolor.is_default)
    )


def hanging(mark: Text, text: Text) -> Table:
    """`text` behind `mark`, its further lines below its first."""
    table = Table.grid()
    table.add_row(mark, text)
    return table


class AnswerMarkdown(Markdown):
    """A model's Markdown, for reading in a terminal.

    Line breaks stay (a command's output often comes without a fence), addresses are written out
    instead of hidden behind their text, and code has no background of its own.
    """

    def __init__(self, text: str) -> None:
        super().__init__("", hyperlinks=False)
        self.parsed = parser().parse(clean(text))

    def _flatten_tokens(self, tokens: "Iterable[Token]") -> "Iterable[Token]":
        for token in super()._flatten_tokens(tokens):
            if token.type == "softbreak":
                token.type = "hardbreak"
            elif token.type == "image":
                token.type = "text"
                token.content = f"{token.content} ({token.attrs.get('src', '')})"
            elif token.type in ("link_open", "link_close") and token.markup == "autolink":
                continue  # its text is its address
            yield token


class _Heading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.text


class _Code(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        syntax = Syntax(code, self.lexer_name, theme="ansi_dark", background_color="default", word_wrap=True)
        yield Padding(syntax, (0, 0, 0, 2))


class _Table(TableElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(
            box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, border_style="markdown.table.border"
        )
        if self.header is not None and self.header.row is not None:
            for cell in self.header.row.cells:
                table.add_column(cell.content, header_style="markdown.table.header")
        for row in self.body.rows if self.body is not None else ():
            table.add_row(*(cell.content for cell in row.cells))
        yield table


AnswerMarkdown.elements = Markdown.elements | {
    "heading_open": _Heading,
    "fence": _Code,
    "code_block": _Code,
    "table_open": _Table,
}
