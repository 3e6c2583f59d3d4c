"""The one door to the terminal: all that a command prints is cleaned here, whoever wrote it.

Commands call no other function that prints; a test looks at the code of all of them. Text loses what a
terminal would obey, and JSON has escapes in its place, also in a pipe: its reader may print it.
"""

import json
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click

from rumi.platform.printable import clean, escaped

if TYPE_CHECKING:
    from rich.console import Console


class Styled(NamedTuple):
    """A part of a line with a colour, or bold or dim; a pipe gets it without."""

    text: str
    fg: str | None = None
    bold: bool = False
    dim: bool = False


def echo(*parts: "str | Styled", err: bool = False) -> None:
    """Print a line, made of the parts without anything between them."""
    words = [_styled(part) if isinstance(part, Styled) else clean(part) for part in parts]
    click.echo("".join(words), err=err, color=False if "NO_COLOR" in os.environ else None)


def _styled(part: Styled) -> str:
    return click.style(clean(part.text), fg=part.fg, bold=part.bold or None, dim=part.dim or None)


def echo_json(value: object, *, indent: int | None = None, ascii: bool = False) -> None:
    """Print a value as JSON: on one line, or over several with an `indent`; `ascii`: all else is escaped."""
    click.echo(escaped(json.dumps(value, ensure_ascii=ascii, indent=indent)))


def confirm(question: str, *, abort: bool = False, err: bool = False) -> bool:
    """Ask for a yes or a no. Without one, return False or, with `abort`, end the command."""
    return click.confirm(clean(question), abort=abort, err=err)


def prompt(question: str, default: str | None = None, **more: Any) -> str:
    """Ask for a line; with a `default`, an empty one is that. `more` is for `click.prompt`."""
    return cast(str, click.prompt(clean(question), default, **more))


def write_through(lines: str) -> None:
    """Write lines of ASCII to standard output, past Python's buffer: another thread may be stuck in it."""
    data = escaped(lines).encode("ascii")
    while data:
        data = data[os.write(sys.stdout.fileno(), data) :]


def console() -> "Console":
    """Return a console for tables and views; it cleans what they contain."""
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
    """Standard error, cleaned: also what libraries, warnings and tracebacks write there."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text without what a terminal would obey."""
        self._stream.write(clean(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
