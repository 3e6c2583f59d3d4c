"""Rendering of Rich objects to coloured lines, for a terminal of a given width.

The content often comes from a model or a tool. Some control characters pass earlier checks, for example as
character references in Markdown. So each piece of text is cleaned again here, just before it is written to
the terminal.
"""

import io
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.cells import cell_len
from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS, Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, TableElement
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.styled import Styled
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from rumi.agent.todo_list import MARKS, MOST_ITEMS, TodoItem, shown_lines
from rumi.agent.tool import ToolResult
from rumi.channels.markdown import parser
from rumi.channels.terminal.calls import LINE_CHARS, LINES, diff_of, excerpt_of, outcome_of
from rumi.channels.terminal.words import Reader
from rumi.platform.printable import clean, one_line

if TYPE_CHECKING:
    from markdown_it.token import Token

_STYLES = {
    "markdown.h1": "bold underline",
    "markdown.h2": "bold underline",
    "markdown.h3": "bold",
    "markdown.h4": "bold",
    "markdown.block_quote": "dim",
    "markdown.link": "none",
    "markdown.link_url": "underline",
    "markdown.hr": "dim",
    "markdown.table.border": "dim",
    "markdown.table.header": "bold",
    "good": "green",
    "bad": "red",
}


def _theme(accent: str, warning: str) -> Theme:
    names = ("markdown.code", "markdown.item.bullet", "markdown.item.number", "accent")
    return Theme(
        _STYLES
        | dict.fromkeys(names, accent)
        | {"mark": f"bold {accent}", "warning": warning, "question": f"bold {warning}"}
    )


_ON_DARK, _ON_LIGHT = _theme("cyan", "yellow"), _theme("blue", "magenta")
"""On a light background, most terminals show cyan and yellow so light that they cannot be read."""

DIFF_STYLES = {"+": "good", "-": "bad", "@": "accent"}
"""Colours of a diff's lines, by their first character."""

_TODO = {MARKS["doing"]: "bold", MARKS["done"]: "dim"}
"""Styles of a todo list's lines, by their mark."""


class Painter:
    """Renderer with the colours that the environment allows (`TERM`, `COLORTERM`, `NO_COLOR`).

    `light` tells whether the terminal has a light background; the answer may change.
    """

    def __init__(
        self, environment: Mapping[str, str] | None = None, light: Callable[[], bool] = lambda: False
    ) -> None:
        environment = os.environ if environment is None else environment
        self._light = light
        self._consoles = {
            False: _console(_ON_DARK, environment),
            True: _console(_ON_LIGHT, environment, _LightConsole),
        }
        self._console = self._consoles[False]
        system = self._console.color_system
        self._colours: ColorSystem | None = COLOR_SYSTEMS[system] if system is not None else None

    def paint(self, what: RenderableType, width: int) -> list[str]:
        """Return the object `what` as lines of at most `width` cells, without trailing spaces."""
        console = self._consoles[self._light()]
        options = console.options.update(width=max(1, width), height=None)
        lines = console.render_lines(what, options, pad=False)
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


def _console(theme: Theme, environment: Mapping[str, str], kind: type[Console] = Console) -> Console:
    return kind(
        file=io.StringIO(),
        force_terminal=True,
        force_interactive=False,
        legacy_windows=False,
        theme=theme,
        highlight=False,
        markup=False,
        emoji=False,
        _environ=dict(environment),
    )


class _LightConsole(Console):
    """A console on a light background."""


def _without_end(line: list[Segment]) -> list[Segment]:
    """Return the line without invisible trailing spaces: they would wrap when the terminal gets narrower."""
    segments = list(line)
    while segments:
        text, style, control = segments.pop()
        if control:
            continue
        stripped = text if _visible(style) else text.rstrip(" ")
        if stripped:
            segments.append(Segment(stripped, style))
            break
    return segments


def _visible(style: Style | None) -> bool:
    return style is not None and bool(
        style.reverse or style.underline or (style.bgcolor is not None and not style.bgcolor.is_default)
    )


def hanging(mark: Text, text: Text) -> Table:
    """Return `mark` followed by `text`. The text's other lines are indented to align with its first line."""
    table = Table.grid()
    table.add_row(mark, text)
    return table


