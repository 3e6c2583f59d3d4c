"""Looks at a file in a confined process: one process a file, which ends with the look."""

import signal
from dataclasses import dataclass
from typing import Any, Final

import trio

from rumi.errors import RumiError
from rumi.platform.file_kinds import Kind
from rumi.sandbox.confined.parent import NONSENSE, Child, ChildFailed, signal_name

AT_ONCE: Final = 2
"""Files of all chats that are looked at, and in memory, at the same time; others wait."""

READ_S: Final = 20.0
"""How long a look may take."""

MOST_BYTES: Final = 50 * 1024 * 1024
"""A larger file is not looked at."""

MOST_CHARS: Final = 2_000_000
"""How much of a document's text is read; `read_file` shows it in parts."""

_MOST_ANSWER_BYTES: Final = 32_000_000
_PROGRAM: Final = ("-m", "rumi.web.readers.files.process")


@dataclass(frozen=True, slots=True)
class ViewLimits:
    """What a model gets: pixels of a picture's longer side, its bytes, and the pictures in one prompt."""

    picture_px: int = 1568
    picture_bytes: int = 600_000
    pictures: int = 5


class ViewRefused(RumiError):
    """A file cannot be looked at; the message is a sentence without its subject."""


class Looks:
    """Looks at files for all chats."""

    def __init__(self, limits: ViewLimits, *, read_s: float = READ_S) -> None:
        self._limits = limits
        self._read_s = read_s
        self._slots = trio.CapacityLimiter(AT_ONCE)

    @property
    def slots(self) -> trio.CapacityLimiter:
        """Bounds the files in memory: hold one of them while reading a file and looking at it."""
        return self._slots

    async def look(self, kind: Kind, body: bytes) -> dict[str, Any]:
        """Return what the process says of a file. Cancelled, the process is killed before this leaves.

        Raises:
            ViewRefused: It cannot be read within the limits of time and memory.
        """
        request = {
            "kind": kind,
            "most_px": self._limits.picture_px,
            "most_bytes": self._limits.picture_bytes,
            "most_chars": MOST_CHARS,
        }
        try:
            async with await Child.start(_PROGRAM, most_bytes=_MOST_ANSWER_BYTES) as child:
                child.left_s = self._read_s
                await child.say(request, body)
                heard = await child.hear()
        except ChildFailed as error:
            raise ViewRefused(self._why(error)) from None
        if heard.get("failed"):
            raise ViewRefused(str(heard["failed"]))
        return heard

    def _why(self, error: ChildFailed) -> str:
        if error.why == "late" or (error.why == "signal" and error.number == signal.SIGXCPU):
            return f"it took more than {self._read_s:.0f} seconds"
        if error.why == "signal":
            return f"it takes too much memory, or is made to break its reader ({signal_name(error.number)})"
        return NONSENSE if error.why == "nonsense" else str(error)
