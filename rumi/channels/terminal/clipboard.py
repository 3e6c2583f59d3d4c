"""The picture in the clipboard of the person's desktop, read by the program that the desktop has for that."""

import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, PIPE, TimeoutExpired, run
from typing import Final

import trio

from rumi.errors import UsageError
from rumi.platform.file_kinds import HEAD_BYTES, picture_type

MOST_BYTES: Final = 50_000_000
WAIT_S: Final = 5.0
"""Maximum time for a program to write the picture, in seconds: it may ask a window that does not answer."""

KEPT_S: Final = 86_400.0
"""Age from which on pictures of earlier pastes are removed, in seconds."""

PROGRAMS: Final[Sequence[tuple[str, ...]]] = (
    ("wl-paste", "--no-newline", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-target", "image/png", "-out"),
    ("pngpaste", "-"),
)


async def clipboard_picture() -> str:
    """Store the clipboard's picture in a temporary file of this user; return its path.

    Cancellable after at most `WAIT_S` seconds.

    Raises:
        UsageError: No program can read the clipboard, or it contains no picture.
    """
    programs = [program for program in PROGRAMS if shutil.which(program[0])]
    if not programs:
        raise UsageError(
            "The clipboard cannot be read: there is no {names}.",
            "Install one of them, or save the picture and type @ and its path.",
            names=", ".join(program[0] for program in PROGRAMS),
        )
    for program in programs:
        data = await trio.to_thread.run_sync(partial(_output, program))
        if picture_type(data[:HEAD_BYTES]):
            return await trio.to_thread.run_sync(_stored, data)
    raise UsageError("There is no picture in the clipboard.")


def _output(program: Sequence[str]) -> bytes:
    try:
        done = run(program, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, timeout=WAIT_S, check=False)
    except (OSError, TimeoutExpired):
        return b""
    return done.stdout if done.returncode == 0 and len(done.stdout) <= MOST_BYTES else b""


def _stored(data: bytes) -> str:
    folder = Path(tempfile.gettempdir(), f"rumi-clipboard-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.getuid() or not folder.is_dir() or folder.is_symlink():  # made by somebody else
        folder = Path(tempfile.mkdtemp(prefix="rumi-clipboard-"))
    # The name of the last picture: it is sent with the next message, and until then it must stay.
    for old in folder.glob("clipboard-*.png"):
        if time.time() - old.stat().st_mtime > KEPT_S:
            old.unlink(missing_ok=True)
    path = folder / f"clipboard-{time.strftime('%Y%m%d-%H%M%S')}.png"
    path.touch(mode=0o600)
    path.write_bytes(data)
    return str(path)
