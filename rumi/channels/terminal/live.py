"""The view for a terminal with a movable cursor.

Final content is printed once and scrolls away like all output. Below it a live region shows the content that
still changes: the last block of the growing answer, the running tool calls, and their durations. The live
region is always smaller than the screen, even if the answer is long.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import trio
from rich.console import RenderableType
from rich.text import Text

from rumi.agent.events import (
    BY_HAND,
    ConfirmationAsked,
    Thinking,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    title_of,
)
from rumi.agent.todo_list import TODO, TodoItem
from rumi.agent.tool import ToolResult
from rumi.channels.terminal.calls import LINE_CHARS, code_and_rest, is_folded, omitted
from rumi.channels.terminal.growing import GrowingAnswer
from rumi.channels.terminal.paint import (
    AnswerMarkdown,
    Called,
    Glimpse,
    Painter,
    QuestionLines,
    TodoList,
    hanging,
)
from rumi.channels.terminal.progress import SPINNER, TICK_S
from rumi.channels.terminal.session import Settled
from rumi.channels.terminal.words import Reader, void_note
from rumi.chats.events import ChatEvent, Queued, Replied, TurnRestarted, TurnStarted, TurnState
from rumi.chats.port import PastTurn
from rumi.models.model import Discarded, TextDelta
from rumi.platform.printable import clean, last_lines, one_line
from rumi.platform.texts.operating import short_duration
from rumi.texts import gettext

if TYPE_CHECKING:
    from rumi.channels.terminal.transcript import WindowTranscript

OUTPUT_LINES = 5
"""Maximum number of lines shown of a running command's output."""

_TYPED_LINES = 20
"""Maximum number of lines shown of a typed message."""

_LONG = 4000
"""More characters than this are painted in a thread, because painting them takes long."""

_STYLES = {"complete": "", "model_error": "bad", "crashed": "bad"}
_WARNING = "warning"


