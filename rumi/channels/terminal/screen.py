"""A live region on a terminal without an input line, and the background of a terminal."""

import re
from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from rich.text import Text

from rumi.channels.terminal.streams import OutputStream

# Synchronized output: terminals that support it show everything between the two as one update.
BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"
_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


class LiveScreen:
    """A `Screen` on `output`. The cursor stays hidden until `close` is called."""

    def __init__(self, output: OutputStream) -> None:
        self._output = output
        self._live: list[str] = []

    def size(self) -> tuple[int, int]:
        """Return the current numbers of columns and rows."""
        return self._output.columns_and_rows()

    async def draw(self, above: Sequence[str], live: Sequence[str]) -> None:
        """Print the lines `above` permanently; below them, replace the previous live lines by `live`."""
        columns, rows = self.size()
        lines = list(live)[-max(1, rows - 1) :]
        text = self._erase(columns) + "".join(f"{line}\r\n" for line in above) + "\r\n".join(lines)
        self._live = lines
        await self._output.write(f"{BEGIN}{_HIDE_CURSOR if lines else _SHOW_CURSOR}{text}{END}")

    async def close(self) -> None:
        """Remove the live region and show the cursor."""
        await self.draw([], [])

    def _erase(self, columns: int) -> str:
        """Return the sequence that clears the live region, from its first cell to the end of the screen."""
        if not self._live:
            return ""
        # Counted for the current width: after a resize the terminal has wrapped the old lines differently.
        rows = sum(max(1, -(-cell_len(Text.from_ansi(line).plain) // columns)) for line in self._live)
        return "\r" + (f"\x1b[{rows - 1}A" if rows > 1 else "") + "\x1b[J"


def is_light(answer: str) -> bool | None:
    """Return whether a reported colour such as `rgb:ffff/ffff/ffff` is light; None if it is not a colour."""
    found = re.fullmatch(r"rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})(?:/.*)?", answer)
    if found is None:
        return None
    red, green, blue = (int(part, 16) / ((1 << 4 * len(part)) - 1) for part in found.groups())
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5


def is_light_by_environment(environment: Mapping[str, str]) -> bool | None:
    """Return whether the background is light according to `COLORFGBG`, as `0;15`; None if it does not say."""
    number = environment.get("COLORFGBG", "").rpartition(";")[2]
    return int(number) in (7, *range(9, 16)) if re.fullmatch(r"\d|1[0-5]", number) else None
