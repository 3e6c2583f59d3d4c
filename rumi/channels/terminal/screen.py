"""A live region on a terminal that nobody types into, drawn with a handful of control sequences."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from rumi.channels.terminal.streams import OutputStream

# Terminals that know it show what is between the two at once; the others ignore it.
BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"
_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


class LiveScreen:
    """Draws on `output`. Close it, or the cursor stays hidden."""

    def __init__(self, output: OutputStream) -> None:
        self._output = output
        self._live: list[str] = []

    def size(self) -> tuple[int, int]:
        """Return the current numbers of columns and of rows."""
        return self._output.columns_and_rows()

    async def draw(self, above: Sequence[str], live: Sequence[str]) -> None:
        """Print `above` for good and `live` below it, in place of the earlier live lines."""
        columns, rows = self.size()
        lines = list(live)[-max(1, rows - 1) :]
        text = self._erase(columns) + "".join(f"{line}\r\n" for line in above) + "\r\n".join(lines)
        self._live = lines
        await self._output.write(f"{BEGIN}{_HIDE_CURSOR if lines else _SHOW_CURSOR}{text}{END}")

    async def close(self) -> None:
        """Remove the live region and give the cursor back."""
        await self.draw([], [])

    def _erase(self, columns: int) -> str:
        """Go back to the first cell of the live region and clear from there, also after a resize."""
        if not self._live:
            return ""
        rows = sum(max(1, -(-cell_len(Text.from_ansi(line).plain) // columns)) for line in self._live)
        return "\r" + (f"\x1b[{rows - 1}A" if rows > 1 else "") + "\x1b[J"
