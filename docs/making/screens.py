"""A terminal without a person: a program runs in it, keys are pressed, and its screen is drawn as SVG."""

import contextlib
import fcntl
import os
import re
import select
import struct
import subprocess
import termios
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from xml.sax.saxutils import escape

import pyte
from pyte.screens import Char

BOUND_S = 60.0
CELL, LINE, SIZE = 8.4, 18, 14
"""Width and height of a cell and the size of its letters, in pixels."""
FONTS = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
EDGE, BAR = 16, 34
TEXT, GROUND, FRAME = "#d5d9e0", "#171a20", "#22262e"
COLOURS = {
    "black": "#3b4048",
    "red": "#f07178",
    "green": "#9ccf7e",
    "brown": "#e6b673",
    "blue": "#7aa8f5",
    "magenta": "#c79bf0",
    "cyan": "#6fc7c7",
    "white": "#d5d9e0",
    "brightblack": "#7c8594",
    "brightred": "#ff8b92",
    "brightgreen": "#b6e399",
    "brightbrown": "#ffd08a",
    "brightblue": "#9cc2ff",
    "brightmagenta": "#ddb6ff",
    "brightcyan": "#8fe0e0",
    "brightwhite": "#ffffff",
}

Masks = Sequence[tuple[str, str]]
Row = list[Char]


@dataclass
class Window:
    """A pseudo-terminal with a program in it."""

    screen: pyte.Screen
    process: "subprocess.Popen[bytes]"
    _master: int
    _feed: pyte.ByteStream

    def text(self) -> str:
        """Return the text on the screen."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def see(self, wanted: str, times: int = 1) -> None:
        """Wait until the text is on the screen, and for the output directly after it."""
        end = time.monotonic() + BOUND_S
        while self.text().count(wanted) < times:
            if time.monotonic() > end:
                raise TimeoutError(f"{wanted!r} never came:\n{self.text()}")
            self._read(0.1)
        settled = time.monotonic() + 0.6  # a running program draws without end
        while time.monotonic() < settled:
            self._read(0.1)

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def _read(self, wait_s: float) -> None:
        if not select.select([self._master], [], [], wait_s)[0]:
            return
        with contextlib.suppress(OSError):  # its program has ended
            self._feed.feed(os.read(self._master, 65536))


@contextlib.contextmanager
def window(command: Sequence[str], env: Mapping[str, str], *, columns: int, rows: int) -> Iterator[Window]:
    """Run a program in a terminal of that size until the block ends; then end the program."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    terminal = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    process = subprocess.Popen(
        command,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**env, **terminal},
        cwd=env["HOME"],
        start_new_session=True,
    )
    os.close(slave)
    screen = pyte.Screen(columns, rows)
    try:
        yield Window(screen, process, master, pyte.ByteStream(screen))
    finally:
        process.terminate()
        process.wait(BOUND_S)
        os.close(master)


def drawn(screen: pyte.Screen, title: str, masks: Masks) -> str:
    """Return the screen as SVG. `masks` replace varying texts, by regular expressions."""
    rows = [_masked(_cells(screen, y), masks) for y in range(screen.lines)]
    while rows and not "".join(cell.data for cell in rows[-1]).strip():
        rows.pop()
    width, height = screen.columns * CELL + 2 * EDGE, len(rows) * LINE + BAR + EDGE
    lights = "".join(
        f'<circle cx="{EDGE + 6 + n * 20}" cy="{BAR / 2:g}" r="6" fill="{colour}"/>'
        for n, colour in enumerate(("#f07178", "#e6b673", "#9ccf7e"))
    )
    drawing = "\n".join(line for y, row in enumerate(rows) for line in _row(row, y))
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" width="{width:g}" height="{height}"\
 role="img" aria-label="{escape(title)}">
<style>text {{ font: {SIZE}px {FONTS}; white-space: pre }}</style>
<rect width="{width:g}" height="{height}" rx="9" fill="{GROUND}"/>
<path d="M0 {BAR}V9a9 9 0 0 1 9-9H{width - 9:g}a9 9 0 0 1 9 9V{BAR}z" fill="{FRAME}"/>
{lights}
<text x="{width / 2:g}" y="{BAR / 2 + 5:g}" text-anchor="middle" fill="#7c8594">{escape(title)}</text>
{drawing}
</svg>
"""


def _cells(screen: pyte.Screen, y: int) -> Row:
    return [screen.buffer[y][x] for x in range(screen.columns)]


def _masked(row: Row, masks: Masks) -> Row:
    """Return the row with the texts replaced; the text after them moves, as in a real terminal."""
    for expression, words in masks:
        at = 0
        while True:
            # A cell of a wide character's second half is empty, so places in the text are counted by cells.
            text = "".join(cell.data or "\0" for cell in row)
            found = re.compile(expression).search(text, at)
            if found is None:
                break
            style = row[found.start()]
            new = [style._replace(data=letter) for letter in found.expand(words)]
            row = [*row[: found.start()], *new, *row[found.end() :]]
            at = found.start() + max(len(new), 1)
    return row


def _row(row: Row, y: int) -> Iterator[str]:
    top, x = BAR + 6 + y * LINE, 0
    for style, cells in groupby(row, key=_style):
        run = list(cells)
        text = "".join(cell.data for cell in run)
        colour, ground, bold, italic, line, alone = style
        left, wide = EDGE + x * CELL, len(run) * CELL
        x += len(run)
        if ground != GROUND:
            yield f'<rect x="{left:g}" y="{top}" width="{wide:g}" height="{LINE}" fill="{ground}"/>'
        if not text.strip():
            continue
        looks = ' font-weight="bold"' * bold + ' font-style="italic"' * italic
        looks += ' text-decoration="underline"' * line
        begin = len(text) - len(text.lstrip())
        shown = text.strip()
        # The length is given, so that columns align with any font.
        length = "" if alone else f' textLength="{len(shown) * CELL:g}"'
        place = f'x="{left + begin * CELL:g}" y="{top + 13}"{length} fill="{colour}"'
        yield f"<text {place}{looks}>{escape(shown)}</text>"


def _style(cell: Char) -> tuple[str, str, bool, bool, bool, bool]:
    # A wide character stands alone: fonts do not agree on how wide it is.
    wide = cell.data == "" or unicodedata.east_asian_width(cell.data[0]) == "W" or cell.data > "\U0001f000"
    colour, ground = _colour(cell.fg, TEXT), _colour(cell.bg, GROUND)
    if cell.reverse:
        colour, ground = ground, colour
    return colour, ground, cell.bold, cell.italics, cell.underscore, wide


def _colour(name: str, default: str) -> str:
    if name == "default":
        return default
    return COLOURS.get(name) or f"#{name}"


def write(path: Path, svg: str) -> None:
    """Write the picture to its path."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(svg, "utf-8")
