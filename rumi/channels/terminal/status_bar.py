"""The line below the input line: its parts, and which of them fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, set_cell_size

from rumi.chats.events import SessionFigures
from rumi.platform.printable import one_line

MODE: Final = 60
MODEL: Final = 50
QUEUED: Final = 40
CONTEXT: Final = 35
COST: Final = 30
CHAT: Final = 20
LAST_TURN: Final = 15
ENGINE: Final = 10
"""How important the parts are. On a narrow terminal the least important part is left out first."""

_BETWEEN = " · "


@dataclass(frozen=True, slots=True)
class BarPart:
    """A part of the status bar. If `text` is empty, there is nothing to show."""

    text: str
    importance: int


def context_share(figures: SessionFigures | None) -> str:
    """Return the share of the model's context that the next prompt takes; empty if it is unknown."""
    if figures is None or not (figures.tokens and figures.window):
        return ""
    return f"ctx {max(1, round(100 * figures.tokens / figures.window))} %"


def cost_text(figures: SessionFigures | None) -> str:
    """Return the price of the session's turns; empty if no price is known."""
    if figures is None or not figures.nano:
        return ""
    usd = figures.nano / 1_000_000_000
    return f"{usd:.2f} USD" if usd >= 1 else f"{max(usd, 0.0001):.4f} USD"


def fitted(parts: Sequence[BarPart], cells: int) -> str:
    """Return the parts that fit into `cells` cells, in their order; if not even one fits, the end is cut."""
    shown = [BarPart(one_line(part.text), part.importance) for part in parts if part.text]
    while len(shown) > 1 and cell_len(_joined(shown)) > cells:
        # Of equal ones, the last goes first.
        least = min(range(len(shown) - 1, -1, -1), key=lambda place: shown[place].importance)
        del shown[least]
    return cut(_joined(shown), cells)


def cut(text: str, cells: int) -> str:
    """Return a text of one line in at most `cells` cells; if it was longer, it ends with `…`."""
    if cell_len(text) <= cells:
        return text
    return f"{set_cell_size(text, cells - 1).rstrip()}…" if cells > 0 else ""


def _joined(parts: Sequence[BarPart]) -> str:
    return f" {_BETWEEN.join(part.text for part in parts)}" if parts else ""
