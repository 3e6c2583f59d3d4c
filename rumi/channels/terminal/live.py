"""The view for a terminal that can be drawn on.

What is final is printed once and scrolls away like all output; below it a live region shows what still
changes: the last block of the answer while it grows, what runs, and for how long. The live region is
always smaller than the screen, whatever the length of the answer.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import trio
from rich.console import RenderableType
from rich.text import Text

from rumi.agent.events import ConfirmationAsked, Thinking, ToolFinished, ToolStarted, TurnFinished, title_of
from rumi.channels.terminal.calls import LINE_CHARS
from rumi.channels.terminal.growing import GrowingAnswer
from rumi.channels.terminal.paint import AnswerMarkdown, Called, Glimpse, Painter, hanging
from rumi.channels.terminal.progress import SPINNER, TICK_S
from rumi.channels.terminal.session import Settled
from rumi.channels.terminal.words import Phrases
from rumi.chats.events import ChatEvent, Queued, Replied, TurnStarted, TurnState
from rumi.chats.port import PastTurn
from rumi.models.model import Discarded, TextDelta
from rumi.platform.printable import clean, one_line
from rumi.platform.texts.operating import short_duration

_LONG = 4000
_STYLES = {"complete": "", "model_error": "red", "crashed": "red"}
_WARNING = "yellow"


class Screen(Protocol):
    """A terminal with a live region at its lower end."""

    def size(self) -> tuple[int, int]:
        """Return the current numbers of columns and of rows."""
        ...

    async def draw(self, above: Sequence[str], live: Sequence[str]) -> None:
        """Print the lines `above` for good, above the live region, which then shows `live`.

        Lines have no more cells than there are columns. Returns when it is written.

        Raises:
            OutputClosedError: the terminal is gone.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Piece:
    """Something to print for good; only an empty line if `what` is None."""

    what: RenderableType | None
    gap: bool
    characters: int = 0
    sequence: str = ""
    """For the terminal: it is written before the first line, and shows nothing."""


