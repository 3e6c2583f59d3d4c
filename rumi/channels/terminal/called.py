"""A finished tool call on a terminal: its command, what came of it, and the first lines of what it said."""

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.text import Text

from rumi.channels.terminal.calls import excerpt_of, outcome_of
from rumi.channels.terminal.paint import hanging
from rumi.channels.terminal.words import Words
from rumi.tools import ToolResult


class Called:
    """Title and outcome on one line, or the title on up to two and the outcome below; then the excerpt."""

    def __init__(self, title: str, result: ToolResult, words: Words) -> None:
        self._title = title
        self._good = result.ok and not result.exit_code
        self._outcome = outcome_of(result, words)
        self._excerpt = excerpt_of(result, words)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay it out for the width at hand."""
        width = options.max_width
        mark = Text("● ", "green" if self._good else "red")
        outcome = Text(self._outcome, "dim" if self._good else "red")
        if cell_len(self._title) + outcome.cell_len + 6 <= width:
            yield Text.assemble(mark, (self._title, "bold"), "  ", outcome)
        else:
            title = Text(self._title, "bold")
            for cells in range(2 * (width - 3), 0, -8):  # words that do not fit a line leave it shorter
                title.truncate(cells, overflow="ellipsis")
                if len(console.render_lines(hanging(mark, title), options)) <= 2:
                    break
            yield hanging(mark, title)
            if self._outcome:
                yield Padding(outcome, (0, 0, 0, 2))
        for line in self._excerpt:
            said = Text(line, style="dim", no_wrap=True, overflow="ellipsis")
            said.truncate(max(1, width - 4), overflow="ellipsis")
            yield Padding(said, (0, 0, 0, 4))