class Screen(Protocol):
    """A terminal with a live region at its lower end."""

    def size(self) -> tuple[int, int]:
        """Return the current numbers of columns and rows."""
        ...

    async def draw(self, above: Sequence[str], live: Sequence[str]) -> None:
        """Print the lines `above` permanently, and show the lines `live` in the live region below them.

        No line may have more cells than the screen has columns. Returns when everything is written.

        Raises:
            OutputClosedError: the terminal is closed.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Piece:
    """Content that will be printed permanently. If `what` is None, only an empty line is printed."""

    what: RenderableType | None
    gap: bool
    characters: int = 0
    sequence: str = ""
    """An invisible control sequence, written before the first line."""

    whole: RenderableType | None = None
    """What the transcript retains instead: the same with all that the screen leaves out."""

    kept: int = 0
    """The size of `whole` in characters."""

    folded: bool = False


class LiveView:
    """Draws a conversation on a `Screen`. `run` must be running: it redraws the live region.

    If `prompted` is True, there is an input line below the live region, separated from replies by an empty
    line, and Ctrl-O unfolds outputs. `attend` is called with the seconds that a turn took when it ends, and
    with None when a question waits. If `answered_below` is True, a person types the answer to a question in
    place of the live region, which is hidden while the question is pending. While `brief` returns True, tool
    calls are shown without their output, because the answers repeat it, as those of the demo model do.
    """

    def __init__(
        self,
        screen: Screen,
        painter: Painter,
        reader: Reader,
        *,
        prompted: bool = False,
        answered_below: bool = False,
        attend: Callable[[float | None], None] | None = None,
        brief: Callable[[], bool] = lambda: False,
    ) -> None:
        self._attend = attend
        self._transcript: WindowTranscript | None = None
        self._brief = brief
        self._prompted = prompted
        self._answered_below = answered_below
        self.last_turn = ""
        self._screen = screen
        self._painter = painter
        self._reader = reader
        self._lock = trio.Lock()
        self._pieces: list[_Piece] = []  # to be printed permanently, in order
        self._aside: list[_Piece] = []  # arrived while a block of the answer grows: printed after that block
        self._drawn: list[str] = []
        self._after_blank = True  # the last line laid out is empty; guarded by `_lock`
        self._after_tool = False  # the last piece is a tool call: no empty line before the next call
        self._turn = TurnState()
        self._stopping = False
        self._answer = GrowingAnswer()

    async def run(self) -> None:
        """Redraw the live region with every tick, until cancelled."""
        while True:
            await self._draw()
            await trio.sleep(TICK_S)

    async def event(self, event: ChatEvent) -> None:
        """Apply an event. If it made content final, draw at once; otherwise draw with the next tick."""
        before = self._turn
        # A client that attaches in the middle of a turn gets old events: their age comes from the wall
        # clock. After that trio's monotonic clock counts, so that a clock change does not affect durations.
        age_s = max(0.0, time.time() - event.time)
        self._turn = before.apply(replace(event, time=trio.current_time() - age_s))
        match event.what:
            case TurnStarted(text, message):
                if any(queued.what.message == message for queued in before.queued):
                    self._print(_typed(text), gap=True)  # again: other answers came between it and its own
                self._answer.begin()
                self._retained.begin_turn()
            case Thinking() | ToolStarted():
                self._end_piece()
            case TextDelta(text):
                self._answer.add(text)
            case Discarded() | TurnRestarted():
                if self._answer.discard():
                    self._print(Text(void_note(event, self._reader.language), style="dim"), gap=True)
            case ToolFinished(call, result) if call.name == TODO and result.ok:
                return  # the live region shows the list
            case ToolFinished(call, result, steps):
                title = title_of(before.called(call), one_line)
                result = replace(result, content="") if self._brief() else result
                if call.id == BY_HAND:  # the person typed the command, and the reply has the whole output
                    title, result = "$", replace(result, content="")
                self._pieces.append(self._called(title, result, steps))
                self._after_tool = True
            case ConfirmationAsked(_, text, whole):
                self._end_piece()
                if whole:
                    title = gettext(self._reader.language, "The whole question:")
                    self._print(QuestionLines(f"{title}\n{clean(whole)}"), gap=True)
                answers = f"\n({gettext(self._reader.language, 'yes/no')})" if self._answered_below else ""
                asked = f"? {gettext(self._reader.language, 'It asks:')} {clean(text)}{answers}"
                self._print(QuestionLines(asked, "question"), gap=True)
                if self._attend is not None:
                    self._attend(None)
            case TurnFinished() as finished:
                self._finish(finished, before.todo)
            case Queued(_, text):
                self._print_aside(Text(text, style="dim"))
            case _:
                return
        if self._pieces:
            await self._draw()

    async def reply(self, event: ChatEvent, settled: Settled) -> None:
        """Print the part of the reply that was not streamed before."""
        text = clean(settled.reply.text).strip()
        self._stopping = False
        if settled.finished is None:
            text = clean(settled.reply.with_commands).strip()
            self._print_aside(AnswerMarkdown(text), gap=True, characters=len(text))
        else:
            reason = settled.finished.reason
            rest = self._answer.missing(text)
            if reason == "complete":
                self._print_answer(rest)
            elif reason in ("max_turns", "repeated_call", "consecutive_errors", "timeout"):
                # The last paragraph is the warning; the partial answer comes before it.
                found, _, warning = rest.rpartition("\n\n")
                self._print_answer(found)
                self._print(Text(warning, style=_WARNING), gap=True)
            else:
                if code_and_rest(rest)[0]:  # what a stopped command has printed
                    code, rest = rest, code_and_rest(rest)[1]
                    self._print_answer(code.removesuffix(rest))
                self._print(Text(rest, style=_STYLES.get(reason, _WARNING)), gap=True)
        if settled.reply.note:
            self._print(Text(clean(settled.reply.note), style="dim"), gap=True)
        await self._end()

    async def earlier(self, reply: Replied) -> None:
        """Print an earlier, unread reply."""
        self._print(Text(gettext(self._reader.language, "Earlier:"), style="dim"), gap=True)
        self._print(AnswerMarkdown(reply.text))
        await self._end()

    async def elsewhere(self, text: str, source: str) -> None:
        """Print a message from another sender."""
        said = Text.assemble((clean(text), "bold"), f"  {source}", style="dim")
        self._print(hanging(Text("› ", "dim"), said), gap=True)
        await self._draw()

    async def typed(self, text: str) -> None:
        """Print the message that the person sent."""
        text = clean(text)
        lines = text.split("\n")
        shown, folded = text, len(lines) > _TYPED_LINES
        if folded:
            left = omitted(len(lines) - _TYPED_LINES + 1, self._reader, self._prompted)
            shown = "\n".join([*lines[: _TYPED_LINES - 1], left])
        self._print_aside(_typed(shown), gap=True, whole=_typed(text), kept=len(text), folded=folded)
        await self._draw()

    async def stopping(self, presses: int) -> None:
        """Show immediately that the turn is being stopped."""
        self._stopping = True
        if presses > 1:
            self._print_aside(
                Text(
                    gettext(self._reader.language, "Still stopping. Press Ctrl-C again to leave now."),
                    style="dim",
                )
            )
        await self._draw()

    async def notice(self, text: str) -> None:
        """Print a dim line."""
        self._print_aside(Text(clean(text), style="dim"), gap=not self._answer.empty)
        await self._end()

    async def recalled(self, past_turns: Sequence[PastTurn]) -> None:
        """Print the session's last turns, shortened and dim. If there are none, print nothing."""
        if not past_turns:
            return
        self._print(
            Text(gettext(self._reader.language, "The end of this session so far:"), style="dim"), gap=True
        )
        for exchange in past_turns:
            asked = one_line(exchange.question)
            asked = asked if len(asked) <= LINE_CHARS else f"{asked[: LINE_CHARS - 1]}…"
            if asked:  # a reminder answers nothing
                self._print(hanging(Text("› ", "dim"), Text(asked, "dim")), gap=True)
            if exchange.answer:
                answer = exchange.answer
                self._pieces.append(
                    _Piece(Glimpse(answer), gap=not asked, whole=AnswerMarkdown(answer), kept=len(answer))
                )
        await self._end()

    async def copy(self, sequence: str, text: str) -> None:
        """Write a control sequence to the terminal, and print `text` as a dim line."""
        self._pieces.append(_Piece(Text(text, style="dim"), gap=False, sequence=sequence))
        await self._end()

    async def whole(self, *, everything: bool) -> str:
        """Return all lines of what the last turn shows folded, or `everything` that was shown, whole.

        The text may contain colours and is safe to print; it is empty if nothing is folded.
        """
        await self._draw()  # what is queued is part of it
        from rumi.channels.terminal.transcript import FoldedOutput, painted

        kept = self._retained.everything() if everything else self._retained.folded()
        if everything and (growing := self._answer.unfinished.strip()):
            kept.append(FoldedOutput(AnswerMarkdown(growing), len(growing), gap=True))
        text = await trio.to_thread.run_sync(painted, kept, self._painter, self._screen.size()[0])
        return text + "".join(self._running_outputs())

    @property
    def _retained(self) -> "WindowTranscript":
        from rumi.channels.terminal.transcript import WindowTranscript

        self._transcript = self._transcript or WindowTranscript()
        return self._transcript

    def _running_outputs(self) -> list[str]:
        """Return the outputs of the running calls, as far as they have come."""
        outputs = ((called, self._turn.output(id)) for id, called in self._turn.calls.items())
        return [f"\n$ {title_of(called.what, one_line)}\n{clean(said)}\n" for called, said in outputs if said]

    async def clear(self) -> None:
        """Print the part of the answer that is not printed yet, and clear the live region."""
        self._end_piece()
        self._turn = TurnState()
        await self._draw()

    # Final content

    def _print(self, what: RenderableType, *, gap: bool = False) -> None:
        """Queue content to be printed permanently. If `gap` is True, an empty line precedes the content."""
        self._pieces.append(_Piece(what, gap))
        self._after_tool = False

    def _print_aside(
        self,
        what: RenderableType,
        *,
        gap: bool = False,
        characters: int = 0,
        whole: RenderableType | None = None,
        kept: int = 0,
        folded: bool = False,
    ) -> None:
        """Queue content that is not part of the answer. It is printed after the block that is still growing.

        Until that block is complete, the live region shows the content below it.
        """
        piece = _Piece(what, gap, characters, whole=whole, kept=kept, folded=folded)
        self._print_finished_blocks()
        if self._answer.empty:
            self._pieces += self._take_aside()
            self._pieces.append(piece)
            self._after_tool = False
        else:
            self._aside.append(piece)

    def _called(self, title: str, result: ToolResult, steps: int) -> _Piece:
        called = Called(title, result, self._reader, steps, unfolds=self._prompted)
        if not self._prompted:
            return _Piece(called, gap=not self._after_tool)
        from rumi.channels.terminal.transcript import WholeCall, characters_of

        return _Piece(
            called,
            gap=not self._after_tool,
            whole=WholeCall(title, result, self._reader, steps),
            kept=characters_of(result),
            folded=is_folded(result, self._reader),
        )

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
        """Draw all queued output, and an empty line between the output and the input line."""
        if self._prompted and not self._works:
            self._pieces.append(_Piece(None, gap=True))
        await self._draw()

    def _lay_out(self, pieces: list[_Piece], width: int) -> list[str]:
        """Return the pieces as lines. Empty lines at the start and end of each piece are removed."""
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
        """Print the part of a model call's text that is not printed yet: the text is now complete."""
        if not self._answer.empty:
            self._print_finished_blocks()
            self._print_answer(self._answer.take_rest())
        self._pieces += self._take_aside()

    def _finish(self, finished: TurnFinished, todo: Sequence[TodoItem]) -> None:
        self._end_piece()
        if todo:
            self._print(TodoList(todo), gap=True)
        self._stopping = False
        tokens = finished.usage.prompt_tokens + finished.usage.completion_tokens
        began = self._turn.started  # None for a turn of an earlier process
        if began is not None and self._attend is not None:
            self._attend(trio.current_time() - began.time)
        parts = [] if began is None else [short_duration(trio.current_time() - began.time)]
        self.last_turn = " · ".join([*parts, *([f"{tokens} tokens"] if tokens else [])])

    # The live region

    async def _draw(self) -> None:
        # Locked: a second drawing during the thread or the write would print pieces out of order.
        async with self._lock:
            self._print_finished_blocks()
            pieces, self._pieces = self._pieces, []
            for piece in pieces if self._prompted else ():
                if piece.what is not None:
                    self._retained.keep(
                        piece.whole or piece.what,
                        piece.kept or piece.characters,
                        gap=piece.gap,
                        folded=piece.folded,
                    )
            width = self._screen.size()[0]
            if sum(piece.characters for piece in pieces) > _LONG:
                # Painting a thousand lines takes a second: do not block the other tasks for so long.
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
        """Return the lines of the live region: the last lines of the growing block, and the status lines."""
        if not self._works or (self._answered_below and self._turn.question is not None):
            return []
        width, rows = self._screen.size()
        todo = TodoList(self._turn.todo, max(1, rows // 4))
        status = self._painter.paint(todo, width) if self._turn.todo else []
        status += self._status_lines(width, max(0, rows // 2 - len(self._turn.calls)))
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
        """Return the turn's activity and its start time, for a turn in which no tool runs."""
        turn, reader = self._turn, self._reader
        if turn.question is not None:
            return gettext(reader.language, "waiting for a yes or a no"), turn.question.time
        if turn.waiting is not None:
            return one_line(turn.waiting.what.why), turn.waiting.time
        if not self._answer.empty:
            return gettext(reader.language, "writing"), turn.said_at
        begun = turn.thinking or turn.started
        since = begun.time if begun else trio.current_time()
        return gettext(reader.language, "starting") if turn.thinking is None else gettext(
            reader.language, "thinking"
        ), since

    def _status_lines(self, width: int, most_steps: int) -> list[str]:
        """Return each running tool call with its last step or output; if none runs, the turn's activity."""
        label, since = self._label()
        waiting = self._turn.waiting
        now = trio.current_time()
        spinner = SPINNER[int(now / TICK_S) % len(SPINNER)]
        lines = []
        for called in self._turn.calls.values():
            line = Text.assemble((f"{spinner} ", "accent"), title_of(called.what, one_line))
            line.truncate(width - 10, overflow="ellipsis")
            line.append(f"  {int(now - called.time)} s", "dim")
            lines.append(line)
            id = called.what.call.id
            below = [f"↳ {one_line(step)}"] if (step := self._turn.step(id)) else []
            below += last_lines(self._turn.output(id), OUTPUT_LINES)
            lines += [Text(f"  {text}", "dim") for text in below[-most_steps:] if most_steps]
            most_steps -= min(most_steps, len(below))
        if self._stopping:
            lines.append(
                Text.assemble(
                    (f"{spinner} ", "accent"), (f"{gettext(self._reader.language, 'stopping')}…", "warning")
                )
            )
        elif waiting is not None and (left := math.ceil(since + waiting.what.seconds - now)) > 0:
            lines.append(
                Text(
                    gettext(self._reader.language, "⏳ {seconds} s · {why}", why=label, seconds=left),
                    style="warning",
                )
            )
        elif not self._turn.calls:
            line = Text.assemble((f"{spinner} ", "accent"), f"{label} ")
            line.append(f"{int(now - since)} s · {gettext(self._reader.language, 'Ctrl-C stops')}", "dim")
            lines.append(line)
        for line in lines:
            line.truncate(width, overflow="ellipsis")
        return [painted for line in lines for painted in self._painter.paint(line, width)[:1]]


def _typed(text: str) -> RenderableType:
    return hanging(Text("› ", "mark"), Text(clean(text), "bold"))
