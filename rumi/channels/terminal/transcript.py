"""What a terminal has shown, whole: long outputs, which the screen shows folded, with all their lines."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from rumi.agent.tool import ToolResult
from rumi.channels.terminal.calls import outcome_of, output_of, whole_diff_of
from rumi.channels.terminal.paint import DIFF_STYLES, Painter, hanging
from rumi.channels.terminal.words import Reader

MOST_CHARS: Final = 4_000_000
"""Maximum number of characters that a transcript retains; the oldest content is dropped first."""

_MOST_PIECES = 20_000


@dataclass(frozen=True, slots=True)
class FoldedOutput:
    """Content that was shown; `folded` says that the screen shows only a part of it."""

    what: RenderableType
    characters: int
    gap: bool
    folded: bool = False
    turn: int = 0


class WindowTranscript:
    """The content that was shown in one window, limited to `MOST_CHARS`."""

    def __init__(self) -> None:
        self._kept: deque[FoldedOutput] = deque()
        self._characters = 0
        self._turn = 0

    def begin_turn(self) -> None:
        """Begin a new turn: `folded` is about the last one that has folded content."""
        self._turn += 1

    def keep(self, what: RenderableType, characters: int, *, gap: bool, folded: bool = False) -> None:
        """Retain shown content. `folded` says that the screen shows only a part of it."""
        self._kept.append(FoldedOutput(what, characters, gap, folded, self._turn))
        self._characters += characters
        while self._characters > MOST_CHARS or len(self._kept) > _MOST_PIECES:
            self._characters -= self._kept.popleft().characters

    def everything(self) -> list[FoldedOutput]:
        """Return all retained content, oldest first."""
        return list(self._kept)

    def folded(self) -> list[FoldedOutput]:
        """Return the folded content of the last turn that has any."""
        turn = max((kept.turn for kept in self._kept if kept.folded), default=-1)
        return [kept for kept in self._kept if kept.folded and kept.turn == turn]


def painted(kept: Iterable[FoldedOutput], painter: Painter, width: int) -> str:
    """Return retained content as text, safe to print."""
    lines: list[str] = []
    for one in kept:
        if one.gap and lines and lines[-1]:
            lines.append("")
        lines += painter.paint(one.what, width)
    return "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True, slots=True)
class WholeCall:
    """A finished tool call with its whole output and diff; built only when it is painted."""

    title: str
    result: ToolResult
    reader: Reader
    steps: int = 0

    def __rich_console__(self, console: object, options: object) -> "Iterable[RenderableType]":
        """Lay out the call for the available width."""
        good = self.result.ok and not self.result.exit_code
        title = Text.assemble((self.title, "bold"), "  ", outcome_of(self.result, self.reader, self.steps))
        yield hanging(Text("● ", "good" if good else "bad"), title)
        for line in output_of(self.result, self.reader):
            yield Padding(Text(line), (0, 0, 0, 4))
        for line in whole_diff_of(self.result):
            yield Padding(Text(line, DIFF_STYLES.get(line[:1], "")), (0, 0, 0, 4))


def characters_of(result: ToolResult) -> int:
    """Return how much of a transcript's limit a call takes."""
    return len(result.content) + len(result.diff)