class QuestionLines:
    """The text of a question. A line that is too long goes on below its words, not below its label or bar.

    So no value can be made to look like another line of the question by filling a line.
    """

    def __init__(self, text: str, style: str = "") -> None:
        self._lines = text.split("\n")
        self._style = style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay out the lines for the available width."""
        for line in self._lines:
            words = line.lstrip(" ")
            mark, indent = line[: len(line) - len(words)], 0
            if words.startswith("│ "):
                mark, words = f"{mark}│ ", words[2:]
            elif mark:
                indent = 2
            room = max(8, options.max_width - cell_len(mark) - indent)
            said = Text(words, self._style)
            for number, part in enumerate(said.wrap(console, room) or [said]):
                before = mark if number == 0 or mark.endswith("│ ") else f"{mark}{' ' * indent}"
                yield Text.assemble((before, self._style), part)


class Called:
    """A finished tool call: its title, its outcome, and the first lines of its output.

    Title and outcome are on one line if they fit; otherwise the title has up to two lines and the outcome is
    below it. The excerpt of the output follows.
    """

    def __init__(
        self, title: str, result: ToolResult, reader: Reader, steps: int = 0, *, unfolds: bool = False
    ) -> None:
        self._title = title
        self._good = result.ok and not result.exit_code
        self._outcome = outcome_of(result, reader, steps)
        self._excerpt = [(line, "dim") for line in excerpt_of(result, reader, unfolds)]
        self._excerpt += [
            (line, DIFF_STYLES.get(line[:1], "dim")) for line in diff_of(result, reader, unfolds)
        ]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay out the call for the available width."""
        width = options.max_width
        mark = Text("● ", "good" if self._good else "bad")
        outcome = Text(self._outcome, "dim" if self._good else "bad")
        if cell_len(self._title) + outcome.cell_len + 6 <= width:
            yield Text.assemble(mark, (self._title, "bold"), "  ", outcome)
        else:
            title = Text(self._title, "bold")
            # Word wrapping leaves lines short, so the text of two full lines may need three: shorten it.
            for cells in range(2 * (width - 3), 0, -8):
                title.truncate(cells, overflow="ellipsis")
                if len(console.render_lines(hanging(mark, title), options)) <= 2:
                    break
            yield hanging(mark, title)
            if self._outcome:
                yield Padding(outcome, (0, 0, 0, 2))
        for line, style in self._excerpt:
            said = Text(line, style=style, no_wrap=True, overflow="ellipsis")
            said.truncate(max(1, width - 4), overflow="ellipsis")
            yield Padding(said, (0, 0, 0, 4))


class AnswerMarkdown(Markdown):
    """A model's Markdown, rendered for a terminal.

    Line breaks are preserved, because a command's output often comes without a code fence. URLs are written
    out instead of hidden behind link texts, and code has no background colour.
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
                continue  # the link's text is already its URL
            yield token


class TodoList:
    """A todo list, one line for each item: done items are dim, the current one is bold."""

    def __init__(self, items: Sequence[TodoItem], most: int = MOST_ITEMS) -> None:
        self._lines = shown_lines(items, most)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay out the list for the available width."""
        for line in self._lines:
            text = Text(one_line(line), _TODO.get(line[:1], ""))
            text.truncate(options.max_width, overflow="ellipsis")
            yield text


class Glimpse:
    """The beginning of an earlier answer, dim and indented."""

    def __init__(self, text: str) -> None:
        self._answer = AnswerMarkdown(text[: LINES * LINE_CHARS])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay out the answer for the available width."""
        narrower = options.update(width=max(1, options.max_width - 2))
        lines = console.render_lines(Styled(self._answer, "dim"), narrower, pad=False)
        full = [line for line in lines if any(text.strip() for text, *_ in line)]
        for line in full[:LINES]:
            yield Text("  ", end="")
            yield from line
            yield Segment.line()
        if len(full) > LINES:
            yield Text("  …", "dim")


class _Heading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.text


class _Code(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        theme = "ansi_light" if isinstance(console, _LightConsole) else "ansi_dark"
        syntax = Syntax(code, self.lexer_name, theme=theme, background_color="default", word_wrap=True)
        yield Padding(syntax, (0, 0, 0, 2))


class _PaintedTable(TableElement):
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
    "table_open": _PaintedTable,
}
