"""The view for a terminal that can be drawn on.

What is final is printed once and scrolls away like all output; below it a live region shows what still
changes: the last block of the answer while it grows, what runs, and for how long. The live region is
always smaller than the screen, whatever the length of the answer.
"""

import math
from collections.abc import Sequence
from typing import Protocol

import trio
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rumi.agent import ConfirmationAsked, Thinking, ToolFinished, ToolStarted, TurnFinished
from rumi.chats import ChatEvent, Replied, TurnStarted
from rumi.models import Discarded, TextDelta, Waiting
from rumi.terminal.calls import duration, excerpt_of, outcome_of, title_of
from rumi.terminal.clean import clean, one_line
from rumi.terminal.conversation import Settled
from rumi.terminal.growing import GrowingAnswer
from rumi.terminal.paint import Answer, Painter
from rumi.terminal.words import Words

TICK_S = 0.1
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_STYLES = {"complete": "", "model_error": "red", "crashed": "red"}
_WARNING = "yellow"


def _hanging(mark: Text, text: Text) -> Table:
    """`text` behind `mark`, its further lines below its first."""
    table = Table.grid()
    table.add_row(mark, text)
    return table


class Screen(Protocol):
    """A terminal with a live region at its lower end."""

    def size(self) -> tuple[int, int]:
        """Columns and rows, now."""
        ...

    async def draw(self, above: Sequence[str], live: Sequence[str]) -> None:
        """Print the lines `above` for good, above the live region, which then shows `live`.

        Lines have no more cells than there are columns. Returns when it is written.

        Raises:
            OutputClosedError: the terminal is gone.
        """
        ...


