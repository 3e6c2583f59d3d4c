"""The output functions of all commands: they clean all text that a command prints, from any source.

Commands call no other function that prints; a test checks the code of all commands. Control characters are
removed from text and escaped in JSON, even if the output is a pipe, because the pipe's reader may print them.
"""

import json
import os
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click

from rumi.platform.printable import clean, escaped, flat

if TYPE_CHECKING:
    from rich.console import Console

JSON = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")


class Styled(NamedTuple):
    """A part of a line that is coloured, bold or dim on a terminal, and plain in a pipe."""

    text: str
    fg: str | None = None
    bold: bool = False
    dim: bool = False


def echo(*parts: "str | Styled", err: bool = False) -> None:
    """Print a line: the parts, joined without a separator."""
    words = [_styled(part) if isinstance(part, Styled) else clean(part) for part in parts]
    click.echo("".join(words), err=err, color=False if "NO_COLOR" in os.environ else None)


def _styled(part: Styled) -> str:
    return click.style(clean(part.text), fg=part.fg, bold=part.bold or None, dim=part.dim or None)


def echo_json(value: object, *, indent: int | None = None, ascii: bool = False) -> None:
    """Print a value as JSON, on several lines if `indent` is set; `ascii` escapes non-ASCII characters."""
    click.echo(escaped(json.dumps(value, ensure_ascii=ascii, indent=indent)))


def flat_lines(text: object) -> str:
    """Return the text with each of its lines cleaned for a terminal."""
    return "\n".join(flat(line) for line in str(text).split("\n"))


def cut(line: str) -> str:
    """Cut a line to the terminal's width; return the whole line if the output is a pipe."""
    if not sys.stdout.isatty():
        return line
    import shutil

    from rich.cells import cell_len, set_cell_size

    width = shutil.get_terminal_size().columns - 1
    return line if cell_len(line) <= width else f"{set_cell_size(line, width - 1)}…"


def local_time(time: str) -> str:
    """Return a time in the format of RFC 3339 as the local day, hour and minute."""
    return f"{datetime.fromisoformat(time).astimezone():%Y-%m-%d %H:%M}"


def local_day(time: str) -> str:
    """Return a time in the format of RFC 3339 as the local day."""
    return local_time(time)[:10]


def confirm(question: str, *, abort: bool = False, err: bool = False) -> bool:
    """Ask for a yes or a no; return True for a yes. For a no, return False, or end the command if `abort`."""
    return click.confirm(clean(question), abort=abort, err=err)


def prompt(question: str, default: str | None = None, **more: Any) -> str:
    """Ask for a line; an empty line means the `default`. `more` contains arguments for `click.prompt`."""
    return cast(str, click.prompt(clean(question), default, **more))


def write_through(lines: str) -> None:
    """Write ASCII lines to standard output, bypassing Python's buffer, whose lock a stuck thread may hold."""
    data = escaped(lines).encode("ascii")
    while data:
        data = data[os.write(sys.stdout.fileno(), data) :]


def console() -> "Console":
    """Return a Rich console for tables and views, which cleans all text that it prints."""
    from collections.abc import Iterable

    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class Clean(Console):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(clean(segment.text), segment.style)

    return Clean()


class CleanStream:
    """Standard error that cleans all text, including the output of libraries, warnings and tracebacks."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text without control characters; return the length of the original text."""
        self._stream.write(clean(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