class LiveView:
    """Draws a conversation on a `Screen`. `run` must be running: it redraws what moves.

    `prompted`: an input line stands below, which an empty line separates from replies. `answered_below`: a
    person types their answer to a question where the live region is, so there is none meanwhile.
    """

    def __init__(
        self,
        screen: Screen,
        painter: Painter,
        words: Phrases,
        *,
        prompted: bool = False,
        answered_below: bool = False,
    ) -> None:
        self._prompted = prompted
        self._answered_below = answered_below
        self.last_turn = ""
        self._screen = screen
        self._painter = painter
        self._words = words
        self._lock = trio.Lock()
        self._pieces: list[_Piece] = []  # what is to be printed for good, in order
        self._aside: list[_Piece] = []  # what was said while a block of the answer grows: printed behind it
        self._drawn: list[str] = []
        self._after_blank = True  # of what was laid out; the holder of the lock changes it
        self._after_tool = False  # tool calls that follow each other stand together
        self._turn = TurnState()
        self._stopping = False
        self._answer = GrowingAnswer()

    async def run(self) -> None:
        """Redraw what moves, until cancelled."""
        while True:
            await self._draw()
            await trio.sleep(TICK_S)

    async def event(self, event: ChatEvent) -> None:
        """Change what is shown; drawn with the next tick, or now when something became final."""
        before = self._turn
        # A window that comes in the middle is told late. From then on a clock counts that nobody sets.
        age_s = max(0.0, time.time() - event.time)
        self._turn = before.apply(replace(event, time=trio.current_time() - age_s))
        match event.what:
            case TurnStarted(text, message):
                if any(queued.what.message == message for queued in before.queued):
                    self._print(_typed(text), gap=True)  # other answers stand between it and its own
                self._answer.begin()
            case Thinking() | ToolStarted():
                self._end_piece()
            case TextDelta(text):
                self._answer.add(text)
            case Discarded():
                if self._answer.discard():
                    self._print(Text(self._words.discarded, style="dim"), gap=True)
            case ToolFinished(call, result, steps):
                title = title_of(before.called(call), one_line)
                self._print(Called(title, result, self._words, steps), gap=not self._after_tool)
                self._after_tool = True
            case ConfirmationAsked(_, text, whole):
                self._end_piece()
                if whole:
                    self._print(Text(f"{self._words.whole}\n{clean(whole)}"), gap=True)
                answers = f"\n({self._words.yes_or_no})" if self._answered_below else ""
                asked = f"? {self._words.asked} {clean(text)}{answers}"
                self._print(Text(asked, style="bold yellow"), gap=True)
            case TurnFinished() as finished:
                self._finish(finished)
            case Queued(_, text):
                self._print_aside(Text(text, style="dim"))
            case _:
                return
        if self._pieces:
            await self._draw()

    async def reply(self, event: ChatEvent, settled: Settled) -> None:
        """Print what the reply says beyond the words that were shown as they came."""
        text = clean(settled.reply.text).strip()
        self._stopping = False
        if settled.finished is None:
            self._print_aside(AnswerMarkdown(text), gap=True, characters=len(text))
        else:
            reason = settled.finished.reason
            rest = self._answer.missing(text)
            if reason == "complete":
                self._print_answer(rest)
            elif reason in ("max_turns", "repeated_call", "consecutive_errors", "timeout"):
                # The warning is the last paragraph; what was found so far comes before it.
                found, _, warning = rest.rpartition("\n\n")
                self._print_answer(found)
                self._print(Text(warning, style=_WARNING), gap=True)
            else:
                self._print(Text(rest, style=_STYLES.get(reason, _WARNING)), gap=True)
        await self._end()

    async def earlier(self, reply: Replied) -> None:
        """Print a reply of an earlier time."""
        self._print(Text(self._words.earlier, style="dim"), gap=True)
        self._print(AnswerMarkdown(reply.text))
        await self._end()

    async def elsewhere(self, text: str) -> None:
        """Print what somebody else sent."""
        said = Text.assemble((clean(text), "bold"), f"  {self._words.elsewhere}", style="dim")
        self._print(hanging(Text("› ", "dim"), said), gap=True)
        await self._draw()

    async def typed(self, text: str) -> None:
        """Print what the person sent."""
        self._print_aside(_typed(text), gap=True)
        await self._draw()

    async def stopping(self, presses: int) -> None:
        """Show at once that it stops."""
        self._stopping = True
        if presses > 1:
            self._print_aside(Text(self._words.still_stopping, style="dim"))
        await self._draw()

    async def notice(self, text: str) -> None:
        """Print a dim line."""
        self._print_aside(Text(clean(text), style="dim"), gap=not self._answer.empty)
        await self._end()

    async def recalled(self, past_turns: Sequence[PastTurn]) -> None:
        """Print what was said before, shortened and dim; nothing if that is nothing."""
        if not past_turns:
            return
        self._print(Text(self._words.recalled, style="dim"), gap=True)
        for exchange in past_turns:
            asked = one_line(exchange.question)
            asked = asked if len(asked) <= LINE_CHARS else f"{asked[: LINE_CHARS - 1]}…"
            self._print(hanging(Text("› ", "dim"), Text(asked, "dim")), gap=True)
            if exchange.answer:
                self._print(Glimpse(exchange.answer))
        await self._end()

    async def copy(self, sequence: str, text: str) -> None:
        """Write a sequence to the terminal, and a dim line about it."""
        self._pieces.append(_Piece(Text(text, style="dim"), gap=False, sequence=sequence))
        await self._end()

    async def clear(self) -> None:
        """Print what is left of the answer, and empty the live region."""
        self._end_piece()
        self._turn = TurnState()
        await self._draw()

    # What is final

    def _print(self, what: RenderableType, *, gap: bool = False) -> None:
        """Print for good with the next drawing; with `gap`, an empty line stands before it."""
        self._pieces.append(_Piece(what, gap))
        self._after_tool = False

    def _print_aside(self, what: RenderableType, *, gap: bool = False, characters: int = 0) -> None:
        """Print what is not part of the answer: behind the block that grows, and below it until then."""
        self._print_finished_blocks()
        if self._answer.empty:
            self._pieces += self._take_aside()
            self._pieces.append(_Piece(what, gap, characters))
            self._after_tool = False
        else:
            self._aside.append(_Piece(what, gap, characters))

    def _take_aside(self) -> list[_Piece]:
        aside, self._aside = self._aside, []
        if aside:
            self._after_tool = False
        return aside

    def _print_answer(self, text: str) -> None:
        if text.strip():
            self._pieces.append(_Piece(AnswerMarkdown(text), gap=True, characters=len(text)))
            self._after_tool = False

    async def _end(self) -> None:
        """Draw; what was printed last stands alone."""
        if self._prompted and not self._works:
            self._pieces.append(_Piece(None, gap=True))
        await self._draw()

    def _lay_out(self, pieces: list[_Piece], width: int) -> list[str]:
        """Return the pieces as lines, without empty ones at the beginning and the end of each."""
        above: list[str] = []
        for piece in pieces:
            lines = [] if piece.what is None else self._painter.paint(piece.what, width)
            while lines and not lines[-1]:
                lines.pop()
            while lines and not lines[0]:
                lines.pop(0)
            if piece.gap and not self._after_blank and (lines or piece.what is None):
                above.append("")
                self._after_blank = True
            if lines:
                above += [piece.sequence + lines[0], *lines[1:]]
                self._after_blank = False
        return above

    def _print_finished_blocks(self) -> None:
        if not self._answer.empty and (text := self._answer.take_finished()):
            self._print_answer(text)
            self._pieces += self._take_aside()

    def _end_piece(self) -> None:
        """The words of one model call are complete: print what is left of them."""
        if not self._answer.empty:
            self._print_finished_blocks()
            self._print_answer(self._answer.take_rest())
        self._pieces += self._take_aside()

    def _finish(self, finished: TurnFinished) -> None:
        self._end_piece()
        self._stopping = False
        tokens = finished.usage.prompt_tokens + finished.usage.completion_tokens
        began = self._turn.started  # unknown for the turn of an earlier process
        parts = [] if began is None else [short_duration(trio.current_time() - began.time)]
        self.last_turn = " · ".join([*parts, *([f"{tokens} tokens"] if tokens else [])])

    # What moves

    async def _draw(self) -> None:
        async with self._lock:
            self._print_finished_blocks()
            pieces, self._pieces = self._pieces, []
            width = self._screen.size()[0]
            if sum(piece.characters for piece in pieces) > _LONG:
                # Painting a thousand lines takes a second, which nobody else should have to wait for.
                above = await trio.to_thread.run_sync(self._lay_out, pieces, width)
            else:
                above = self._lay_out(pieces, width)
            live = self._live()
            if above or live != self._drawn:
                self._drawn = live
                await self._screen.draw(above, live)
            else:
                await trio.lowlevel.checkpoint()

    def _live(self) -> list[str]:
        """Return the live region: the end of the last block, and a line about what goes on."""
        if not self._works or (self._answered_below and self._turn.question is not None):
            return []
        width, rows = self._screen.size()
        status = self._status_lines(width, max(0, rows // 2 - len(self._turn.calls)))
        free_rows = max(1, rows - 5 - len(status))
        aside: list[str] = []
        for piece in self._aside:
            aside += [""] if aside and piece.gap else []
            aside += self._painter.paint(piece.what, width) if piece.what is not None else []
        if len(aside) > (most := free_rows // 2):
            aside = [*aside[: max(0, most - 1)], "…"]
        free_rows = max(1, free_rows - len(aside) - 1) if aside else free_rows
        lines: list[str] = []
        if not self._answer.empty:
            lines = self._painter.paint(AnswerMarkdown(self._answer.end(free_rows, width)), width)[
                -free_rows:
            ]
        while lines and not lines[0]:
            lines.pop(0)
        if lines and aside:
            lines.append("")
        lines += aside
        if lines and not self._after_blank:
            lines.insert(0, "")
        return [*lines, *([""] if lines or not self._after_blank else []), *status]

    @property
    def _works(self) -> bool:
        return bool(self._turn.turn) and self._turn.finished is None

    def _label(self) -> tuple[str, float]:
        """Return what the turn does while no tool runs, and since when."""
        turn, words = self._turn, self._words
        if turn.question is not None:
            return words.awaited, turn.question.time
        if turn.waiting is not None:
            return one_line(turn.waiting.what.why), turn.waiting.time
        if not self._answer.empty:
            return words.writing, turn.said_at
        begun = turn.thinking or turn.started
        since = begun.time if begun else trio.current_time()
        return words.starting if turn.thinking is None else words.thinking, since

    def _status_lines(self, width: int, most_steps: int) -> list[str]:
        """Return a line for each call that runs, with its last step below it, or for what else goes on."""
        label, since = self._label()
        waiting = self._turn.waiting
        now = trio.current_time()
        spinner = SPINNER[int(now / TICK_S) % len(SPINNER)]
        lines = []
        for called in self._turn.calls.values():
            line = Text.assemble((f"{spinner} ", "cyan"), title_of(called.what, one_line))
            line.truncate(width - 10, overflow="ellipsis")
            line.append(f"  {int(now - called.time)} s", "dim")
            lines.append(line)
            if most_steps and (step := self._turn.step(called.what.call.id)):
                lines.append(Text(f"  ↳ {one_line(step)}", "dim"))
                most_steps -= 1
        if self._stopping:
            lines.append(Text.assemble((f"{spinner} ", "cyan"), (f"{self._words.stopping}…", "yellow")))
        elif waiting is not None and (left := math.ceil(since + waiting.what.seconds - now)) > 0:
            lines.append(Text(self._words.waiting.format(why=label, seconds=left), style="yellow"))
        elif not self._turn.calls:
            line = Text.assemble((f"{spinner} ", "cyan"), f"{label} ")
            line.append(f"{int(now - since)} s · {self._words.stop_hint}", "dim")
            lines.append(line)
        for line in lines:
            line.truncate(width, overflow="ellipsis")
        return [painted for line in lines for painted in self._painter.paint(line, width)[:1]]


def _typed(text: str) -> RenderableType:
    return hanging(Text("› ", "bold cyan"), Text(clean(text), "bold"))
