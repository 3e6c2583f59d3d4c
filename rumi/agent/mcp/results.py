"""Conversion of a server's results to tool results; pictures and files are stored in the workspace."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import trio

from rumi.agent.mcp.messages import CallOutcome, ResultPart
from rumi.agent.tool import ToolResult
from rumi.agent.tools.output import SHOWN_CHARS, WHOLE_BYTES, in_part
from rumi.errors import RumiError
from rumi.models.model import Picture
from rumi.platform.texts.operating import short_size
from rumi.platform.untrusted_text import harmless, untrusted_block
from rumi.web.readers.files.viewer import Seen

MOST_PICTURES: Final = 4
MOST_FILES: Final = 8

Look: TypeAlias = Callable[[bytes], Awaitable[Seen]]
"""Scales a picture and stores it in the chat's workspace. Raises `RumiError`."""


SaveFile: TypeAlias = Callable[[bytes, str], Awaitable[str]]
"""Stores a file in the chat's workspace, under a name based on the given one; returns the file's path.

Raises `RumiError`.
"""


async def nowhere(body: bytes, name: str) -> str:
    """Refuse to store a file. This is used if the chat has no workspace."""
    await trio.lowlevel.checkpoint()
    raise RumiError("There is no place for files here.")


async def result_of(
    source: str, outcome: CallOutcome, look: Look, save_file: SaveFile = nowhere, *, trusted: bool
) -> ToolResult:
    """Return a server's result as a tool result.

    The tool result is tainted (marked as untrusted content) unless the server is trusted.

    URLs in the result do not become known URLs, because a tool may build a URL from the call's arguments.

    On cancellation, pictures or files may already be stored in the workspace.
    """
    files = _Files(look, save_file)
    texts = [await files.take(part) if part.data else part.text for part in outcome.parts]
    whole = "\n\n".join(texts)
    text = in_part(whole, SHOWN_CHARS).strip() or "(no text)"
    cut = len(whole) > SHOWN_CHARS
    body = harmless(text) if trusted else untrusted_block(source, text)
    return ToolResult(
        ok=not outcome.failed,
        content=body,
        truncated=cut,
        same_as=body,
        whole_output=whole.encode("utf-8", "replace")[:WHOLE_BYTES] if cut else b"",
        tainted=not trusted,
        pictures=tuple(files.pictures),
        shows=tuple(files.shows),
    )


class _Files:
    """The pictures and files of one result."""

    def __init__(self, look: Look, save_file: SaveFile) -> None:
        self.pictures: list[Picture] = []
        self.shows: list[str] = []
        self._look = look
        self._save_file = save_file

    async def take(self, part: ResultPart) -> str:
        """Store a picture or a file; return its description for the model."""
        if len(self.shows) >= MOST_FILES:
            return f"(one more file: {part.media_type}, not kept)"
        try:
            if part.media_type.startswith("image/") and len(self.pictures) < MOST_PICTURES:
                return await self._picture(part)
        except RumiError:
            pass  # not a picture that can be shown: store it as a file
        try:
            path = await self._save_file(part.data, part.name)
        except RumiError as error:
            return f"({part.media_type or 'a file'}, not kept: {error.message})"
        self.shows.append(path)
        return f"(a file, {part.media_type or 'binary'}, {short_size(len(part.data))}, kept as {path})"

    async def _picture(self, part: ResultPart) -> str:
        seen = await self._look(part.data)
        self.pictures += seen.pictures
        paths = [picture.path for picture in seen.pictures]
        self.shows += paths
        return f"({seen.about}: {', '.join(paths)})"
