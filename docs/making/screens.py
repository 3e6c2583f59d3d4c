"""A terminal without a person: keys are pressed, the screen is drawn as SVG, and the session is recorded."""

import codecs
import contextlib
import fcntl
import json
import os
import re
import select
import struct
import subprocess
import termios
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from xml.sax.saxutils import escape

import pyte
from pyte.screens import Char

BOUND_S = 60.0
TERMINAL = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
CELL, LINE, SIZE = 8.4, 18, 14
"""Width and height of a cell and the size of its letters, in pixels."""
FONTS = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
EDGE, BAR = 16, 34
MUTED = "#7c8594"
_COLOURS = {
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

_COLOURS_ON_LIGHT = {
    "black": "#24292f",
    "red": "#b3261e",
    "green": "#1f7a34",
    "brown": "#8a5a00",
    "blue": "#1f5fbf",
    "magenta": "#8235b0",
    "cyan": "#0b7275",
    "white": "#d5d9e0",
    "brightblack": "#667080",
    "brightred": "#d1362d",
    "brightgreen": "#2a9344",
    "brightbrown": "#a66d00",
    "brightblue": "#2f74dc",
    "brightmagenta": "#9a47cc",
    "brightcyan": "#108a8e",
    "brightwhite": "#ffffff",
}


@dataclass(frozen=True, slots=True)
class Look:
    """The colours of a terminal: letters, background, the window's bar, and the sixteen named ones."""

    text: str
    ground: str
    frame: str
    colours: Mapping[str, str]


DARK = Look("#d5d9e0", "#171a20", "#22262e", _COLOURS)
LIGHT = Look("#24292f", "#ffffff", "#e8ebef", _COLOURS_ON_LIGHT)

Masks = Sequence[tuple[str, str]]
Row = list[Char]


@dataclass
class Window:
    """A pseudo-terminal with a program in it. `output` is what came, with the seconds since the start."""

    screen: pyte.Screen
    process: "subprocess.Popen[bytes]"
    _master: int
    _feed: pyte.ByteStream
    _started: float = field(default_factory=time.monotonic)
    output: list[tuple[float, bytes]] = field(default_factory=list)

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

    def type(self, keys: str, pace_s: float = 0.0) -> None:
        """Press keys, with that pause after each of them; without a pause, all at once."""
        for part in keys if pace_s else [keys]:
            os.write(self._master, part.encode())
            end = time.monotonic() + pace_s
            while (left := end - time.monotonic()) > 0:
                self._read(left)

    def _read(self, wait_s: float) -> None:
        if not select.select([self._master], [], [], wait_s)[0]:
            return
        with contextlib.suppress(OSError):  # its program has ended
            data = os.read(self._master, 65536)
            self.output.append((time.monotonic() - self._started, data))
            self._feed.feed(data)


@contextlib.contextmanager
def window(
    command: Sequence[str], env: Mapping[str, str], *, columns: int, rows: int, folder: Path | None = None
) -> Iterator[Window]:
    """Run a program in a terminal of that size until the block ends; then end the program.

    It runs in `folder`, or in the folder that `HOME` names.
    """
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = subprocess.Popen(
        command,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**env, **TERMINAL},
        cwd=folder or env["HOME"],
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


def cast(terminal: Window, title: str) -> str:
    """Return the session so far as an asciicast (version 2), which `asciinema play` shows.

    The times are those at which the output came. A player shortens a pause to two seconds.
    """
    head = {
        "version": 2,
        "width": terminal.screen.columns,
        "height": terminal.screen.lines,
        "title": title,
        "idle_time_limit": 2,
        "env": {"TERM": TERMINAL["TERM"]},
    }
    decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a character may come in two pieces
    events = [[round(at_s, 3), "o", decoder.decode(data)] for at_s, data in terminal.output]
    lines = [head, *(event for event in events if event[2])]
    return "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)


def drawn(screen: pyte.Screen, title: str, masks: Masks, look: Look = DARK) -> str:
    """Return the screen as SVG. `masks` replace varying texts, by regular expressions."""
    rows = [_masked(_cells(screen, y), masks) for y in range(screen.lines)]
    while rows and not "".join(cell.data for cell in rows[-1]).strip():
        rows.pop()
    width, height = screen.columns * CELL + 2 * EDGE, len(rows) * LINE + BAR + EDGE
    lights = "".join(
        f'<circle cx="{EDGE + 6 + n * 20}" cy="{BAR / 2:g}" r="6" fill="{colour}"/>'
        for n, colour in enumerate(("#f07178", "#e6b673", "#9ccf7e"))
    )
    drawing = "\n".join(line for y, row in enumerate(rows) for line in _row(row, y, look))
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" width="{width:g}" height="{height}"\
 role="img" aria-label="{escape(title)}">
<style>text {{ font: {SIZE}px {FONTS}; white-space: pre }}</style>
<rect width="{width:g}" height="{height}" rx="9" fill="{look.ground}"/>
<path d="M0 {BAR}V9a9 9 0 0 1 9-9H{width - 9:g}a9 9 0 0 1 9 9V{BAR}z" fill="{look.frame}"/>
{lights}
<text x="{width / 2:g}" y="{BAR / 2 + 5:g}" text-anchor="middle" fill="{MUTED}">{escape(title)}</text>
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


def _row(row: Row, y: int, look: Look) -> Iterator[str]:
    top, x = BAR + 6 + y * LINE, 0
    for style, cells in groupby(row, key=partial(_style, look=look)):
        run = list(cells)
        text = "".join(cell.data for cell in run)
        colour, ground, bold, italic, line, alone = style
        left, wide = EDGE + x * CELL, len(run) * CELL
        x += len(run)
        if ground != look.ground:
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


def _style(cell: Char, look: Look) -> tuple[str, str, bool, bool, bool, bool]:
    # A wide character stands alone: fonts do not agree on how wide it is.
    wide = cell.data == "" or unicodedata.east_asian_width(cell.data[0]) == "W" or cell.data > "\U0001f000"
    colour, ground = _colour(cell.fg, look.text, look), _colour(cell.bg, look.ground, look)
    if cell.reverse:
        colour, ground = ground, colour
    return colour, ground, cell.bold, cell.italics, cell.underscore, wide


def _colour(name: str, default: str, look: Look) -> str:
    if name == "default":
        return default
    return look.colours.get(name) or f"#{name}"


def write(path: Path, text: str) -> None:
    """Write a picture or a recording to its path."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, "utf-8")
