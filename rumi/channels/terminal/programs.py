"""Programs that get the terminal for a while: the person's editor, and their pager."""

import asyncio
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, TypeAlias

from rumi.channels.terminal.interface import Said
from rumi.channels.terminal.streams import StandardStreams
from rumi.channels.terminal.words import Reader
from rumi.texts import gettext

Child: TypeAlias = Callable[[Sequence[str], IO[bytes] | None, Mapping[str, str]], Awaitable[int]]
"""Runs a program on the terminal; returns its exit code, negative if a signal has ended it."""

MOST_EDITED: Final = 4_000_000
"""Maximum size of an edited text, in bytes: what is longer belongs into a file."""

_HANG_UP_S = 1.0
"""How long a program may take to end when the terminal is taken from it, in seconds."""

_NOT_FOUND: Final = 127
"""Exit code of a shell that cannot find the program."""

_SAVED = "\x1b7"
_KILLED = (
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l"  # the mouse
    "\x1b[?1l\x1b>\x1b[?7h\x1b[r\x1b[?25h\x1b(B"  # cursor keys, keypad, wrapping, scrolling, cursor
    "\x1b[>4m\x1b[<u"  # longer keys
    "\x1b[?1049l\x1b8\x1b[0m\x1b[J"  # the normal screen, and the saved position of the cursor
)
"""What a program that was killed could not take back."""

_SHELL_CHARACTERS = re.compile(r"[|&;<>()$`\\\"' \t\n*?\[#~=%]")


def editor_of(environment: Mapping[str, str]) -> str:
    """Return the person's editor, as git chooses it: `VISUAL`, then `EDITOR`, then vi."""
    return environment.get("VISUAL", "").strip() or environment.get("EDITOR", "").strip() or "vi"


def pager_of(environment: Mapping[str, str]) -> str:
    """Return the person's pager, `less` by default."""
    return environment.get("PAGER", "").strip() or "less"


def argv_of(command: str, *arguments: str) -> list[str]:
    """Return how to run a command of an environment variable, which may have several words, as git does."""
    if _SHELL_CHARACTERS.search(command):
        return ["/bin/sh", "-c", f'{command} "$@"', command, *arguments]
    return [command, *arguments]


async def edit_text(text: str, child: Child, reader: Reader) -> str | Said:
    """Let the person edit a text; return the new text, or a notice why there is none.

    The text is in a file that only its owner can read, and which is removed afterwards.
    """
    editor = editor_of(os.environ)
    with tempfile.TemporaryDirectory(prefix="rumi-") as folder:
        path = Path(folder, "message.md")
        _write(path, text)
        try:
            code = await child(argv_of(editor, str(path)), None, os.environ)
        except OSError:
            code = _NOT_FOUND
        if code in (_NOT_FOUND, _NOT_FOUND - 1):
            return Said(
                gettext(
                    reader.language,
                    "The editor {editor} can't be started. Set VISUAL or EDITOR to one that can.",
                    editor=editor,
                )
            )
        if code:
            return Said(
                gettext(
                    reader.language,
                    "The editor {editor} failed, so the input line is unchanged.",
                    editor=editor,
                )
            )
        edited = _read(path)
    if edited is None:
        return Said(
            gettext(reader.language, "The edited text is too long for a message: attach it as a file.")
        )
    return edited


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8", "replace", newline="\n")


def _read(path: Path) -> str | None:
    """Return the text of a file, empty if the editor has removed it; None if it is too long."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_EDITED + 1)
    except OSError:
        return ""
    if len(data) > MOST_EDITED:
        return None
    from rumi.platform.text_decoding import decode

    return decode(data).replace("\r\n", "\n").removesuffix("\n")


async def page_text(text: str, child: Child) -> bool:
    """Show a text in the person's pager; return False if there is none."""
    # As git: less shows colours, and a person's own settings count. The text is UTF-8 in every locale.
    environment = {"LESS": "-R", "LV": "-c", "LESSCHARSET": "utf-8", **os.environ}
    with tempfile.TemporaryFile() as file:
        file.write(text.encode("utf-8", "replace"))
        for pager in dict.fromkeys((pager_of(os.environ), "less", "more")):
            file.seek(0)
            try:
                code = await child(argv_of(pager), file, environment)
            except OSError:
                continue
            if code not in (_NOT_FOUND, _NOT_FOUND - 1):
                return True
    return False


def begin(
    argv: Sequence[str], stdin: IO[bytes] | None, streams: StandardStreams, environment: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    """Start a program on the terminal.

    Raises:
        OSError: the program cannot be started.
    """
    os.write(streams.output.fd, _SAVED.encode())
    return subprocess.Popen(
        argv,
        stdin=streams.input.fd if stdin is None else stdin,
        stdout=streams.output.fd,
        stderr=streams.errors.fd if streams.errors.terminal else streams.output.fd,
        env=dict(environment),
    )


def clean_up(code: int, streams: StandardStreams) -> None:
    """Put the terminal right if the program has ended with an exit code of a kill."""
    if code < 0 or code > 128:
        with suppress(OSError):  # the terminal is closed
            os.write(streams.output.fd, _KILLED.encode())


async def hang_up(child: "subprocess.Popen[bytes]", ended: Awaitable[int]) -> None:
    """End a program as if the terminal had been closed; kill it if that takes longer than `_HANG_UP_S`."""
    child.send_signal(signal.SIGHUP)
    try:
        await asyncio.wait_for(asyncio.shield(ended), _HANG_UP_S)
    except TimeoutError:
        child.kill()
