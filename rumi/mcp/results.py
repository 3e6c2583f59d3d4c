"""What a model reads of a server's result, and the pictures in it as files of the workspace."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from rumi.errors import RumiError
from rumi.marked import block, harmless
from rumi.mcp.types import Outcome, Part
from rumi.models import Picture
from rumi.tools import ToolResult
from rumi.viewing import Seen

MAX_TEXT_CHARS: Final = 50_000
MOST_PICTURES: Final = 4

Look: TypeAlias = Callable[[bytes], Awaitable[Seen]]
"""Scales a picture and keeps it in the chat's workspace. Raises RumiError."""


async def result_of(source: str, outcome: Outcome, look: Look, *, trusted: bool) -> ToolResult:
    """Return a result as the model reads it: words of others, unless the server is trusted.

    Addresses in it do not count as given: a tool may put one together from the call's arguments.

    Cancelled, a picture may be in the workspace already.
    """
    pictures: list[Picture] = []
    texts: list[str] = []
    for part in outcome.parts:
        if part.data:
            texts.append(await _shown(part, pictures, look))
        else:
            texts.append(part.text)
    whole = "\n\n".join(texts)
    text = whole[:MAX_TEXT_CHARS].strip() or "(no text)"
    cut = len(whole) - MAX_TEXT_CHARS
    note = f"cut: the last {cut} characters are left out\n" if cut > 0 else ""
    body = harmless(text) if trusted else block(source, text)
    return ToolResult(
        ok=not outcome.failed,
        content=f"{note}{body}",
        truncated=cut > 0,
        same_as=body,
        tainted=not trusted,
        pictures=tuple(pictures),
        shows=tuple(each.path for each in pictures),
    )


async def _shown(part: Part, pictures: list[Picture], look: Look) -> str:
    """Have a picture kept; return what the model reads of it."""
    if len(pictures) >= MOST_PICTURES:
        return "(one more picture: not shown)"
    try:
        seen = await look(part.data)
    except RumiError as error:
        return f"(a picture, not shown: {error.message})"
    pictures += seen.pictures
    return f"({seen.about}: {', '.join(each.path for each in seen.pictures)})"
