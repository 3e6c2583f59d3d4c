"""Conversion of files in confined processes: each file gets a new process."""

import signal
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import trio

from rumi.errors import RumiError
from rumi.platform.extras import as_text, is_installed, missing_clause
from rumi.platform.file_kinds import Kind, picture_type
from rumi.platform.texts.words import known
from rumi.sandbox.confined.parent import NONSENSE, Child, ChildFailed, signal_name
from rumi.texts import Text

AT_ONCE: Final = 2
"""Maximum number of files, from all chats together, that are in memory at once; other files wait."""

READ_S: Final = 20.0
"""Maximum time to convert a file, in seconds."""

MOST_BYTES: Final = 50 * 1024 * 1024
"""Maximum size of a file to convert, in bytes."""

MOST_CHARS: Final = 2_000_000
"""Maximum length of a document's text, in characters; `read_file` shows this text in parts."""

_MOST_ANSWER_BYTES: Final = 32_000_000
_PROGRAM: Final = ("-m", "rumi.web.readers.files.process")


@dataclass(frozen=True, slots=True)
class ViewLimits:
    """Limits on pictures for models: pixels of the longer side, bytes, and number of pictures per prompt."""

    picture_px: int = 1568
    picture_bytes: int = 600_000
    pictures: int = 5


class ViewRefused(RumiError):
    """The file cannot be converted. The message is a sentence without its subject."""


class Looks:
    """Converts files for all chats, each file in a confined process."""

    def __init__(self, limits: ViewLimits, *, read_s: float = READ_S) -> None:
        self._limits = limits
        self._read_s = read_s
        self._slots = trio.CapacityLimiter(AT_ONCE)

    @property
    def slots(self) -> trio.CapacityLimiter:
        """The limiter of files in memory. Callers hold one slot while they read and convert a file."""
        return self._slots

    async def look(self, kind: Kind, body: bytes, name: str = "") -> dict[str, Any]:
        """Convert a file; return the answer of the confined process, which is untrusted.

        On cancellation, kills the process before this method returns.

        Raises:
            ViewRefused: The file cannot be read within the limits of time and memory.
        """
        if kind == "picture":
            _require_pictures()
        request = {
            "kind": kind,
            "name": name,
            "most_px": self._limits.picture_px,
            "most_bytes": self._limits.picture_bytes,
            "most_chars": MOST_CHARS,
        }
        return await self._heard(request, body)

    async def with_plugin(self, request: Mapping[str, object], body: bytes, name: str) -> dict[str, Any]:
        """Convert a file by a plugin's reader, which `request` names; return its answer, which is untrusted.

        On cancellation, kills the process before this method returns.

        Raises:
            ViewRefused: The file cannot be read within the limits of time and memory.
        """
        return await self._heard({"kind": "plugin", "name": name, "most_chars": MOST_CHARS, **request}, body)

    async def html(self, source: str) -> str:
        """Return the visible text of a mail in HTML as Markdown. Nothing in it is fetched.

        On cancellation, kills the process before this method returns.

        Raises:
            ViewRefused: It cannot be read within the limits of time and memory.
        """
        heard = await self._heard(
            {"kind": "html", "most_chars": MOST_CHARS}, source.encode("utf-8", "replace")
        )
        if not isinstance(text := heard.get("text"), str):
            raise ViewRefused("its reader has failed")
        return text

    async def page(self, body: bytes, number: int) -> tuple[bytes, int]:
        """Return the page of a PDF with a number, from 1, as a JPEG picture, and the number of pages.

        On cancellation, kills the process before this method returns.

        Raises:
            ViewRefused: It is not a PDF that can be read, or has no such page.
        """
        _require_pictures()
        heard = await self._heard({"kind": "page", "page": number, "most_px": self._limits.picture_px}, body)
        # The answer is untrusted, because a document may have taken over the process.
        try:
            data, pages = b64decode(heard["data"], validate=True), int(heard["pages"])
        except (KeyError, TypeError, ValueError):
            raise ViewRefused("its reader has failed") from None
        if picture_type(data) != "image/jpeg":
            raise ViewRefused("its reader has failed")
        return data, pages

    async def _heard(self, request: dict[str, object], body: bytes) -> dict[str, Any]:
        try:
            async with await Child.start(_PROGRAM, most_bytes=_MOST_ANSWER_BYTES) as child:
                child.left_s = self._read_s
                await child.say(request, body)
                heard = await child.hear()
        except ChildFailed as error:
            raise ViewRefused(self._why(error)) from None
        if heard.get("failed"):
            raise ViewRefused("{failed}", failed=known(as_text(str(heard["failed"]))))
        return heard

    def _why(self, error: ChildFailed) -> str:
        if error.why == "late" or (error.why == "signal" and error.number == signal.SIGXCPU):
            return Text("it took more than {seconds} seconds", seconds=f"{self._read_s:.0f}")
        if error.why == "signal":
            return Text(
                "it takes too much memory, or is made to break its reader ({number})",
                number=signal_name(error.number),
            )
        return NONSENSE if error.why == "nonsense" else error.text


def _require_pictures() -> None:
    if not is_installed("pictures"):
        raise ViewRefused("{failed}", failed=missing_clause("pictures"))