class LiveView:
    """Draws a conversation on a `Screen`. `run` must be running: it moves what moves.

    `prompted` says that an input line stands below, which is kept apart from replies by an empty line.
    """

    def __init__(self, screen: Screen, painter: Painter, words: Words, *, prompted: bool = False) -> None:
        self._prompted = prompted
        self.last_turn = ""
        self._screen = screen
        self._painter = painter
        self._words = words
        self._lock = trio.Lock()
        self._above: list[str] = []
        self._drawn: list[str] = []
        self._after_blank = True
        self._after_tool = False  # tool calls that follow each other stand together
        self._status: tuple[str, float] | None = None
        self._until = 0.0
        self._running: dict[str, tuple[str, float]] = {}
        self._stopping = False
        self._turn_since = 0.0
        self._answer = GrowingAnswer()

    async def run(self) -> None:
        """Redraw what moves, until cancelled."""
        while True:
            before = trio.current_time()
            await self._draw()
            # Painting a very long block may take longer than a tick; it gets a fifth of the time at most.
            took = trio.current_time() - before
            await trio.sleep(max(TICK_S, 4 * took))

    async def event(self, event: ChatEvent) -> None:
        """Change what is shown; drawn with the next tick, or now when something became final."""
        now = trio.current_time()
        self._until = 0.0
        match event.what:
            case TurnStarted():
                self._turn_since = now
                self._answer.begin()
                self._status = (self._words.starting, now)
            case Thinking():
                self._end_piece()
                self._status = (self._words.thinking, now)
            case TextDelta(text):
                if self._answer.empty:
                    self._status = (self._words.writing, now)
                self._answer.add(text)
            case Discarded():
                if self._answer.discard():
                    self._print(Text(self._words.discarded, style="dim"), gap=True)
                self._status = (self._words.thinking, now)
            case Waiting(seconds, why):
                self._status, self._until = (one_line(why), now), now + seconds
            case ToolStarted(call, arguments):
                self._end_piece()
                self._running[call.id] = (title_of(call, arguments), now)
                self._status = (self._words.running, now)
            case ToolFinished():
                self._tool_finished(event.what)
                self._status = (self._words.thinking, now)
            case ConfirmationAsked(_, text):
                self._end_piece()
                self._print(Text(f"? {self._words.asked} {clean(text)}", style="bold yellow"), gap=True)
                self._status = (self._words.awaited, now)
            case TurnFinished() as finished:
                self._finish(finished, now)
            case _:
                return
        if self._above:
            await self._draw()

    async def reply(self, event: ChatEvent, settled: Settled) -> None:
        """What the reply says beyond the words that were shown as they came."""
        text = clean(settled.reply.text).strip()
        self._stopping = False
        if settled.finished is None:
            self._print(Text(text), gap=True)
        else:
            reason = settled.finished.reason
            rest = self._answer.missing(text)
            if reason == "complete":
                if rest:
                    self._print(Answer(rest), gap=True)
            elif reason in ("max_turns", "repeated_call", "consecutive_errors", "timeout"):
                # The warning is the last paragraph; what was found so far comes before it.
                found, _, warning = rest.rpartition("\n\n")
                if found:
                    self._print(Answer(found), gap=True)
                self._print(Text(warning, style=_WARNING), gap=True)
            else:
                self._print(Text(rest, style=_STYLES.get(reason, _WARNING)), gap=True)
        await self._end()

    async def earlier(self, reply: Replied) -> None:
        """A reply of an earlier time."""
        self._print(Text(self._words.earlier, style="dim"), gap=True)
        self._print(Text(clean(reply.text).strip()))
        await self._end()

    async def typed(self, text: str) -> None:
        """What the person sent."""
        self._print(_hanging(Text("› ", "bold cyan"), Text(clean(text), "bold")), gap=True)
        await self._draw()

    async def stopping(self, presses: int) -> None:
        """Show at once that it stops."""
        self._stopping = True
        if presses > 1:
            self._print(Text(self._words.still_stopping, style="dim"))
        await self._draw()

    async def notice(self, text: str) -> None:
        """A dim line."""
        self._print(Text(clean(text), style="dim"))
        await self._end()

    async def clear(self) -> None:
        """End with an empty live region."""
        self._end_piece()
        self._status = None
        await self._draw()

    # What is final

    def _print(self, what: RenderableType, *, gap: bool = False) -> None:
        """Paint for good; with `gap`, an empty line stands before it. Leading and last empty lines go."""
        lines = self._painter.paint(what, self._screen.size()[0])
        while lines and not lines[-1]:
            lines.pop()
        while lines and not lines[0]:
            lines.pop(0)
        if lines:
            if gap:
                self._gap()
            self._above += lines
            self._after_blank = self._after_tool = False

    async def _end(self) -> None:
        """Draw; what was printed last stands alone."""
        if self._prompted and self._status is None:
            self._gap()
        await self._draw()

    def _gap(self) -> None:
        if not self._after_blank:
            self._above.append("")
            self._after_blank = True

    def _tool_finished(self, finished: ToolFinished) -> None:
        call, result = finished.call, finished.result
        title, _ = self._running.pop(call.id, (call.name, 0.0))
        style = ("green", "dim") if result.ok and not result.exit_code else ("red", "red")
        outcome = outcome_of(result, self._words)
        width = self._screen.size()[0]
        mark, rest = Text("● ", style[0]), Text(outcome, style[1])
        if len(title) + rest.cell_len + 6 <= width:
            self._print(Text.assemble(mark, (title, "bold"), "  ", rest), gap=not self._after_tool)
        else:
            long = Text(title, "bold")
            for cells in range(2 * (width - 3), 0, -8):  # words that do not fit a line leave it shorter
                long.truncate(cells, overflow="ellipsis")
                if len(self._painter.paint(_hanging(mark, long), width)) <= 2:
                    break
            self._print(_hanging(mark, long), gap=not self._after_tool)
            self._print(Padding(rest, (0, 0, 0, 2)))
        for said in excerpt_of(result, self._words):
            excerpt = Text(said, style="dim", no_wrap=True, overflow="ellipsis")
            excerpt.truncate(width - 4, overflow="ellipsis")
            self._print(Padding(excerpt, (0, 0, 0, 4)))
        self._after_tool = True

    def _print_finished_blocks(self) -> None:
        self._print(Answer(self._answer.take_finished()), gap=True)

    def _end_piece(self) -> None:
        """The words of one model call are complete: print what is left of them."""
        self._print_finished_blocks()
        self._print(Answer(self._answer.take_rest()), gap=True)

    def _finish(self, finished: TurnFinished, now: float) -> None:
        self._end_piece()
        self._status, self._stopping = None, False
        self._running.clear()
        tokens = finished.usage.prompt_tokens + finished.usage.completion_tokens
        self.last_turn = duration(now - self._turn_since) + (f" · {tokens} tokens" if tokens else "")

    # What moves

    async def _draw(self) -> None:
        async with self._lock:
            self._print_finished_blocks()
            live = self._live()
            above, self._above = self._above, []
            if above or live != self._drawn:
                self._drawn = live
                await self._screen.draw(above, live)
            else:
                await trio.lowlevel.checkpoint()

    def _live(self) -> list[str]:
        """The live region: the end of the last block, and a line about what goes on."""
        if self._status is None:
            return []
        width, rows = self._screen.size()
        lines = self._painter.paint(Answer(self._answer.tail), width)
        while lines and not lines[0]:
            lines.pop(0)
        room = max(1, rows - 6 - len(self._running))
        lines = lines[-room:]
        if lines and not self._after_blank:
            lines.insert(0, "")
        return [*lines, *([""] if lines or not self._after_blank else []), *self._status_lines(width)]

    def _status_lines(self, width: int) -> list[str]:
        assert self._status is not None
        label, since = self._status
        now = trio.current_time()
        spinner = _SPINNER[int(now / TICK_S) % len(_SPINNER)]
        lines = []
        for title, began in self._running.values():
            line = Text.assemble((f"{spinner} ", "cyan"), title)
            line.truncate(width - 10, overflow="ellipsis")
            line.append(f"  {int(now - began)} s", "dim")
            lines.append(line)
        if self._stopping:
            lines.append(Text.assemble((f"{spinner} ", "cyan"), (f"{self._words.stopping}…", "yellow")))
        elif self._until > now:
            left = math.ceil(self._until - now)
            lines.append(Text(self._words.waiting.format(why=label, seconds=left), style="yellow"))
        elif not self._running:
            line = Text.assemble((f"{spinner} ", "cyan"), f"{label} ")
            line.append(f"{int(now - since)} s · {self._words.stop_hint}", "dim")
            lines.append(line)
        for line in lines:
            line.truncate(width, overflow="ellipsis")
        return [painted for line in lines for painted in self._painter.paint(line, width)[:1]]
